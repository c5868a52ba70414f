"""Which entries do the messages call up, and which do those entries call up in turn?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from personalab.config import LoreModule
from personalab.story.lore_chance import losers, thrown
from personalab.story.lore_entries import MAX_DEPTH, LeftOut, Lorebook, Prepared, Why, key_rules, shown_text
from personalab.story.lore_matching import Allowance, Heard, Key, PatternKey, read_key

MAX_ROUNDS = 8
"""So often entries may call up others."""
MAX_CALLING = 200_000
"""So many characters of entries are searched for keys of others."""
MAX_TROUBLES = 20
"""So many patterns that cannot be used are told of."""


@dataclass(frozen=True, slots=True)
class Situation:
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
class Call:
    """Why an entry is called up."""

    why: Why
    key: str | None = None
    ago: int | None = None
    caller: str | None = None


@dataclass(frozen=True, slots=True)
class Called:
    """An entry that was called up, with its text as it would stand in the prompt."""

    book: int
    place: int
    one: Prepared
    call: Call
    text: str
    lost: bool = False
    """Whether another of its group stands for it."""


@dataclass(frozen=True, slots=True)
class BadKey:
    """A pattern that cannot be used, and whose it is."""

    book: int
    one: Prepared
    key: str
    reason: LeftOut


@dataclass(slots=True)
class _Open:
    """A book while it is searched."""

    number: int
    book: Lorebook
    depth: int
    recursive: bool
    calls: dict[int, Call] = field(default_factory=dict[int, Call])
    done: set[int] = field(default_factory=set[int])

    def depth_of(self, one: Prepared) -> int:
        """Say how many messages are searched for an entry."""
        own = one.scan_depth
        return self.depth if own is None else own


class Scan:
    """One search: a first round over the messages, then rounds over what entered."""

    def __init__(self, books: Sequence[Lorebook], situation: Situation) -> None:
        self._at = situation
        self._allowance = Allowance()
        self._calling: list[Heard] = []
        self._left = MAX_CALLING
        self._groups: set[str] = set()
        self._tested: dict[tuple[Key, Heard], bool] = {}
        self._bad: dict[tuple[int, int, str], BadKey] = {}
        module = situation.module
        self._open = [
            _Open(
                number,
                book,
                min(module.scan_depth if book.scan_depth is None else book.scan_depth, MAX_DEPTH),
                module.recursive if book.recursive is None else book.recursive,
            )
            for number, book in enumerate(books)
        ]
        far = max((max(opened.depth, opened.book.far) for opened in self._open), default=0)
        newest = situation.said[-min(far, MAX_DEPTH) :] if far else ()
        self._heard = [Heard(text) for text in reversed(newest)]
        self._levels = sorted({level for book in books for level in book.levels})
        self._level = self._levels.pop(0) if self._levels else 0

    @property
    def bad_keys(self) -> list[BadKey]:
        """The patterns that could not be used, some of them where they are many."""
        for opened in self._open:
            for owned in opened.book.index.patterns:
                if isinstance(owned.key, PatternKey) and owned.key.trouble:
                    self._tell(opened, opened.book.prepared[owned.owner], owned.key, owned.written)
        return list(self._bad.values())[:MAX_TROUBLES]

    def first(self) -> list[Called]:
        """Give what the messages call up, and what is always there."""
        for book in self._open:
            self._hear(book)
        return self._parted([called for book in self._open for called in self._judged(book, recursing=False)])

    def after(self, entered: Sequence[Called]) -> list[Called] | None:
        """Give what those that entered call up; nothing more can come where there is no list."""
        callers = [called for called in entered if not called.one.entry.prevent_recursion]
        if not any(book.recursive for book in self._open):
            return None
        if not callers or self._left <= 0:
            if not self._levels:
                return None
            self._level = self._levels.pop(0)
        said: list[str] = []
        for called in callers:
            text = f"{called.text}\n{called.one.hidden}" if called.one.hidden else called.text
            text = text[: max(self._left, 0)]
            self._left -= len(text)
            said.append(text)
            heard = Heard(text)
            for book in self._open:
                if book.recursive:
                    self._call(book, heard, called)
        self._calling.append(Heard("\n".join(said)))
        recursive = [book for book in self._open if book.recursive]
        return self._parted([called for book in recursive for called in self._judged(book, recursing=True)])

    # --- who is called

    def _hear(self, opened: _Open) -> None:
        book = opened.book
        window = self._heard[: max(opened.depth, book.deepest)]
        for ago, heard in enumerate(window):
            for owner, written in self._found(opened, heard):
                if ago < opened.depth_of(book.prepared[owner]):
                    opened.calls.setdefault(owner, Call("key", written, ago))
        for owner, written in book.filled:
            if owner in opened.calls:
                continue
            one = book.prepared[owner]
            ago = self._first(opened, one, [written], self._heard[: opened.depth_of(one)])
            if ago is not None:
                opened.calls[owner] = Call("key", written, ago)
        for owner in book.kept:
            one = book.prepared[owner]
            if owner in opened.calls or not opened.depth_of(one):
                continue
            firsts = [(self._first(opened, one, [key], self._heard), key) for key in one.entry.keys]
            heard = [(ago, key) for ago, key in firsts if ago is not None]
            if heard:
                ago, key = min(heard)
                opened.calls[owner] = Call("kept", key, ago)

    def _call(self, opened: _Open, heard: Heard, caller: Called) -> None:
        found = list(self._found(opened, heard))
        for owner, written in opened.book.filled:
            one = opened.book.prepared[owner]
            if owner not in opened.calls and self._first(opened, one, [written], [heard]) is not None:
                found.append((owner, written))
        for owner, written in found:
            if owner not in opened.calls:
                entry = caller.one.entry
                opened.calls[owner] = Call("recursion", written, caller=entry.name or entry.entry_id)

    def _found(self, opened: _Open, heard: Heard) -> Iterator[tuple[int, str]]:
        found = opened.book.index.found_in(heard, self._allowance)
        for owned in found.untried[:MAX_TROUBLES]:
            if isinstance(owned.key, PatternKey):
                self._tell(opened, opened.book.prepared[owned.owner], owned.key, owned.written)
        return ((owned.owner, owned.written) for owned in found.keys)

    def _tell(self, opened: _Open, one: Prepared, key: PatternKey, written: str) -> None:
        told = BadKey(opened.number, one, written, key.trouble or "pattern_slow")
        self._bad.setdefault((opened.number, id(one), written), told)

    # --- who may come

    def _judged(self, opened: _Open, *, recursing: bool) -> Iterator[Called]:
        waiting = {*opened.calls, *opened.book.always} - opened.done
        for place in sorted(waiting):
            one = opened.book.prepared[place]
            if self._waits(one, recursing) or not self._allowed(opened, one):
                continue
            opened.done.add(place)
            if not self._lucky(opened.book.name, one):
                continue
            call = opened.calls.get(place) or Call("decorator" if one.wishes.activate else "constant")
            yield Called(opened.number, place, one, call, shown_text(one, self._at.fill))

    def _waits(self, one: Prepared, recursing: bool) -> bool:
        entry = one.entry
        if not recursing:
            return entry.delay_until_recursion > 0
        return entry.exclude_recursion or entry.delay_until_recursion > self._level

    def _allowed(self, opened: _Open, one: Prepared) -> bool:
        wishes, entry = one.wishes, one.entry
        if wishes.activate:
            return True
        if wishes.dont_activate or len(self._at.said) < entry.delay:
            return False
        if wishes.activate_only_after is not None and self._at.replies < wishes.activate_only_after:
            return False
        if wishes.activate_only_every and self._at.replies % wishes.activate_only_every:
            return False
        if self._at.greeting is not None and wishes.is_greeting not in (None, self._at.greeting):
            return False
        # The last exchange is what the first turn after it hears for the first time.
        if wishes.dont_activate_after_match and self._any(opened, one, entry.keys, self._heard[2:]):
            return False
        return self._fits(opened, one)

    def _fits(self, opened: _Open, one: Prepared) -> bool:
        """Tell whether the keys beside the first ones are there, or are missing, as they should be."""
        wishes, entry = one.wishes, one.entry
        selective = entry.selective and entry.secondary_keys and not (entry.constant or entry.use_regex)
        if not selective and not wishes.additional_keys and not wishes.exclude_keys:
            return True
        texts = [*self._heard[: opened.depth_of(one)], *(self._calling if opened.recursive else ())]
        if any(not self._any(opened, one, group, texts) for group in wishes.additional_keys):
            return False
        if not entry.use_regex and self._any(opened, one, wishes.exclude_keys, texts):
            return False
        if not selective:
            return True
        found = [self._any(opened, one, [key], texts) for key in entry.secondary_keys]
        judged = {"and_any": any(found), "and_all": all(found), "not_any": not any(found)}
        return judged.get(entry.logic, not all(found))

    def _any(self, opened: _Open, one: Prepared, keys: Iterable[str], texts: Sequence[Heard]) -> bool:
        return self._first(opened, one, keys, texts) is not None

    def _first(self, opened: _Open, one: Prepared, keys: Iterable[str], texts: Sequence[Heard]) -> int | None:
        """Say in which text one of the keys occurs first."""
        read = [read_key(self._at.fill(key), *key_rules(one.entry)) for key in keys]
        for place, heard in enumerate(texts):
            if any(key is not None and self._occurs(key, heard) for key in read):
                return place
        for key in read:
            if isinstance(key, PatternKey) and (key.trouble or self._allowance.seconds <= 0):
                self._tell(opened, one, key, key.source)
        return None

    def _occurs(self, key: Key, heard: Heard) -> bool:
        """Look for a key in a text once, however many rounds ask."""
        pair = (key, heard)
        if pair not in self._tested:
            self._tested[pair] = key.found_in(heard, self._allowance)
        return self._tested[pair]

    def _lucky(self, book: str, one: Prepared) -> bool:
        chance = one.entry.probability
        return chance >= 100 or thrown(book, one.entry.entry_id, self._at.turn) * 100 < chance

    def _parted(self, called: list[Called]) -> list[Called]:
        """Mark those that yield to another of their group."""
        if not any(one.one.entry.groups for one in called):
            return called
        named = [(self._open[one.book].book.name, one.one.entry) for one in called]
        lost = losers(named, self._groups, self._at.turn)
        return [replace(one, lost=place in lost) for place, one in enumerate(called)]
