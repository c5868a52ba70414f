"""Fusion of lexical and semantic matches into one ranking.

It fuses scores, not ranks: a lexical score already says how much of the query was found (``lexical.Match``),
so a query whose words all occur is ranked by them, and one whose words are missing by its meaning.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)

DENSE_WEIGHT = 0.2
"""What the nearest event's meaning counts, against all of a query's words."""


def fuse(words: Mapping[Key, float], similarity: Mapping[Key, float]) -> list[tuple[Key, float]]:
    """Join lexical scores and the nearest vectors' similarities into one score, best first."""
    scores = dict(words)
    for key, meaning in _stretched(similarity).items():
        scores[key] = scores.get(key, 0.0) + DENSE_WEIGHT * meaning
    return sorted(scores.items(), key=lambda scored: -scored[1])


def _stretched(similarity: Mapping[Key, float]) -> dict[Key, float]:
    """Stretch similarities to 0…1, because each embedder has its own range; one alone is the nearest."""
    if not similarity:
        return {}
    low, high = min(similarity.values()), max(similarity.values())
    if low == high:
        return dict.fromkeys(similarity, 1.0)
    return {key: (value - low) / (high - low) for key, value in similarity.items()}
