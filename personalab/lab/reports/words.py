"""Texts of the reports, alone and combined with untrusted texts into markup."""

from __future__ import annotations

from dataclasses import dataclass

from personalab.i18n import Language, Section, fill
from personalab.lab.reports.visible import markup, one_line

WORDS = Section("reports")


def word(key: str, language: Language, **params: object) -> str:
    """Return the words of a key; a key without words is returned itself."""
    return WORDS.say(key, language, **params)


@dataclass(frozen=True, slots=True)
class Translator:
    """The words of one language, as markup."""

    language: Language

    def __call__(self, key: str, **params: object) -> str:
        """Return our words; what is put into them cannot turn their direction."""
        template = WORDS.template(key, self.language)
        if template is None:
            return quote(key)
        shown = {name: quote(str(value)) for name, value in params.items()}
        return fill(markup(template), **shown)

    def plain(self, key: str, **params: object) -> str:
        """Return our words as text."""
        return word(key, self.language, **params)


def quote(text: str) -> str:
    """Show an untrusted text on one line, with a direction of its own."""
    return f"<bdi>{markup(one_line(text))}</bdi>"


def block(text: str) -> str:
    """Show an untrusted text unchanged."""
    return f'<pre dir="auto">{markup(text)}</pre>'
