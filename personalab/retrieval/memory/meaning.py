"""Semantic search in a memory's texts; vectors are made before the first search that needs them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import numpy as np

from personalab.errors import ProviderError, Reason
from personalab.memory.records import ContentType
from personalab.ports import Embedder
from personalab.retrieval.memory.backend import Backend, Kind, Vectors, Waiting
from personalab.retrieval.memory.lexicon import Lexicon
from personalab.retrieval.offline_embedder import query_vector

BATCH = 256
"""How many texts are embedded before their vectors are kept."""
LONGEST = 6_000
"""How many characters of a text are embedded: models take about 8,000 tokens."""
_FEW_OTHERS = 400
"""Maximum hits of other types fetched and skipped, because a filtered query is slow."""
_LOCKS = 32
_KINDS: tuple[Kind, ...] = ("entries", "conversations")

_log = logging.getLogger("personalab.memory")


class Meaning:
    """The vectors of one embedder in a database."""

    def __init__(self, backend: Backend, embedder: Embedder) -> None:
        self._backend = backend
        self._embedder = embedder
        self._dimension = 0
        # What waits is embedded once, but a long memory does not hold up the others.
        self._locks = [threading.Lock() for _ in range(_LOCKS)]

    def nearest(
        self,
        kind: Kind,
        memory_id: str,
        lexicon: Lexicon,
        query: str,
        limit: int,
        types: Sequence[ContentType] | None,
    ) -> list[tuple[str, float]]:
        """Find texts of these types (``None``: all) by meaning, after embedding those that wait for it."""
        vector = query_vector(self._embedder, query[:LONGEST], lexicon.rarity)
        self._prepare(len(vector))
        self._embed_waiting(kind, memory_id)
        if not any(vector):
            return []
        others = lexicon.others(types)
        if others <= _FEW_OTHERS:
            return self._backend.nearest(kind, memory_id, vector, limit + others)
        return self._backend.nearest(kind, memory_id, vector, limit, types)

    def _prepare(self, dimension: int) -> None:
        if not dimension or (self._dimension and self._dimension != dimension):
            raise _other_dimension(dimension, self._dimension)
        if not self._dimension:
            self._backend.prepare(self._embedder.identity, dimension)
            self._dimension = dimension

    def _embed_waiting(self, kind: Kind, memory_id: str) -> None:
        """Embed what waits; where that fails, what has a vector is still found."""
        with self._locks[hash((kind, memory_id)) % _LOCKS]:
            try:
                for _ in self._batches(kind, memory_id):
                    pass
            except Exception as error:  # noqa: BLE001 (whatever an embedder does, the rest is still found)
                _log.warning("not all could be made findable by meaning: %s", _line(error))

    def _batches(self, kind: Kind, memory_id: str | None) -> Iterator[int]:
        """Embed what waits, batch by batch, and tell how many each brought."""
        before: list[Waiting] = []
        # A text that still waits after it was embedded would wait for ever.
        while (waiting := self._backend.pending(kind, memory_id, BATCH)) and waiting != before:
            before = waiting
            for _, group in groupby(sorted(waiting), key=lambda row: row.memory_id):
                rows = list(group)
                self._backend.put_vectors(kind, rows, self._vectors(rows))
            yield len(waiting)

    def _vectors(self, rows: Sequence[Waiting]) -> Vectors:
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
