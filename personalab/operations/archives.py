"""Operations on Veloca archives: reading, writing, compaction, undo, verification and restore.

Each call opens the archive, does one thing and closes it, so that the file is complete for any other program.
Ids may be shortened to a unique prefix.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from personalab.archive.veloca import (
    COMPACTED,
    NORMAL,
    UNUSED,
    ArchiveEntry,
    ArchiveSession,
    CompactedDialogue,
    Record,
    Role,
)
from personalab.archive.veloca_archive import (
    EntryFilter,
    check_archive_name,
    find_entry,
    find_named,
    find_session,
)
from personalab.data_files import make_folder, writing
from personalab.errors import BadRecord, NotFound, Reason, UserError
from personalab.ports import ConversationArchive
from personalab.services import Services
from personalab.storage.conversation_archive import ArchivePlace, FileArchive, archive_in_root
from personalab.storage.veloca import VelocaStore
from personalab.storage.veloca_backups import VerifyReport, restore_archive, verify_archive
from personalab.tasks import run_uncancellable
from personalab.texts import Language

T = TypeVar("T")
OnUnread = Callable[[int], None]
"""Callback with the number of records that cannot be read, and so are not listed."""


def archive_of(services: Services, *, name: object = None, file: Path | None = None) -> ArchivePlace:
    """Find an archive: one of the data root by its plain name, or any file that code, not a client, names."""
    wait = services.settings.busy_seconds
    if file is not None:
        return ArchivePlace(file, str(file), wait, in_root=False)
    return archive_in_root(services.settings.data_root, check_archive_name(name), wait=wait)


def archive_at(services: Services, file: Path) -> ConversationArchive:
    """Find the archive in any file that code names, to be compacted."""
    return FileArchive(archive_of(services, file=file))


# --- opening


async def _reading(place: ArchivePlace, work: Callable[[VelocaStore], T]) -> T:
    def read() -> T:
        with place.open() as store:
            return work(store)

    return await asyncio.to_thread(read)


async def _writing(place: ArchivePlace, work: Callable[[VelocaStore], T]) -> T:
    def write() -> T:
        with place.open() as store:
            return work(store)

    return await run_uncancellable(write)


# --- finding


def _session(store: VelocaStore, place: ArchivePlace, named: str) -> ArchiveSession:
    return find_session(store.sessions(status=None), named, place.shown)


def _entry(store: VelocaStore, place: ArchivePlace, named: str) -> ArchiveEntry:
    return find_entry(store.entries(None, EntryFilter(status=None)), named, place.shown)


def _record(store: VelocaStore, place: ArchivePlace, named: str) -> Record:
    records: list[Record] = [
        *store.sessions(status=None),
        *store.entries(None, EntryFilter(status=None)),
        *store.dialogues(status=None),
    ]
    found = find_named(records, named)
    if found is None:
        raise NotFound("no_archive_entry", entry_id=named[:80], file=place.shown)
    return found


# --- looking


async def sessions(place: ArchivePlace, *, everything: bool = False) -> list[dict[str, Any]]:
    """List the sessions with how many entries and tokens they have; none while the root has no archive."""

    def read(store: VelocaStore) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for session in store.sessions(status=None if everything else NORMAL):
            entries = len(store.entries(session.session_id))
            tokens = store.token_consumption(session.session_id)
            found.append({**session.fields(), "entries": entries, "tokens": tokens})
        return found

    try:
        return await _reading(place, read)
    except NotFound:
        if place.in_root:
            return []
        raise


async def entries(
    place: ArchivePlace, session: str, *, everything: bool = False, on_unread: OnUnread = lambda _: None
) -> list[dict[str, Any]]:
    """List the entries of a session, including those that a summary replaces."""
    wanted = EntryFilter(status=None if everything else NORMAL)

    def read(store: VelocaStore) -> list[dict[str, Any]]:
        session_id = _session(store, place, session).session_id
        on_unread(store.unread())
        return [entry.fields() for entry in store.entries(session_id, wanted)]

    return await _reading(place, read)


async def context(
    place: ArchivePlace, session: str, *, on_unread: OnUnread = lambda _: None
) -> list[dict[str, Any]]:
    """Return what a model should see of a session, as messages."""

    def read(store: VelocaStore) -> list[dict[str, Any]]:
        on_unread(store.unread())
        return store.context(_session(store, place, session).session_id).messages()

    return await _reading(place, read)


async def tokens(place: ArchivePlace, session: str | None = None) -> dict[str, Any]:
    """Add up the tokens that sessions used, each and together."""

    def read(store: VelocaStore) -> dict[str, Any]:
        chosen = [_session(store, place, session)] if session is not None else store.sessions()
        rows = [
            {
                "session_id": found.session_id,
                "name": found.name,
                "tokens": store.token_consumption(found.session_id),
            }
            for found in chosen
        ]
        return {"sessions": rows, "total": sum(cast("float", row["tokens"]) for row in rows)}

    return await _reading(place, read)


# --- writing


async def begin_session(place: ArchivePlace, name: str) -> dict[str, Any]:
    """Create a session, and the archive if there is none yet."""

    def write() -> dict[str, Any]:
        if place.in_root:
            with writing(place.shown):
                make_folder(place.path.parent)
        with VelocaStore(place.path, wait=place.wait) as store:
            return store.create_session(_given("name", name)).fields()

    return await run_uncancellable(write)


async def append_entry(
    place: ArchivePlace, session: str, role: str, message: str, *, tokens: int = 0, tools: object = None
) -> dict[str, Any]:
    """Write an entry at the end of a session."""
    if tools is not None and not isinstance(tools, dict):
        raise BadRecord("field_wrong", field="tools", reason=Reason("not_object"))
    called = cast("Mapping[str, Any] | None", tools)

    def write(store: VelocaStore) -> dict[str, Any]:
        session_id = _session(store, place, session).session_id
        said = message if called else _given("message", message)
        made = store.create_entry(
            session_id, cast("Role", role), said, token_consumption=tokens, tools=called
        )
        return made.fields()

    return await _writing(place, write)


async def edit_entry(place: ArchivePlace, entry: str, message: str) -> dict[str, Any]:
    """Word an entry differently."""

    def write(store: VelocaStore) -> dict[str, Any]:
        entry_id = _entry(store, place, entry).entry_id
        return store.update_entry(entry_id, message=_given("message", message)).fields()

    return await _writing(place, write)


async def mark(place: ArchivePlace, record: str, *, deleted: bool) -> dict[str, Any]:
    """Mark a session or an entry as deleted, or bring it back; to delete a summary is to undo its compaction."""
    status = UNUSED if deleted else NORMAL

    def write(store: VelocaStore) -> dict[str, Any]:
        match _record(store, place, record):
            case ArchiveSession(session_id=found):
                return store.update_session(found, status=status).fields()
            case ArchiveEntry(entry_id=found):
                return store.update_entry(found, status=status).fields()
            case CompactedDialogue(entry_id=found):
                if not deleted:
                    raise UserError("archive_undone_stays", dialogue_id=found)
                return store.undo_compaction(found).fields()

    return await _writing(place, write)


def _given(field: str, text: str) -> str:
    if not text.strip():
        raise BadRecord("field_missing", field=field)
    return text


# --- compacting


async def undo_compaction(place: ArchivePlace, named: str) -> dict[str, Any]:
    """Take a compaction back: the one that is named, or the last one of a session that is."""

    def write(store: VelocaStore) -> dict[str, Any]:
        dialogue = find_named(store.dialogues(status=None), named)
        if dialogue is None:
            session_id = _session(store, place, named).session_id
            live = store.dialogues(session_id)
            if not live:
                raise UserError("archive_nothing_to_undo", session_id=session_id)
            dialogue = live[-1]
        else:
            session_id = _session_of(store, dialogue)
        before = _compacted(store, session_id)
        undone = store.undo_compaction(dialogue.entry_id)
        back = before - _compacted(store, session_id)
        return {"session_id": session_id, "entries": back, "dialogue": undone.fields()}

    return await _writing(place, write)


def _session_of(store: VelocaStore, dialogue: CompactedDialogue) -> str | None:
    """Return the session of a summary; another program's may name a missing entry."""
    try:
        return store.entry(dialogue.trigger_entry_id).session_id
    except NotFound:
        return None


def _compacted(store: VelocaStore, session_id: str | None) -> int:
    if session_id is None:
        return 0
    return len(store.entries(session_id, EntryFilter(status=None, is_compaction=COMPACTED)))


# --- the file itself


async def verify(place: ArchivePlace, language: Language) -> dict[str, Any]:
    """Verify an archive; problems are listed, also as text in the reader's language."""
    report = await asyncio.to_thread(_verified, place)
    told = [{**problem.fields(), "message": problem.message(language)} for problem in report.problems]
    return {**report.fields(), "problems": told}


def _verified(place: ArchivePlace) -> VerifyReport:
    _check_has_been(place)
    return verify_archive(place.path, wait=place.wait)


async def fold(place: ArchivePlace) -> dict[str, Any]:
    """Fold the journal into the file."""
    folded = await _writing(place, lambda store: store.fold())
    return {"file": place.shown, "folded": folded}


async def backups(place: ArchivePlace) -> list[dict[str, Any]]:
    """List the backups, the newest first."""
    report = await asyncio.to_thread(_verified, place)
    return [backup.fields() for backup in report.backups]


async def restore(place: ArchivePlace, backup: int | None = None) -> dict[str, Any]:
    """Make a broken archive whole, or go back to the backup that is named; what stood there is kept beside it."""

    def write() -> dict[str, Any]:
        _check_has_been(place)
        return restore_archive(place.path, backup, wait=place.wait).fields()

    return await run_uncancellable(write)


def _check_has_been(place: ArchivePlace) -> None:
    """Refuse an archive of which nothing is there, not even a backup."""
    folder, name = place.path.parent, place.path.name
    with writing(place.shown):
        if not os.path.isdir(folder) or not any(found.startswith(name) for found in os.listdir(folder)):
            raise place.missing()
