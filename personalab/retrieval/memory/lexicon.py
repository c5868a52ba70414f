"""The lexical index of a memory's texts.

It is kept in memory, read from the database, and updated when the database has changed: new texts are
appended, removed ones are hidden, and when too many are hidden the index is rebuilt.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from personalab.retrieval.lexical import LexicalIndex, Mask
from personalab.retrieval.memory.backend import SearchableText

_FEW = 1_000
"""Number of texts up to which the index is rebuilt rather than hiding texts: hidden words still count as known."""


@dataclass(frozen=True, slots=True)
class Words:
    """Texts found by their words, with their scores; ``substance`` is how many rare words a query asks for."""

    scores: dict[str, float]
    substance: float


class Lexicon:
    """The words of a memory's entries or conversations."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._stamp: int | None = None
        self._clear()

    def _clear(self) -> None:
        self._index = LexicalIndex()
        self._ids: list[str] = []
        self._prints: list[int] = []
        self._numbers: dict[str, int] = {}
        self._places: dict[str, int] = {}
        self._types: dict[str, int] = {}
        self._type_of: NDArray[np.int8] = np.zeros(0, dtype=np.int8)
        self._seen: Mask = np.zeros(0, dtype=bool)

    def __len__(self) -> int:
        return len(self._numbers)

    def refresh(self, stamp: int, read: Callable[[], Sequence[SearchableText]]) -> None:
        """Read the texts again if they have changed."""
        with self._lock:
            if stamp != self._stamp:
                self._take(read())
                self._stamp = stamp

    def _take(self, texts: Sequence[SearchableText]) -> None:
        fresh = [text for text in texts if not self._knows(text)]
        kept = len(texts) - len(fresh)
        hidden = len(self._ids) - kept
        if hidden and (len(self._ids) <= _FEW or 2 * hidden > len(self._ids)):
            self._clear()
            fresh = list(texts)
            hidden = 0
        if hidden:
            self._hide_all_but(texts)
        self._append(fresh)
        self._places = {text.id: place for place, text in enumerate(texts)}

    def _knows(self, text: SearchableText) -> bool:
        number = self._numbers.get(text.id)
        return number is not None and self._prints[number] == _print(text)

    def _hide_all_but(self, texts: Sequence[SearchableText]) -> None:
        self._numbers = {text.id: self._numbers[text.id] for text in texts if self._knows(text)}
        self._seen = np.zeros(len(self._ids), dtype=bool)
        self._seen[list(self._numbers.values())] = True

    def _append(self, texts: Sequence[SearchableText]) -> None:
        for number, text in enumerate(texts, start=len(self._ids)):
            self._numbers[text.id] = number
        self._ids += [text.id for text in texts]
        self._prints += [_print(text) for text in texts]
        self._index.add([text.text for text in texts], [text.id for text in texts])
        types = [self._types.setdefault(text.content_type, len(self._types)) for text in texts]
        self._type_of = np.append(self._type_of, np.array(types, dtype=np.int8))
        self._seen = np.append(self._seen, np.ones(len(texts), dtype=bool))

    def rarity(self, word: str) -> float:
        """Return a word's rarity among the texts."""
        with self._lock:
            return self._index.rarity(word)

    def words(self, query: str, limit: int, types: Collection[str] | None) -> Words:
        """Find texts of these types (``None``: all) by their words."""
        with self._lock:
            seen = self._allowed(types)
            found = self._index.search(query, limit, None if seen.all() else seen)
            return Words({self._ids[match.document]: match.score for match in found.matches}, found.substance)

    def others(self, types: Collection[str] | None) -> int:
        """Count the texts that are of none of these types."""
        with self._lock:
            return len(self) - int(self._allowed(types).sum())

    def places(self, text_ids: Iterable[str], types: Collection[str] | None) -> dict[str, int]:
        """Return the positions of texts of these types among all; excluded texts are left out."""
        with self._lock:
            codes = None if types is None else {self._types.get(content_type) for content_type in types}
            numbers = ((text_id, self._numbers.get(text_id)) for text_id in text_ids)
            return {
                text_id: self._places[text_id]
                for text_id, number in numbers
                if number is not None and (codes is None or int(self._type_of[number]) in codes)
            }

    def _allowed(self, types: Collection[str] | None) -> Mask:
        if types is None:
            return self._seen
        wanted = [code for content_type, code in self._types.items() if content_type in types]
        return self._seen & np.isin(self._type_of, wanted)


def _print(text: SearchableText) -> int:
    """Compute a fingerprint that tells texts apart without keeping them: a conversation may be long."""
    return hash((text.content_type, text.text))
