"""Reading of SillyTavern chats, and lossless conversion between chats and sessions.

A chat is a JSON lines file: a header, then one message per line. It may be several times larger than the memory,
so its messages are read from the file on each iteration. What a session has no field for is kept in its lines,
and what a chat has no field for is carried in marks that SillyTavern ignores. An imported chat is exported as it
was; a session that was exported and is imported again is the same session, with the edits that were made in
between.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, BinaryIO, TypeGuard, cast

from personalab.archive.cards import clean_name
from personalab.archive.chat_messages import (
    ADDED,
    FOREIGN,
    FORMAT,
    WORDS_ONLY,
    Raw,
    ShownReply,
    added_to,
    foreign_message,
    hidden_line,
    kept_of,
    lines_from,
    made_of,
    marked,
    prefixed_speaker,
    reasoning_in,
    rows_of,
    speaker_of,
    spoken,
    spoken_by,
    unmarked,
    with_added,
    with_reasoning,
    without_reasoning,
)
from personalab.archive.foreign_files import load_json, object_at
from personalab.archive.foreign_lines import Numbering, begun_at, time_of
from personalab.errors import BadRecord, Reason
from personalab.reasoning import separate_reasoning
from personalab.story.records import is_id
from personalab.story.transcript import (
    AssistantLine,
    Line,
    Metadata,
    Summary,
    UserLine,
    dump_object,
    line_fields,
    parse_line,
)

# --- reading a chat


MAX_CHAT_BYTES = 64 * 1024 * 1024
MAX_CHAT_LINES = 100_000
MAX_LINE_BYTES = 8 * 1024 * 1024
MAX_MESSAGE_CHARACTERS = 1_000_000
_PARTS = ((b"{[", 300_000, 64), (b",", 1_000_000, 32))
"""Of these signs a chat has so many, and one more for so many bytes: the memory that it takes grows by them."""
_BOM = b"\xef\xbb\xbf"
HEADER_FIELDS = ("user_name", "character_name", "create_date", "chat_metadata")
_UNNAMED = ("", "unused")
"""The names in a header that leaves them to the messages."""
_LINE_CODES = {
    "too_large": "chat_line_too_large",
    "too_deep": "chat_line_too_deep",
    "not_utf8": "chat_line_not_utf8",
    "not_json": "chat_line_not_json",
    "too_many_parts": "chat_too_many_parts",
}


@dataclass(frozen=True)
class Chat:
    """A chat's header, if it has one, and its messages, all as they are in the file."""

    header: Raw | None
    messages: Iterable[Raw]
    """They can be gone through several times."""

    @property
    def character_name(self) -> str:
        """The character's name; blank if it is missing."""
        return self._name("character_name", is_user=False)

    @property
    def user_name(self) -> str:
        """The person's name; blank if it is missing."""
        return self._name("user_name", is_user=True)

    def _name(self, field: str, *, is_user: bool) -> str:
        told = (self.header or {}).get(field)
        if isinstance(told, str) and told.strip() not in _UNNAMED:
            return told
        said = (
            one for one in self.messages if bool(one.get("is_user")) == is_user and not one.get("is_system")
        )
        names = (one.get("name") for one in said)
        return next((name for name in names if isinstance(name, str) and name.strip()), "")

    @property
    def character_id(self) -> str | None:
        """Which id the character had where the chat left, if it was one of ours."""
        found: object = (self._mark or {}).get("character_id")
        return str(found) if is_id(found) else None

    @cached_property
    def others(self) -> frozenset[str]:
        """Who speaks beside the character, where several do."""
        said = (one for one in self.messages if not one.get("is_user") and not one.get("is_system"))
        names = frozenset(name for one in said if (name := speaker_of(one)))
        own = {speaker_of({"name": name}) for name in (self.character_name, *self._called)}
        return names - own if len(names) > 1 else frozenset()

    @property
    def _mark(self) -> Raw | None:
        return unmarked(self.header or {}, "chat_metadata")[1]

    @property
    def _called(self) -> tuple[str, ...]:
        """What the character is called in messages of ours."""
        match (self._mark or {}).get("names"):
            case [str(character), str()]:
                return (character,)
            case _:
                return ()

    @property
    def created_at(self) -> str:
        """When it was begun, or its first message sent; blank if that is missing."""
        first = next(iter(self.messages), None) or {}
        told = [(self.header or {}).get("create_date"), first.get("send_date")]
        return next((time for time in map(time_of, told) if time), "")


def read_chat(raw: Iterable[bytes] | BinaryIO) -> Chat:
    """Read a chat line by line; a line that cannot be read is named by its number.

    The messages of a file are checked now and read again when they are needed: it stays open until then.
    """
    if not isinstance(raw, io.IOBase):
        rows = tuple(_objects(raw))
        header = _header_of(rows[0] if rows else None)
        return Chat(header, rows if header is None else rows[1:])
    file = cast("BinaryIO", raw)
    header = _header_of(next(_objects(_pieces(file)), None))
    messages = _FileMessages(file)
    deque(messages, maxlen=0)
    return Chat(header, messages)


def _header_of(first: Raw | None) -> Raw | None:
    if first is None:
        raise BadRecord("chat_empty")
    return first if is_header(first) else None


@dataclass(frozen=True, slots=True)
class _FileMessages:
    """The messages of a file; they are parsed whenever they are gone through."""

    file: BinaryIO

    def __iter__(self) -> Iterator[Raw]:
        for number, data in enumerate(_objects(_pieces(self.file))):
            if number or not is_header(data):
                yield data


def _objects(pieces: Iterable[bytes]) -> Iterator[Raw]:
    """Parse every line that is not blank: the header, if there is one, and the messages."""
    size, parts, is_first = 0, [0 for _ in _PARTS], True
    for number, piece in enumerate(pieces, start=1):
        size += len(piece)
        if size > MAX_CHAT_BYTES:
            raise BadRecord("chat_too_large", limit=MAX_CHAT_BYTES)
        if number > MAX_CHAT_LINES:
            raise BadRecord("chat_too_many_lines", limit=MAX_CHAT_LINES)
        _count_parts(piece, parts, size, number)
        text = piece.removeprefix(_BOM) if number == 1 else piece
        if text.strip():
            data = _object_in(text, number)
            yield data if is_first and is_header(data) else _checked(data, number)
            is_first = False


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    """Read lines of a file from its start, none further than it takes to see that it is too long."""
    file.seek(0)
    while piece := file.readline(MAX_LINE_BYTES + 1):
        yield piece


def _count_parts(piece: bytes, parts: list[int], size: int, number: int) -> None:
    """Refuse a chat of almost nothing but brackets or commas, however they are spread over its lines."""
    for at, (signs, free, share) in enumerate(_PARTS):
        parts[at] += sum(piece.count(sign) for sign in signs)
        if parts[at] > free + size // share:
            raise BadRecord("chat_too_many_parts", line=number, actual=parts[at])


def _object_in(text: bytes, number: int) -> dict[str, Any]:
    try:
        return object_at(load_json(text.rstrip(b"\r\n"), limit=MAX_LINE_BYTES), "")
    except BadRecord as error:
        code = _LINE_CODES.get(error.code)
        if code is None:
            raise BadRecord("chat_line_no_object", line=number) from error
        raise BadRecord(code, line=number, **error.params) from error


def is_header(data: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a value is a header rather than a message."""
    return isinstance(data, dict) and "mes" not in data and any(name in data for name in HEADER_FIELDS)


def _checked(data: Raw, number: int) -> Raw:
    text = spoken(data.get("mes"))
    if text is None:
        raise BadRecord("chat_field_wrong", line=number, field="mes", reason=Reason("not_text"))
    if len(text) > MAX_MESSAGE_CHARACTERS:
        reason = Reason("too_many_characters", count=len(text), limit=MAX_MESSAGE_CHARACTERS)
        raise BadRecord("chat_field_wrong", line=number, field="mes", reason=reason)
    return data


# --- a chat as a session


def lines_of(chat: Chat, instance_id: str, session_id: str, now: str) -> list[Line]:
    """Make the lines of a session of a chat; ``now`` is when it begins, where the chat does not say it."""
    return list(each_line_of(chat, instance_id, session_id, now))


def each_line_of(chat: Chat, instance_id: str, session_id: str, now: str) -> Iterator[Line]:
    """Make the lines one by one, for a chat that is too long to be in memory whole."""
    metadata = Metadata(instance_id, session_id, chat.created_at or now)
    header, mark = unmarked(chat.header or {}, "chat_metadata")
    if mark is None:
        kept = None if chat.header is None else dict(chat.header)
        metadata = replace(metadata, extra={FOREIGN: kept})
        yield metadata
        yield from _told(chat, None)
        return
    match mark.get("names"):
        case [str(character), str(player)]:
            names = (character, player)
        case _:
            names = (chat.character_name, chat.user_name)
    yield _begun(metadata, header, mark)
    yield from _told(chat, names)
    yield from _carried(mark.get("after"))


def _begun(metadata: Metadata, header: Raw, mark: Raw) -> Metadata:
    """Make a session's first line again; away from home it continues nothing."""
    try:
        fields = {**line_fields(metadata), **cast("dict[str, Any]", mark.get("metadata") or {})}
        was = parse_line(dump_object(fields))
    except (TypeError, ValueError):
        return metadata
    if not isinstance(was, Metadata):
        return metadata
    at_home = (was.instance_id, was.session_id) == (metadata.instance_id, metadata.session_id)
    extra = dict(was.extra)
    if mark.get("header") == "theirs":
        extra[FOREIGN] = dict(header)
    elif mark.get("header") == "none":
        extra[FOREIGN] = None
    elif added := added_to({}, header, "chat_metadata", HEADER_FIELDS):
        extra[ADDED] = added
    continued = was.continued_from if at_home else None
    return replace(metadata, created_at=was.created_at, continued_from=continued, extra=extra)


def _carried(rows: object) -> Iterator[Line]:
    """Read lines that a mark carries as they stood in the file."""
    for row in cast("list[object]", rows) if isinstance(rows, list) else []:
        if isinstance(row, dict):
            try:
                line = parse_line(dump_object(cast("dict[str, Any]", row)))
            except ValueError:
                continue  # someone changed it there; what is said is unharmed
            if not isinstance(line, UserLine | AssistantLine):
                yield line


def _told(chat: Chat, names: tuple[str, str] | None) -> Iterator[Line]:
    """Yield the lines of the messages; with names, those of the messages we made, marks are heeded."""
    numbering, others = Numbering(), chat.others
    for given in chat.messages:
        message, lines, place = dict(given), None, None
        if names is not None:
            message, mark = unmarked(given, "extra")
            if mark is not None:
                yield from _carried(mark.get("before"))
                lines, place = _restored(message, mark, names), mark.get("place")
        if lines is None:
            yield _foreign_line(message, numbering, others)
        else:
            yield from numbering.take(lines, place if isinstance(place, int) else None)


def _foreign_line(message: Raw, numbering: Numbering, others: frozenset[str]) -> Line:
    if message.get("is_system"):
        return hidden_line(message)
    text, when = spoken(message["mes"]) or "", time_of(message.get("send_date"))
    extra = {FOREIGN: kept_of(message)}
    if message.get("is_user"):
        return UserLine(text, numbering.said(), when, extra)
    reasoning, text = separate_reasoning(text, reasoning_in(message.get("extra")))
    line = AssistantLine(text, numbering.replied(), when, extra=extra, reasoning=reasoning)
    speaker = speaker_of(message)
    return spoken_by(line, speaker) if speaker in others else line


def _restored(message: Raw, mark: Raw, names: tuple[str, str]) -> list[Line] | None:
    """Make the lines of a message again by its mark; ``None`` if it is to be read like any other."""
    if "lines" not in mark:
        return None
    if mark.get("theirs"):
        lines = lines_from(mark["lines"], {"mes": message["mes"], "extra": message.get("extra")})
        if lines is None or message.get("is_system"):
            return None
        last = _with_extra(lines[-1], FOREIGN, kept_of(message))
        return [*lines[:-1], spoken_by(last, speaker) if (speaker := mark.get("speaker")) else last]
    lines = lines_from(mark["lines"], message)
    if lines is None:
        return None
    made = made_of(lines, *names, "") or {}
    if message.get("is_system") and not made.get("is_system"):
        return None
    if isinstance(lines[-1], AssistantLine):
        message = without_reasoning(message)
    added = added_to(made, message, "extra")
    return [*lines[:-1], _with_extra(lines[-1], ADDED, added)] if added else lines


def user_named_in(lines: Sequence[Line]) -> str:
    """Return the player's name in an imported chat; blank where it has none."""
    first = lines[0] if lines else None
    header: object = first.extra.get(FOREIGN) if isinstance(first, Metadata) else None
    name: object = cast("dict[str, object]", header).get("user_name") if isinstance(header, dict) else ""
    return clean_name(name) if isinstance(name, str) and name != "unused" else ""


def _with_extra(line: Line, name: str, value: object) -> Line:
    fields = {**line_fields(line), name: value}
    return parse_line(dump_object(fields))


# --- a session as a chat


def chat_of(
    lines: Sequence[Line],
    character: str,
    player: str,
    named: str = "",
    character_id: str | None = None,
    shown_too: ShownReply = WORDS_ONLY,
) -> list[dict[str, Any]]:
    """Make the lines of a chat of a session: the header, then the messages.

    ``named`` and ``character_id`` are who the character is in the library, where messages call it something else.
    """
    return _as_it_came(lines) or _marked_chat(
        lines, _ChatNames(character, player, named, character_id, shown_too)
    )


def _as_it_came(lines: Sequence[Line]) -> list[dict[str, Any]] | None:
    """Return a session as the chat it was imported from, if it has not changed beyond that."""
    first = lines[0] if lines else None
    if not isinstance(first, Metadata) or set(first.extra) != {FOREIGN}:
        return None
    header: object = first.extra[FOREIGN]
    messages = [foreign_message(line) for line in lines[1:]]
    whole = [message for message in messages if message is not None]
    if len(whole) < len(messages) or not (header is None or is_header(header)):
        return None
    chat = Chat(header, tuple(whole))
    again = lines_of(chat, first.instance_id, first.session_id, first.created_at)
    if len(again) != len(lines) or not all(map(_is_same, lines, again)):
        return None
    return [dict(one) for one in (header, *whole) if one is not None]


def _is_same(line: Line, again: Line) -> bool:
    """Return whether the message of a line would become that line; an older import knows no reasoning."""
    if isinstance(line, AssistantLine) and isinstance(again, AssistantLine) and not line.reasoning:
        again = replace(again, reasoning="")
    return _bare(line) == _bare(again)


def _bare(line: Line) -> Line:
    """Leave out what an edited text changes in what is kept."""
    if isinstance(line, UserLine | AssistantLine):
        return replace(line, extra={name: value for name, value in line.extra.items() if name != FOREIGN})
    return line


@dataclass(frozen=True, slots=True)
class _ChatNames:
    """Who the two are, in messages and in the library."""

    character: str
    player: str
    named: str
    character_id: str | None
    shown_too: ShownReply


def _marked_chat(lines: Sequence[Line], told: _ChatNames) -> list[dict[str, Any]]:
    metadata = next((line for line in lines if isinstance(line, Metadata)), None)
    when = metadata.created_at if metadata else ""
    messages: list[dict[str, Any]] = []
    before: list[dict[str, Any]] = []
    place = 0
    for group in _groups([line for line in lines if line is not metadata]):
        place += len(group)
        found = _message_and_mark(group, told, when)
        if found is None:
            before += [line_fields(line) for line in group]
            continue
        message, mark = found
        mark["place"] = place
        messages.append(marked(message, {**mark, "before": before} if before else mark, "extra"))
        before = []
        last = group[-1]
        when = (last.timestamp if isinstance(last, UserLine | AssistantLine) else "") or when
    return [_session_header(metadata, before, told), *messages]


def _groups(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Group the replies of one turn: they are swipes of one message."""
    group: list[Line] = []
    for line in lines:
        if group and not _tried_again(group[-1], line):
            yield group
            group = []
        group.append(line)
    if group:
        yield group


def _tried_again(line: Line, after: Line) -> bool:
    if not isinstance(line, AssistantLine) or not isinstance(after, AssistantLine) or line.turn != after.turn:
        return False
    return foreign_message(line) is None and foreign_message(after) is None


def _message_and_mark(
    group: Sequence[Line], told: _ChatNames, when: str
) -> tuple[dict[str, Any], dict[str, Any]] | None:
    last = group[-1]
    mark: dict[str, Any] = {"format": FORMAT}
    message = foreign_message(last)
    if message is not None:
        if message.get("is_system"):
            return message, mark
        if not isinstance(last, UserLine | AssistantLine):
            return None
        mark |= {"theirs": True, "lines": rows_of([last], without=FOREIGN)}
        speaker = prefixed_speaker(last)
        return message, {**mark, "speaker": speaker} if speaker else mark
    made = made_of(group, told.character, told.player, when, told.shown_too)
    if made is None:
        return None
    extra: Raw = last.extra if isinstance(last, UserLine | AssistantLine | Summary) else {}
    message = with_added(made, extra.get(ADDED), "extra")
    rows = rows_of(group, without=ADDED if message else None, shown_too=told.shown_too)
    return with_reasoning(message or made, group, told.shown_too), {**mark, "lines": rows}


def _session_header(metadata: Metadata | None, after: Sequence[Raw], told: _ChatNames) -> dict[str, Any]:
    header: dict[str, Any] = {
        "user_name": told.player,
        "character_name": told.named or told.character,
        "create_date": begun_at(metadata.created_at if metadata else ""),
        "chat_metadata": {},
    }
    whose, fields = "ours", line_fields(metadata) if metadata else {}
    extra: Raw = metadata.extra if metadata else {}
    if is_header(theirs := extra.get(FOREIGN)):
        whose, header = "theirs", dict(theirs)
    elif FOREIGN in extra and extra[FOREIGN] is None:
        whose = "none"
    elif (more := with_added(header, extra.get(ADDED), "chat_metadata", HEADER_FIELDS)) is not None:
        header = more
        del fields[ADDED]
    if whose != "ours":
        del fields[FOREIGN]
    mark: dict[str, Any] = {
        "format": FORMAT,
        "header": whose,
        "names": [told.character, told.player],
        "metadata": fields,
    }
    if told.character_id is not None:
        mark["character_id"] = told.character_id
    return marked(header, {**mark, "after": list(after)} if after else mark, "chat_metadata")
