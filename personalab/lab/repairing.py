"""Detection of answers that repeat the note with which an unusable answer was returned to the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import cast

_PASSAGE = 24
"""Characters in a row that no answer shares with a note by chance."""
_SHORTEST = 8
"""Characters of a line that is looked for as a whole."""


def repeats_note(data: object, note: str, known: Sequence[str]) -> bool:
    """Return whether a text anywhere in ``data`` has a passage of our note.

    Passages that also occur in ``known`` do not count: the question and the model's own earlier answer may be quoted.
    """
    lines = [_flat(line) for line in note.splitlines() if line.strip()]
    sources = [_flat(text) for text in known]
    passages = {part for line in lines for part in _passages(line)}
    short = [line for line in lines if _SHORTEST <= len(line) < _PASSAGE]
    for text in map(_flat, _texts(data)):
        shared = [part for part in _passages(text) if part in passages]
        shared += [line for line in short if line in text]
        if any(not any(part in source for source in sources) for part in shared):
            return True
    return False


def _passages(line: str) -> Iterator[str]:
    return (line[at : at + _PASSAGE] for at in range(len(line) - _PASSAGE + 1))


def _flat(text: str) -> str:
    """Join a text's words by single spaces, without the signs of a heading."""
    return " ".join(text.split()).strip("= ")


def _texts(data: object) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif is_dataclass(data) and not isinstance(data, type):
        for field in fields(data):
            yield from _texts(getattr(data, field.name))
    elif isinstance(data, Mapping):
        for value in cast("Mapping[object, object]", data).values():
            yield from _texts(value)
    elif isinstance(data, list | tuple):
        for value in cast("Sequence[object]", data):
            yield from _texts(value)
