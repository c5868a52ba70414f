"""Confidence that a hit is what a query means."""

from __future__ import annotations

from collections.abc import Iterable

_RIVAL = 10
"""A hit is the surer, the further it stands above the one in this place."""
_TOO_LITTLE, _ENOUGH = 0.9, 1.4
"""How many rare words must be found: up to the first a hit is chance ("go on"), from the second on sure."""


_LEAST_WORDS = 0.4
"""Share of a rare word, and of the best hit's words, that must be found to count as evidence."""
_NEAREST, _LEAST_SIMILARITY = 3, 0.4
"""Number of nearest hits by meaning, and their minimum similarity, that count without shared words."""
_WEAK = 0.3
"""Evidence alone is never surer than this."""


def rival_score(words: Iterable[float]) -> float:
    """Return the score that hits of doubtful relevance reach; among few hits, half of the best."""
    scores = sorted(words, reverse=True)
    return scores[_RIVAL - 1] if len(scores) >= _RIVAL else max(scores, default=0.0) / 2


def confidence(words: float, rival: float, substance: float) -> float:
    """Rate the confidence in a hit: it has most of the query's words, others don't, and they are rare.

    Meaning does not enter: among turns of one story, similarity tells small talk from a question badly.
    """
    found = min(1.0, max(0.0, (min(words, 1.0) * substance - _TOO_LITTLE) / (_ENOUGH - _TOO_LITTLE)))
    return min(1.0, max(0.0, (2 * words - rival) / 1.5)) * found


def evidence(
    words: float, best: float, substance: float, similarity: float | None, meaning_rank: int | None
) -> float:
    """Rate what speaks for a hit that is not sure, above 0 if anything does.

    Either its words do, measured against the best hit's, or it is among the nearest by meaning.
    """
    found = min(words, 1.0) * substance
    by_words = min(found, 1.0) if found >= _LEAST_WORDS and words >= _LEAST_WORDS * best else 0.0
    near = similarity is not None and similarity >= _LEAST_SIMILARITY
    near = near and meaning_rank is not None and meaning_rank <= _NEAREST
    by_meaning = min(similarity or 0.0, 1.0) / 2 if near else 0.0
    return _WEAK * max(by_words, by_meaning)
