"""Translation of untrusted JavaScript patterns, with a check of their size.

Authors write patterns for JavaScript. Syntax with a different meaning here, or none, is rewritten; syntax
that JavaScript does not have is refused where it could hide the size of a pattern. The library expands
repetitions as often as they must occur, without a limit of its own: a dozen characters could fill the memory.
The size is therefore computed beforehand, from the very tokens that are then compiled.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from personalab.errors import Invalid

MAX_PATTERN = 2_000
"""A pattern is not longer."""
MAX_SIZE = 4_000
"""It does not grow to more pieces than this when its repetitions are built."""
MAX_NESTED = 100
"""Maximum nesting of its groups."""
MAX_STRIKES = 3
"""Number of times a pattern may be slow on a short text before it is disabled."""
_KEPT_SIZE = 300_000
"""Maximum size of all cached patterns together."""
_LEAST_SIZE = 20
_HEX = "[0-9a-fA-F]"
_ESCAPE = (
    r"\\(?:"
    rf"u[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}}|u\{{{_HEX}{{1,8}}\}}|u{_HEX}{{4}}|x{_HEX}{{2}}"
    r"|[pP]\{[\w=:^ -]{1,60}\}|k<\w{1,60}>|c[A-Za-z]|[0-9]{1,3}|.)"
)
_TOKEN = re.compile(
    rf"(?P<escape>{_ESCAPE})"
    r"|(?P<set>\[\^?(?:\\.|[^\]\\])*\])"
    r"|(?P<note>\(\?\#[^)]*\))"
    r"|(?P<flags>\(\?[imsu]+\))"
    r"|(?P<again>\(\?P=\w{1,60}\))"
    r"|(?P<open>\((?:(?!\?)|\?(?:[:=!>]|<[=!]|P?<\w{1,60}>|[ims]+(?:-[ims]+)?:|-[ims]+:)))"
    r"|(?P<close>\))"
    r"|(?P<branch>\|)"
    r"|(?P<count>(?:[*+?]|\{(?:(?P<least>\d+)(?:,\d*)?|,\d+)\})[?+]?)"
    r"|(?P<plain>.)",
    re.DOTALL,
)
_IN_SET = re.compile(rf"{_ESCAPE}|.", re.DOTALL)


def translated(pattern: str) -> tuple[str, int]:
    """Return a pattern as the library here reads it, and its size; one that is too large is a ``ValueError``."""
    if len(pattern) > MAX_PATTERN:
        raise Invalid("pattern_too_long")
    written: list[str] = []
    size = _Size()
    for token in _TOKEN.finditer(pattern):
        kind, text = token.lastgroup or "", token[0]
        if kind == "least":
            kind = "count"
        written.append(_rewritten(kind, text))
        size.add(kind, text, token["least"])
    return "".join(written), size.whole()


class _Size:
    """How many pieces a pattern has, worked out token by token."""

    def __init__(self) -> None:
        self._around: list[int] = []
        self._here = 0
        self._last: int | None = None
        """The size of what a repetition would repeat."""

    def add(self, kind: str, text: str, least: str | None) -> None:
        """Take the next token."""
        if kind in ("flags", "note"):
            return
        if kind == "open":
            self._around.append(self._here)
            self._here, self._last = 2, None
            if len(self._around) > MAX_NESTED:
                raise Invalid("groups_too_deep")
        elif kind == "close":
            self._grow(self._left_group())
        elif kind == "branch":
            self._here, self._last = self._here + 1, None
        elif kind == "count":
            self._repeat(int(least or text[0] == "+"))
        else:
            self._grow(len(text) if kind == "set" else 1)

    def _left_group(self) -> int:
        if not self._around:
            raise Invalid("group_not_opened")
        inner, self._here = self._here, self._around.pop()
        return inner

    def _grow(self, last: int) -> None:
        self._last = last
        self._here += last
        if self._here > MAX_SIZE:
            raise Invalid("pattern_too_large")

    def _repeat(self, least: int) -> None:
        """Count what is built: each time it has to occur, and once more for the times it may."""
        if self._last is None:
            raise Invalid("nothing_to_repeat")
        self._grow(self._last * least + 1)
        self._last = None

    def whole(self) -> int:
        """Return the size of it all."""
        if self._around:
            raise Invalid("group_not_closed")
        return self._here


def _rewritten(kind: str, text: str) -> str:
    if kind == "escape":
        return _escape(text)
    if kind == "set":
        return _set(text)
    if kind == "note":
        return ""
    if kind != "plain":
        return text
    if text in "[(\\":
        raise Invalid("nothing_before", text=text)
    # A brace that repeats nothing is a mere character; the library would look for inexact matches there.
    return "\\" + text if text in "{}]" else text


def _escape(text: str) -> str:
    kind = text[1]
    if kind == "u" and len(text) == 12:
        high, low = int(text[2:6], 16), int(text[8:12], 16)
        return f"\\U{0x10000 + ((high - 0xD800) << 10) + low - 0xDC00:08x}"
    if kind == "u" and text[2:3] == "{":
        return f"\\U{int(text[3:-1], 16):08x}"
    if kind == "k" and len(text) > 2:
        return f"(?P={text[3:-1]})"
    if kind == "c" and len(text) > 2:
        return f"\\x{ord(text[2]) % 32:02x}"
    if kind in "gkLNQ":
        raise Invalid("not_known", text=text)
    return text


def _set(text: str) -> str:
    """Write a set so that nothing in it is more than a character; JavaScript knows empty ones."""
    if text == "[^]":
        return r"[\s\S]"
    if text == "[]":
        return "(?!)"
    head = "[^" if text[1] == "^" else "["
    pieces = _IN_SET.findall(text[len(head) : -1])
    return head + "".join(_member(piece) for piece in pieces) + "]"


def _member(piece: str) -> str:
    if len(piece) > 1:
        return _escape(piece)
    return "\\" + piece if piece in "[&|~" else piece


# --- ready to be tried


@dataclass(slots=True, eq=False)
class Ready:
    """A pattern that was compiled, or could not be."""

    search: Callable[..., object] | None
    size: int = _LEAST_SIZE
    strikes: int = 0

    @property
    def is_slow(self) -> bool:
        """Whether it was slow on short texts so often that it is tried no more."""
        return self.strikes >= MAX_STRIKES


@dataclass(slots=True)
class _PatternCache:
    """Patterns that were used last; those of all books together have a limit, for each may be large."""

    size: int = 0
    patterns: dict[tuple[str, str], Ready] = field(default_factory=dict[tuple[str, str], Ready])
    lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, pattern: str, flags: str) -> Ready:
        asked = (pattern, flags)
        with self.lock:
            ready = self.patterns.pop(asked, None)
            if ready is not None:
                self.patterns[asked] = ready
                return ready
        ready = _made_ready(pattern, flags)
        with self.lock:
            if asked in self.patterns:
                return self.patterns[asked]
            self.patterns[asked] = ready
            self.size += ready.size
            while self.size > _KEPT_SIZE:
                self.size -= self.patterns.pop(next(iter(self.patterns))).size
        return ready


_kept = _PatternCache()


def ready(pattern: str, flags: str) -> Ready:
    """Compile a pattern, or give it as it was compiled before; one that is wrong has no ``search``."""
    return _kept.get(pattern, flags)


def _made_ready(pattern: str, flags: str) -> Ready:
    try:
        written, size = translated(pattern)
        return Ready(_compiled(written, flags), _LEAST_SIZE + size)
    except (ValueError, OverflowError, RecursionError, MemoryError, LookupError, TypeError):
        return Ready(None)


def _compiled(pattern: str, flags: str) -> Callable[..., object]:
    """Compile a pattern; JavaScript's flags that say nothing about whether there is a match are passed over."""
    import regex

    library = cast("Any", regex)
    named = {"i": library.IGNORECASE, "m": library.MULTILINE, "s": library.DOTALL}
    chosen = library.VERSION0
    for flag in flags:
        chosen |= named.get(flag, 0)
    try:
        return library.compile(pattern, chosen, cache_pattern=False).search
    except library.error as error:
        raise ValueError(str(error)) from error
