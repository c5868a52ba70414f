"""The place in a streamed reply where a model begins to write the player's lines."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_LONGEST_NAME = 64
_MOST_BLANKS = 256
"""Blank characters that are held back at most."""
_OPENING = r"[ \t\u3000>*_“\"「『（(\[【]{0,8}"
_CLOSING = r"[ \t\u3000*_\]】）)」』”\"]{0,8}"
_BRACKET = r"[ \t\u3000]{0,8}[（(\[【]"
_ACTS = r"(?<![A-Za-z])(?![的们])\w"
"""What follows a Chinese word that is not a part of a longer one, nor a possessor."""
_NOTHING = r"(?!)"
_MANNER = r"[（(][^）)\n]{0,40}"
"""How the words are said: "User (quietly): …"."""


class PlayerLines:
    """Finds a line of the player, wherever the stream is cut: it begins with "NAME:" or "(NAME)".

    A player without a name of their own is called by a plain word. A line that begins with "（玩家点头" is theirs, too;
    with a real name, or in English ("(User interface …"), it may be something else. The first line of a reply is never
    taken for one: a reply that has nothing else is better than none.
    """

    def __init__(self, names: Iterable[str], words: Iterable[str] = ()) -> None:
        self._line, self._beginning = _patterns(_sorted(names), _sorted(words))
        self._held = ""
        """The blank lines at the end of the text so far, and the beginning of a line that may be the player's."""
        self._has_begun = False
        """Whether anything but blanks has come."""
        self.found = False

    def feed(self, text: str) -> str:
        """Return what the next piece adds to the reply: nothing once a player's line has begun."""
        if self.found:
            return ""
        if not self._has_begun:
            blanks = len(text) - len(text.lstrip())
            self._has_begun = blanks < len(text)
            return text[:blanks] + self.feed(text[blanks:]) if self._has_begun else text
        if not self._held and "\n" not in text:
            return text
        text, self._held = self._held + text, ""
        if match := self._line.search(text):
            self.found = True
            return text[: _first_break(text, match.start())]
        last = text.rfind("\n")
        if self._beginning.fullmatch(text, last + 1) is None:
            return text
        shown = max(_first_break(text, last), last - _MOST_BLANKS)
        self._held = text[shown:]
        return text[:shown]

    def flush(self) -> str:
        """Return what was held back, at the end of the stream."""
        held, self._held = self._held, ""
        return held


def _first_break(text: str, last: int) -> int:
    """Return where the blank lines begin that end with the line break at ``last``."""
    words = len(text[:last].rstrip())
    return text.index("\n", words)


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    """Return names that can be looked for, the longest first."""
    found = {name for name in names if name.strip() and len(name) <= _LONGEST_NAME}
    return tuple(sorted(found, key=lambda name: (-len(name), name)))


@lru_cache(maxsize=256)
def _patterns(names: tuple[str, ...], words: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return what a player's line begins with, and what may still become such a beginning."""
    everyone = (*names, *words)
    label = f"{_OPENING}{_any_of(everyone)}{_CLOSING}"
    line = (
        rf"\n(?:{label}(?:{_MANNER}[）)]{_CLOSING})?[:：]"
        rf"|{_BRACKET}{_any_of(everyone)}[）)\]】]"
        rf"|{_BRACKET}{_any_of(words)}{_ACTS})"
    )
    beginning = (
        rf"{_OPENING}(?:{'|'.join(map(_prefixes, everyone)) or _NOTHING})?"
        rf"|{label}(?:{_MANNER}(?:[）)]{_CLOSING})?)?"
    )
    return re.compile(line, re.IGNORECASE), re.compile(beginning, re.IGNORECASE)


def _any_of(names: tuple[str, ...]) -> str:
    return f"(?:{'|'.join(map(re.escape, names)) or _NOTHING})"


def _prefixes(name: str) -> str:
    """Return a pattern of the name's beginnings."""
    pattern = ""
    for character in reversed(name):
        pattern = f"{re.escape(character)}(?:{pattern})?" if pattern else re.escape(character)
    return pattern
