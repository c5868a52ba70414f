"""Import of a plain text or Markdown file as a skill."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

from personalab.errors import BadRecord
from personalab.lab.formats.yaml_text import decoded

MAX_BYTES = 1024 * 1024
_HEADING = re.compile(r"^#{1,6}[ \t]+(.*?)[ \t#]*$", re.MULTILINE)
LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Plain:
    """A prompt and what it is called."""

    name: str
    content: str


def read_plain(raw: bytes, file: str) -> Plain:
    """Take the whole file as the prompt; Markdown is called by its first heading, anything else by its file."""
    content = decoded(raw, file, MAX_BYTES)
    if not content.strip("\ufeff \t\r\n"):
        raise BadRecord("lab_file_blank", file=file)
    return Plain(name_of(content, file), content)


def name_of(content: str, file: str) -> str:
    """Call a prompt by its first heading, or else by the name of its file."""
    path = PurePath(file)
    heading = _HEADING.search(content) if path.suffix.lower() in (".md", ".markdown") else None
    found = " ".join(heading[1].split()) if heading else ""
    return (found or path.stem or file)[:LONGEST_NAME]
