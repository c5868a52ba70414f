"""The formats of imported prompts, recognized by file name."""

from __future__ import annotations

from pathlib import PurePath
from typing import Literal

from personalab.errors import UserError

Format = Literal["skill_md", "promptfoo", "plain"]

SKILL_MD = "SKILL.md"
SKILL_MD_NAMES = (SKILL_MD, "skill.md")
"""How the file is called that makes a folder a skill; the first is what we write."""
EVALS = "evals/evals.json"
KEPT = "x_source"
"""The folder of an asset that holds, byte for byte, the files it came from."""

_BY_ENDING: dict[str, Format] = {
    ".yaml": "promptfoo",
    ".yml": "promptfoo",
    ".json": "promptfoo",
    ".md": "plain",
    ".markdown": "plain",
    ".txt": "plain",
}


def format_of_file(name: str) -> Format:
    """Return the format of a file that is not a folder."""
    if name in SKILL_MD_NAMES:
        return "skill_md"
    found = _BY_ENDING.get(PurePath(name).suffix.lower())
    if found is None:
        raise UserError("lab_format_unknown", file=name[:200])
    return found
