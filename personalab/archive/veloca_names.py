"""Names of archives, and ids of their records that a caller may shorten."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from personalab.archive.veloca import NORMAL, ArchiveEntry, ArchiveSession, Record
from personalab.errors import NotFound, UserError
from personalab.story.records import is_id

DEFAULT_NAME = "veloca-storage.json"
SHORT_ID = 8
"""Characters of an id that suffice to name a record, and that are shown."""
_ENDING = ".json"
_SHOWN_SESSIONS = 10

R = TypeVar("R", bound=Record)


def check_archive_name(name: object) -> str:
    """Return a name that an archive of ours may have, the usual one for ``None``; it is never a path."""
    name = DEFAULT_NAME if name is None else name
    if not (isinstance(name, str) and name.endswith(_ENDING) and is_id(name.removesuffix(_ENDING))):
        raise UserError("bad_archive_name", value=str(name)[:80])
    return name


def find_named(records: Iterable[R], named: str) -> R | None:
    """Find a record by its id, or by a beginning of it that only one has."""
    wanted = named.strip().casefold()
    if len(wanted) < SHORT_ID:
        return None
    found = [record for record in records if record.record_id.casefold().startswith(wanted)]
    whole = [record for record in found if record.record_id.casefold() == wanted]
    if len(found) > 1 and len(whole) != 1:
        raise UserError("archive_ambiguous", value=named[:80], count=len(found))
    return next(iter(whole or found), None)


def find_session(sessions: Iterable[ArchiveSession], named: str, shown: str) -> ArchiveSession:
    """Find a session of the archive that is shown under a name; the error lists some of those in use."""
    known = list(sessions)
    found = find_named(known, named)
    if found is not None:
        return found
    live = [session for session in known if session.status == NORMAL]
    listed = ", ".join(f"{session.session_id} ({session.name[:40]})" for session in live[:_SHOWN_SESSIONS])
    more = "…" if len(live) > _SHOWN_SESSIONS else ""
    raise NotFound("no_archive_session", session_id=named[:80], file=shown, known=f"{listed}{more}" or "–")


def find_entry(entries: Iterable[ArchiveEntry], named: str, shown: str) -> ArchiveEntry:
    """Find an entry of the archive that is shown under a name."""
    found = find_named(entries, named)
    if found is None:
        raise NotFound("no_archive_entry", entry_id=named[:80], file=shown)
    return found
