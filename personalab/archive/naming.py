"""Ids and file names made from the names of imported things."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from pathlib import PurePath

from personalab.story.records import is_id

MAX_ID = 64
_LONGEST = 48
"""A slug leaves room for a number behind it."""
_LEAST = 2
"""Minimum letters of a name that make an id."""
_APART = re.compile(r"[^a-z0-9]+")
_ENDINGS = re.compile(r"\.(?:world-info|lorebook|background)$", re.IGNORECASE)
"""What our own files have before their last ending."""
_LONGEST_STEM = 180
"""Bytes; file systems allow 255, and an ending and a number come behind it."""
_FORBIDDEN = dict.fromkeys('/\\:*?"<>|', "_")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)
"""Device names on Windows, whatever their ending."""


def id_for(prefix: str, name: str) -> str:
    """Make an id of a name by its Latin letters, or else by its digest: the same in whatever file it comes."""
    found = _slug(name)
    if is_id(found):
        return found
    if found and is_id(f"{prefix}_{found}"):
        return f"{prefix}_{found}"
    return id_of_bytes(prefix, name.encode("utf-8", "surrogatepass"))


def id_of_bytes(prefix: str, content: bytes) -> str:
    """Make an id of what has no name at all."""
    return f"{prefix}_{hashlib.blake2b(content, digest_size=4).hexdigest()}"


def called_by_file(name: str) -> str:
    """Return the name that a file's name gives to its content."""
    return _ENDINGS.sub("", PurePath(name).stem)


def file_stem(name: str, fallback: str) -> str:
    """Return a name as a file may be called on any system, as close to it as can be; ``fallback`` if nothing is left.

    SillyTavern takes a World Info's file name as the book's name, so letters of any language and spaces stay.
    """
    plain = "".join(_FORBIDDEN.get(letter, letter) for letter in name if letter.isprintable())
    cut = plain.encode("utf-8", "ignore")[:_LONGEST_STEM].decode("utf-8", "ignore")
    stem = cut.strip().strip(".").strip()
    return f"_{stem}" if _RESERVED.fullmatch(stem) else stem or fallback


def _slug(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode("ascii").lower()
    found = _APART.sub("_", plain.replace("'", "")).strip("_")[:_LONGEST].strip("_")
    return found if len(found) >= _LEAST else ""


def numbered(entry_id: str) -> Iterator[str]:
    """Yield an id and then the same with a number, from 2 on, as short as an id has to be."""
    yield entry_id
    number = 2
    while True:
        tail = f"_{number}"
        yield entry_id[: MAX_ID - len(tail)] + tail
        number += 1
