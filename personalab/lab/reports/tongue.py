"""Texts of the report in one language, combined with untrusted texts into markup."""

from __future__ import annotations

from dataclasses import dataclass

from personalab.lab.reports.visible import markup, one_line
from personalab.lab.reports.words import WORDS, word
from personalab.texts.forms import Language, fill


@dataclass(frozen=True, slots=True)
class Translator:
    """The words of one language, as markup."""

    language: Language

    def __call__(self, key: str, **params: object) -> str:
        """Return our words; what is put into them cannot turn their direction."""
        text = WORDS.get(key)
        if text is None:
            return quote(key)
        shown = {name: quote(str(value)) for name, value in params.items()}
        return fill(markup(getattr(text, self.language)), **shown)

    def plain(self, key: str, **params: object) -> str:
        """Return our words as text."""
        return word(key, self.language, **params)


def quote(text: str) -> str:
    """Show an untrusted text on one line, with a direction of its own."""
    return f"<bdi>{markup(one_line(text))}</bdi>"


def block(text: str) -> str:
    """Show an untrusted text unchanged."""
    return f'<pre dir="auto">{markup(text)}</pre>'
