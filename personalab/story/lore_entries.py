"""What does a lorebook hold, and what is told of an entry that was called up?"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from personalab.story.lore_decorators import Decorators, Position, split_decorators
from personalab.story.lore_matching import KeyIndex, OwnedKey, read_key

Logic = Literal["and_any", "not_all", "not_any", "and_all"]
Why = Literal["constant", "decorator", "key", "kept", "recursion", "pattern"]
"""``pattern``: it has one that cannot be used, and is told of for that alone."""
LeftOut = Literal["", "budget", "book_budget", "duplicate", "empty", "group", "pattern_wrong", "pattern_slow"]
MAX_DEPTH = 1_000
"""No key is looked for further back."""
_PLACEHOLDER = re.compile(r"\{\{|<(?:bot|user|char)>", re.IGNORECASE)
_HIDDEN = re.compile(r"\{\{\s*hidden_key\s*:([^{}]*)\}\}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LoreEntry:
    """One entry, as its author wrote it; decorators stand at the head of its content."""

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
    """So many messages have to be there before it can be called."""
    groups: tuple[str, ...] = ()
    """Of each group only one entry stands in a prompt."""
    group_override: bool = False
    """It is chosen before others of its groups."""
    group_weight: float = 100


@dataclass(frozen=True, slots=True)
class Prepared:
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
    prepared: tuple[Prepared, ...] = field(init=False, repr=False, compare=False)
    """The entries that can be called up at all, in the book's order."""
    index: KeyIndex = field(init=False, repr=False, compare=False)
    always: tuple[int, ...] = field(init=False, repr=False, compare=False)
    filled: tuple[tuple[int, str], ...] = field(init=False, repr=False, compare=False)
    """Keys with placeholders in them, by the place of their entry."""
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
        owned, filled = _keys(prepared)
        deepest = max((one.scan_depth or 0 for one in prepared), default=0)
        places = range(len(prepared))
        values: dict[str, object] = {
            "prepared": prepared,
            "index": KeyIndex(owned),
            "always": tuple(place for place in places if prepared[place].always),
            "filled": tuple(filled),
            "kept": tuple(place for place in places if prepared[place].stays),
            "deepest": deepest,
            "far": MAX_DEPTH if any(one.remembers for one in prepared) else deepest,
            "levels": frozenset(one.entry.delay_until_recursion for one in prepared) - {0},
            "costs": {},
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)


def _keys(prepared: Sequence[Prepared]) -> tuple[list[OwnedKey], list[tuple[int, str]]]:
    owned: list[OwnedKey] = []
    filled: list[tuple[int, str]] = []
    for place, one in enumerate(prepared):
        for key in () if one.always else one.entry.keys:
            if _PLACEHOLDER.search(key):
                filled.append((place, key))
            elif found := read_key(key, *key_rules(one.entry)):
                owned.append(OwnedKey(place, key, found))
    return owned, filled


def key_rules(entry: LoreEntry) -> tuple[bool, bool, bool]:
    """Say how an entry's keys are matched: by case, as whole words, as patterns."""
    return entry.case_sensitive, entry.whole_words, entry.use_regex


def _prepared(entry: LoreEntry) -> Prepared:
    wishes, text = split_decorators(entry.content)
    hidden = "\n".join(_HIDDEN.findall(text)) if "{{" in text else ""
    return Prepared(entry, wishes, _HIDDEN.sub("", text) if hidden else text, hidden)


def shown_text(prepared: Prepared, fill: Callable[[str], str]) -> str:
    """Give what of an entry may stand in a prompt, with the names put in."""
    text = fill(prepared.text).strip()
    # A note that is left out may have stood before a decorator.
    return split_decorators(text)[1].strip() if text.startswith("@@") else text


@dataclass(frozen=True, slots=True)
class LoreHit:
    """An entry that was called up: why, what it costs, and whether it stands in the prompt."""

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
        """Give its JSON object; what does not apply is left away."""
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
    """What of the lorebooks stands before and after the character in a prompt, and why."""

    before: str = ""
    after: str = ""
    hits: tuple[LoreHit, ...] = ()


NO_LORE = Lore()
