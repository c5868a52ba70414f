"""Results of a search beyond its winner: segment effects, strategy statistics and re-tests."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import sqrt
from typing import Any, NamedTuple

from personalab.lab.dimensions import DIMENSIONS
from personalab.lab.engine.landscape import Floats
from personalab.lab.engine.ledger import Ledger
from personalab.lab.engine.problem import STRATEGIES, Corrected, SearchProblem, Strategy
from personalab.lab.engine.scorebook import Scorebook

SURE = 1.96
"""How many standard deviations a 95 % interval reaches."""
_FRESH = 0.5
"""How much of the re-test's surprise goes into what is reported, against the optimism of choosing by the ledger."""
_UNLIKELY, _STRANGE = 2.0, 3.0
"""From how many standard deviations a re-test, or a first test, which the search chose for its luck, is no chance."""


def segment_rows(problem: SearchProblem, ledger: Ledger, chosen: Floats) -> list[dict[str, Any]]:
    """Return each segment's effect on a set, in points with a 95 % interval."""
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
    """Return how often each strategy was tried, promoted and a new best, and the odds of that."""
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
    """Return the number of a candidate's next test."""
    return 1 + max(repeat for _, repeat in book.answers(candidate_id))


class Estimate(NamedTuple):
    """A score and its standard error."""

    score: float
    error: float


def settled(belief: Estimate, seen: Estimate, misfit: float) -> Estimate:
    """Weigh a belief against what was seen; ``misfit`` is how wrong the belief may be beyond its error, squared."""
    share = misfit / (misfit + seen.error**2) if misfit > 0.0 else 0.0
    score = belief.score + share * (seen.score - belief.score)
    return Estimate(score, sqrt(((1.0 - share) * belief.error) ** 2 + share * seen.error**2))


def by_evidence(ledger: Ledger, place: int, belief: Estimate) -> Estimate:
    """Return a score without a re-test: the ledger's, unless that contradicts the observed scores."""
    surprise, variance = ledger.surprise(place)
    seen = Estimate(float(ledger.shift.sum() + ledger.values[place].sum()), sqrt(float(ledger.noise[place])))
    return settled(belief, seen, surprise**2 - _STRANGE**2 * variance)


def by_retest(expected: Mapping[str, Estimate], found: Mapping[str, Estimate], candidate_id: str) -> Estimate:
    """Return a finalist's score after the re-test.

    The mean surprise of the finalists does not depend on which of them won, so choosing the winner does not colour
    it. Where the finalists surprise more than chance allows, the ledger does not fit, and the re-test alone counts.
    """
    surprises = [seen.score - expected[one].score for one, seen in found.items()]
    doubts = [seen.error**2 + expected[one].error ** 2 for one, seen in found.items()]
    many, (score, spread) = len(surprises), expected[candidate_id]
    error = sqrt(sum(seen.error**2 for seen in found.values())) / many
    belief = Estimate(score + _FRESH * sum(surprises) / many, sqrt(spread**2 + (_FRESH * error) ** 2))
    if candidate_id not in found:
        return belief
    misfit = sum(one**2 - _UNLIKELY**2 * doubt for one, doubt in zip(surprises, doubts, strict=True)) / many
    return settled(belief, found[candidate_id], misfit)


def interval(told: Estimate, seen: Estimate | None) -> Corrected:
    """Put an interval around a score; it reaches at least as far as a re-test does with its error."""
    reach = SURE * told.error
    low, high = told.score - reach, told.score + reach
    if seen is not None:
        low, high = min(low, seen.score - seen.error), max(high, seen.score + seen.error)
    return Corrected(*(min(100.0, max(0.0, one)) for one in (told.score, low, high)))


def retests(
    book: Scorebook, cases: Collection[str], finalists: Iterable[str], variance: float
) -> dict[str, Estimate]:
    """Average the re-test of each finalist that was answered on every case: only all of them are as easy as all."""
    found: dict[str, Estimate] = {}
    for one in finalists:
        last = next_repeat(book, one) - 1
        totals = [
            sum(scores[name] for name in DIMENSIONS)
            for (_, repeat), scores in sorted(book.answers(one).items())
            if repeat == last and scores is not None
        ]
        if len(totals) == len(cases):
            found[one] = Estimate(sum(totals) / len(totals), sqrt(variance / len(totals)))
    return found
