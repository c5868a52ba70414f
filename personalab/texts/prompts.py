"""The languages that prompts are written in, and texts for models."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeGuard, get_args

from personalab.i18n import Language

PromptLanguage = Literal["zh", "en"]
PROMPT_LANGUAGES: tuple[PromptLanguage, ...] = get_args(PromptLanguage)


class Text(NamedTuple):
    """A text for models in each language of prompts, with ``{placeholders}``."""

    zh: str
    en: str


def prompt_language(language: Language | None) -> PromptLanguage:
    """Choose the prompts for a reader's language: English where there are none in it."""
    return language if has_prompts(language) else "en"


def has_prompts(language: object) -> TypeGuard[PromptLanguage]:
    """Return whether prompts are written in a language."""
    return language in PROMPT_LANGUAGES
