"""Search in a memory's texts: the lexical index, the vectors, and the ranking of both."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from personalab.errors import ProviderError, Reason
from personalab.memory.records import ContentType
from personalab.ports import Embedder
from personalab.retrieval.embedders import query_vector
from personalab.retrieval.lexical import LexicalIndex, Mask
from personalab.retrieval.memory.store import Backend, PendingText, SearchableText, TextKind, Vectors
from personalab.retrieval.ranking import confidence, fuse, rival_score

_FEW = 1_000
"""Number of texts up to which the index is rebuilt rather than hiding texts: hidden words still count as known."""


@dataclass(frozen=True, slots=True)
class WordMatches:
    """Texts found by their words, with their scores; ``substance`` is how many rare words a query asks for."""

    scores: dict[str, float]
    substance: float


class LexicalTexts:
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

    def words(self, query: str, limit: int, types: Collection[str] | None) -> WordMatches:
        """Find texts of these types (``None``: all) by their words."""
        with self._lock:
            seen = self._allowed(types)
            found = self._index.search(query, limit, None if seen.all() else seen)
            return WordMatches(
                {self._ids[match.document]: match.score for match in found.matches}, found.substance
            )

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


BATCH = 256
"""How many texts are embedded before their vectors are kept."""
LONGEST = 6_000
"""How many characters of a text are embedded: models take about 8,000 tokens."""
_FEW_OTHERS = 400
"""Maximum hits of other types fetched and skipped, because a filtered query is slow."""
_LOCKS = 32
_KINDS: tuple[TextKind, ...] = ("entries", "conversations")

_log = logging.getLogger("personalab.memory")


class SemanticIndex:
    """The vectors of one embedder in a database."""

    def __init__(self, backend: Backend, embedder: Embedder) -> None:
        self._backend = backend
        self._embedder = embedder
        self._dimension = 0
        # What waits is embedded once, but a long memory does not hold up the others.
        self._locks = [threading.Lock() for _ in range(_LOCKS)]

    def nearest(
        self,
        kind: TextKind,
        memory_id: str,
        texts: LexicalTexts,
        query: str,
        limit: int,
        types: Sequence[ContentType] | None,
    ) -> list[tuple[str, float]]:
        """Find texts of these types (``None``: all) by meaning, after embedding those that wait for it."""
        vector = query_vector(self._embedder, query[:LONGEST], texts.rarity)
        self._prepare(len(vector))
        self._embed_waiting(kind, memory_id)
        if not any(vector):
            return []
        others = texts.others(types)
        if others <= _FEW_OTHERS:
            return self._backend.nearest(kind, memory_id, vector, limit + others)
        return self._backend.nearest(kind, memory_id, vector, limit, types)

    def _prepare(self, dimension: int) -> None:
        if not dimension or (self._dimension and self._dimension != dimension):
            raise _other_dimension(dimension, self._dimension)
        if not self._dimension:
            self._backend.prepare(self._embedder.identity, dimension)
            self._dimension = dimension

    def _embed_waiting(self, kind: TextKind, memory_id: str) -> None:
        """Embed what waits; where that fails, what has a vector is still found."""
        with self._locks[hash((kind, memory_id)) % _LOCKS]:
            try:
                for _ in self._batches(kind, memory_id):
                    pass
            except Exception as error:  # noqa: BLE001 (whatever an embedder does, the rest is still found)
                _log.warning("not all could be made findable by meaning: %s", _line(error))

    def _batches(self, kind: TextKind, memory_id: str | None) -> Iterator[int]:
        """Embed what waits, batch by batch, and tell how many each brought."""
        before: list[PendingText] = []
        # A text that still waits after it was embedded would wait for ever.
        while (waiting := self._backend.pending(kind, memory_id, BATCH)) and waiting != before:
            before = waiting
            for _, group in groupby(sorted(waiting), key=lambda row: row.memory_id):
                rows = list(group)
                self._backend.put_vectors(kind, rows, self._vectors(rows))
            yield len(waiting)

    def _vectors(self, rows: Sequence[PendingText]) -> Vectors:
        made = self._embedder.embed_documents([row.text[:LONGEST] for row in rows])
        wrong = next((len(vector) for vector in made if len(vector) != self._dimension), None)
        if wrong is not None:
            raise _other_dimension(wrong, self._dimension)
        vectors = np.array(made, dtype=np.float32)
        if len(made) != len(rows) or not np.isfinite(vectors).all():
            reason = Reason("vectors_missing_or_infinite", count=len(made), texts=len(rows))
            raise ProviderError("provider.bad_answer", retryable=True, reason=reason)
        return vectors

    def embed_all(self, progress: Callable[[int, int], None]) -> int:
        """Embed everything again, and report the progress."""
        probe = self._embedder.embed_query("dimension")
        self._backend.prepare(self._embedder.identity, len(probe))
        self._dimension = len(probe)
        total = self._backend.drop_vectors()
        done = 0
        progress(done, total)
        for kind in _KINDS:
            for count in self._batches(kind, None):
                done += count
                progress(min(done, total), total)
        return done


def _other_dimension(made: int, wanted: int) -> ProviderError:
    reason = (
        Reason("vector_length", count=made, expected=wanted)
        if wanted
        else Reason("vector_length_unknown", count=made)
    )
    return ProviderError("provider.bad_answer", retryable=True, reason=reason)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


POOL = 100
"""How many texts each ranking brings to the fusion."""
_DIGITS = 5
"""Databases compute similarities a little differently; beyond this they are the same."""


class RankedText(NamedTuple):
    """A text that was found."""

    id: str
    score: float
    confidence: float


def rank(
    texts: LexicalTexts,
    types: Sequence[str] | None,
    words: WordMatches,
    near: Sequence[tuple[str, float]],
    limit: int,
) -> list[RankedText]:
    """Fuse texts found by words and by meaning, best first; ties keep the order of the memory."""
    meaning = {text_id: round(similarity, _DIGITS) for text_id, similarity in near if similarity > 0}
    known = texts.places({**words.scores, **meaning}, types)
    by_words = {key: score for key, score in words.scores.items() if key in known}
    by_meaning = {key: similarity for key, similarity in meaning.items() if key in known}
    rival = rival_score(by_words.values())
    fused = fuse(by_words, by_meaning)
    fused.sort(key=lambda scored: (-round(scored[1], _DIGITS), known[scored[0]]))
    return [
        RankedText(key, score, confidence(by_words.get(key, 0.0), rival, words.substance))
        for key, score in fused[:limit]
    ]
