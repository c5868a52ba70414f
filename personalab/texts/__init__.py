"""Texts of errors, warnings and notices, which every entrance says in the same words.

The words are in the catalogues of ``personalab.i18n``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from personalab.i18n import FALLBACK, Language, Section, fill, languages
from personalab.texts.actions import action_template
from personalab.texts.prompts import PROMPT_LANGUAGES, PromptLanguage, Text, prompt_language

__all__ = [
    "FALLBACK",
    "PROMPT_LANGUAGES",
    "REASONS",
    "TEXTS",
    "Language",
    "PromptLanguage",
    "Text",
    "fill",
    "in_language",
    "languages",
    "prompt_language",
    "render",
    "say",
]

TEXTS = Section("messages")
REASONS = Section("reasons")
_ACTION = re.compile(r"\{do:(\w+)\}")


@runtime_checkable
class Worded(Protocol):
    """Something that can say itself in any language."""

    def message(self, language: Language) -> str:
        """Return the message."""
        ...


def say(code: str, language: Language, /, **params: object) -> str:
    """Return the text of a code; a code without a text gives nothing."""
    return render(TEXTS, code, language, **params)


def render(section: Section, code: str, language: Language, /, **params: object) -> str:
    """Return a section's text; actions are named as the current entrance does, reasons in the text's language."""
    template = section.template(code, language)
    if template is None:
        return ""
    template = _ACTION.sub(lambda found: action_template(found[1], language), template)
    return fill(template, **in_language(params, language))


def in_language(params: Mapping[str, object], language: Language) -> dict[str, object]:
    """Word the reasons and errors among a text's parameters in the text's language."""
    return {
        name: value.message(language) if isinstance(value, Worded) else value
        for name, value in params.items()
    }
