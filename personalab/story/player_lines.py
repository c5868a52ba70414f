"""The place in a streamed reply where a model begins to write the player's lines."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from personalab.story.director import SilentStart, name_prefixes

_LONGEST_NAME = 64
_MOST_BLANKS = 256
"""Blank characters that are held back at most."""
_OPENING = r"[ \t\u3000>*_“\"「『（(\[【<#\-]{0,8}"
_CLOSING = r"[ \t\u3000*_\]】）)」』”\">]{0,8}"
_BRACKET = r"[ \t\u3000]{0,8}[（(\[【]"
_ACTS = r"(?<![A-Za-z])(?![的们])\w"
"""What follows a Chinese word that is not a part of a longer one, nor a possessor."""
_NOTHING = r"(?!)"
_MANNER = r"[（(][^）)\n]{0,40}"
"""How the words are said: "User (quietly): …"."""
TRAINED_LABELS = ("用户", "Human", "Player")
"""What models call the one they answer, in the form in which they learned it: "human: twelve" may be speech."""
_SAYS = ("说", "问", "回答", "says", "asks", "replies")
"""What may stand between a plain word for the player and the colon."""


class PlayerLines:
    """Finds a line of the player, wherever the stream is cut: it begins with "NAME:" or "(NAME)".

    A player without a name of their own is called by a plain word. A line that begins with "（玩家点头" is theirs, too;
    with a real name, or in English ("(User interface …"), it may be something else. "Human:" and the like are what
    models were trained with: such a line is the player's whatever they are called. The first line of a reply that says
    anything is never taken for one: a reply that has nothing else is better than none.
    """

    def __init__(self, names: Iterable[str], words: Iterable[str] = (), character: str = "") -> None:
        labels = tuple(label for label in TRAINED_LABELS if label.lower() != character.lower())
        self._line, self._beginning = _patterns(_sorted(names), _sorted(words), labels)
        self._held = ""
        """The blank lines at the end of the text so far, and the beginning of a line that may be the player's."""
        self._start = SilentStart(character)
        self._rest: list[str] = []
        self.found = False

    def feed(self, text: str) -> str:
        """Return what the next piece adds to the reply: nothing once a player's line has begun."""
        if self.found:
            self._rest.append(text)
            return ""
        if not self._start.has_words:
            text = self._start.feed(text)
            if not self._start.has_words:
                return ""
            silent = self._start.silent
            return text[:silent] + self._feed(text[silent:])
        return self._feed(text)

    def _feed(self, text: str) -> str:
        if not self._held and "\n" not in text:
            return text
        text, self._held = self._held + text, ""
        if match := self._line.search(text):
            self.found = True
            at = _first_break(text, match.start())
            self._rest.append(text[at:])
            return text[:at]
        last = text.rfind("\n")
        if self._beginning.fullmatch(text, last + 1) is None:
            return text
        shown = max(_first_break(text, last), last - _MOST_BLANKS)
        self._held = text[shown:]
        return text[:shown]

    def take_rest(self) -> str:
        """Return what came from the player's line on, since the last time."""
        rest = "".join(self._rest)
        self._rest.clear()
        return rest

    def flush(self) -> str:
        """Return what was held back, at the end of the stream."""
        held, self._held = self._held, ""
        return held if self._start.has_words else self._start.take()


def _first_break(text: str, last: int) -> int:
    """Return where the blank lines begin that end with the line break at ``last``."""
    words = len(text[:last].rstrip())
    return text.index("\n", words)


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    """Return names that can be looked for, the longest first."""
    found = {name for name in names if name.strip() and len(name) <= _LONGEST_NAME}
    return tuple(sorted(found, key=lambda name: (-len(name), name)))


@lru_cache(maxsize=256)
def _patterns(
    names: tuple[str, ...], words: tuple[str, ...], labels: tuple[str, ...]
) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return what a player's line begins with, and what may still become such a beginning."""
    if not (names or words):
        return re.compile(_NOTHING), re.compile(_NOTHING)
    everyone = (*names, *words)
    anyone = f"(?:{_any_of(everyone)}|(?-i:{_any_of(labels)}))"
    plain = f"(?:{_any_of(words)}|(?-i:{_any_of(labels)}))"
    line = (
        rf"\n(?:{_OPENING}{anyone}{_CLOSING}(?:{_MANNER}[）)]{_CLOSING})?[:：]"
        rf"|{_OPENING}{plain}{_CLOSING}{_any_of(_SAYS)}[ \t]?[:：]"
        rf"|{_BRACKET}{_any_of(everyone)}[）)\]】]"
        rf"|{_BRACKET}{_any_of(words)}{_ACTS})"
    )
    beginnings = "|".join(
        (*map(name_prefixes, everyone), *(f"(?-i:{name_prefixes(label)})" for label in labels))
    )
    beginning = (
        rf"{_OPENING}(?:{beginnings or _NOTHING})?"
        rf"|{_OPENING}{anyone}{_CLOSING}(?:{_MANNER}(?:[）)]{_CLOSING})?)?"
        rf"|{_OPENING}{plain}{_CLOSING}(?:{'|'.join(map(name_prefixes, _SAYS))})[ \t]?"
    )
    return re.compile(line, re.IGNORECASE), re.compile(beginning, re.IGNORECASE)


def _any_of(names: tuple[str, ...]) -> str:
    return f"(?:{'|'.join(map(re.escape, names)) or _NOTHING})"
