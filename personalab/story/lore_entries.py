"""Records of lorebooks, their entries with the decorators in front of the text, and entries that were activated.

A line ``@@name value`` is a decorator, ``@@@name value`` is the fallback for the one above it where that is
not known (character cards V3). None of them ever reaches a prompt. Known are those that can be computed from
the conversation and its length: ``activate``, ``dont_activate``, ``activate_only_after``,
``activate_only_every``, ``keep_activate_after_match``, ``dont_activate_after_match``, ``scan_depth``,
``depth`` (as before or after the character, because nothing is inserted between messages), ``position``
(``before_desc``, ``after_desc``), ``is_greeting``, ``additional_keys``, ``exclude_keys`` and
``ignore_on_max_context``. Unknown, and ignored: ``role``, ``instruct_depth``, ``reverse_depth``,
``reverse_instruct_depth``, ``instruct_scan_depth``, ``is_user_icon``, ``disable_ui_prompt`` and any that are
specific to a program.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from personalab.story.lore_index import KeyIndex, Rules
from personalab.story.macros import without_notes

# --- decorators


Position = Literal["before_char", "after_char"]


@dataclass(frozen=True, slots=True)
class Decorators:
    """What an author wishes of one entry."""

    activate: bool = False
    dont_activate: bool = False
    activate_only_after: int | None = None
    activate_only_every: int | None = None
    keep_activate_after_match: bool = False
    dont_activate_after_match: bool = False
    scan_depth: int | None = None
    depth: int | None = None
    position: Position | None = None
    is_greeting: int | None = None
    additional_keys: tuple[tuple[str, ...], ...] = ()
    """Of each group one key has to occur."""
    exclude_keys: tuple[str, ...] = ()
    ignore_on_max_context: bool = False

    @property
    def keys(self) -> int:
        """How many keys it names."""
        return sum(map(len, self.additional_keys)) + len(self.exclude_keys)


NO_DECORATORS = Decorators()
_MAX_LINES = 200
"""Maximum decorators of an entry that count; later ones are removed as well."""
_MAX_KEYS = 1_000
"""A line names no more keys."""
_POSITIONS: dict[str, Position] = {"before_desc": "before_char", "after_desc": "after_char"}


def split_decorators(content: str) -> tuple[Decorators, str]:
    """Take the decorators off the head of a text; blank lines between and after them go, too."""
    if not content.lstrip().startswith("@@"):
        return NO_DECORATORS, content
    found = NO_DECORATORS
    named: set[str] = set()
    known = True
    counted = 0
    lines = content.split("\n")
    for place, line in enumerate(lines):
        written = line.strip()
        if not written:
            continue
        if not written.startswith("@@"):
            return found, "\n".join(lines[place:])
        counted += 1
        if counted > _MAX_LINES or (written.startswith("@@@") and known):
            continue
        name, _, value = written.lstrip("@").partition(" ")
        wish = _read(name, value.strip(), found)
        known = wish is not None
        if wish is not None and (name not in named or name == "additional_keys"):
            named.add(name)
            found = replace(found, **wish)
    return found, ""


def _read(name: str, value: str, found: Decorators) -> dict[str, Any] | None:
    reader = _READERS.get(name)
    read = reader(value) if reader else None
    if read is None:
        return None
    if name == "additional_keys":
        return {name: (*found.additional_keys, read)}
    return {name: read}


def _yes(value: str) -> bool | None:
    return None if value.lower() == "false" else True


def _number(value: str) -> int | None:
    return int(value) if value.isascii() and value.isdecimal() and len(value) < 10 else None


def _period(value: str) -> int | None:
    return _number(value) or None


def _keys(value: str) -> tuple[str, ...] | None:
    return tuple(key for part in value.split(",", _MAX_KEYS)[:_MAX_KEYS] if (key := part.strip())) or None


_READERS: dict[str, Callable[[str], object]] = {
    "activate": _yes,
    "dont_activate": _yes,
    "activate_only_after": _number,
    "activate_only_every": _period,
    "keep_activate_after_match": _yes,
    "dont_activate_after_match": _yes,
    "scan_depth": _number,
    "depth": _number,
    "position": _POSITIONS.get,
    "is_greeting": _number,
    "additional_keys": _keys,
    "exclude_keys": _keys,
    "ignore_on_max_context": _yes,
}


# --- entries


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
    decorators: Decorators
    text: str
    hidden: str
    """What its text shows to the search alone."""

    @property
    def scan_depth(self) -> int | None:
        """How far back its keys are looked for, where it says so itself."""
        wished = self.decorators.scan_depth
        own = self.entry.scan_depth if wished is None else wished
        return None if own is None else min(own, MAX_DEPTH)

    @property
    def always(self) -> bool:
        """Whether it needs no key."""
        return self.decorators.activate or (self.entry.constant and not self.decorators.dont_activate)

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
        return self.decorators.keep_activate_after_match and not self.always

    @property
    def remembers(self) -> bool:
        """Whether it matters what was said long ago."""
        return self.stays or self.decorators.dont_activate_after_match


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
            for key, calls in _reported(one):
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


def _reported(one: PreparedEntry) -> Iterable[tuple[str, bool]]:
    """Yield all keys of an entry, and whether each activates it alone."""
    for key in one.entry.keys:
        yield key, not one.always
    entry, decorators = one.entry, one.decorators
    if one.is_selective:
        yield from ((key, False) for key in entry.secondary_keys)
    yield from ((key, False) for group in decorators.additional_keys for key in group)
    yield from ((key, False) for key in decorators.exclude_keys)


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
    decorators, text = split_decorators(entry.content)
    hidden = "\n".join(_HIDDEN.findall(text)) if "{{" in text else ""
    return PreparedEntry(entry, decorators, _HIDDEN.sub("", text) if hidden else text, hidden)


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
