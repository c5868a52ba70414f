"""Matching of keys in a text, and translation of untrusted JavaScript patterns.

A plain key matches as a substring, because Chinese has no word boundaries. A key is a pattern if it is
written ``/pattern/flags``, or if its entry says so and it contains characters with a meaning in patterns:
only then is there a difference. Patterns are untrusted, so each has a limit of size and of time, and all
patterns of a turn share one; an invalid pattern never matches, and one that is too slow for a text does not
match there.

Authors write patterns for JavaScript. Syntax with a different meaning here, or none, is rewritten; syntax
that JavaScript does not have is refused where it could hide the size of a pattern. The library expands
repetitions as often as they must occur, without a limit of its own: a dozen characters could fill the memory.
The size is therefore computed beforehand, from the very tokens that are then compiled.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from operator import add
from types import TracebackType
from typing import Any, Literal, TypeAlias, cast

from personalab.errors import Invalid

# --- patterns


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


# --- keys


Trouble = Literal["pattern_wrong", "pattern_slow"]
PATTERN_SECONDS = 0.02
"""One pattern has no more time for one text."""
PATTERNS_SECONDS = 0.5
"""All patterns of a turn have no more time together."""
SEARCH_SECONDS = 1.0
"""The whole search of a turn has no more."""
SHORT_TEXT = 2_000
"""A pattern that is slow on so few characters is at fault itself."""
_FEW_TRIES = 32
_SLASHED = re.compile(r"/(.+?)/([gimsuy]*)", re.DOTALL)
_BARE_SLASH = re.compile(r"(?:^|[^\\])/")
_MEANING = frozenset("\\^$.|?*+()[]{}")


class SearchText:
    """A text that keys are looked for in; it is folded and taken apart once, when that is first needed."""

    __slots__ = ("_folded", "_pairs", "raw")

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self._folded: str | None = None
        self._pairs: dict[bool, set[str]] = {}

    @property
    def folded(self) -> str:
        """The text with its case folded away."""
        if self._folded is None:
            self._folded = self.raw.casefold()
        return self._folded

    def pairs(self, *, exact: bool) -> set[str]:
        """Return the characters of the text and each two neighbours, with their case or without."""
        found = self._pairs.get(exact)
        if found is None:
            text = self.raw if exact else self.folded
            found = self._pairs[exact] = {*text, *map(add, text, text[1:])}
        return found


@dataclass(slots=True)
class Allowance:
    """The time a turn has left for its search; it runs inside ``with`` only, and while this thread works."""

    patterns: float = PATTERNS_SECONDS
    search: float = SEARCH_SECONDS
    slow: Counter[PatternKey] = field(default_factory=lambda: Counter["PatternKey"]())
    """How often a pattern was too slow in this turn."""
    is_unsure: bool = False
    """Whether a pattern was called slow that another time may find quick."""
    _until: float = math.inf

    def __enter__(self) -> Allowance:
        self._until = time.thread_time() + self.search
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.search = max(self._until - time.thread_time(), 0.0)
        self._until = math.inf

    @property
    def is_over(self) -> bool:
        """Whether the search has to end."""
        return time.thread_time() >= self._until

    @property
    def has_patterns(self) -> bool:
        """Whether there is time for patterns."""
        return self.patterns > 0 and not self.is_over


@dataclass(frozen=True, slots=True)
class PlainKey:
    """Words that must occur verbatim, with their case folded unless it counts."""

    text: str
    case_sensitive: bool
    whole: bool

    def found_in(self, heard: SearchText) -> bool:
        """Return whether the words occur."""
        text = heard.raw if self.case_sensitive else heard.folded
        return stands_alone(self.text, text) if self.whole else self.text in text


@dataclass(frozen=True, slots=True)
class PatternKey:
    """A pattern, compiled when it is first tried."""

    source: str
    pattern: str
    flags: str

    def found_in(self, heard: SearchText, allowance: Allowance) -> bool | Trouble:
        """Return whether the pattern matches somewhere, or why that could not be determined."""
        if allowance.slow[self] >= MAX_STRIKES or not allowance.has_patterns:
            allowance.is_unsure = True
            return "pattern_slow"
        start = time.thread_time()
        try:
            kept = ready(self.pattern, self.flags)
            if kept.search is None:
                return "pattern_wrong"
            if kept.is_slow:
                return "pattern_slow"
            begun = time.thread_time()
            try:
                return kept.search(heard.raw, timeout=PATTERN_SECONDS) is not None
            except TimeoutError:
                allowance.slow[self] += 1
                # A machine that is busy elsewhere makes no pattern a slow one.
                if time.thread_time() - begun < PATTERN_SECONDS / 2:
                    allowance.is_unsure = True
                elif len(heard.raw) <= SHORT_TEXT:
                    kept.strikes += 1
                return "pattern_slow"
            except (RecursionError, MemoryError):
                return "pattern_wrong"
        finally:
            allowance.patterns -= time.thread_time() - start


Key: TypeAlias = PlainKey | PatternKey


def read_key(key: str, case_sensitive: bool, whole: bool, use_regex: bool) -> Key | None:
    """Read a key as its author wrote it; a blank one is none."""
    written = key.strip()
    if not written:
        return None
    slashed = _SLASHED.fullmatch(written) if written[0] == "/" else None
    if slashed and not _BARE_SLASH.search(slashed[1]):
        return PatternKey(written, slashed[1], slashed[2])
    if use_regex and not _MEANING.isdisjoint(written):
        return PatternKey(written, written, "" if case_sensitive else "i")
    text = written if case_sensitive else written.casefold()
    return PlainKey(text, case_sensitive, whole and not any(letter.isspace() for letter in written))


def stands_alone(word: str, text: str) -> bool:
    """Return whether a word occurs without adjoining latin letters; a non-latin edge may adjoin any letter."""
    at = text.find(word)
    for _ in range(_FEW_TRIES):
        if at < 0:
            return False
        end = at + len(word)
        goes_on = end < len(text) and _is_latin(word[-1]) and _is_latin(text[end])
        if not goes_on and not (at and _is_latin(word[0]) and _is_latin(text[at - 1])):
            return True
        at = text.find(word, at + 1)
    return at >= 0 and _alone(word).search(text, at) is not None


@lru_cache(maxsize=256)
def _alone(word: str) -> re.Pattern[str]:
    """Compile an equivalent pattern, which searches a long text many times faster."""
    letter = r"(?:(?=[\0-\u024f\u1e00-\u1eff])\w)"
    before = rf"(?<!{letter})" if _is_latin(word[0]) else ""
    after = rf"(?!{letter})" if _is_latin(word[-1]) else ""
    return re.compile(before + re.escape(word) + after)


def _is_latin(letter: str) -> bool:
    return letter == "_" or ((letter < "\u0250" or "\u1e00" <= letter < "\u1f00") and letter.isalnum())
