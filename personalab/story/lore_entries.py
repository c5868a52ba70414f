"""Records of lorebooks and their entries, and of entries that were activated."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from personalab.story.lore_decorators import Decorators, Position, split_decorators
from personalab.story.lore_index import KeyIndex, Rules
from personalab.story.macros import without_notes

Logic = Literal["and_any", "not_all", "not_any", "and_all"]
Why = Literal["constant", "decorator", "key", "kept", "recursion", "pattern", "search"]
"""``pattern``: it has one that cannot be used, and is told of for that alone; ``search``: it is no entry, but tells
that not all of its book was searched."""
LeftOut = Literal[
    "", "budget", "book_budget", "duplicate", "empty", "group", "pattern_wrong", "pattern_slow", "search_slow"
]
MAX_DEPTH = 1_000
"""No key is looked for further back."""
_MAX_FILLED_KEY = 10_000
"""A key that grows longer by the names in it is none."""
_REMEMBERED_NAMES = 4
_PLACEHOLDER = re.compile(r"\{\{|<(?:bot|user|char)>", re.IGNORECASE)
_HIDDEN = re.compile(r"\{\{\s*hidden_key\s*:([^{}]*)\}\}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LoreEntry:
    """One entry, as its author wrote it; decorators are at the beginning of its content."""

    entry_id: str
    content: str
    keys: tuple[str, ...] = ()
    secondary_keys: tuple[str, ...] = ()
    name: str = ""
    enabled: bool = True
    constant: bool = False
    selective: bool = False
    logic: Logic = "and_any"
    order: float = 100
    priority: float | None = None
    position: Position = "before_char"
    case_sensitive: bool = False
    whole_words: bool = False
    use_regex: bool = False
    """Whether keys are patterns even where they are not written as ``/pattern/flags``."""
    scan_depth: int | None = None
    probability: float = 100
    exclude_recursion: bool = False
    """Other entries cannot call it up."""
    prevent_recursion: bool = False
    """It calls up no others."""
    delay_until_recursion: int = 0
    """It waits for entries that call up others; the lower levels come first."""
    delay: int = 0
    """Number of messages that must exist before the entry can be activated."""
    groups: tuple[str, ...] = ()
    """Groups of which only one entry is in a prompt."""
    group_override: bool = False
    """It is chosen before others of its groups."""
    group_weight: float = 100


@dataclass(frozen=True, slots=True)
class PreparedEntry:
    """An entry ready for the search: its wishes read, its text without them."""

    entry: LoreEntry
    wishes: Decorators
    text: str
    hidden: str
    """What its text shows to the search alone."""

    @property
    def scan_depth(self) -> int | None:
        """How far back its keys are looked for, where it says so itself."""
        wished = self.wishes.scan_depth
        own = self.entry.scan_depth if wished is None else wished
        return None if own is None else min(own, MAX_DEPTH)

    @property
    def always(self) -> bool:
        """Whether it needs no key."""
        return self.wishes.activate or (self.entry.constant and not self.wishes.dont_activate)

    @property
    def rules(self) -> Rules:
        """How its keys are matched."""
        return self.entry.case_sensitive, self.entry.whole_words, self.entry.use_regex

    @property
    def is_selective(self) -> bool:
        """Whether its secondary keys are required."""
        entry = self.entry
        return bool(entry.selective and entry.secondary_keys) and not (entry.constant or entry.use_regex)

    @property
    def stays(self) -> bool:
        """Whether it is there for good once its key occurred."""
        return self.wishes.keep_activate_after_match and not self.always

    @property
    def remembers(self) -> bool:
        """Whether it matters what was said long ago."""
        return self.stays or self.wishes.dont_activate_after_match


@dataclass(frozen=True, slots=True)
class Lorebook:
    """A book; what can be worked out before anything is said is worked out once, when it is made."""

    name: str
    entries: tuple[LoreEntry, ...]
    scan_depth: int | None = None
    token_budget: int | None = None
    recursive: bool | None = None
    prepared: tuple[PreparedEntry, ...] = field(init=False, repr=False, compare=False)
    """The entries that can be called up at all, in the book's order."""
    index: KeyIndex = field(init=False, repr=False, compare=False)
    """The keys that have no placeholder in them."""
    named: NamedKeys = field(init=False, repr=False, compare=False)
    """Those that have."""
    always: tuple[int, ...] = field(init=False, repr=False, compare=False)
    kept: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """Those that stay once they were called."""
    deepest: int = field(init=False, repr=False, compare=False)
    """How many messages an entry wants searched that says so itself."""
    far: int = field(init=False, repr=False, compare=False)
    """How many messages have to be known at all."""
    levels: frozenset[int] = field(init=False, repr=False, compare=False)
    costs: dict[tuple[Callable[[str], int], str], int] = field(init=False, repr=False, compare=False)
    """Tokens that were counted already."""

    def __post_init__(self) -> None:
        prepared = tuple(_prepared(entry) for entry in self.entries if entry.enabled)
        index = KeyIndex()
        named: list[tuple[int, str, bool]] = []
        for place, one in enumerate(prepared):
            for key, calls in _asked(one):
                if _PLACEHOLDER.search(key):
                    named.append((place, key, calls))
                elif (number := index.ask(key, one.rules)) is not None and calls:
                    index.own(number, place, key)
        deepest = max((one.scan_depth or 0 for one in prepared), default=0)
        places = range(len(prepared))
        values: dict[str, object] = {
            "prepared": prepared,
            "index": index.close(),
            "named": NamedKeys([(place, key, calls, prepared[place].rules) for place, key, calls in named]),
            "always": tuple(place for place in places if prepared[place].always),
            "kept": tuple(place for place in places if prepared[place].stays),
            "deepest": deepest,
            "far": MAX_DEPTH if any(one.remembers for one in prepared) else deepest,
            "levels": frozenset(one.entry.delay_until_recursion for one in prepared) - {0},
            "costs": {},
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)


def _asked(one: PreparedEntry) -> Iterable[tuple[str, bool]]:
    """Yield all keys of an entry, and whether each activates it alone."""
    for key in one.entry.keys:
        yield key, not one.always
    entry, wishes = one.entry, one.wishes
    if one.is_selective:
        yield from ((key, False) for key in entry.secondary_keys)
    yield from ((key, False) for group in wishes.additional_keys for key in group)
    yield from ((key, False) for key in wishes.exclude_keys)


class NamedKeys:
    """Keys with placeholders in them; they are filled once for each pair of names."""

    def __init__(self, keys: Sequence[tuple[int, str, bool, Rules]]) -> None:
        self._keys = keys
        self._known: dict[Hashable, KeyIndex] = {}
        self._lock = threading.Lock()

    def filled(self, fill: Callable[[str], str]) -> KeyIndex | None:
        """Return the keys as they are for these names; there is nothing to give where no key has a placeholder."""
        if not self._keys:
            return None
        names = _names(fill)
        known = self._known.get(names)
        if known is None:
            known = self._made(fill)
            with self._lock:
                while len(self._known) >= _REMEMBERED_NAMES:
                    self._known.pop(next(iter(self._known)))
                self._known[names] = known
        return known

    def _made(self, fill: Callable[[str], str]) -> KeyIndex:
        index = KeyIndex()
        for place, key, calls, rules in self._keys:
            filled = fill(key)
            if len(filled) > _MAX_FILLED_KEY:
                continue
            number = index.ask(key, rules, filled)
            if number is not None and calls:
                index.own(number, place, key)
        return index.close()


def _names(fill: Callable[[str], str]) -> Hashable:
    """Return what a filling depends on: for a method its object, because methods are new objects each turn."""
    owner: object = getattr(fill, "__self__", None)
    if owner is None or type(owner).__hash__ in (None, object.__hash__):
        return fill
    return (type(owner), owner, getattr(fill, "__name__", ""))


def _prepared(entry: LoreEntry) -> PreparedEntry:
    wishes, text = split_decorators(entry.content)
    hidden = "\n".join(_HIDDEN.findall(text)) if "{{" in text else ""
    return PreparedEntry(entry, wishes, _HIDDEN.sub("", text) if hidden else text, hidden)


def shown_text(prepared: PreparedEntry, fill: Callable[[str], str]) -> str:
    """Return the part of an entry that a prompt may contain, with the names filled in."""
    text = without_notes(prepared.text).strip()
    # A note that is left out may have stood before a decorator; a name never is one.
    if text.startswith("@@"):
        text = split_decorators(text)[1]
    return fill(text).strip()


@dataclass(frozen=True, slots=True)
class LoreHit:
    """An entry that was activated: why, what it costs, and whether it is in the prompt."""

    book: str
    entry: str
    name: str
    position: Position
    order: float
    why: Why
    key: str | None = None
    ago: int | None = None
    """How many messages ago the key occurred; 0 is the newest."""
    caller: str | None = None
    """The entry whose content called it up."""
    tokens: int = 0
    shown: bool = True
    left_out: LeftOut = ""
    content: str = field(default="", repr=False)

    def fields(self) -> dict[str, Any]:
        """Return its JSON object; what does not apply is left away."""
        told: dict[str, Any] = {
            "book": self.book,
            "entry": self.entry,
            "name": self.name,
            "position": self.position,
            "order": self.order,
            "tokens": self.tokens,
            "why": self.why,
            "key": self.key,
            "ago": self.ago,
            "caller": self.caller,
            "shown": self.shown,
            "left_out": self.left_out or None,
        }
        return {name: value for name, value in told.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Lore:
    """The lorebook texts before and after the character in a prompt, and why they are there."""

    before: str = ""
    after: str = ""
    hits: tuple[LoreHit, ...] = ()


NO_LORE = Lore()
