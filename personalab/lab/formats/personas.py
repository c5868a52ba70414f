"""How is a character's persona put on the bench as a skill, and what says that a skill came from one?"""

from __future__ import annotations

PURPOSE = "persona"
PROVIDER = "personalab"
_FROM = "character:"


def source_of(character_id: str) -> str:
    """Name the character in a skill's ``source``."""
    return f"{_FROM}{character_id}"


def character_in(source: str) -> str | None:
    """Tell which character a skill came from, if it came from one."""
    return source.removeprefix(_FROM) if source.startswith(_FROM) else None
