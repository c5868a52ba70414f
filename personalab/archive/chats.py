"""How does a SillyTavern chat become a session, and a session a chat?

A chat is JSON lines: a header, then a message a line. Nothing of it is lost: what a session has no place for is kept
in its lines, and what a chat has no place for is carried in marks that SillyTavern leaves alone. A chat that came from
there goes back as it came; a session that comes back is the one that went out, with what was edited meanwhile.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, TypeGuard, cast

from personalab.archive.chat_messages import (
    ADDED,
    FOREIGN,
    FORMAT,
    Raw,
    added_to,
    foreign_message,
    hidden_line,
    kept_of,
    lines_from,
    made_of,
    marked,
    rows_of,
    spoken,
    unmarked,
    with_added,
)
from personalab.archive.chat_times import begun_at, time_of
from personalab.archive.loading import load_json, object_at
from personalab.archive.numbering import Numbering
from personalab.errors import BadRecord
from personalab.story.lines import (
    AssistantLine,
    Line,
    Metadata,
    Summary,
    UserLine,
    dump_object,
    line_fields,
    parse_line,
)

MAX_CHAT_BYTES = 64 * 1024 * 1024
MAX_CHAT_LINES = 100_000
MAX_LINE_BYTES = 8 * 1024 * 1024
MAX_MESSAGE_CHARACTERS = 1_000_000
_BOM = b"\xef\xbb\xbf"
_HEADER = ("user_name", "character_name", "create_date", "chat_metadata")
_UNNAMED = ("", "unused")
"""What stands in a header that leaves the names to the messages."""
_LINE_CODES = {
    "too_large": "chat_line_too_large",
    "too_deep": "chat_line_too_deep",
    "not_utf8": "chat_line_not_utf8",
    "not_json": "chat_line_not_json",
}


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat's header, if it has one, and its messages, all as they stand in the file."""

    header: Raw | None
    messages: tuple[Raw, ...]

    @property
    def character_name(self) -> str:
        """What the character is called; blank where nobody says it."""
        return self._name("character_name", is_user=False)

    @property
    def user_name(self) -> str:
        """What the person is called; blank where nobody says it."""
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
    def created_at(self) -> str:
        """When it was begun, or its first message sent; blank where nobody says it."""
        told = [(self.header or {}).get("create_date"), *(one.get("send_date") for one in self.messages[:1])]
        return next((time for time in map(time_of, told) if time), "")


# --- reading


def read_chat(raw: Iterable[bytes] | BinaryIO) -> Chat:
    """Read a chat line by line; a line that cannot be read is named by its number."""
    header: Raw | None = None
    messages: list[Raw] = []
    size = 0
    pieces = _pieces(cast("BinaryIO", raw)) if isinstance(raw, io.IOBase) else raw
    for number, piece in enumerate(pieces, start=1):
        size += len(piece)
        if size > MAX_CHAT_BYTES:
            raise BadRecord("chat_too_large", limit=MAX_CHAT_BYTES)
        if number > MAX_CHAT_LINES:
            raise BadRecord("chat_too_many_lines", limit=MAX_CHAT_LINES)
        text = piece.removeprefix(_BOM) if number == 1 else piece
        if not text.strip():
            continue
        data = _object_in(text, number)
        if header is None and not messages and _is_header(data):
            header = data
        else:
            messages.append(_checked(data, number))
    if header is None and not messages:
        raise BadRecord("chat_empty")
    return Chat(header, tuple(messages))


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    """Read lines of a file, none further than it takes to see that it is too long."""
    while piece := file.readline(MAX_LINE_BYTES + 1):
        yield piece


def _object_in(text: bytes, number: int) -> dict[str, Any]:
    try:
        return object_at(load_json(text.rstrip(b"\r\n"), limit=MAX_LINE_BYTES), "")
    except BadRecord as error:
        code = _LINE_CODES.get(error.code)
        if code is None:
            raise BadRecord("chat_line_no_object", line=number) from error
        raise BadRecord(code, line=number, **error.params) from error


def _is_header(data: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(data, dict) and "mes" not in data and any(name in data for name in _HEADER)


def _checked(data: Raw, number: int) -> Raw:
    text = spoken(data.get("mes"))
    if text is None:
        raise BadRecord("chat_field_wrong", line=number, field="mes", reason="it is not a text")
    if len(text) > MAX_MESSAGE_CHARACTERS:
        reason = f"it has {len(text)} characters, more than {MAX_MESSAGE_CHARACTERS}"
        raise BadRecord("chat_field_wrong", line=number, field="mes", reason=reason)
    return data


# --- a chat as a session


def lines_of(chat: Chat, instance_id: str, session_id: str, now: str) -> list[Line]:
    """Make the lines of a session of a chat; ``now`` is when it begins, where the chat does not say it."""
    metadata = Metadata(instance_id, session_id, chat.created_at or now)
    header, mark = unmarked(chat.header or {}, "chat_metadata")
    if mark is None:
        kept = None if chat.header is None else dict(chat.header)
        metadata = replace(metadata, extra={FOREIGN: kept})
        return [metadata, *_told(chat, None)]
    match mark.get("names"):
        case [str(character), str(player)]:
            names = (character, player)
        case _:
            names = (chat.character_name, chat.user_name)
    return [_begun(metadata, header, mark), *_told(chat, names), *_carried(mark.get("after"))]


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
    elif added := added_to({}, header, "chat_metadata", _HEADER):
        extra[ADDED] = added
    continued = was.continued_from if at_home else None
    return replace(metadata, created_at=was.created_at, continued_from=continued, extra=extra)


def _carried(rows: object) -> Iterator[Line]:
    """Read lines that a mark carries as they stood in the file."""
    for row in cast("list[object]", rows) if isinstance(rows, list) else []:
        if isinstance(row, dict):
            try:
                yield parse_line(dump_object(cast("dict[str, Any]", row)))
            except ValueError:
                continue  # someone changed it there; what is said is unharmed


def _told(chat: Chat, names: tuple[str, str] | None) -> Iterator[Line]:
    """Give the lines of the messages; with names, those of the messages we made, marks are heeded."""
    numbering = Numbering()
    for given in chat.messages:
        message, lines = dict(given), None
        if names is not None:
            message, mark = unmarked(given, "extra")
            if mark is not None:
                yield from _carried(mark.get("before"))
                lines = _restored(message, mark, names)
        for line in lines if lines is not None else [_foreign_line(message, numbering)]:
            numbering.take(line)
            yield line


def _foreign_line(message: Raw, numbering: Numbering) -> Line:
    if message.get("is_system"):
        return hidden_line(message)
    text, when = spoken(message["mes"]) or "", time_of(message.get("send_date"))
    extra = {FOREIGN: kept_of(message)}
    if message.get("is_user"):
        return UserLine(text, numbering.said(), when, extra)
    return AssistantLine(text, numbering.replied(), when, extra=extra)


def _restored(message: Raw, mark: Raw, names: tuple[str, str]) -> list[Line] | None:
    """Make the lines of a message again by its mark; ``None`` if it is to be read like any other."""
    if "lines" not in mark:
        return None
    if mark.get("theirs"):
        lines = lines_from(mark["lines"], {"mes": message["mes"]})
        if lines is None or message.get("is_system"):
            return None
        return [*lines[:-1], _with_extra(lines[-1], FOREIGN, kept_of(message))]
    lines = lines_from(mark["lines"], message)
    if lines is None:
        return None
    made = made_of(lines, *names, "") or {}
    if message.get("is_system") and not made.get("is_system"):
        return None
    added = added_to(made, message, "extra")
    return [*lines[:-1], _with_extra(lines[-1], ADDED, added)] if added else lines


def _with_extra(line: Line, name: str, value: object) -> Line:
    fields = {**line_fields(line), name: value}
    return parse_line(dump_object(fields))


# --- a session as a chat


def chat_of(lines: Sequence[Line], character: str, player: str) -> list[dict[str, Any]]:
    """Make the lines of a chat of a session: the header, then the messages."""
    return _as_it_came(lines) or _marked_chat(lines, character, player)


def _as_it_came(lines: Sequence[Line]) -> list[dict[str, Any]] | None:
    """Give a session back as the chat it came from, if it still is no more than that."""
    first = lines[0] if lines else None
    if not isinstance(first, Metadata) or set(first.extra) != {FOREIGN}:
        return None
    header: object = first.extra[FOREIGN]
    messages = [foreign_message(line) for line in lines[1:]]
    whole = [message for message in messages if message is not None]
    if len(whole) < len(messages) or not (header is None or _is_header(header)):
        return None
    chat = Chat(header, tuple(whole))
    again = lines_of(chat, first.instance_id, first.session_id, first.created_at)
    if [_bare(line) for line in again] != [_bare(line) for line in lines]:
        return None
    return [dict(one) for one in (chat.header, *chat.messages) if one is not None]


def _bare(line: Line) -> Line:
    """Leave out what an edited text changes in what is kept."""
    if isinstance(line, UserLine | AssistantLine):
        return replace(line, extra={name: value for name, value in line.extra.items() if name != FOREIGN})
    return line


def _marked_chat(lines: Sequence[Line], character: str, player: str) -> list[dict[str, Any]]:
    metadata = next((line for line in lines if isinstance(line, Metadata)), None)
    when = metadata.created_at if metadata else ""
    messages: list[dict[str, Any]] = []
    before: list[dict[str, Any]] = []
    for group in _groups([line for line in lines if line is not metadata]):
        found = _message_and_mark(group, character, player, when)
        if found is None:
            before += [line_fields(line) for line in group]
            continue
        message, mark = found
        messages.append(marked(message, {**mark, "before": before} if before else mark, "extra"))
        before = []
        last = group[-1]
        when = (last.timestamp if isinstance(last, UserLine | AssistantLine) else "") or when
    return [_header_of(metadata, before, character, player), *messages]


def _groups(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Put the replies of one turn together: they are swipes of one message."""
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
    group: Sequence[Line], character: str, player: str, when: str
) -> tuple[dict[str, Any], dict[str, Any]] | None:
    last, mark = group[-1], {"format": FORMAT}
    message = foreign_message(last)
    if message is not None:
        if message.get("is_system"):
            return message, mark
        if not isinstance(last, UserLine | AssistantLine):
            return None
        return message, {**mark, "theirs": True, "lines": rows_of([last], without=FOREIGN)}
    made = made_of(group, character, player, when)
    if made is None:
        return None
    extra: Raw = last.extra if isinstance(last, UserLine | AssistantLine | Summary) else {}
    message = with_added(made, extra.get(ADDED), "extra")
    rows = rows_of(group, without=ADDED if message else None)
    return message or made, {**mark, "lines": rows}


def _header_of(
    metadata: Metadata | None, after: Sequence[Raw], character: str, player: str
) -> dict[str, Any]:
    header: dict[str, Any] = {
        "user_name": player,
        "character_name": character,
        "create_date": begun_at(metadata.created_at if metadata else ""),
        "chat_metadata": {},
    }
    whose, fields = "ours", line_fields(metadata) if metadata else {}
    extra: Raw = metadata.extra if metadata else {}
    if _is_header(theirs := extra.get(FOREIGN)):
        whose, header = "theirs", dict(theirs)
    elif FOREIGN in extra and extra[FOREIGN] is None:
        whose = "none"
    elif (more := with_added(header, extra.get(ADDED), "chat_metadata", _HEADER)) is not None:
        header = more
        del fields[ADDED]
    if whose != "ours":
        del fields[FOREIGN]
    mark: dict[str, Any] = {
        "format": FORMAT,
        "header": whose,
        "names": [character, player],
        "metadata": fields,
    }
    return marked(header, {**mark, "after": list(after)} if after else mark, "chat_metadata")
