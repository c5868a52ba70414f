"""The line of a reply, which grows in its file token by token and is valid JSON all the time.

The line is ``{"role":"assistant","content":"…","turn":42,"timestamp":"…"}``. What follows the content is its
tail. A token is written over the old tail together with a new tail, in one positioned write: O(1) a token, and
the file is whole after each. What the model thinks grows at the end of the tail, as the field ``reasoning``. The
line end comes when the line is closed, so a last line without one was never closed. ``recover`` reads what a torn
write left.
"""

from __future__ import annotations

import json
import re
from json.encoder import encode_basestring
from os import pwrite

from personalab.data_files import cut_file, write_error
from personalab.reasoning import separate_reasoning
from personalab.story.transcript import REPLY_FLAGS, AssistantLine, encode_text

REPLY_OPENING = b'{"role":"assistant","content":"'
_REASONING = b',"reasoning":"'
_END, _REASONING_END = b"}", b'"}'
_SHORT = 4
"""So many characters are never longer than the tail before the reasoning: a torn write of them leaves no reasoning
in the content."""


class ReplyLine:
    """The reply that is being written at the end of a session file.

    ``fd`` must not be in append mode: there a positioned write ignores its position.
    """

    __slots__ = ("_at", "_content", "_fd", "_has_reasoning", "_shown", "_start", "_tail", "characters")

    def __init__(self, fd: int, start: int, turn: int, timestamp: str, shown: str = "the session") -> None:
        self._fd = fd
        self._shown = shown
        self._start = start
        self._content = start + len(REPLY_OPENING)
        self._at = self._content
        self._tail = bytearray(b'","turn":%d,"timestamp":"%s"}' % (turn, encode_text(timestamp)))
        self._has_reasoning = False
        self.characters = 0
        self._put(start, REPLY_OPENING + self._tail)

    def write(self, text: str) -> int:
        """Add a token and return how many characters stood before it; it is in the file when this returns."""
        if self._has_reasoning and len(text) > _SHORT:
            before = self.characters
            for start in range(0, len(text), _SHORT):
                self.write(text[start : start + _SHORT])
            return before
        data = encode_basestring(text)[1:-1].encode("utf-8", "backslashreplace")
        blob = data + self._tail
        at = self._at
        try:
            written = pwrite(self._fd, blob, at)
        except OSError as error:
            raise write_error(error, self._shown) from error
        if written != len(blob):
            self._put(at, blob)
        self._at = at + len(data)
        before = self.characters
        self.characters = before + len(text)
        return before

    def think(self, text: str) -> None:
        """Add to the reasoning; it is in the file when this returns."""
        data = encode_text(text) + _REASONING_END
        if not self._has_reasoning:
            data = _REASONING + data
        kept = len(self._tail) - len(_REASONING_END if self._has_reasoning else _END)
        self._put(self._at + kept, data)
        self._tail[kept:] = data
        self._has_reasoning = True

    def drop_reasoning(self) -> None:
        """Take the reasoning back; the line is whole before and after."""
        if not self._has_reasoning:
            return
        at = self._tail.index(_REASONING)
        del self._tail[at:]
        self._tail += _END
        self._has_reasoning = False
        self._put(self._at + at, _END)
        cut_file(self._fd, self.end)

    def close(self, *flags: str) -> int:
        """Write the flags and the line end; return where the file ends now."""
        named = b"".join(b',"%s":true' % name.encode() for name in flags)
        ending = bytes(self._tail[:-1]) + named + b"}\n"
        self._put(self._at, ending)
        end = self._at + len(ending)
        cut_file(self._fd, end)
        return end

    def restart(self, text: str) -> None:
        """Replace the whole content: an empty reply is stored as a note that it is empty."""
        self._at = self._content
        self.characters = 0
        self.write(text)
        cut_file(self._fd, self.end)

    @property
    def end(self) -> int:
        """Where the file ends while the line is open."""
        return self._at + len(self._tail)

    def _put(self, at: int, blob: bytes) -> None:
        """Write all of a blob; when the disk is full, put the old tail back so that the line stays whole."""
        written = 0
        try:
            while written < len(blob):
                written += pwrite(self._fd, blob[written:], at + written)
        except OSError as error:
            if at == self._start:
                cut_file(self._fd, self._start)
            else:
                pwrite(self._fd, self._tail, self._at)
                cut_file(self._fd, self._at + len(self._tail))
            raise write_error(error, self._shown) from error


_LEAD = b'","turn":0,"timestamp":"'
_TAIL = re.compile(
    rb'","turn":(\d+),"timestamp":"([0-9TZ:.+-]*)"(?:,"(?:%s)":true)*\}\n?' % "|".join(REPLY_FLAGS).encode()
)
_LONGEST_TAIL = 160
_STRING_BODY = re.compile(rb'(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')


def recover(raw: bytes, turn: int) -> AssistantLine | None:
    """Read what a torn write left of a reply's line; ``None`` if it is not such a line.

    A torn write leaves the new bytes up to some place and after it nothing, zeros, or what stood there before:
    the end of the old tail. ``turn`` is used where the tail is gone.
    """
    raw = raw.rstrip(b"\x00")
    if not raw.startswith(REPLY_OPENING):
        return None
    # Inside a JSON string every quote is escaped, so these bytes are the field and nothing else.
    head, is_there, reasoning = raw.partition(_REASONING)
    if is_there:
        raw = head + _END
    body, turn, timestamp = _cut_tail(raw[len(REPLY_OPENING) :], turn)
    thoughts, content = separate_reasoning(_string(body), _string(reasoning))
    return AssistantLine(content, turn, timestamp, interrupted=True, closed=False, reasoning=thoughts)


def _string(body: bytes) -> str:
    """Read the inside of a JSON string up to its end, or to where it was torn."""
    inside = _STRING_BODY.match(body)
    return json.loads(b'"' + _whole_utf8(inside[0] if inside else b"") + b'"')


def _cut_tail(body: bytes, turn: int) -> tuple[bytes, int, str]:
    """Cut off the longest end that is the end of a tail, whole or begun in its middle."""
    for length in range(min(len(body), _LONGEST_TAIL), 1, -1):
        kept, ending = body[:-length], body[-length:]
        if (len(kept) - len(kept.rstrip(b"\\"))) % 2:
            continue
        if whole := _TAIL.fullmatch(ending):
            return kept, int(whole[1]), whole[2].decode()
        for missing in range(1, len(_LEAD) + 1):
            if part := _TAIL.fullmatch(_LEAD[:missing] + ending):
                return kept, turn, part[2].decode() if missing < len(_LEAD) else ""
    return body, turn, ""


def _whole_utf8(data: bytes) -> bytes:
    """Drop a character that was cut off at the end."""
    return data.decode("utf-8", "ignore").encode("utf-8")
