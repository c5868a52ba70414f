"""Decorators at the head of a lore entry's text.

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

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

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
