"""The index of a book's keys, and where in a conversation they occur.

Each key is looked up once per text, however many entries have it, and a text is searched once, however many
turns contain it. A search that takes too long stops; the part it did not search is reported, and not cached.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add

from personalab.story.lore_matching import (
    Allowance,
    Key,
    PatternKey,
    PlainKey,
    SearchText,
    Trouble,
    read_key,
    stands_alone,
)

# --- the index


Rules = tuple[bool, bool, bool]
"""How keys are matched: by case, as whole words, as patterns."""
MAX_TOLD = 20
"""Maximum number of unusable patterns reported."""
_REMEMBERED_TEXTS = 2_048
_REMEMBERED_WEIGHT = 8_000_000
"""All texts that are remembered have no more characters, and keys in them, together."""
_EDGE = 16
_STEPS = 256
"""Number of short searches between two checks of the clock."""
_LONG_LOOK = 2_048
"""Number of characters processed in the time of one short search."""


@dataclass(frozen=True, slots=True)
class KeyOccurrences:
    """Which keys occur in a text, by their numbers."""

    numbers: tuple[int, ...] = ()
    troubles: tuple[tuple[int, Trouble], ...] = ()
    """Patterns that could not be tried, some of them where they are many."""
    is_whole: bool = True
    """Whether there was time for all plain keys."""


class _Clock:
    """Looks at the time now and then, for that costs more than many a step."""

    def __init__(self, allowance: Allowance, text: str) -> None:
        self._allowance = allowance
        self._step = 1 + len(text) // _LONG_LOOK
        self._steps = 0
        self.is_over = allowance.is_over

    def ticks(self) -> bool:
        """Take a step; tell whether there is time for it."""
        self._steps += self._step
        if self._steps >= _STEPS:
            self._steps = 0
            self.is_over = self._allowance.is_over
        return not self.is_over


class _WordFinder:
    """Finds which of many words occur in a text.

    A word can only occur where the text has each two neighbouring characters of it. So each word is filed under the
    pair that fewest others have, and is looked for only where the text has that pair.
    """

    def __init__(self, words: Mapping[str, Sequence[int]], whole: Mapping[str, Sequence[int]]) -> None:
        common: Counter[str] = Counter()
        both = {**words, **whole}
        for word in both:
            common.update(_pairs(word))
        self._words, self._whole = words, whole
        self._filed: dict[str, list[str]] = {}
        for word in both:
            rarest = min(_pairs(word), key=common.__getitem__)
            self._filed.setdefault(rarest, []).append(word)
        self._files = frozenset(self._filed)

    def found_in(self, heard: SearchText, clock: _Clock, *, exact: bool) -> Iterator[int]:
        """Yield the numbers of the words that occur."""
        if not self._files or clock.is_over:
            return
        text = heard.raw if exact else heard.folded
        for pair in self._files & heard.pairs(exact=exact):
            for word in self._filed[pair]:
                if not clock.ticks():
                    return
                if word not in text:
                    continue
                yield from self._words.get(word, ())
                if word in self._whole and stands_alone(word, text):
                    yield from self._whole[word]


def _pairs(word: str) -> list[str]:
    """Return the character pairs at both ends of a word; for a single character, itself."""
    if len(word) > 2 * _EDGE:
        head, tail = word[:_EDGE], word[-_EDGE:]
        return [*map(add, head, head[1:]), *map(add, tail, tail[1:])]
    return list(map(add, word, word[1:])) or [word]


class _Remembered:
    """What was found in the last texts, as far as they are not too many or too long."""

    def __init__(self) -> None:
        self._known: dict[str, KeyOccurrences] = {}
        self._weight = 0
        self._lock = threading.Lock()

    def get(self, text: str) -> KeyOccurrences | None:
        return self._known.get(text)

    def keep(self, text: str, found: KeyOccurrences) -> None:
        with self._lock:
            if text in self._known:
                return
            self._known[text] = found
            self._weight += _weight(text, found)
            while len(self._known) > _REMEMBERED_TEXTS or self._weight > _REMEMBERED_WEIGHT:
                oldest = next(iter(self._known))
                self._weight -= _weight(oldest, self._known.pop(oldest))


def _weight(text: str, found: KeyOccurrences) -> int:
    return 64 + len(text) + 8 * len(found.numbers)


class KeyIndex:
    """The distinct keys of a book, which entries each of them calls up, and where they occur."""

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.calls: list[tuple[int, str]] = []
        """Whom keys call up, by the place of the entry and as the key was written, in the book's order."""
        self.called: dict[int, list[int]] = {}
        """By the number of a key: which of ``calls`` are its own."""
        self._numbers: dict[Rules, dict[str, int | None]] = {}
        self._known: dict[Key, int] = {}
        self._plain = _Remembered()
        self._matched = _Remembered()

    def ask(self, written: str, rules: Rules, filled: str | None = None) -> int | None:
        """Take up a key; ``filled`` is what is looked for instead of what was written."""
        numbers = self._numbers.setdefault(rules, {})
        if written not in numbers:
            key = read_key(written if filled is None else filled, *rules)
            if key is not None and key not in self._known:
                self._known[key] = len(self.keys)
                self.keys.append(key)
            numbers[written] = None if key is None else self._known[key]
        return numbers[written]

    def own(self, number: int, owner: int, written: str) -> None:
        """Register an entry that a key activates."""
        self.called.setdefault(number, []).append(len(self.calls))
        self.calls.append((owner, written))

    def number_of(self, written: str, rules: Rules) -> int | None:
        """Return the number of a key that was taken up."""
        numbers = self._numbers.get(rules)
        return numbers.get(written) if numbers else None

    def close(self) -> KeyIndex:
        """Make ready for the search, when all keys are taken up."""
        sides: dict[tuple[bool, bool], dict[str, list[int]]] = {}
        for number, key in enumerate(self.keys):
            if isinstance(key, PlainKey):
                side = sides.setdefault((key.case_sensitive, key.whole), {})
                side.setdefault(key.text, []).append(number)
        self._folded = _WordFinder(sides.get((False, False), {}), sides.get((False, True), {}))
        self._exact = _WordFinder(sides.get((True, False), {}), sides.get((True, True), {}))
        self.patterns = tuple(number for number in self.called if isinstance(self.keys[number], PatternKey))
        self._known = {}
        return self

    def plain_in(self, heard: SearchText, allowance: Allowance) -> KeyOccurrences:
        """Find the plain keys that occur."""
        known = self._plain.get(heard.raw)
        if known is not None:
            return known
        clock = _Clock(allowance, heard.raw)
        numbers = [
            *self._folded.found_in(heard, clock, exact=False),
            *self._exact.found_in(heard, clock, exact=True),
        ]
        found = KeyOccurrences(tuple(numbers), is_whole=not clock.is_over)
        if found.is_whole:
            self._plain.keep(heard.raw, found)
        return found

    def patterns_in(self, heard: SearchText, allowance: Allowance) -> KeyOccurrences:
        """Find the patterns that match; only those that call up an entry are tried."""
        known = self._matched.get(heard.raw) if self.patterns else KeyOccurrences()
        if known is not None:
            return known
        numbers: list[int] = []
        troubles: list[tuple[int, Trouble]] = []
        allowance.is_unsure = False
        for number in self.patterns:
            key = self.keys[number]
            found = isinstance(key, PatternKey) and key.found_in(heard, allowance)
            if found is True:
                numbers.append(number)
            elif found and len(troubles) < MAX_TOLD:
                troubles.append((number, found))
            if len(troubles) >= MAX_TOLD and not allowance.has_patterns:
                break
        told = KeyOccurrences(tuple(numbers), tuple(troubles))
        if not allowance.is_unsure:
            self._matched.keep(heard.raw, told)
        return told


# --- occurrences in a conversation


@dataclass(slots=True)
class Occurrences:
    """Where plain keys, and patterns that call, were found so far, by the keys' numbers."""

    index: KeyIndex
    newest: dict[int, int] = field(default_factory=dict[int, int])
    """How many messages ago the newest is that has a key."""
    oldest: dict[int, int] = field(default_factory=dict[int, int])
    """And how many the oldest."""
    called: set[int] = field(default_factory=set[int])
    """The keys that occur in entries."""

    def add_message(self, numbers: Iterable[int], ago: int) -> list[int]:
        """Note the keys of a message, the newest message first; give those that are new."""
        fresh: list[int] = []
        for number in numbers:
            if number not in self.newest:
                self.newest[number] = ago
                fresh.append(number)
            self.oldest[number] = ago
        return fresh

    def call(self, numbers: Iterable[int]) -> list[int]:
        """Note the keys of an entry; give those that no other has."""
        fresh = [number for number in numbers if number not in self.called]
        self.called.update(fresh)
        return fresh

    def called_by(self, numbers: Iterable[int]) -> list[tuple[int, str]]:
        """Return the entries that keys activate, with the keys as written, in the book's order."""
        called = self.index.called
        places = [place for number in numbers for place in called.get(number, ())]
        return [self.index.calls[place] for place in sorted(places)]


@dataclass(slots=True)
class _PatternSearch:
    """How far texts were searched for a pattern, and what came of it."""

    tried: int
    found: int | None = None
    trouble: Trouble | None = None

    def look(self, key: PatternKey, texts: Sequence[SearchText], end: int, allowance: Allowance) -> None:
        """Go on until the pattern is found, or to the end."""
        while self.found is None and self.tried < min(end, len(texts)):
            if not allowance.has_patterns:
                self.trouble = "pattern_slow"
                return
            answer = key.found_in(texts[self.tried], allowance)
            if answer is True:
                self.found = self.tried
            elif answer:
                self.trouble = answer
            self.tried += 1


class Patterns:
    """Patterns that are searched only after an entry was activated; each is tried once on a text."""

    def __init__(self, heard: Sequence[SearchText], allowance: Allowance) -> None:
        self.calling: list[SearchText] = []
        """What entered, round by round."""
        self._messages = heard
        self._allowance = allowance
        self._searches: dict[tuple[PatternKey, int], _PatternSearch] = {}
        self._called: dict[PatternKey, _PatternSearch] = {}

    def first(self, key: PatternKey, start: int, end: int) -> int | Trouble | None:
        """Return the first message from ``start`` to ``end`` in which a pattern matches, or why that is unknown."""
        asked = self._searches.setdefault((key, start), _PatternSearch(start))
        asked.look(key, self._messages, end, self._allowance)
        if asked.found is not None and asked.found < end:
            return asked.found
        return asked.trouble

    def called(self, key: PatternKey) -> bool:
        """Return whether a pattern matches in the entries that were added."""
        asked = self._called.setdefault(key, _PatternSearch(0))
        asked.look(key, self.calling, len(self.calling), self._allowance)
        return asked.found is not None
