"""Does a key occur in a text, and which of thousands do?

A plain key matches as a part of the text, for Chinese has no word boundaries. A key is a pattern where it is written
``/pattern/flags``, or where its entry says so and it has characters that mean something in a pattern: then only is
there a difference. Patterns are strangers' work, so each has a limit of length and of time, and all of a turn have
one together; one that is wrong or too slow never matches.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import add
from typing import Any, Literal, TypeAlias, cast

Trouble = Literal["", "pattern_wrong", "pattern_slow"]
MAX_PATTERN = 2_000
"""A pattern is not longer."""
PATTERN_SECONDS = 0.02
"""One pattern has no more time for one text."""
PATTERNS_SECONDS = 0.5
"""All patterns of a turn have no more time together."""
_REMEMBERED_TEXTS = 1_024
_SLASHED = re.compile(r"/(.+?)/([gimsuy]*)", re.DOTALL)
_BARE_SLASH = re.compile(r"(?:^|[^\\])/")
_MEANING = frozenset("\\^$.|?*+()[]{}")


class Heard:
    """A text that keys are looked for in; it is folded once, when that is first needed."""

    __slots__ = ("_folded", "raw")

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self._folded: str | None = None

    @property
    def folded(self) -> str:
        """The text with its case folded away."""
        if self._folded is None:
            self._folded = self.raw.casefold()
        return self._folded


@dataclass(slots=True)
class Allowance:
    """The time patterns have left in this turn."""

    seconds: float = PATTERNS_SECONDS


@dataclass(frozen=True, slots=True)
class PlainKey:
    """Words that have to occur as they stand, their case folded unless it counts."""

    text: str
    case_sensitive: bool
    whole: bool

    def found_in(self, heard: Heard, _allowance: Allowance) -> bool:
        """Tell whether the words occur."""
        text = heard.raw if self.case_sensitive else heard.folded
        return _stands_alone(self.text, text) if self.whole else self.text in text


@dataclass(slots=True, eq=False)
class PatternKey:
    """A pattern, compiled when it is first tried; ``trouble`` says why it is tried no more."""

    source: str
    pattern: str
    flags: str
    trouble: Trouble = ""
    search: Callable[..., object] | None = None

    def found_in(self, heard: Heard, allowance: Allowance) -> bool:
        """Tell whether the pattern matches somewhere, as far as there is time to find out."""
        if self.trouble or allowance.seconds <= 0:
            return False
        start = time.perf_counter()
        try:
            if self.search is None:
                self.search = _compiled(self.pattern, self.flags)
            return self.search(heard.raw, timeout=PATTERN_SECONDS) is not None
        except TimeoutError:
            self.trouble = "pattern_slow"
        except (ValueError, OverflowError, RecursionError, MemoryError, LookupError, TypeError):
            self.trouble = "pattern_wrong"
        finally:
            allowance.seconds -= time.perf_counter() - start
        return False


Key: TypeAlias = PlainKey | PatternKey


@lru_cache(maxsize=8_192)
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


def _compiled(pattern: str, flags: str) -> Callable[..., object]:
    """Compile a pattern; JavaScript's flags that say nothing about whether there is a match are passed over."""
    import regex

    library = cast("Any", regex)
    if len(pattern) > MAX_PATTERN:
        raise ValueError("the pattern is too long")
    named = {"i": library.IGNORECASE, "m": library.MULTILINE, "s": library.DOTALL}
    chosen = 0
    for flag in flags:
        chosen |= named.get(flag, 0)
    try:
        return library.compile(pattern, chosen, cache_pattern=False).search
    except library.error as error:
        raise ValueError(str(error)) from error


def _stands_alone(word: str, text: str) -> bool:
    """Tell whether a word occurs that does not go on in latin letters; where its edge is none, anything may follow."""
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        goes_on = end < len(text) and _is_latin(word[-1]) and _is_latin(text[end])
        if not goes_on and not (at and _is_latin(word[0]) and _is_latin(text[at - 1])):
            return True
        at = text.find(word, at + 1)
    return False


def _is_latin(letter: str) -> bool:
    return letter == "_" or ((letter < "\u0250" or "\u1e00" <= letter < "\u1f00") and letter.isalnum())


# --- many keys at once


@dataclass(frozen=True, slots=True)
class OwnedKey:
    """A key and the place of the entry it calls up."""

    owner: int
    written: str
    key: Key


class _Words:
    """Finds which of many words occur in a text.

    A word can only occur where the text has each two neighbouring characters of it. So each word is filed under the
    pair that fewest others have, and is looked for only where the text has that pair.
    """

    def __init__(self, words: Mapping[str, Sequence[int]]) -> None:
        parted = {word: _pairs(word) for word in words}
        common = Counter(pair for pairs in parted.values() for pair in pairs)
        self._filed: dict[str, list[tuple[str, Sequence[int]]]] = {}
        for word, numbers in words.items():
            rarest = min(parted[word], key=common.__getitem__)
            self._filed.setdefault(rarest, []).append((word, numbers))
        self._files = frozenset(self._filed)
        self._single = any(len(pair) == 1 for pair in self._files)

    def found_in(self, text: str) -> Iterator[int]:
        """Give the numbers of the words that occur."""
        if not self._files:
            return
        present = set(map(add, text, text[1:]))
        if self._single:
            present.update(text)
        for pair in self._files & present:
            for word, numbers in self._filed[pair]:
                if word in text:
                    yield from numbers


def _pairs(word: str) -> list[str]:
    """Give the neighbours at the head of a word; a single character stands for itself."""
    head = word[:16]
    return list(map(add, head, head[1:])) or [word]


@dataclass(slots=True)
class Found:
    """Which keys of a book occur in a text, and which patterns there was no time for."""

    keys: tuple[OwnedKey, ...]
    untried: tuple[OwnedKey, ...] = field(default=())


class KeyIndex:
    """Finds all keys of a book that occur in a text; a text is searched once."""

    def __init__(self, keys: Iterable[OwnedKey]) -> None:
        self._keys = tuple(keys)
        folded: dict[str, list[int]] = {}
        exact: dict[str, list[int]] = {}
        for number, owned in enumerate(self._keys):
            if isinstance(owned.key, PlainKey):
                side = exact if owned.key.case_sensitive else folded
                side.setdefault(owned.key.text, []).append(number)
        self._folded, self._exact = _Words(folded), _Words(exact)
        self.patterns = tuple(owned for owned in self._keys if isinstance(owned.key, PatternKey))
        self._known: dict[str, Found] = {}
        self._keeping = threading.Lock()

    def found_in(self, heard: Heard, allowance: Allowance) -> Found:
        """Find the keys that occur, in the book's order."""
        known = self._known.get(heard.raw)
        if known is not None:
            return known
        numbers = [*self._folded.found_in(heard.folded), *self._exact.found_in(heard.raw)]
        plain = [self._keys[number] for number in sorted(numbers)]
        keys = [owned for owned in plain if owned.key.found_in(heard, allowance)]
        untried: list[OwnedKey] = []
        for owned in self.patterns:
            if allowance.seconds <= 0:
                untried.append(owned)
            elif owned.key.found_in(heard, allowance):
                keys.append(owned)
        found = Found(tuple(keys), tuple(untried))
        if not untried:
            self._keep(heard.raw, found)
        return found

    def _keep(self, text: str, found: Found) -> None:
        with self._keeping:
            while len(self._known) >= _REMEMBERED_TEXTS:
                self._known.pop(next(iter(self._known)))
            self._known[text] = found
