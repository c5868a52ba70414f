"""Progress markers in a streamed reply: dimmed, hidden or unchanged."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Literal

from cli.output import DIM, is_terminal, paint
from personalab.story.director import ANY_MARKER, EMPHASIS, MARKER_LINE, without_markers

if TYPE_CHECKING:
    from personalab.services import Services

MarkerStyle = Literal["plain", "dim", "hide"]

_QUIET = re.compile(rf"(?:\s|{EMPHASIS}|{ANY_MARKER.pattern})++")
"""Blanks, emphasis and markers."""
_BEGINNING = re.compile(r"\[(?:P(?:R(?:O(?:G(?:R(?:E(?:S(?:S(?::[^\]\n]{0,40})?)?)?)?)?)?)?)?)?\Z")
"""The end of a text that may be the beginning of a marker."""
_LONGEST_BEGINNING = len("[PROGRESS:") + 40


class MarkerFilter:
    """Shows the markers of a streamed text in a style, wherever the stream is cut.

    What may still become a marker is held back. Where markers are hidden, the blanks before what comes next are, too:
    a line that held nothing but markers is left out.
    """

    def __init__(self, style: MarkerStyle) -> None:
        self._style: MarkerStyle = style
        self._held = ""
        self._begun = False
        """Whether text was given out: then what follows does not begin a line of its own."""
        self._has_markers = False

    def feed(self, text: str) -> str:
        """Return what can be shown after the next piece of text."""
        if self._style == "plain":
            return text
        text = self._held + text
        at = self._undecided(text)
        self._held = text[at:]
        return self._shown(text[:at])

    def flush(self) -> str:
        """Return what was held back, at the end of the text."""
        held, self._held = self._held, ""
        shown = self._shown(held)
        return shown.rstrip() if self._style == "hide" and self._has_markers else shown

    def _undecided(self, text: str) -> int:
        """Find where the end begins whose meaning depends on what follows."""
        begun = _BEGINNING.search(text, max(0, len(text) - _LONGEST_BEGINNING))
        at = begun.start() if begun else len(text)
        if self._style == "hide":
            for quiet in _QUIET.finditer(text, 0, at):
                if quiet.end() == at:
                    return quiet.start()
        return at

    def _shown(self, text: str) -> str:
        if not text:
            return ""
        before, self._begun = self._begun, True
        if ANY_MARKER.search(text) is None:
            return text
        self._has_markers = True
        if self._style == "dim":
            return dimmed(text)
        # The text follows something that was shown already, unless it is the first.
        return MARKER_LINE.sub("", f"x{text}")[1:] if before else MARKER_LINE.sub("", text)


def marker_style(services: Services) -> MarkerStyle:
    """Choose how markers are shown on standard output."""
    if not services.preferences.read().config.show_markers:
        return "hide"
    return "dim" if is_terminal(sys.stdout) else "plain"


def dimmed(text: str) -> str:
    """Dim the markers of a text where a person looks at it."""
    return ANY_MARKER.sub(lambda found: paint(found[0], DIM), text) if "[PROGRESS:" in text else text


def styled(text: str, style: MarkerStyle) -> str:
    """Show the markers of a whole text in a style."""
    if style == "hide":
        return without_markers(text)
    return dimmed(text) if style == "dim" else text
