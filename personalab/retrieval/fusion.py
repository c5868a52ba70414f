"""How do matches by words and by meaning become one ranking?

By score, not by rank: a lexical score already says how much of the query was found (``lexical.Match``), so
a query whose words are all there is ranked by them, and one whose words are missing by its meaning.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

DENSE_WEIGHT = 0.2
"""What the nearest event's meaning counts, against all of a query's words."""


@dataclass(frozen=True, slots=True)
class Fused(Generic[Key]):
    """A document with its score and the two parts of it."""

    key: Key
    score: float
    words: float
    meaning: float


def fuse(
    words: Mapping[Key, float], similarity: Mapping[Key, float], weight: float = DENSE_WEIGHT
) -> list[Fused[Key]]:
    """Join lexical scores and the nearest vectors' similarities, best first."""
    meaning = _stretched(similarity)
    fused = [
        Fused(
            key,
            words.get(key, 0.0) + weight * meaning.get(key, 0.0),
            words.get(key, 0.0),
            meaning.get(key, 0.0),
        )
        for key in {**words, **meaning}
    ]
    return sorted(fused, key=lambda one: -one.score)


def _stretched(similarity: Mapping[Key, float]) -> dict[Key, float]:
    """Stretch similarities to 0…1, because each embedder has its own range."""
    if not similarity:
        return {}
    low, high = min(similarity.values()), max(similarity.values())
    return {key: (value - low) / (high - low or 1.0) for key, value in similarity.items()}
