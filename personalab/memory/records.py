"""Records of memories and conversations, in the source's shapes.

The memory of each (agent, user) pair holds three lists of entries; each entry names the messages it is based
on. Reading is strict about required fields (``BadRecord`` is a ``ValueError`` that names the field) and
lenient about the rest.
"""

from __future__ import annotations

import math
import unicodedata
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, cast, get_args

from personalab.dialogue import well_formed
from personalab.errors import BadRecord, Reason

ContentType = Literal["profile", "event", "mind"]
CONTENT_TYPES: tuple[ContentType, ...] = get_args(ContentType)
Role = Literal["user", "assistant", "system"]
ROLES: tuple[Role, ...] = get_args(Role)

MAX_NAME = 200
"""How long an agent_id or user_id may be."""
MAX_MESSAGES = 2_000
MAX_CONTENT = 200_000
MAX_ENTRY = 2_000

_QUOTED = 100
_STORY_SESSIONS = uuid.UUID("6a1f7f2e-3a55-5c50-9a4f-0a8a4a0c5d11")


def new_id() -> str:
    """Make an id."""
    return str(uuid.uuid4())


def story_session(instance_id: str, session_id: str, created_at: str) -> str:
    """Name a story's session as conversations do: by a UUID, the same one for the same session.

    A session that was undone, or a story that was removed, may leave its name to another one.
    """
    return str(uuid.uuid5(_STORY_SESSIONS, f"{instance_id}/{session_id}/{created_at}"))


# --- what a memory holds


@dataclass(frozen=True, slots=True)
class EntrySource:
    """The messages of a conversation that an entry rests on."""

    conversation_id: str
    messages: tuple[int, ...]

    def fields(self) -> dict[str, Any]:
        """Return its JSON object."""
        return {"conversation_id": self.conversation_id, "messages": list(self.messages)}

    @classmethod
    def read(cls, data: object) -> EntrySource:
        """Read it from its JSON value."""
        found = _object(data, "source")
        numbers = _list(found, "messages")
        if not all(isinstance(number, int) and not isinstance(number, bool) for number in numbers):
            raise BadRecord("bad_record", field="messages", reason=Reason("not_all_whole"))
        return cls(_text(found, "conversation_id"), tuple(cast("list[int]", numbers)))


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """One thing that is known; ``position`` is its place in its list."""

    content_id: str
    content_type: ContentType
    text: str
    position: int
    created_at: str
    updated_at: str
    sources: tuple[EntrySource, ...] = ()
    """None where a person wrote it."""

    def fields(self) -> dict[str, Any]:
        """Return its JSON object."""
        return {
            "content_id": self.content_id,
            "content_type": self.content_type,
            "text": self.text,
            "position": self.position,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "sources": [source.fields() for source in self.sources],
        }

    @classmethod
    def read(cls, data: object) -> MemoryEntry:
        """Read it from its JSON value."""
        found = _object(data, "entry")
        position = found.get("position")
        if not isinstance(position, int) or isinstance(position, bool):
            raise BadRecord("bad_record", field="position", reason=Reason("not_whole"))
        return cls(
            _text(found, "content_id"),
            check_type(found.get("content_type")),
            _text(found, "text"),
            position,
            _time(found, "created_at"),
            _time(found, "updated_at"),
            tuple(EntrySource.read(source) for source in _list(found, "sources")),
        )


@dataclass(frozen=True, slots=True)
class Memory:
    """What an agent knows about a user; ``version`` counts its changes."""

    memory_id: str
    agent_id: str
    user_id: str
    created_at: str
    updated_at: str
    entries: tuple[MemoryEntry, ...] = ()
    version: int = 0

    def of(self, content_type: ContentType) -> list[MemoryEntry]:
        """Return the entries of a list, in their order."""
        found = [entry for entry in self.entries if entry.content_type == content_type]
        return sorted(found, key=lambda entry: (entry.position, entry.content_id))

    def texts(self, content_type: ContentType) -> list[str]:
        """Return a list as strings."""
        return [entry.text for entry in self.of(content_type)]

    def entry(self, content_id: str) -> MemoryEntry | None:
        """Find an entry."""
        return next((entry for entry in self.entries if entry.content_id == content_id), None)

    def fields(self) -> dict[str, Any]:
        """Return its JSON object, as the source's API does."""
        return {
            "memory_id": self.memory_id,
            "agent_id": self.agent_id,
            "user_id": self.user_id,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            **{f"{content_type}_content": self.texts(content_type) for content_type in CONTENT_TYPES},
            "version": self.version,
        }

    @classmethod
    def read(cls, data: object) -> Memory:
        """Read it from the source's JSON object; a list may be one text, its entries joined by line ends."""
        found = _object(data, "memory")
        created, updated = _time(found, "created_at"), _time(found, "updated_at")
        entries: list[MemoryEntry] = []
        for content_type in CONTENT_TYPES:
            for position, text in enumerate(_lines(found, f"{content_type}_content"), start=1):
                entries.append(MemoryEntry(new_id(), content_type, text, position, created, updated))
        version = found.get("version", 0)
        return cls(
            check_uuid(found, "memory_id"),
            check_name(found, "agent_id"),
            check_name(found, "user_id"),
            created,
            updated,
            tuple(entries),
            version if isinstance(version, int) and version >= 0 else 0,
        )


def empty_memory(memory_id: str, agent_id: str, user_id: str, now: str) -> Memory:
    """Make a memory that knows nothing yet."""
    return Memory(memory_id, agent_id, user_id, now, now)


# --- what it was learned from


@dataclass(frozen=True, slots=True)
class ConversationMessage:
    """One thing that was said; ``message_index`` counts from 0."""

    message_id: str
    role: Role
    content: str
    message_index: int
    created_at: str

    def fields(self) -> dict[str, Any]:
        """Return its JSON object."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class StoryPlace:
    """Where in a story a conversation was held."""

    instance_id: str
    session_id: str
    first_turn: int
    last_turn: int

    def fields(self) -> dict[str, Any]:
        """Return its JSON object."""
        return {
            "instance_id": self.instance_id,
            "session_id": self.session_id,
            "turns": [self.first_turn, self.last_turn],
        }

    @classmethod
    def read(cls, data: object) -> StoryPlace | None:
        """Read it from its JSON value; ``None`` for what is none."""
        match data:
            case {
                "instance_id": str(instance_id),
                "session_id": str(session_id),
                "turns": [int(first), int(last)],
            }:
                return cls(instance_id, session_id, first, last)
            case _:
                return None


@dataclass(frozen=True, slots=True)
class Conversation:
    """What was said between an agent and a user."""

    conversation_id: str
    agent_id: str
    user_id: str
    created_at: str
    messages: tuple[ConversationMessage, ...]
    session_id: str
    memory_id: str | None = None
    pipeline_result: Mapping[str, Any] | None = None
    story: StoryPlace | None = None
    named_session: bool = field(default=True, compare=False)
    """Whether the caller named the session; a made-up one does not tell two conversations apart."""

    @property
    def turn_count(self) -> int:
        """How many messages it has: the source counts them so."""
        return len(self.messages)

    @property
    def summary(self) -> str:
        """Its summary in one line, in one of the source's three forms."""
        if not self.messages:
            return "Empty conversation"
        said = next((message.content for message in self.messages if message.role == "user"), None)
        opening = "No user message" if said is None else said[:_QUOTED]
        return f"Conversation with {len(self.messages)} turns: {opening}..."

    @property
    def is_learned(self) -> bool:
        """Whether it has been learned from."""
        return has_succeeded(self.pipeline_result)

    @property
    def waits_for(self) -> str | None:
        """The story that has not learned from this conversation of its own."""
        return None if self.story is None or self.is_learned else self.story.instance_id

    def text(self) -> str:
        """Return what was said, as it is searched."""
        return "\n".join(message.content for message in self.messages)

    def fields(self) -> dict[str, Any]:
        """Return its JSON object, as the source's API does."""
        return {
            "conversation_id": self.conversation_id,
            "agent_id": self.agent_id,
            "user_id": self.user_id,
            "session_id": self.session_id,
            "created_at": self.created_at,
            "turn_count": self.turn_count,
            "memory_id": self.memory_id,
            **self.data(),
            "pipeline_result": self.pipeline_result,
            "summary": self.summary,
        }

    def listing(self) -> dict[str, Any]:
        """Return its JSON object in a list: without messages and results."""
        return {
            "conversation_id": self.conversation_id,
            "agent_id": self.agent_id,
            "user_id": self.user_id,
            "session_id": self.session_id,
            "memory_id": self.memory_id,
            "created_at": self.created_at,
            "turn_count": self.turn_count,
            "summary": self.summary,
            "learned": self.is_learned,
            "story": self.story.fields() if self.story else None,
        }

    def data(self) -> dict[str, Any]:
        """Return the content of ``conversation_data``."""
        place = {"story": self.story.fields()} if self.story else {}
        return {"messages": [message.fields() for message in self.messages], **place}

    def same_as(self) -> str:
        """Return what identifies equal conversations."""
        import hashlib
        import json

        said = [[message.role, message.content] for message in self.messages]
        session = self.session_id if self.named_session else ""
        whole = json.dumps([self.agent_id, self.user_id, session, said], ensure_ascii=False)
        return hashlib.sha256(whole.encode("utf-8")).hexdigest()

    @classmethod
    def read(cls, data: object) -> Conversation:
        """Read it from the source's JSON object."""
        found = _object(data, "conversation")
        created = _time(found, "created_at")
        result = found.get("pipeline_result")
        memory_id = found.get("memory_id")
        return cls(
            check_uuid(found, "conversation_id"),
            check_name(found, "agent_id"),
            check_name(found, "user_id"),
            created,
            read_messages(_list(found, "messages", required=True), created),
            check_uuid(found, "session_id") if found.get("session_id") is not None else new_id(),
            None if memory_id is None else check_uuid(found, "memory_id"),
            cast("dict[str, Any]", clean_json(result)) if isinstance(result, dict) else None,
            StoryPlace.read(found.get("story")),
            found.get("session_id") is not None,
        )


def has_succeeded(result: Mapping[str, Any] | None) -> bool:
    """Return whether a conversation has been learned from."""
    return result is not None and "pipeline_metadata" in result and not result.get("error")


def read_request(data: object, now: str) -> Conversation:
    """Read a request to save a conversation: ids and times are made where the source makes them."""
    found = _object(data, "request")
    memory_id = found.get("memory_id")
    return Conversation(
        new_id(),
        check_name(found, "agent_id"),
        check_name(found, "user_id"),
        now,
        read_messages(_list(found, "messages", required=True), now),
        check_uuid(found, "session_id") if found.get("session_id") is not None else new_id(),
        None if memory_id is None else check_uuid(found, "memory_id"),
        named_session=found.get("session_id") is not None,
    )


def saved_response(conversation: Conversation) -> dict[str, Any]:
    """Return the answer to a request to save, as the source does."""
    return {
        "success": True,
        "message": "Conversation saved successfully",
        "conversation_id": conversation.conversation_id,
        "session_id": conversation.session_id,
        "created_at": conversation.created_at,
        "message_count": len(conversation.messages),
    }


def read_messages(given: Sequence[object], now: str) -> tuple[ConversationMessage, ...]:
    """Read messages; they are numbered from 0 in their order, whatever numbers they bring."""
    if len(given) > MAX_MESSAGES:
        raise BadRecord("field_too_long", field="messages", actual=len(given), limit=MAX_MESSAGES)
    return tuple(_message(data, index, now) for index, data in enumerate(given))


def _message(data: object, index: int, now: str) -> ConversationMessage:
    found = _object(data, f"messages[{index}]")
    role = found.get("role")
    if role is None:
        raise BadRecord("field_missing", field=f"messages[{index}].role")
    if role not in ROLES:
        reason = Reason("not_one_of", known=", ".join(ROLES))
        raise BadRecord("bad_record", field=f"messages[{index}].role", reason=reason)
    content = found.get("content")
    if content is None:
        raise BadRecord("field_missing", field=f"messages[{index}].content")
    if not isinstance(content, str):
        raise BadRecord("bad_record", field=f"messages[{index}].content", reason=Reason("not_text"))
    if len(content) > MAX_CONTENT:
        name = f"messages[{index}].content"
        raise BadRecord("field_too_long", field=name, actual=len(content), limit=MAX_CONTENT)
    named = found.get("message_id")
    message_id = check_uuid(found, "message_id") if named is not None else new_id()
    created = _time(found, "created_at") if found.get("created_at") is not None else now
    return ConversationMessage(message_id, role, clean(content), index, created)


# --- checks


def check_name(data: Mapping[str, Any], name: str) -> str:
    """Take an agent_id or user_id: any text that can be told from none."""
    value = data.get(name)
    if value is None or (isinstance(value, str) and not value.strip()):
        raise BadRecord("field_missing", field=name)
    if not isinstance(value, str):
        raise BadRecord("bad_record", field=name, reason=Reason("not_text"))
    if len(value) > MAX_NAME:
        raise BadRecord("field_too_long", field=name, actual=len(value), limit=MAX_NAME)
    if clean(value) != value or not all(map(_is_seen, value)):
        raise BadRecord("bad_record", field=name, reason=Reason("control"))
    return value


def _is_seen(char: str) -> bool:
    """Return whether a character is visible or takes space: a wide or unbreakable space does, too."""
    return char.isprintable() or unicodedata.category(char) == "Zs"


def check_uuid(data: Mapping[str, Any], name: str) -> str:
    """Take an id that is a UUID, in its usual form."""
    value = data.get(name)
    if value is None or value == "":
        raise BadRecord("field_missing", field=name)
    try:
        if isinstance(value, str) and len(value) <= 45:
            return str(uuid.UUID(value))
    except ValueError:
        pass
    raise BadRecord("bad_record", field=name, reason=Reason("not_uuid"))


def check_type(value: object) -> ContentType:
    """Take the name of a list."""
    if value not in CONTENT_TYPES:
        reason = Reason("not_one_of", known=", ".join(CONTENT_TYPES))
        raise BadRecord("bad_record", field="content_type", reason=reason)
    return value


def check_entry(text: object) -> str:
    """Take the text of an entry: one line, of bounded length."""
    if not isinstance(text, str) or not text.strip():
        raise BadRecord("field_missing", field="text")
    line = " ".join(clean(text).split())
    if len(line) > MAX_ENTRY:
        raise BadRecord("field_too_long", field="text", actual=len(line), limit=MAX_ENTRY)
    return line


def clean(text: str) -> str:
    """Make a text storable everywhere: neither half pairs nor the character 0 can be."""
    return well_formed(text.replace("\x00", "\ufffd"))


def clean_json(data: Any, depth: int = 32) -> Any:
    """Do so throughout a JSON value; what is nested too deeply, or no number at all, is left out."""
    if isinstance(data, str):
        return clean(data)
    if isinstance(data, float) and not math.isfinite(data):
        return None
    if isinstance(data, dict | list | tuple) and depth == 0:
        return "…"
    if isinstance(data, dict):
        known = cast("dict[object, Any]", data)
        return {clean(str(name)): clean_json(value, depth - 1) for name, value in known.items()}
    if isinstance(data, list | tuple):
        return [clean_json(value, depth - 1) for value in cast("list[Any]", data)]
    return data


def _object(data: object, what: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise BadRecord("bad_record", field=what, reason=Reason("not_object"))
    return cast("Mapping[str, Any]", data)


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    if value is None:
        raise BadRecord("field_missing", field=name)
    if not isinstance(value, str):
        raise BadRecord("bad_record", field=name, reason=Reason("not_text"))
    return clean(value)


def _time(data: Mapping[str, Any], name: str) -> str:
    """Take a time; another zone or fractions of a second are brought into the form we write."""
    value = _text(data, name)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise BadRecord("bad_record", field=name, reason=Reason("not_iso_time")) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        moment = moment.astimezone(UTC)
    except OverflowError as error:
        raise BadRecord("bad_record", field=name, reason=Reason("time_out_of_range")) from error
    return f"{moment.year:04}{moment.strftime('-%m-%dT%H:%M:%SZ')}"


def time_or(value: str, otherwise: str) -> str:
    """Take a time that a file brought, in the form we write, or another one where it is none."""
    try:
        return _time({"time": value}, "time")
    except BadRecord:
        return otherwise


def _list(data: Mapping[str, Any], name: str, *, required: bool = False) -> list[object]:
    value = data.get(name)
    if value is None:
        if required:
            raise BadRecord("field_missing", field=name)
        return []
    if not isinstance(value, list | tuple):
        raise BadRecord("bad_record", field=name, reason=Reason("not_list"))
    return list(cast("Sequence[object]", value))


def _lines(data: Mapping[str, Any], name: str) -> Iterable[str]:
    value = data.get(name)
    given = value.split("\n") if isinstance(value, str) else _list(data, name)
    if not all(isinstance(text, str) for text in given):
        raise BadRecord("bad_record", field=name, reason=Reason("not_all_texts"))
    return [check_entry(text) for text in cast("list[str]", given) if text.strip()]
