"""Which placeholders do authors leave in a character's texts, and what stands there in the end?

``{{char}}`` and ``<BOT>`` are the character, ``{{user}}`` and ``<USER>`` the person who plays, whatever their case.
``{{original}}`` is what an instruction replaces. ``{{random:a,b}}``, ``{{pick:a,b}}`` and ``{{roll:6}}`` choose by a
hash of the text they stand in: a prompt that changed from turn to turn could neither be shown beforehand nor cached.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

from personalab.config import Config
from personalab.texts import Language, say

_NAMES = re.compile(r"\{\{\s*(char|user)\s*\}\}|<(bot|user|char)>", re.IGNORECASE)
_ORIGINAL = re.compile(r"\{\{\s*original\s*\}\}", re.IGNORECASE)
_NOTE = re.compile(r"\{\{\s*(?:(?://|comment\s*:)[^{}]*|noop\s*)\}\}", re.IGNORECASE)
_CHOICE = re.compile(r"\{\{\s*(random|pick|roll|reverse)\s*[:\s]([^{}]*)\}\}", re.IGNORECASE)
_DICE = re.compile(r"\s*(?:(\d{0,2})d)?(\d{1,9})\s*(?:\+\s*(\d{1,9})\s*)?", re.IGNORECASE)
_BREAK = re.compile(r"\{\{\s*newline\s*\}\}", re.IGNORECASE)
_TRIM = re.compile(r"\n*\{\{\s*trim\s*\}\}\n*", re.IGNORECASE)
_MOST_GROWTH = 100_000
"""Names make a text longer by no more characters than this: what is left stays as it was written."""


@dataclass(frozen=True, slots=True)
class Names:
    """Who the two of a story are."""

    character: str
    player: str

    def fill(self, text: str) -> str:
        """Put the names in, settle what is left to chance, and leave out what authors noted for themselves."""
        if "{{" not in text and "<" not in text:
            return text
        most = max(_MOST_GROWTH // max(len(self.character), len(self.player), 1), 1)
        named = _NAMES.sub(lambda found: self._name(found[1] or found[2]), text, count=most)
        if "{{" not in named:
            return named
        named = _NOTE.sub("", named)
        return _TRIM.sub("", _BREAK.sub("\n", _CHOICE.sub(_chooser(text), named)))

    def _name(self, role: str) -> str:
        return self.player if role.lower() == "user" else self.character


def _chooser(text: str) -> Callable[[re.Match[str]], str]:
    """Settle a choice by where it stands in which text."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()

    def choose(found: re.Match[str]) -> str:
        kind, given = found[1].lower(), found[2]
        if kind == "reverse":
            return given.strip()[::-1]

        def below(limit: int, which: int = 0) -> int:
            place = f"{found.start()} {which}".encode("ascii")
            return int.from_bytes(blake2b(digest + place, digest_size=8).digest(), "big") % limit

        if kind == "roll":
            return _rolled(given, below) or found[0]
        words = given[1:].split("::") if given.startswith(":") else re.split(r"(?<!\\),", given)
        return words[below(len(words))].replace("\\,", ",").strip()

    return choose


def _rolled(given: str, below: Callable[[int, int], int]) -> str:
    """Throw one die (``6``, ``d6``) or several (``2d6``); blank where these are none."""
    dice = _DICE.fullmatch(given)
    if dice is None or not (sides := int(dice[2])):
        return ""
    thrown = sum(below(sides, which) + 1 for which in range(int(dice[1] or 1)))
    return str(thrown + int(dice[3] or 0))


def player_name(config: Config, language: Language) -> str:
    """Tell what the person who plays is called: by the name that was set, or by a plain word."""
    return config.player_name.strip() or say("player", language)


def replaced(text: str, original: str) -> str:
    """Give an instruction that stands in for another one, which it may quote; a blank one leaves it standing."""
    if not text.strip():
        return original
    return _ORIGINAL.sub(lambda _: original, text)
