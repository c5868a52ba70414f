"""Texts for people, in one file per language: ``en.json`` and ``zh.json``.

A language is one file in this folder; all have the same sections and keys. A file is read when its first text is
needed. A list of strings is a text of several lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

Language = str
"""The name of a catalogue, such as ``en``."""

DEFAULT: Language = "zh"
"""The language until a reader chooses another."""
FALLBACK: Language = "en"
"""The language of logs and of ``str(error)``, and for readers whose own has no catalogue."""

_FOLDER = Path(__file__).parent


@cache
def languages() -> tuple[Language, ...]:
    """List the languages that have a catalogue, the default first."""
    found = sorted(path.stem for path in _FOLDER.glob("*.json"))
    return tuple(sorted(found, key=lambda name: name != DEFAULT))


@cache
def catalogue(language: Language) -> Mapping[str, Any]:
    """Read a language's catalogue, once."""
    return json.loads((_FOLDER / f"{language}.json").read_bytes())


def language_for(tag: str) -> Language:
    """Choose the catalogue for a language tag such as ``zh-Hant-TW`` or ``en_US.UTF-8``."""
    spoken = re.split(r"[-_.@]", tag, maxsplit=1)[0].lower()
    return spoken if spoken in languages() else FALLBACK


class Section:
    """The templates of one part of the catalogues, by code; a part may group its codes."""

    def __init__(self, *path: str) -> None:
        self._path = path
        self._templates: dict[Language, dict[str, str]] = {}

    def templates(self, language: Language) -> Mapping[str, str]:
        """Return the templates of a language."""
        if (found := self._templates.get(language)) is None:
            part: Any = catalogue(language)
            for name in self._path:
                part = part[name]
            found = self._templates[language] = dict(_entries(part))
        return found

    def template(self, code: str, language: Language) -> str | None:
        """Return the template of a code; ``None`` for a code without a text."""
        return self.templates(language).get(code)

    def say(self, code: str, language: Language, /, **params: object) -> str:
        """Return a text without actions; a code without a text is returned itself."""
        template = self.template(code, language)
        return code if template is None else fill(template, **params)

    def __contains__(self, code: object) -> bool:
        return code in self.templates(FALLBACK)

    def __iter__(self) -> Iterator[str]:
        return iter(self.templates(FALLBACK))


def _entries(part: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in part.items():
        if isinstance(value, Mapping):
            yield from _entries(cast("Mapping[str, Any]", value))
        else:
            yield name, value if isinstance(value, str) else "\n".join(value)


_PLACEHOLDER = re.compile(r"\{(\w+)(?:\|([^{}|]*)\|([^{}|]*))?\}")


def fill(template: str, /, **params: object) -> str:
    """Fill values into a template; a name that is not given is left unchanged.

    ``{count}`` is the value of ``count``; ``{count|turn|turns}`` is the first form where that is 1, else the second.
    """

    def filled(found: re.Match[str]) -> str:
        name, one, many = found.groups()
        if name not in params:
            return found[0]
        value = str(params[name])
        return value if one is None else one if value == "1" else many

    return _PLACEHOLDER.sub(filled, template)


ABOUT = Section("about")
"""A language's name, its tag, and its punctuation."""
