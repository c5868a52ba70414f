"""How surely is a hit what a query means?"""

from __future__ import annotations

from collections.abc import Iterable

_RIVAL = 10
"""A hit is the surer, the further it stands above the one in this place."""
_TOO_LITTLE, _ENOUGH = 0.9, 1.4
"""How many rare words must be found: up to the first a hit is chance ("go on"), from the second on sure."""


def rival_score(words: Iterable[float]) -> float:
    """Return what a hit has that is only about right; of a few hits, half of the best stands for it."""
    scores = sorted(words, reverse=True)
    return scores[_RIVAL - 1] if len(scores) >= _RIVAL else max(scores, default=0.0) / 2


def confidence(words: float, rival: float, substance: float) -> float:
    """Tell how surely a hit is meant: it has most of the query's words, others don't, and they are rare.

    Meaning does not enter: among turns of one story, similarity tells small talk from a question badly.
    """
    found = min(1.0, max(0.0, (min(words, 1.0) * substance - _TOO_LITTLE) / (_ENOUGH - _TOO_LITTLE)))
    return min(1.0, max(0.0, (2 * words - rival) / 1.5)) * found
