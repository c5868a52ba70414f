"""Occurrences of a book's keys in a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from personalab.story.lore_index import KeyIndex
from personalab.story.lore_matching import Allowance, Heard, PatternKey, Trouble


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

    def hear(self, numbers: Iterable[int], ago: int) -> list[int]:
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
class _Asked:
    """How far texts were searched for a pattern, and what came of it."""

    tried: int
    found: int | None = None
    trouble: Trouble | None = None

    def look(self, key: PatternKey, texts: Sequence[Heard], end: int, allowance: Allowance) -> None:
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

    def __init__(self, heard: Sequence[Heard], allowance: Allowance) -> None:
        self.calling: list[Heard] = []
        """What entered, round by round."""
        self._heard = heard
        self._allowance = allowance
        self._asked: dict[tuple[PatternKey, int], _Asked] = {}
        self._called: dict[PatternKey, _Asked] = {}

    def first(self, key: PatternKey, start: int, end: int) -> int | Trouble | None:
        """Return the first message from ``start`` to ``end`` in which a pattern matches, or why that is unknown."""
        asked = self._asked.setdefault((key, start), _Asked(start))
        asked.look(key, self._heard, end, self._allowance)
        if asked.found is not None and asked.found < end:
            return asked.found
        return asked.trouble

    def called(self, key: PatternKey) -> bool:
        """Return whether a pattern matches in the entries that were added."""
        asked = self._called.setdefault(key, _Asked(0))
        asked.look(key, self.calling, len(self.calling), self._allowance)
        return asked.found is not None
