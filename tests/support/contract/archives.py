"""Writers of archives of conversations, as other programs are."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from personalab.archive.veloca import NORMAL, NOT_COMPACTED, Role, new_id
from personalab.archive.veloca_archive import Archive, changed, made
from personalab.archive.veloca_compaction import context_of
from personalab.storage.veloca import VelocaStore

_AT = "2025-10-16T10:30:00.000Z"


class ArchiveWriter(Protocol):
    """Writes one archive."""

    def begin_session(self, name: str) -> str:
        """Create a session and return its id."""
        ...

    def add_entry(self, session_id: str, role: Role, message: str) -> str:
        """Add an entry and return its id."""
        ...

    def edit_entry(self, entry_id: str, message: str) -> None:
        """Word an entry differently."""
        ...

    def context(self, session_id: str) -> list[str]:
        """Read what a model sees of a session."""
        ...

    def compacted(self, session_id: str) -> list[int]:
        """Read which entries a summary stands for."""
        ...


class FileArchiveWriter:
    """Writes an archive's files."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        self._path = path

    def _open(self) -> VelocaStore:
        return VelocaStore(self._path, wait=5)

    def begin_session(self, name: str) -> str:
        """Create a session and return its id."""
        with self._open() as store:
            return store.create_session(name).session_id

    def add_entry(self, session_id: str, role: Role, message: str) -> str:
        """Add an entry and return its id."""
        with self._open() as store:
            return store.create_entry(session_id, role, message).entry_id

    def edit_entry(self, entry_id: str, message: str) -> None:
        """Word an entry differently."""
        with self._open() as store:
            store.update_entry(entry_id, message=message)

    def context(self, session_id: str) -> list[str]:
        """Read what a model sees of a session."""
        with self._open() as store:
            return [message["content"] for message in store.context(session_id).messages()]

    def compacted(self, session_id: str) -> list[int]:
        """Read which entries a summary stands for."""
        with self._open() as store:
            return [entry.is_compaction for entry in store.entries(session_id)]


class MemoryArchiveWriter:
    """Writes an archive in memory."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def begin_session(self, name: str) -> str:
        """Create a session and return its id."""
        session_id = new_id()
        fields = {"session_id": session_id, "name": name, "status": NORMAL, "create_at": _AT}
        self._archive.put_records([made("sessions", fields)])
        return session_id

    def add_entry(self, session_id: str, role: Role, message: str) -> str:
        """Add an entry and return its id."""
        entry_id = new_id()
        fields = {
            "entry_id": entry_id,
            "session_id": session_id,
            "message": message,
            "role": role,
            "token_consumption": 0,
            "status": NORMAL,
            "tools": None,
            "create_at": _AT,
            "is_compaction": NOT_COMPACTED,
        }
        self._archive.put_records([made("entries", fields)])
        return entry_id

    def edit_entry(self, entry_id: str, message: str) -> None:
        """Word an entry differently."""
        self._archive.put_records([changed(self._archive.entry(entry_id), {"message": message})])

    def context(self, session_id: str) -> list[str]:
        """Read what a model sees of a session."""
        return [message["content"] for message in context_of(self._archive, session_id).messages()]

    def compacted(self, session_id: str) -> list[int]:
        """Read which entries a summary stands for."""
        return [entry.is_compaction for entry in self._archive.entries(session_id)]
