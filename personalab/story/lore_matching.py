"""Matching of keys in a text.

A plain key matches as a substring, because Chinese has no word boundaries. A key is a pattern if it is
written ``/pattern/flags``, or if its entry says so and it contains characters with a meaning in patterns:
only then is there a difference. Patterns are untrusted, so each has a limit of size and of time, and all
patterns of a turn share one; an invalid pattern never matches, and one that is too slow for a text does not
match there.
"""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from operator import add
from types import TracebackType
from typing import Literal, TypeAlias

from personalab.story.lore_patterns import MAX_STRIKES, ready

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


class Heard:
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

    def found_in(self, heard: Heard) -> bool:
        """Return whether the words occur."""
        text = heard.raw if self.case_sensitive else heard.folded
        return stands_alone(self.text, text) if self.whole else self.text in text


@dataclass(frozen=True, slots=True)
class PatternKey:
    """A pattern, compiled when it is first tried."""

    source: str
    pattern: str
    flags: str

    def found_in(self, heard: Heard, allowance: Allowance) -> bool | Trouble:
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
