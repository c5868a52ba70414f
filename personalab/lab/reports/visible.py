"""Escaping of untrusted texts, so that every character is visible and none takes effect."""

from __future__ import annotations

import html
import re
import unicodedata

_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufdd0-\ufdef"
    "\ufeff\ufff9-\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)
"""What XML forbids, what turns the direction of the text around it, and letters without any shape."""


def visible(text: str) -> str:
    """Replace characters that act instead of being seen with a mark like ``⟦U+202E⟧``."""
    return _UNSEEN.sub(_mark, text.replace("\r\n", "\n").replace("\r", "\n"))


def _mark(match: re.Match[str]) -> str:
    return "\ufffd" if match[0] == "\ufffd" else f"⟦U+{ord(match[0]):04X}⟧"


def one_line(text: str) -> str:
    """Write a text on one line."""
    return " ".join(visible(text).split())


def markup(text: str) -> str:
    """Write a text so that HTML and XML show it, in an element or an attribute."""
    return html.escape(visible(text))


def shortened(text: str, width: int) -> str:
    """Write a name on one line of so many columns; a Chinese character takes two."""
    text, used = one_line(text), 0
    for at, letter in enumerate(text):
        used += 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        if used > width:
            return text[: max(at - 1, 1)].rstrip() + "…"
    return text


def figure(value: float | None, places: int = 1) -> str:
    """Write a number; one that is not there is a dash."""
    return "–" if value is None else f"{value:,.{places}f}"


def grouped(value: int) -> str:
    """Write a count with its thousands apart; both languages do it in this way."""
    return f"{value:,}"
