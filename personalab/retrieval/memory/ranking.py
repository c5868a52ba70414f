"""Ranking of a memory's texts by lexical and semantic matches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from personalab.retrieval.confidence import confidence, rival_score
from personalab.retrieval.fusion import fuse
from personalab.retrieval.memory.lexicon import Lexicon, Words

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
    lexicon: Lexicon,
    types: Sequence[str] | None,
    words: Words,
    near: Sequence[tuple[str, float]],
    limit: int,
) -> list[RankedText]:
    """Fuse texts found by words and by meaning, best first; ties keep the order of the memory."""
    meaning = {text_id: round(similarity, _DIGITS) for text_id, similarity in near if similarity > 0}
    known = lexicon.places({**words.scores, **meaning}, types)
    by_words = {key: score for key, score in words.scores.items() if key in known}
    by_meaning = {key: similarity for key, similarity in meaning.items() if key in known}
    rival = rival_score(by_words.values())
    fused = fuse(by_words, by_meaning)
    fused.sort(key=lambda scored: (-round(scored[1], _DIGITS), known[scored[0]]))
    return [
        RankedText(key, score, confidence(by_words.get(key, 0.0), rival, words.substance))
        for key, score in fused[:limit]
    ]
