"""The records of an archive in memory, the rules for writing them, and how callers name them.

Records are stored with ``put``: one with a known id replaces the existing record in its place, any other is
appended to the end of its array. Putting the same records again therefore changes nothing. A value that
cannot be read as a record keeps its place and is written back unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from personalab.archive.foreign_files import MAX_DEPTH, check_depth
from personalab.archive.veloca import (
    ARRAYS,
    ID_FIELDS,
    KINDS,
    KNOWN_FIELDS,
    MAX_MESSAGE,
    MAX_NAME,
    NORMAL,
    OWN,
    ArchiveEntry,
    ArchiveSession,
    Array,
    CompactedDialogue,
    Record,
    arrays_of,
    check_tools,
    moment_of,
    read_leniently,
    stored,
)
from personalab.errors import BadRecord, NotFound, Reason, UserError
from personalab.story.records import is_id

MAX_RECORD_BYTES = 8 * 1024 * 1024
_ID_LENGTH = 36
_FIXED = frozenset(("session_id", "entry_id", "trigger_entry_id"))
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Kept:
    """A value in an array that cannot be used: not a record, or a second record of the same id."""

    value: object


class Archive:
    """All records, in the order of their arrays."""

    def __init__(self, doc: object | None = None) -> None:
        self._rows: dict[Array, dict[str, Record | Kept]] = {name: {} for name in ARRAYS}
        self._by_session: dict[str, dict[str, None]] = {}
        self.root: dict[str, Any] = {}
        """Fields of the root that are not ours to know."""
        if doc is None:
            return
        for name, values in arrays_of(doc).items():
            for number, data in enumerate(values):
                self._take(name, data, f"\0{number}")
        self.root = {key: value for key, value in cast("dict[str, Any]", doc).items() if key not in ARRAYS}

    def _take(self, name: Array, data: object, other_key: str) -> None:
        """Add a value of the document; a second one of the same id gets a key that is no id."""
        try:
            record: Record | Kept = read_leniently(name, data)
            key: str | None = record.record_id
        except BadRecord:
            record, key = Kept(data), _id_in(name, data)
        if key is None or key in self._rows[name]:
            record, key = Kept(data), other_key
        self._set(name, key, record)

    def put(self, name: Array, values: Iterable[object]) -> None:
        """Take in records as JSON values, each over the one of the same id."""
        for data in values:
            try:
                self.put_records([read_leniently(name, data)])
            except BadRecord:
                key = _id_in(name, data)
                if key is None:
                    raise
                self._set(name, key, Kept(data))

    def put_records(self, records: Iterable[Record]) -> None:
        """Take in records, each over the one of the same id."""
        for record in records:
            self._set(record.array, record.record_id, record)

    def _set(self, name: Array, key: str, record: Record | Kept) -> None:
        old = self._rows[name].get(key)
        if isinstance(old, ArchiveEntry) and not (
            isinstance(record, ArchiveEntry) and record.session_id == old.session_id
        ):
            del self._by_session[old.session_id][key]
        self._rows[name][key] = record
        if isinstance(record, ArchiveEntry):
            self._by_session.setdefault(record.session_id, {})[key] = None

    # --- finding

    def has(self, name: Array, record_id: str) -> bool:
        """Return whether an id is taken."""
        return record_id in self._rows[name]

    def session(self, session_id: str) -> ArchiveSession:
        """Find a session."""
        return cast("ArchiveSession", self.record("sessions", session_id))

    def live_session(self, session_id: str) -> ArchiveSession:
        """Find a session that is not deleted."""
        found = self.session(session_id)
        if found.status != NORMAL:
            raise BadRecord("archive_session_deleted", session_id=session_id)
        return found

    def entry(self, entry_id: str) -> ArchiveEntry:
        """Find an entry."""
        return cast("ArchiveEntry", self.record("entries", entry_id))

    def dialogue(self, dialogue_id: str) -> CompactedDialogue:
        """Find a compacted dialogue."""
        return cast("CompactedDialogue", self.record("compacted_dialogues", dialogue_id))

    def record(self, name: Array, record_id: str) -> Record:
        """Find a record of any kind, deleted or not."""
        found = self._rows[name].get(record_id)
        if found is None or isinstance(found, Kept):
            raise NotFound("archive_no_record", what=KINDS[name].__name__, record_id=str(record_id)[:80])
        return found

    def sessions(self) -> Iterator[ArchiveSession]:
        """Return all sessions."""
        return (row for row in self._rows["sessions"].values() if isinstance(row, ArchiveSession))

    def entries(self, session_id: str | None = None) -> Iterator[ArchiveEntry]:
        """Return the entries of a session, or all."""
        rows = self._rows["entries"]
        if session_id is None:
            return (row for row in rows.values() if isinstance(row, ArchiveEntry))
        return (cast("ArchiveEntry", rows[key]) for key in self._by_session.get(session_id, ()))

    def dialogues(self, session_id: str | None = None) -> list[CompactedDialogue]:
        """Return the compacted dialogues of a session (those whose trigger is an entry of it), or all."""
        rows = self._rows["compacted_dialogues"]
        found = [row for row in rows.values() if isinstance(row, CompactedDialogue)]
        if session_id is None:
            return found
        mine = self._by_session.get(session_id, {})
        return [dialogue for dialogue in found if dialogue.trigger_entry_id in mine]

    def counts(self) -> dict[Array, int]:
        """Count the records of each array."""
        return {name: len(self._rows[name]) for name in ARRAYS}

    def unread(self) -> int:
        """Count the values in the arrays that cannot be used."""
        return sum(isinstance(row, Kept) for rows in self._rows.values() for row in rows.values())

    # --- as a document

    def document(self) -> dict[str, Any]:
        """Return the whole as the source's document."""
        rows = {name: [_stored(row) for row in self._rows[name].values()] for name in ARRAYS}
        return {**rows, **self.root}

    def dump(self) -> bytes:
        """Write the whole as a file: the source's JSON, a record on each line."""
        parts: list[str] = []
        for name in ARRAYS:
            rows = ",\n".join(_encode(_stored(row)) for row in self._rows[name].values())
            parts.append(f'"{name}": [\n{rows}\n]' if rows else f'"{name}": []')
        parts += [f"{_encode(key)}: {_encode(value)}" for key, value in self.root.items()]
        return ("{\n" + ",\n".join(parts) + "\n}\n").encode("utf-8", "backslashreplace")


def _stored(row: Record | Kept) -> object:
    return row.value if isinstance(row, Kept) else stored(row)


def _id_in(name: Array, data: object) -> str | None:
    found = cast("dict[str, object]", data).get(ID_FIELDS[name]) if isinstance(data, dict) else None
    return found if isinstance(found, str) else None


# --- what may be written


def encode_records(records: Sequence[Record]) -> bytes:
    """Write records as the JSON object that ``put`` takes in, array by array."""
    grouped: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        grouped.setdefault(record.array, []).append(stored(record))
    return _encode(grouped).encode("utf-8", "backslashreplace")


def check_fresh(archive: Archive, records: Sequence[Record]) -> None:
    """Refuse new records whose id is taken, or that belong to nothing; earlier ones of the same lot count."""
    fresh: dict[Array, set[str]] = {name: set() for name in ARRAYS}
    for record in records:
        if record.record_id in fresh[record.array] or archive.has(record.array, record.record_id):
            raise BadRecord("archive_id_taken", record_id=record.record_id)
        match record:
            case ArchiveEntry() if record.session_id not in fresh["sessions"]:
                archive.live_session(record.session_id)
            case CompactedDialogue() if record.trigger_entry_id not in fresh["entries"]:
                archive.entry(record.trigger_entry_id)
            case _:
                pass
        fresh[record.array].add(record.record_id)


def made(name: Array, fields: Mapping[str, Any], extra: Mapping[str, Any] | None = None) -> Record:
    """Make a record of a caller's values, and refuse what an archive must not contain."""
    if extra and (clash := sorted(KNOWN_FIELDS[name].intersection(extra))):
        raise BadRecord("field_wrong", field=f"extra.{clash[0]}", reason=Reason("own_field"))
    return _checked(name, {**fields, **(extra or {})})


def changed(record: Record, changes: Mapping[str, Any]) -> Record:
    """Make a record with other values; its ids stay, and a field that is not the source's is kept as it comes."""
    if fixed := sorted(name for name in changes if name in _FIXED & KNOWN_FIELDS[record.array]):
        raise BadRecord("archive_fixed_field", field=fixed[0])
    return _checked(record.array, {**record.fields(), **changes})


def _checked(name: Array, fields: dict[str, Any]) -> Record:
    fields = _as_json(fields, _size_of_ours(name, fields))
    record = KINDS[name].read(fields)
    match record:
        case ArchiveSession():
            _check_length(record.name, "name", MAX_NAME)
        case ArchiveEntry():
            _check_length(record.message, "message", MAX_MESSAGE)
            check_tools(record.tools)
        case CompactedDialogue():
            if not record.summary.strip():
                raise BadRecord("field_wrong", field="summary", reason=Reason("blank"))
            _check_length(record.summary, "summary", MAX_MESSAGE)
    return record


def _size_of_ours(name: Array, fields: Mapping[str, Any]) -> int:
    """Measure the list of what a dialogue compacted: it is ours, and as long as the session is."""
    own = fields.get(OWN)
    if name != "compacted_dialogues" or not isinstance(own, Mapping):
        return 0
    listed = cast("Mapping[str, Any]", own).get("compacted")
    ids = cast("list[object]", listed) if isinstance(listed, list) else []
    if not all(isinstance(found, str) and len(found) <= _ID_LENGTH for found in ids):
        return 0
    return (_ID_LENGTH + len('"",')) * len(ids)


def _as_json(fields: dict[str, Any], not_counted: int) -> dict[str, Any]:
    """Take the fields as they will be read again: apart from the caller's objects, and surely JSON."""
    try:
        raw = _encode(fields).encode("utf-8", "backslashreplace")
    except (TypeError, ValueError, RecursionError) as error:
        wrong = next((name for name, value in fields.items() if not _is_json(value)), "extra")
        raise BadRecord("field_wrong", field=wrong, reason=Reason("not_json")) from error
    if len(raw) > MAX_RECORD_BYTES + not_counted:
        raise BadRecord("too_large", actual=len(raw), limit=MAX_RECORD_BYTES)
    found = json.loads(raw)
    check_depth(found, MAX_DEPTH - 2)  # the document and the array are around it
    return found


def _is_json(value: object) -> bool:
    try:
        _encode(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _check_length(text: str, name: str, limit: int) -> None:
    if len(text) > limit:
        raise BadRecord("field_too_long", field=name, actual=len(text), limit=limit)


# --- filters


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """Which entries are wanted; what is ``None`` does not matter."""

    role: str | None = None
    status: int | None = NORMAL
    is_compaction: int | None = None
    contains: str | None = None
    since: str | None = None
    until: str | None = None

    def apply(self, entries: Iterable[ArchiveEntry]) -> Iterator[ArchiveEntry]:
        """Yield those that are wanted, in their order."""
        since = None if self.since is None else moment_of(self.since, "since")
        until = None if self.until is None else moment_of(self.until, "until")
        needle = None if self.contains is None else self.contains.casefold()
        for entry in entries:
            if (
                (self.role is None or entry.role == self.role)
                and (self.status is None or entry.status == self.status)
                and (self.is_compaction is None or entry.is_compaction == self.is_compaction)
                and (needle is None or needle in entry.message.casefold())
                and (since is None or moment_of(entry.create_at, "create_at") >= since)
                and (until is None or moment_of(entry.create_at, "create_at") < until)
            ):
                yield entry


# --- names of archives, and ids that a caller may shorten


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
