"""How does a reply grow in its file, one token after the other, and stay valid JSON all the time?

The line is ``{"role":"assistant","content":"…","turn":42,"timestamp":"…"}``. What follows the content is a
constant tail. A token is written over the old tail together with a new tail, in one positioned write: O(1) a
token, and the file is whole after each. The line end comes when the line is closed, so a last line without
one was never closed. ``recover`` reads what a torn write left.
"""

from __future__ import annotations

import json
import os
import re
from json.encoder import encode_basestring
from os import pwrite

from personalab.story.lines import AssistantLine, encode_text

REPLY_OPENING = b'{"role":"assistant","content":"'


class ReplyLine:
    """The reply that is being written at the end of a session file.

    ``fd`` must not be in append mode: there a positioned write ignores its position.
    """

    __slots__ = ("_at", "_content", "_fd", "_start", "_tail", "characters")

    def __init__(self, fd: int, start: int, turn: int, timestamp: str) -> None:
        self._fd = fd
        self._start = start
        self._content = start + len(REPLY_OPENING)
        self._at = self._content
        self._tail = b'","turn":%d,"timestamp":"%s"}' % (turn, encode_text(timestamp))
        self.characters = 0
        self._put(start, REPLY_OPENING + self._tail)

    def write(self, text: str) -> int:
        """Add a token and return how many characters stood before it; it is in the file when this returns."""
        data = encode_basestring(text)[1:-1].encode("utf-8", "backslashreplace")
        blob = data + self._tail
        at = self._at
        if pwrite(self._fd, blob, at) != len(blob):
            self._put(at, blob)
        self._at = at + len(data)
        before = self.characters
        self.characters = before + len(text)
        return before

    def close(self, *, interrupted: bool = False, empty: bool = False, error: bool = False) -> int:
        """Write the flags and the line end; return where the file ends now."""
        flags = (("interrupted", interrupted), ("empty", empty), ("error", error))
        named = b"".join(b',"%s":true' % name.encode() for name, on in flags if on)
        ending = self._tail[:-1] + named + b"}\n"
        self._put(self._at, ending)
        end = self._at + len(ending)
        os.ftruncate(self._fd, end)
        return end

    def restart(self, text: str) -> None:
        """Replace the whole content: an empty reply is stored as a note that it is empty."""
        self._at = self._content
        self.characters = 0
        self.write(text)
        os.ftruncate(self._fd, self.end)

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
        except OSError:
            if at == self._start:
                os.ftruncate(self._fd, self._start)
            else:
                pwrite(self._fd, self._tail, self._at)
                os.ftruncate(self._fd, self._at + len(self._tail))
            raise


_LEAD = b'","turn":0,"timestamp":"'
_TAIL = re.compile(
    rb'","turn":(\d+),"timestamp":"([0-9TZ:.+-]*)"(?:,"(?:interrupted|empty|error)":true)*\}\n?'
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
    body, turn, timestamp = _cut_tail(raw[len(REPLY_OPENING) :], turn)
    inside = _STRING_BODY.match(body)
    text = json.loads(b'"' + _whole_utf8(inside[0] if inside else b"") + b'"')
    return AssistantLine(text, turn, timestamp, interrupted=True, closed=False)


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
