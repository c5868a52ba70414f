"""Constants and the source name of skills that were made from a character's persona."""

from __future__ import annotations

PURPOSE = "persona"
PROVIDER = "personalab"


def source_of(character_id: str) -> str:
    """Name the character in a skill's ``source``."""
    return f"character:{character_id}"
