"""Texts in both languages, and filling of their placeholders."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Language = Literal["zh", "en"]
LANGUAGES: tuple[Language, ...] = ("zh", "en")


class Text(NamedTuple):
    """One sentence in both languages, with ``{placeholders}``."""

    zh: str
    en: str


_PLACEHOLDER = re.compile(r"\{(\w+)\}")


def fill(template: str, /, **params: object) -> str:
    """Fill values into ``{name}`` placeholders; a name that is not given is left unchanged."""
    return _PLACEHOLDER.sub(lambda m: str(params.get(m[1], m[0])), template)
