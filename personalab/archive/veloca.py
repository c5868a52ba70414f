"""The records of a Veloca archive and the rules that they must follow.

An archive is one JSON object with three arrays. Names and values are the source's: ``status`` is 0 for normal
and 1 for deleted or unused, ``is_compaction`` is 0 for compacted and 1 for not. Fields that are not the
source's are kept unchanged. Values that another program wrote slightly off the format are read where they have a
single possible meaning, though ``verify`` lists them; a record that nobody changes is written back in its
original form (``came``).
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, cast, get_args

from personalab.archive.foreign_files import list_at, object_at
from personalab.errors import BadRecord, Reason
from personalab.texts import Language, in_language, say

Array = Literal["sessions", "entries", "compacted_dialogues"]
ARRAYS: tuple[Array, ...] = get_args(Array)
Role = Literal["user", "assistant", "system"]
ROLES: tuple[Role, ...] = get_args(Role)

NORMAL = 0
UNUSED = 1
COMPACTED = 0
NOT_COMPACTED = 1

OWN = "personalab"
"""The one field that is ours, in records and at the root."""
MAX_NAME = 1_000
MAX_MESSAGE = 1_000_000
"""Maximum characters of a message or a summary."""
MAX_COUNT = 2**53
"""The greatest whole number that every JSON reader keeps as it is."""
MAX_TOOL_CALLS = 128
MAX_PROBLEMS = 1_000
"""No more are listed."""

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_SESSION = frozenset(("session_id", "name", "status", "create_at"))
_ENTRY = frozenset(("entry_id", "session_id", "message", "role", "token_consumption")) | {
    "status",
    "tools",
    "create_at",
    "is_compaction",
}
_DIALOGUE = frozenset(("entry_id", "trigger_entry_id", "summary", "create_at", "status"))
_NOTHING: Mapping[str, Any] = {}


def new_id() -> str:
    """Make an id."""
    return str(uuid.uuid4())


def to_milliseconds(moment: str, name: str = "create_at") -> str:
    """Write a time as the source does: UTC, with milliseconds."""
    try:
        utc = moment_of(moment, name).astimezone(UTC)
    except OverflowError as error:
        raise _wrong(name, "", Reason("not_iso_time")) from error
    return utc.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def moment_of(text: object, name: str) -> datetime:
    """Read a time in ISO 8601; one without a zone is UTC."""
    if isinstance(text, str) and len(text) >= 19 and text[10] == "T":
        try:
            found = datetime.fromisoformat(text)
            return found if found.tzinfo else found.replace(tzinfo=UTC)
        except ValueError:
            pass
    raise BadRecord("field_wrong", field=name, reason=Reason("not_iso_time"))


# --- the records


@dataclass(frozen=True, slots=True)
class ArchiveSession:
    """A conversation."""

    session_id: str
    name: str
    status: int
    create_at: str
    extra: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    came: Mapping[str, Any] = field(default_factory=lambda: _NOTHING, compare=False, repr=False)
    array: ClassVar[Array] = "sessions"

    @property
    def record_id(self) -> str:
        """What it is found by."""
        return self.session_id

    def fields(self) -> dict[str, Any]:
        """Return its JSON object."""
        return {
            "session_id": self.session_id,
            "name": self.name,
            "status": self.status,
            "create_at": self.create_at,
            **self.extra,
        }

    @classmethod
    def read(cls, data: object, where: str = "") -> ArchiveSession:
        """Read it from its JSON value; ``where`` is put before a field's name in an error."""
        found = object_at(data, where.rstrip(".") or "session")
        return cls(
            _uuid(found, "session_id", where),
            _text(found, "name", where),
            _flag(found, "status", NORMAL, where),
            _time(found, where),
            _rest(found, _SESSION),
        )


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    """A message of a conversation."""

    entry_id: str
    session_id: str
    message: str
    role: Role
    token_consumption: int | float
    status: int
    tools: Mapping[str, Any] | None
    create_at: str
    is_compaction: int
    extra: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    came: Mapping[str, Any] = field(default_factory=lambda: _NOTHING, compare=False, repr=False)
    array: ClassVar[Array] = "entries"

    @property
    def record_id(self) -> str:
        """What it is found by."""
        return self.entry_id

    @property
    def is_seen(self) -> bool:
        """Whether it may be shown to a model: in use, and not compacted."""
        return self.status == NORMAL and self.is_compaction == NOT_COMPACTED

    def fields(self) -> dict[str, Any]:
        """Return its JSON object."""
        return {
            "entry_id": self.entry_id,
            "session_id": self.session_id,
            "message": self.message,
            "role": self.role,
            "token_consumption": self.token_consumption,
            "status": self.status,
            "tools": self.tools,
            "create_at": self.create_at,
            "is_compaction": self.is_compaction,
            **self.extra,
        }

    @classmethod
    def read(cls, data: object, where: str = "") -> ArchiveEntry:
        """Read it from its JSON value; ``where`` is put before a field's name in an error."""
        found = object_at(data, where.rstrip(".") or "entry")
        role = found.get("role")
        if role not in ROLES:
            raise _wrong("role", where, Reason("not_one_of", known=", ".join(ROLES)))
        return cls(
            _uuid(found, "entry_id", where),
            _uuid(found, "session_id", where),
            _text(found, "message", where),
            role,
            _count(found, "token_consumption", where),
            _flag(found, "status", NORMAL, where),
            _tools(found, where),
            _time(found, where),
            _flag(found, "is_compaction", NOT_COMPACTED, where),
            _rest(found, _ENTRY),
        )


@dataclass(frozen=True, slots=True)
class CompactedDialogue:
    """What was said before the trigger entry, in short."""

    entry_id: str
    trigger_entry_id: str
    summary: str
    create_at: str
    status: int
    extra: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    came: Mapping[str, Any] = field(default_factory=lambda: _NOTHING, compare=False, repr=False)
    array: ClassVar[Array] = "compacted_dialogues"

    @property
    def record_id(self) -> str:
        """What it is found by."""
        return self.entry_id

    def fields(self) -> dict[str, Any]:
        """Return its JSON object."""
        return {
            "entry_id": self.entry_id,
            "trigger_entry_id": self.trigger_entry_id,
            "summary": self.summary,
            "create_at": self.create_at,
            "status": self.status,
            **self.extra,
        }

    @classmethod
    def read(cls, data: object, where: str = "") -> CompactedDialogue:
        """Read it from its JSON value; ``where`` is put before a field's name in an error."""
        found = object_at(data, where.rstrip(".") or "compacted_dialogue")
        return cls(
            _uuid(found, "entry_id", where),
            _uuid(found, "trigger_entry_id", where),
            _text(found, "summary", where),
            _time(found, where),
            _flag(found, "status", NORMAL, where),
            _rest(found, _DIALOGUE),
        )


Record = ArchiveSession | ArchiveEntry | CompactedDialogue
KINDS: Mapping[Array, type[Record]] = {
    "sessions": ArchiveSession,
    "entries": ArchiveEntry,
    "compacted_dialogues": CompactedDialogue,
}
ID_FIELDS: Mapping[Array, str] = {
    "sessions": "session_id",
    "entries": "entry_id",
    "compacted_dialogues": "entry_id",
}
KNOWN_FIELDS: Mapping[Array, frozenset[str]] = {
    "sessions": _SESSION,
    "entries": _ENTRY,
    "compacted_dialogues": _DIALOGUE,
}


def check_uuid(value: object, name: str) -> str:
    """Return an id unchanged, or refuse it."""
    return _uuid({name: value}, name, "")


def _wrong(name: str, where: str, reason: Reason) -> BadRecord:
    return BadRecord("field_wrong", field=f"{where}{name}", reason=reason)


def _uuid(data: Mapping[str, Any], name: str, where: str) -> str:
    value = data.get(name)
    if isinstance(value, str) and _UUID.fullmatch(value):
        return value
    raise _wrong(name, where, Reason("not_uuid"))


def _text(data: Mapping[str, Any], name: str, where: str) -> str:
    value = data.get(name)
    if isinstance(value, str):
        return value
    raise _wrong(name, where, Reason("not_text"))


def _flag(data: Mapping[str, Any], name: str, default: int, where: str) -> int:
    value = data.get(name, default)
    if value is not True and value is not False and value in (0, 1):
        return int(value)
    raise _wrong(name, where, Reason("not_one_of", known="0, 1"))


def _count(data: Mapping[str, Any], name: str, where: str) -> int | float:
    value = data.get(name)
    if value is None:
        return 0
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT:
        return value
    raise _wrong(name, where, Reason("negative"))


def _time(data: Mapping[str, Any], where: str) -> str:
    value = data.get("create_at")
    moment_of(value, f"{where}create_at")
    return cast("str", value)


def _rest(data: Mapping[str, Any], known: frozenset[str]) -> Mapping[str, Any]:
    if known.issuperset(data):
        return _NOTHING
    return {name: value for name, value in data.items() if name not in known}


def _tools(data: Mapping[str, Any], where: str) -> Mapping[str, Any] | None:
    tools = data.get("tools")
    if tools is None:
        return None
    found = object_at(tools, f"{where}tools")
    for number, call in enumerate(list_at(found.get("tool_calls", []), f"{where}tools.tool_calls")):
        at = f"{where}tools.tool_calls[{number}]"
        called = object_at(object_at(call, at).get("function"), f"{at}.function")
        _text(call, "id", f"{at}.")
        _text(called, "name", f"{at}.function.")
        _text(called, "arguments", f"{at}.function.")
    return found


def check_tools(tools: Mapping[str, Any] | None, where: str = "") -> None:
    """Refuse tool calls that are not as OpenAI words them; their shape was seen to when they were read."""
    if tools is None:
        return
    calls = tools.get("tool_calls")
    if not calls or len(calls) > MAX_TOOL_CALLS:
        raise _wrong("tools.tool_calls", where, Reason("call_count", limit=MAX_TOOL_CALLS))
    for number, call in enumerate(calls):
        at = f"{where}tools.tool_calls[{number}]."
        if call.get("type") != "function":
            raise _wrong("type", at, Reason("not_one_of", known="function"))
        if not call["function"]["name"]:
            raise _wrong("function.name", at, Reason("blank"))
        try:
            json.loads(call["function"]["arguments"])
        except (ValueError, RecursionError) as error:
            raise _wrong("function.arguments", at, Reason("not_json_text")) from error


# --- a whole document


@dataclass(frozen=True, slots=True)
class ArchiveProblem:
    """One thing that is wrong in an archive."""

    code: str
    params: Mapping[str, object]

    def message(self, language: Language) -> str:
        """Describe what is wrong, and where."""
        return say(self.code, language, **self.params)

    def fields(self) -> dict[str, Any]:
        """Return its JSON object."""
        return {"code": self.code, **in_language(self.params, "en")}


def arrays_of(doc: object) -> dict[Array, list[Any]]:
    """Find the three arrays of a document; one that is missing or null is empty, but an archive has at least one."""
    root = object_at(doc, "the root")
    if all(root.get(name) is None for name in ARRAYS):
        raise BadRecord("archive_other_json")
    return {name: [] if root.get(name) is None else list_at(root[name], name) for name in ARRAYS}


def check_archive(doc: object) -> list[ArchiveProblem]:
    """List what breaks the rules of the format in a document: shapes, values, ids that are not unique, references."""
    try:
        arrays = arrays_of(doc)
    except BadRecord as error:
        return [ArchiveProblem(error.code, error.params)]
    problems: list[ArchiveProblem] = []
    ids: dict[Array, frozenset[str]] = {
        name: frozenset(_ids(arrays[name], ID_FIELDS[name])) for name in ARRAYS
    }
    for name in ARRAYS:
        seen: set[str] = set()
        for number, data in enumerate(arrays[name]):
            if len(problems) >= MAX_PROBLEMS:
                return problems
            try:
                _check_record(KINDS[name].read(data, f"{name}[{number}]."), number, seen, ids)
            except BadRecord as error:
                problems.append(ArchiveProblem(error.code, error.params))
    return problems


def _ids(records: list[Any], name: str) -> list[str]:
    found = [cast("dict[str, Any]", data).get(name) for data in records if isinstance(data, dict)]
    return [value for value in found if isinstance(value, str)]


def _check_record(record: Record, number: int, seen: set[str], ids: Mapping[Array, frozenset[str]]) -> None:
    """Check what a record can be wrong in beside its own shape."""
    where = f"{record.array}[{number}]."
    if record.record_id in seen:
        raise _wrong(ID_FIELDS[record.array], where, Reason("duplicate"))
    seen.add(record.record_id)
    match record:
        case ArchiveEntry():
            check_tools(record.tools, where)
            if record.session_id not in ids["sessions"]:
                raise _wrong("session_id", where, Reason("no_such_session"))
        case CompactedDialogue():
            if record.trigger_entry_id not in ids["entries"]:
                raise _wrong("trigger_entry_id", where, Reason("no_such_entry"))
        case ArchiveSession():
            pass


# --- lenient reading


_FIRST_MILLISECONDS, _LAST_MILLISECONDS = 10**11, 10**14
"""Between 1973 and 5138: a number there can only be milliseconds."""


def read_leniently(name: Array, data: object, where: str = "") -> Record:
    """Read a record that another program may have written; what cannot be understood is refused."""
    try:
        return KINDS[name].read(data, where)
    except BadRecord:
        meant = _meant(cast("dict[str, Any]", data)) if isinstance(data, dict) else {}
        if not meant:
            raise
        fields = cast("dict[str, Any]", data)
        record = KINDS[name].read({**fields, **meant}, where)
        return replace(record, came={key: fields.get(key) for key in meant})


def stored(record: Record) -> dict[str, Any]:
    """Return a record's JSON object as it is in the file: unchanged values keep their original form."""
    fields = record.fields()
    if record.came:
        meant = _meant({**fields, **record.came})
        fields.update({key: raw for key, raw in record.came.items() if meant.get(key) == fields[key]})
    return fields


def _meant(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the intended values of the fields that are not as the format has them."""
    read = {key: reader(data[key]) for key, reader in _READERS.items() if key in data}
    found = {key: value for key, value in read.items() if value is not None}
    if data.get("tools") == []:
        found["tools"] = None
    if "message" in data and data["message"] is None and data.get("tools"):
        found["message"] = ""
    return found


def _digits(value: object) -> int | None:
    is_number = isinstance(value, str) and len(value) <= 15 and value.isascii() and value.isdecimal()
    return int(cast("str", value)) if is_number else None


def _lenient_flag(default: int) -> Callable[[object], int | None]:
    return lambda value: default if value is None else _digits(value)


def _moment(value: object) -> str | None:
    """Read a time with a blank for its T, or one that is counted in milliseconds."""
    if isinstance(value, str) and value[10:11] == " ":
        return f"{value[:10]}T{value[11:]}"
    if isinstance(value, int | float) and _FIRST_MILLISECONDS <= value < _LAST_MILLISECONDS:
        return datetime.fromtimestamp(value / 1000, UTC).isoformat(timespec="milliseconds")
    return None


_READERS: Mapping[str, Callable[[object], Any]] = {
    "token_consumption": _digits,
    "status": _lenient_flag(NORMAL),
    "is_compaction": _lenient_flag(NOT_COMPACTED),
    "create_at": _moment,
}
