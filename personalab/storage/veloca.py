"""A store for conversations in one JSON file that any other program can read.

A change is one line of the journal next to the file, and is acknowledged once that is written: its cost does
not depend on the size of the file. From time to time, and when a store that has written is closed, the
journal is folded into the file. Every call first reads what other processes have written since; writers hold
the archive's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from personalab.archive.veloca import (
    NORMAL,
    NOT_COMPACTED,
    UNUSED,
    ArchiveEntry,
    ArchiveSession,
    Array,
    CompactedDialogue,
    Record,
    Role,
    new_id,
    to_milliseconds,
)
from personalab.archive.veloca_archive import (
    EntryFilter,
    changed,
    check_fresh,
    made,
)
from personalab.archive.veloca_compaction import (
    CompactionMaterial,
    Context,
    compacted,
    context_of,
    material_of,
    undone,
)
from personalab.errors import BadRecord, Reason, UserError
from personalab.storage.veloca_backups import (
    BACKUP_SECONDS,
    Restored,
    VerifyReport,
    restore_archive,
    verify_archive,
)
from personalab.storage.veloca_files import (
    MAX_ARCHIVE_BYTES,
    WAIT_SECONDS,
    place_of,
)
from personalab.storage.veloca_open import OpenArchive

FOLD_BYTES = 8 * 1024 * 1024
"""A journal is folded when it has grown to this, or to half of the file if that is more."""


def utc_now() -> str:
    """Return the current time: ISO 8601, UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


class VelocaStore:
    """An archive that is open; any number of threads and processes may have it open at once."""

    def __init__(
        self,
        path: str | Path,
        *,
        now: Callable[[], str] = utc_now,
        wait: float = WAIT_SECONDS,
        keep_backups: int = 5,
        backup_seconds: float = BACKUP_SECONDS,
        sync: bool = False,
        limit: int = MAX_ARCHIVE_BYTES,
        fold_bytes: int = FOLD_BYTES,
    ) -> None:
        self._place = place_of(path, limit, wait)
        self._now = now
        self._open = OpenArchive(
            self._place,
            keep_backups=keep_backups,
            backup_seconds=backup_seconds,
            sync=sync,
            fold_bytes=fold_bytes,
        )
        with self._open.reading():
            pass

    @property
    def path(self) -> Path:
        """The archive's file."""
        return self._place.path

    # --- sessions

    def create_session(
        self,
        name: str,
        *,
        session_id: str | None = None,
        create_at: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> ArchiveSession:
        """Create a session."""
        fields = {
            "session_id": new_id() if session_id is None else session_id,
            "name": name,
            "status": NORMAL,
            "create_at": self._moment(create_at),
        }
        return cast("ArchiveSession", self._add([made("sessions", fields, extra)])[0])

    def sessions(self, *, status: int | None = NORMAL, contains: str | None = None) -> list[ArchiveSession]:
        """List the sessions of a status (``None``: any) whose name contains a text."""
        needle = (contains or "").casefold()
        with self._open.reading() as archive:
            return [
                session
                for session in archive.sessions()
                if (status is None or session.status == status) and needle in session.name.casefold()
            ]

    def session(self, session_id: str) -> ArchiveSession:
        """Find a session, deleted or not."""
        with self._open.reading() as archive:
            return archive.session(session_id)

    def update_session(self, session_id: str, **changes: Any) -> ArchiveSession:
        """Change fields of a session."""
        return cast("ArchiveSession", self._update("sessions", session_id, changes))

    def delete_session(self, session_id: str) -> ArchiveSession:
        """Mark a session as deleted; its entries stay as they are."""
        return self.update_session(session_id, status=UNUSED)

    # --- entries

    def create_entry(
        self,
        session_id: str,
        role: Role,
        message: str,
        *,
        token_consumption: int | float = 0,
        tools: Mapping[str, Any] | None = None,
        entry_id: str | None = None,
        create_at: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> ArchiveEntry:
        """Add a message to a session."""
        fields = {
            "entry_id": new_id() if entry_id is None else entry_id,
            "session_id": session_id,
            "message": message,
            "role": role,
            "token_consumption": token_consumption,
            "status": NORMAL,
            "tools": tools,
            "create_at": self._moment(create_at),
            "is_compaction": NOT_COMPACTED,
        }
        return cast("ArchiveEntry", self._add([made("entries", fields, extra)])[0])

    def entries(
        self,
        session_id: str | None = None,
        wanted: EntryFilter | None = None,
        *,
        offset: int = 0,
        limit: int | None = None,
    ) -> list[ArchiveEntry]:
        """List the entries of a session, or of all, that are wanted (those in use), in their order."""
        for name, value in (("offset", offset), ("limit", limit or 0)):
            if value < 0:
                raise BadRecord("field_wrong", field=name, reason=Reason("negative"))
        with self._open.reading() as archive:
            if session_id is not None:
                archive.session(session_id)
            found = (wanted or EntryFilter()).apply(archive.entries(session_id))
            return list(islice(found, offset, None if limit is None else offset + limit))

    def entry(self, entry_id: str) -> ArchiveEntry:
        """Find an entry, deleted or not."""
        with self._open.reading() as archive:
            return archive.entry(entry_id)

    def update_entry(self, entry_id: str, **changes: Any) -> ArchiveEntry:
        """Change fields of an entry."""
        return cast("ArchiveEntry", self._update("entries", entry_id, changes))

    def delete_entry(self, entry_id: str) -> ArchiveEntry:
        """Mark an entry as not used."""
        return self.update_entry(entry_id, status=UNUSED)

    def token_consumption(self, session_id: str) -> int | float:
        """Add up the tokens of a session's entries that are in use, compacted or not."""
        with self._open.reading() as archive:
            archive.session(session_id)
            return _tokens(archive.entries(session_id))

    def token_consumptions(self) -> dict[str, int | float]:
        """Add up the tokens of each session that is not deleted."""
        with self._open.reading() as archive:
            return {
                session.session_id: _tokens(archive.entries(session.session_id))
                for session in archive.sessions()
                if session.status == NORMAL
            }

    # --- compacted dialogues

    def create_dialogue(
        self,
        trigger_entry_id: str,
        summary: str,
        *,
        dialogue_id: str | None = None,
        create_at: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> CompactedDialogue:
        """Write a summary alone, without marking any entry; ``compact`` does both."""
        fields = {
            "entry_id": new_id() if dialogue_id is None else dialogue_id,
            "trigger_entry_id": trigger_entry_id,
            "summary": summary,
            "create_at": self._moment(create_at),
            "status": NORMAL,
        }
        return cast("CompactedDialogue", self._add([made("compacted_dialogues", fields, extra)])[0])

    def dialogues(
        self,
        session_id: str | None = None,
        *,
        trigger_entry_id: str | None = None,
        status: int | None = NORMAL,
    ) -> list[CompactedDialogue]:
        """List the compacted dialogues of a session or all, of a trigger or any, of a status (``None``: any)."""
        with self._open.reading() as archive:
            if session_id is not None:
                archive.session(session_id)
            return [
                found
                for found in archive.dialogues(session_id)
                if (status is None or found.status == status)
                and (trigger_entry_id is None or found.trigger_entry_id == trigger_entry_id)
            ]

    def dialogue(self, dialogue_id: str) -> CompactedDialogue:
        """Find a compacted dialogue, undone or not."""
        with self._open.reading() as archive:
            return archive.dialogue(dialogue_id)

    def update_dialogue(self, dialogue_id: str, **changes: Any) -> CompactedDialogue:
        """Change fields of a compacted dialogue; its status is changed by an undo alone."""
        if "status" in changes:
            raise BadRecord("archive_fixed_field", field="status")
        return cast("CompactedDialogue", self._update("compacted_dialogues", dialogue_id, changes))

    def delete_dialogue(self, dialogue_id: str) -> CompactedDialogue:
        """Mark a compacted dialogue as not used, which is to undo it."""
        return self.undo_compaction(dialogue_id)

    # --- compaction

    def context(self, session_id: str) -> Context:
        """Collect what a model should see of a session."""
        with self._open.reading() as archive:
            return context_of(archive, session_id)

    def compaction_material(self, session_id: str, trigger_entry_id: str | None = None) -> CompactionMaterial:
        """Return what a compaction would summarize; without a trigger the last few entries stay."""
        with self._open.reading() as archive:
            return material_of(archive, session_id, trigger_entry_id)

    def compact(
        self,
        session_id: str,
        summary: str,
        trigger_entry_id: str | None = None,
        *,
        material: CompactionMaterial | None = None,
    ) -> CompactedDialogue:
        """Replace the entries before the trigger with a summary, atomically.

        ``material`` is what the summary was made of: if that has changed meanwhile, nothing is written.
        """
        if material is not None:
            trigger_entry_id = trigger_entry_id or material.trigger_entry_id
        with self._open.writing() as archive:
            found = material_of(archive, session_id, trigger_entry_id)
            if material is not None and found != material:
                raise UserError("archive_changed", session_id=session_id)
            records = compacted(found, summary, new_id(), self._moment(None))
            self._open.write(records)
            return cast("CompactedDialogue", records[-1])

    def undo_compaction(self, dialogue_id: str) -> CompactedDialogue:
        """Undo a compaction: its entries are visible again, unless another one covers them."""
        with self._open.writing() as archive:
            records = undone(archive, dialogue_id)
            self._open.write(records)
            return cast("CompactedDialogue", records[-1])

    # --- any records

    def add(self, records: Sequence[Record]) -> list[Record]:
        """Write new records, all or none; a record may refer to an earlier one of the same lot."""
        return self._add([made(record.array, record.fields()) for record in records])

    def _add(self, records: Sequence[Record]) -> list[Record]:
        with self._open.writing() as archive:
            check_fresh(archive, records)
            return self._open.write(records)

    def unread(self) -> int:
        """Count the values in the file that cannot be read as records; ``verify`` lists them."""
        with self._open.reading() as archive:
            return archive.unread()

    def document(self) -> dict[str, Any]:
        """Return the whole archive as the source's document."""
        with self._open.reading() as archive:
            return archive.document()

    def _update(self, name: Array, record_id: str, changes: Mapping[str, Any]) -> Record:
        if "create_at" in changes:
            changes = {**changes, "create_at": self._moment(changes["create_at"])}
        with self._open.writing() as archive:
            old = archive.record(name, record_id)
            fresh = changed(old, changes)
            return old if fresh == old else self._open.write([fresh])[0]

    def _moment(self, given: str | None) -> str:
        return to_milliseconds(self._now() if given is None else given)

    # --- the files

    def fold(self) -> bool:
        """Write the journal into the file now; tell whether there was anything to write."""
        with self._open.writing():
            return self._open.fold()

    def verify(self) -> VerifyReport:
        """Verify the archive; problems are reported, not raised."""
        return verify_archive(self._place.path, limit=self._place.limit, wait=self._place.wait)

    def restore(self, backup: int | None = None) -> Restored:
        """Make a broken file again with all that was acknowledged, or go back to the backup that is named."""
        return restore_archive(self._place.path, backup, limit=self._place.limit, wait=self._place.wait)

    def close(self) -> None:
        """Fold what this store wrote, and forget the archive."""
        self._open.close()

    def __enter__(self) -> VelocaStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _tokens(entries: Iterable[ArchiveEntry]) -> int | float:
    return sum(entry.token_consumption for entry in entries if entry.status == NORMAL)
