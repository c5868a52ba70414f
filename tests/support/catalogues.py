"""Reading of the catalogues of texts, for the tests that check all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from personalab.i18n import Language, catalogue

PLACEHOLDER = re.compile(r"\{(?!do:)(\w+)(?:\|[^{}|]*\|[^{}|]*)?\}")
ACTION = re.compile(r"\{do:(\w+)\}")


def texts_of(language: Language, *path: str) -> dict[str, str]:
    """Return every text below a place of a catalogue, by the place of each."""
    part: Any = catalogue(language)
    for name in path:
        part = part[name]
    return dict(_entries(part, ".".join(path)))


def _entries(part: Mapping[str, Any], place: str) -> Iterator[tuple[str, str]]:
    for name, value in part.items():
        key = f"{place}.{name}".lstrip(".")
        if isinstance(value, Mapping):
            yield from _entries(cast("Mapping[str, Any]", value), key)
        else:
            yield key, value if isinstance(value, str) else "\n".join(value)
