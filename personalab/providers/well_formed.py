"""Repair of ill-formed Unicode, including surrogate pairs that arrive in two pieces."""

from __future__ import annotations

import re

_SURROGATE = re.compile("[\ud800-\udfff]")


def well_formed(text: str) -> str:
    """Join surrogate pairs and put U+FFFD in the place of lone surrogates."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class PairJoiner:
    """Makes a stream of pieces well-formed; a trailing high surrogate waits for its other half."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """Return the text that can be shown so far."""
        text = self._held + piece
        self._held = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._held, text = text[-1], text[:-1]
        return well_formed(text)

    def flush(self) -> str:
        """Return what was held back, at the end of the stream."""
        held, self._held = self._held, ""
        return well_formed(held)
