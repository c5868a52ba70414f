"""How is a character's persona put on the bench as a skill, and what says that a skill came from one?"""

from __future__ import annotations

PURPOSE = "persona"
PROVIDER = "personalab"


def source_of(character_id: str) -> str:
    """Name the character in a skill's ``source``."""
    return f"character:{character_id}"
