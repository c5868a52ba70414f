"""Which placeholders do authors leave in a character's texts, and what stands there in the end?

``{{char}}`` and ``<BOT>`` are the character, ``{{user}}`` and ``<USER>`` the person who plays, whatever their case.
``{{original}}`` is what an instruction replaces.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAMES = re.compile(r"\{\{\s*(char|user)\s*\}\}|<(bot|user|char)>", re.IGNORECASE)
_ORIGINAL = re.compile(r"\{\{\s*original\s*\}\}", re.IGNORECASE)
_NOTE = re.compile(r"\{\{\s*(?://|comment\s*:)[^{}]*\}\}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Names:
    """Who the two of a story are."""

    character: str
    player: str

    def fill(self, text: str) -> str:
        """Put the names in, and leave out what authors noted for themselves."""
        if "{{" not in text and "<" not in text:
            return text
        return _NAMES.sub(lambda found: self._name(found[1] or found[2]), _NOTE.sub("", text))

    def _name(self, role: str) -> str:
        return self.player if role.lower() == "user" else self.character


def replaced(text: str, original: str) -> str:
    """Give an instruction that stands in for another one, which it may quote; a blank one leaves it standing."""
    if not text.strip():
        return original
    return _ORIGINAL.sub(lambda _: original, text)
