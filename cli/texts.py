"""Texts of the terminal program; those of errors and warnings are in ``personalab.texts``."""

from __future__ import annotations

from personalab.i18n import Language, Section
from personalab.texts import render

TEXTS = Section("terminal")


def tell(code: str, language: Language, /, **params: object) -> str:
    """Return one of the terminal's sentences."""
    return render(TEXTS, code, language, **params)
