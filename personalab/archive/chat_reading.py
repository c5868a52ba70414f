"""Reading of SillyTavern chats: header, participants and messages.

A chat may be several times larger than the memory, so its messages are read from the file on each iteration.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, BinaryIO, TypeGuard, cast

from personalab.archive.chat_messages import Raw, speaker_of, spoken, unmarked
from personalab.archive.chat_times import time_of
from personalab.archive.loading import load_json, object_at
from personalab.errors import BadRecord, Reason
from personalab.story.records import is_id

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
