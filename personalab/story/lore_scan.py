"""The scan of a lorebook: entries activated by messages, then entries activated by those entries.

Chance is deterministic: the same for every reader of a turn.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from personalab.config import LoreModule
from personalab.story.lore_entries import MAX_DEPTH, LeftOut, Lorebook, LoreEntry, PreparedEntry, Why
from personalab.story.lore_index import MAX_TOLD, Occurrences, Patterns
from personalab.story.lore_matching import Allowance, PatternKey, SearchText, Trouble

# --- chance


def pseudo_random(book: str, entry_id: str, turn: int, what: str = "") -> float:
    """Throw the die of an entry: a number from 0 to below 1 that depends on the turn alone."""
    named = "\n".join((book, entry_id, str(turn), what)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(named, digest_size=6).digest(), "big") / 2**48


def group_losers(called: Sequence[tuple[str, LoreEntry]], taken: set[str], turn: int) -> set[int]:
    """Return the entries, given with their books, that lose to another of their group; ``taken`` groups have a winner.

    Of a group one entry stands: the one of the highest order among those that insist, else one that is drawn by weight.
    """
    groups: dict[str, list[int]] = {}
    for place, (_, entry) in enumerate(called):
        for group in entry.groups:
            groups.setdefault(group, []).append(place)
    lost: set[int] = set()
    for group, places in sorted(groups.items()):
        left = [place for place in places if place not in lost]
        if group in taken:
            lost.update(left)
        elif left:
            taken.add(group)
            winner = _winner(called, left, turn, group)
            lost.update(place for place in left if place != winner)
    return lost


def _winner(called: Sequence[tuple[str, LoreEntry]], places: Sequence[int], turn: int, group: str) -> int:
    insisting = [place for place in places if called[place][1].group_override]
    if insisting:
        return max(insisting, key=lambda place: called[place][1].order)
    return min(places, key=lambda place: _arrival(*called[place], turn, group))


def _arrival(book: str, entry: LoreEntry, turn: int, group: str) -> float:
    """Return an entry's arrival time, which depends on its weight alone; the earliest wins."""
    if entry.group_weight <= 0:
        return math.inf
    return -math.log(1 - pseudo_random(book, entry.entry_id, turn, group)) / entry.group_weight


# --- the scan


MAX_ROUNDS = 8
"""Maximum rounds in which entries activate other entries."""
MAX_CALLING = 200_000
"""Maximum characters of entries searched for keys of others."""
MAX_SAID = 1_000_000
"""Maximum characters of messages searched."""


@dataclass(frozen=True, slots=True)
class LoreQuery:
    """What entries are looked up for."""

    said: Sequence[str]
    module: LoreModule
    turn: int
    fill: Callable[[str], str]
    greeting: int | None

    @property
    def replies(self) -> int:
        """How often the character has spoken: every second message, one of them perhaps before the first turn."""
        return max(self.turn - 1, len(self.said) // 2)


@dataclass(frozen=True, slots=True)
class LoreTrigger:
    """Why an entry is called up."""

    why: Why
    key: str | None = None
    ago: int | None = None
    caller: str | None = None


@dataclass(frozen=True, slots=True)
class Activation:
    """An entry that was called up."""

    book: int
    place: int
    one: PreparedEntry
    call: LoreTrigger
    lost: bool = False
    """Whether another entry of its group takes its place."""


@dataclass(frozen=True, slots=True)
class BadKey:
    """A pattern that cannot be used, and whose it is."""

    book: int
    one: PreparedEntry
    key: str
    reason: LeftOut


@dataclass(slots=True)
class _Open:
    """A book while it is searched."""

    number: int
    book: Lorebook
    depth: int
    recursive: bool
    sides: list[Occurrences]
    """Where its keys occur: those without placeholders, then those with."""
    calls: dict[int, LoreTrigger] = field(default_factory=dict[int, LoreTrigger])
    done: set[int] = field(default_factory=set[int])
    is_whole: bool = True
    """Whether there was time to search all that was said for all its keys."""

    def depth_of(self, one: PreparedEntry) -> int:
        """Return the number of messages that are searched for an entry."""
        own = one.scan_depth
        return self.depth if own is None else own

    @property
    def near(self) -> int:
        """How many messages are searched for keys that call."""
        return max(self.depth, self.book.deepest)


class LoreScan:
    """One search: a first round over the messages, then rounds over what entered."""

    def __init__(
        self, books: Sequence[Lorebook], situation: LoreQuery, allowance: Allowance | None = None
    ) -> None:
        self._query = situation
        self._allowance = Allowance() if allowance is None else allowance
        self._left = MAX_CALLING
        self._groups: set[str] = set()
        self._bad: dict[tuple[int, int, str], BadKey] = {}
        self._open = [self._opened(number, book) for number, book in enumerate(books)]
        far = max((max(opened.depth, opened.book.far) for opened in self._open), default=0)
        self._messages = self._newest(min(far, MAX_DEPTH))
        self._patterns = Patterns(self._messages, self._allowance)
        self._levels = sorted({level for book in books for level in book.levels})
        self._level = self._levels.pop(0) if self._levels else 0

    def _opened(self, number: int, book: Lorebook) -> _Open:
        module = self._query.module
        named = book.named.filled(self._query.fill)
        return _Open(
            number,
            book,
            min(module.scan_depth if book.scan_depth is None else book.scan_depth, MAX_DEPTH),
            module.recursive if book.recursive is None else book.recursive,
            [Occurrences(index) for index in (book.index, named) if index is not None],
        )

    def _newest(self, messages: int) -> list[SearchText]:
        """Return the newest messages, the newest first, as far as they are not too much to be searched."""
        left = MAX_SAID
        heard: list[SearchText] = []
        for text in reversed(self._query.said[-messages:] if messages else ()):
            heard.append(SearchText(text[:left]))
            left -= len(text)
            if left < 0:
                for opened in self._open:
                    opened.is_whole = False
                break
        return heard

    @property
    def bad_keys(self) -> list[BadKey]:
        """The patterns that could not be used, some of them where they are many."""
        return list(self._bad.values())[:MAX_TOLD]

    @property
    def unfinished(self) -> list[int]:
        """The books that there was no time to search wholly."""
        return [opened.number for opened in self._open if not opened.is_whole]

    def first(self) -> list[Activation]:
        """Return the entries that the messages activate, and the constant ones."""
        with self._allowance:
            for book in self._open:
                self._search_messages(book)
            called = [called for book in self._open for called in self._activated(book, recursing=False)]
        return self._one_per_group(called)

    def after(self, entered: Sequence[tuple[Activation, str]]) -> list[Activation] | None:
        """Return what the newly added entries, with their texts, activate; ``None`` if nothing more can follow."""
        callers = [(called, text) for called, text in entered if not called.one.entry.prevent_recursion]
        recursive = [book for book in self._open if book.recursive]
        if not recursive:
            return None
        if not callers or self._left <= 0:
            if not self._levels:
                return None
            self._level = self._levels.pop(0)
        with self._allowance:
            said: list[str] = []
            for called, shown in callers:
                text = f"{shown}\n{called.one.hidden}" if called.one.hidden else shown
                text = text[: max(self._left, 0)]
                self._left -= len(text)
                said.append(text)
                heard = SearchText(text)
                for book in recursive:
                    self._call(book, heard, called)
            self._patterns.calling.append(SearchText("\n".join(said)))
            called = [called for book in recursive for called in self._activated(book, recursing=True)]
        return self._one_per_group(called)

    # --- who is called

    def _search_messages(self, opened: _Open) -> None:
        book = opened.book
        window = self._messages[: max(opened.near, book.far)]
        for ago, heard in enumerate(window):
            for side in opened.sides:
                for owner, written in self._entries_named_in(opened, side, heard, ago):
                    if ago < opened.depth_of(book.prepared[owner]):
                        opened.calls.setdefault(owner, LoreTrigger("key", written, ago))
        for owner in book.kept:
            one = book.prepared[owner]
            if owner in opened.calls or not opened.depth_of(one):
                continue
            firsts = [(self._first(opened, one, key), key) for key in one.entry.keys]
            heard = [(ago, key) for ago, key in firsts if ago is not None]
            if heard:
                ago, key = min(heard)
                opened.calls[owner] = LoreTrigger("kept", key, ago)

    def _entries_named_in(
        self, opened: _Open, side: Occurrences, heard: SearchText, ago: int
    ) -> list[tuple[int, str]]:
        """Return the entries that a message activates by keys that no newer message has."""
        fresh = side.add_message(self._plain(opened, side, heard), ago)
        if ago < opened.near:
            fresh += side.add_message(self._matched(opened, side, heard), ago)
        return side.called_by(fresh)

    def _call(self, opened: _Open, heard: SearchText, caller: Activation) -> None:
        entry = caller.one.entry
        for side in opened.sides:
            found = (*self._plain(opened, side, heard), *self._matched(opened, side, heard))
            for owner, written in side.called_by(side.call(found)):
                if owner not in opened.calls:
                    opened.calls[owner] = LoreTrigger(
                        "recursion", written, caller=entry.name or entry.entry_id
                    )

    def _plain(self, opened: _Open, side: Occurrences, heard: SearchText) -> tuple[int, ...]:
        found = side.index.plain_in(heard, self._allowance)
        if not found.is_whole:
            opened.is_whole = False
        return found.numbers

    def _matched(self, opened: _Open, side: Occurrences, heard: SearchText) -> tuple[int, ...]:
        found = side.index.patterns_in(heard, self._allowance)
        for number, trouble in found.troubles:
            for owner, written in side.called_by([number]):
                self._report(opened, opened.book.prepared[owner], written, trouble)
        return found.numbers

    def _report(self, opened: _Open, one: PreparedEntry, written: str, trouble: Trouble) -> None:
        if len(self._bad) < MAX_TOLD:
            told = BadKey(opened.number, one, written, trouble)
            self._bad.setdefault((opened.number, id(one), written), told)

    # --- who may come

    def _activated(self, opened: _Open, *, recursing: bool) -> Iterator[Activation]:
        waiting = {*opened.calls, *opened.book.always} - opened.done
        for place in sorted(waiting):
            one = opened.book.prepared[place]
            if self._waits(one, recursing) or not self._allowed(opened, one):
                continue
            opened.done.add(place)
            if not self._passes_probability(opened.book.name, one):
                continue
            call = opened.calls.get(place) or LoreTrigger(
                "decorator" if one.decorators.activate else "constant"
            )
            yield Activation(opened.number, place, one, call)

    def _waits(self, one: PreparedEntry, recursing: bool) -> bool:
        entry = one.entry
        if not recursing:
            return entry.delay_until_recursion > 0
        return entry.exclude_recursion or entry.delay_until_recursion > self._level

    def _allowed(self, opened: _Open, one: PreparedEntry) -> bool:
        decorators, entry = one.decorators, one.entry
        if decorators.activate:
            return True
        if decorators.dont_activate or len(self._query.said) < entry.delay:
            return False
        if (
            decorators.activate_only_after is not None
            and self._query.replies < decorators.activate_only_after
        ):
            return False
        if decorators.activate_only_every and self._query.replies % decorators.activate_only_every:
            return False
        if self._query.greeting is not None and decorators.is_greeting not in (None, self._query.greeting):
            return False
        # The last exchange is what the first turn after it hears for the first time.
        if decorators.dont_activate_after_match and any(
            self._occurred_before(opened, one, key) for key in entry.keys
        ):
            return False
        return self._fits(opened, one)

    def _fits(self, opened: _Open, one: PreparedEntry) -> bool:
        """Return whether the secondary keys are present or missing, as the entry requires."""
        decorators, entry = one.decorators, one.entry
        if not one.is_selective and not decorators.additional_keys and not decorators.exclude_keys:
            return True
        if any(not self._any(opened, one, group) for group in decorators.additional_keys):
            return False
        if not entry.use_regex and self._any(opened, one, decorators.exclude_keys):
            return False
        if not one.is_selective:
            return True
        found = (self._occurs(opened, one, key) for key in entry.secondary_keys)
        if entry.logic in ("and_any", "not_any"):
            return any(found) is (entry.logic == "and_any")
        return all(found) is (entry.logic == "and_all")

    def _any(self, opened: _Open, one: PreparedEntry, keys: Iterable[str]) -> bool:
        return any(self._occurs(opened, one, key) for key in keys)

    def _occurs(self, opened: _Open, one: PreparedEntry, written: str) -> bool:
        """Return whether a key occurs in the messages searched for an entry, or in the entries that were added."""
        for side, number in _numbered(opened, one, written):
            key = side.index.keys[number]
            depth = opened.depth_of(one)
            if isinstance(key, PatternKey):
                found = self._reported(opened, one, written, self._patterns.first(key, 0, depth))
                if found is None and opened.recursive:
                    return self._patterns.called(key)
                return found is not None
            ago = side.newest.get(number)
            return (ago is not None and ago < depth) or (opened.recursive and number in side.called)
        return False

    def _first(self, opened: _Open, one: PreparedEntry, written: str) -> int | None:
        """Return how long ago a key occurred, without a limit."""
        for side, number in _numbered(opened, one, written):
            key = side.index.keys[number]
            if isinstance(key, PatternKey):
                return self._reported(opened, one, written, self._patterns.first(key, 0, MAX_DEPTH))
            return side.newest.get(number)
        return None

    def _occurred_before(self, opened: _Open, one: PreparedEntry, written: str) -> bool:
        """Return whether a key occurred before the last exchange."""
        for side, number in _numbered(opened, one, written):
            key = side.index.keys[number]
            if isinstance(key, PatternKey):
                found = self._patterns.first(key, 2, MAX_DEPTH)
                return self._reported(opened, one, written, found) is not None
            return side.oldest.get(number, 0) >= 2
        return False

    def _reported(
        self, opened: _Open, one: PreparedEntry, written: str, found: int | Trouble | None
    ) -> int | None:
        """Return the answer for a pattern; an undetermined one is reported."""
        if isinstance(found, str):
            self._report(opened, one, written, found)
            return None
        return found

    def _passes_probability(self, book: str, one: PreparedEntry) -> bool:
        chance = one.entry.probability
        return chance >= 100 or pseudo_random(book, one.entry.entry_id, self._query.turn) * 100 < chance

    def _one_per_group(self, called: list[Activation]) -> list[Activation]:
        """Mark those that yield to another of their group."""
        if not any(one.one.entry.groups for one in called):
            return called
        named = [(self._open[one.book].book.name, one.one.entry) for one in called]
        lost = group_losers(named, self._groups, self._query.turn)
        return [replace(one, lost=place in lost) for place, one in enumerate(called)]


def _numbered(opened: _Open, one: PreparedEntry, written: str) -> Iterator[tuple[Occurrences, int]]:
    """Find a key among those of its book."""
    for side in opened.sides:
        number = side.index.number_of(written, one.rules)
        if number is not None:
            yield side, number
