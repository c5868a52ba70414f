"""What is told of a search beyond its winner: what each segment does, how strategies fared, how a re-test came out?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from typing import Any

from personalab.lab.dimensions import DIMENSIONS
from personalab.lab.engine.landscape import Floats
from personalab.lab.engine.ledger import Ledger
from personalab.lab.engine.problem import STRATEGIES, Problem, Strategy
from personalab.lab.engine.scorebook import Scorebook

SURE = 1.96
"""How many standard deviations a 95 % interval reaches."""


def segment_rows(problem: Problem, ledger: Ledger, chosen: Floats) -> list[dict[str, Any]]:
    """Tell what each segment does to a set, in points with a 95 % interval."""
    by_dimension, spread = ledger.effects(chosen)
    return [
        {
            "segment_id": segment.segment_id,
            "in_best": bool(chosen[place]),
            "kept": segment.segment_id in problem.kept,
            "total": _effect(float(by_dimension[place].sum()), float(spread[place])),
            "dimensions": {
                name: _effect(float(by_dimension[place, d]), float(spread[place] * ledger.shares[d]))
                for d, name in enumerate(DIMENSIONS)
            },
        }
        for place, segment in enumerate(problem.segments)
    ]


def _effect(points: float, spread: float) -> dict[str, float]:
    reach = SURE * spread
    return {"effect": round(points, 3), "low": round(points - reach, 3), "high": round(points + reach, 3)}


def odds_of(
    tried: Sequence[Strategy | None], promoted: Sequence[Strategy | None], improved: Sequence[Strategy]
) -> dict[str, dict[str, float]]:
    """Tell how often each strategy was tried, promoted and better than all before, and the odds of that."""
    return {
        name: {
            "tried": tried.count(name),
            "promoted": promoted.count(name),
            "improved": improved.count(name),
            "odds": round((improved.count(name) + 1) / (tried.count(name) + 2), 3),
        }
        for name in STRATEGIES
    }


def next_repeat(book: Scorebook, candidate_id: str) -> int:
    """Give the number of a candidate's next test."""
    return 1 + max(repeat for _, repeat in book.answers(candidate_id))


def surprise_of(
    book: Scorebook, cases: Iterable[str], expected: Mapping[str, tuple[float, float]], variance: float
) -> tuple[float, float]:
    """Tell how far a re-test was from what was expected of the finalists, and its standard error.

    The mean over the finalists does not depend on which of them won, so choosing the winner does not colour it.
    """
    whole = len(list(cases))
    gaps: list[float] = []
    for one, (score, _) in expected.items():
        last = next_repeat(book, one) - 1
        found = [
            sum(scores[name] for name in DIMENSIONS)
            for (_, repeat), scores in book.answers(one).items()
            if repeat == last and scores is not None
        ]
        # Only all cases together are as easy as they are on average.
        if len(found) == whole:
            gaps.append(sum(found) / whole - score)
    return (sum(gaps) / len(gaps), sqrt(variance / (whole * len(gaps)))) if gaps else (0.0, 0.0)
