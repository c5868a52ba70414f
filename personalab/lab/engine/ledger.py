"""The ledger: a statistical estimate of every segment, pair and candidate from all scores, and what follows from it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from personalab.lab.engine.problem import STRATEGIES, Corrected, Scorebook, SearchProblem, Strategy
from personalab.lab.records import DIMENSIONS

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
_LEAST_STEP = 1e-9


@dataclass(frozen=True, slots=True)
class Landscape:
    """A score for every set: a level, what each segment adds, and what each pair adds to that.

    ``pairs`` is symmetric and its diagonal is zero.
    """

    level: float
    main: Floats
    pairs: Floats

    def value(self, chosen: Floats) -> float:
        """Return the score of a set."""
        return float(self.level + self.main @ chosen + 0.5 * chosen @ self.pairs @ chosen)

    def gains(self, chosen: Floats) -> Floats:
        """Return what the set would gain by putting in or taking out each segment."""
        return (1.0 - 2.0 * chosen) * (self.main + self.pairs @ chosen)

    def climb(self, chosen: Floats, free: Mask) -> Floats:
        """Put in or take out one free segment after the other, the best first, until nothing helps."""
        chosen = chosen.copy()
        slope = self.main + self.pairs @ chosen
        for _ in range(4 * len(chosen)):
            gains = np.where(free, (1.0 - 2.0 * chosen) * slope, -np.inf)
            place = int(np.argmax(gains)) if len(gains) else 0
            if not len(gains) or gains[place] <= _LEAST_STEP:
                break
            step = 1.0 - 2.0 * chosen[place]
            chosen[place] += step
            slope += self.pairs[:, place] * step
        return chosen

    def plus(self, other: Landscape, weight: float) -> Landscape:
        """Add a share of another landscape to this one."""
        return Landscape(
            self.level + weight * other.level,
            self.main + weight * other.main,
            self.pairs + weight * other.pairs,
        )


Indices = NDArray[np.int64]
_LEVEL = 100.0
_SHARED = 0.3
"""How much all segments may have in common, such as the cost of length."""
_NOISE = 25.0
_NOISE_WORTH = 4.0
"""What is assumed of one evaluation's variance, and how many evaluations that assumption is worth."""
_CASE = 36.0
_TURNS = 3
_STEP = 1.5


class Scales(NamedTuple):
    """The variance of what a segment adds, of what a pair adds, and of what a candidate has of its own."""

    segment: float = 2.0
    pair: float = 0.1
    own: float = 0.3


_EXPECTED = Scales(segment=2.0, pair=0.2, own=0.3)
_LEEWAY = Scales(segment=1.5, pair=1.2, own=1.2)
"""Around which scales, and how far in logarithms, evidence is expected to lie."""


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """Everything scored: the sets as rows of zeros and ones, and per answer its set, its case and its six scores."""

    sets: Floats
    owner: Indices
    case: Indices
    scores: Floats
    cases: int


@dataclass(frozen=True)
class Ledger:
    """The estimates after everything entered so far; values and weights are by set and dimension."""

    sets: Floats
    scales: Scales
    shift: Floats
    values: Floats
    noise: Floats
    variance: float
    """That of one evaluation; ``noise`` is that of each set's mean."""
    inverse: Floats
    weights: Floats
    shares: Floats
    """How much of an evaluation's standard deviation is in each dimension."""

    def believed(self) -> Floats:
        """Return the believed true score of each set, by dimension."""
        return self.shift + self.values - self.noise[:, None] * self.weights

    def spread(self) -> Floats:
        """Return the standard deviation of the belief in each set's total."""
        left = self.noise - self.noise**2 * np.diagonal(self.inverse)
        return np.sqrt(np.maximum(left, 0.0))

    def surprise(self, place: int) -> tuple[float, float]:
        """Return how far a set's total is from what all others promise, and the variance this has if they fit."""
        own = float(self.inverse[place, place])
        return float(self.weights[place].sum()) / own, 1.0 / own

    def mean(self) -> Landscape:
        """Return the landscape that is believed in."""
        return self._landscape(self.weights.sum(axis=1), float(self.shift.sum()))

    def dimension(self, place: int) -> Landscape:
        """Return what is believed of one dimension; the six add up to the whole."""
        return self._landscape(self.weights[:, place], float(self.shift[place]))

    def draw(self, rng: np.random.Generator, heat: float) -> Landscape:
        """Draw a landscape that may as well be true; with less heat, one closer to what is believed."""
        size, scales = self.sets.shape[1], self.scales
        level = heat * float(_chance(rng, _LEVEL, 1)[0])
        main = heat * (_chance(rng, scales.segment, size) + _chance(rng, _SHARED, 1))
        upper = heat * np.triu(_chance(rng, scales.pair, size * size).reshape(size, size), 1)
        guess = Landscape(level, main, upper + upper.T)
        told = level + self.sets @ main + 0.5 * ((self.sets @ guess.pairs) * self.sets).sum(axis=1)
        luck = heat * _chance(rng, scales.own + self.noise, len(self.sets))
        missed = self.values.sum(axis=1) - told - luck
        return guess.plus(self._landscape(self.inverse @ missed, float(self.shift.sum())), 1.0)

    def effects(self, chosen: Floats) -> tuple[Floats, Floats]:
        """Return what each segment does to a set, by dimension, and the standard deviation of its total."""
        with_it = np.tile(chosen, (len(chosen), 1))
        without = with_it.copy()
        np.fill_diagonal(with_it, 1.0)
        np.fill_diagonal(without, 0.0)
        across = _kernel(with_it, self.sets, self.scales) - _kernel(without, self.sets, self.scales)
        prior = self.scales.segment + _SHARED + self.scales.pair * (chosen.sum() - chosen)
        left = prior - ((across @ self.inverse) * across).sum(axis=1)
        return across @ self.weights, np.sqrt(np.maximum(left, 0.0))

    def _landscape(self, weights: Floats, shift: float) -> Landscape:
        scales, sets = self.scales, self.sets
        main = scales.segment * (sets.T @ weights) + _SHARED * (sets.sum(axis=1) @ weights)
        pairs = scales.pair * ((sets.T * weights) @ sets)
        np.fill_diagonal(pairs, 0.0)
        return Landscape(float(_LEVEL * weights.sum()) + shift, main, pairs)


def balance(sheet: ScoreTable, scales: Scales) -> Ledger:
    """Weigh all evidence, starting from the scales found last time.

    How easy each case is and how good each set is are estimated in turns, each given the other.
    """
    count = np.bincount(sheet.owner, minlength=len(sheet.sets)).astype(np.float64)
    told = _by(sheet.owner, sheet.scores, len(count)) / count[:, None]
    ledger = _turn(sheet, count, told, _NOISE, scales, search=True)
    for _ in range(_TURNS - 1):
        ledger = _turn(sheet, count, ledger.believed(), ledger.variance, ledger.scales, search=False)
    return ledger


def _turn(
    sheet: ScoreTable, count: Floats, told: Floats, noise: float, scales: Scales, *, search: bool
) -> Ledger:
    level = sheet.scores - _ease(sheet.scores - told[sheet.owner], sheet, noise)[sheet.case]
    means = _by(sheet.owner, level, len(count)) / count[:, None]
    left = level - means[sheet.owner]
    shift = means.sum(axis=0) / max(len(means), 1)
    values = means - shift
    noise = _noise(left.sum(axis=1), sheet)
    noises = noise / count
    if search:
        scales = _better_scales(sheet.sets, values.sum(axis=1), noises, scales)
    inverse: Floats = np.linalg.inv(_covariance(sheet.sets, noises, scales)).astype(np.float64)
    return Ledger(sheet.sets, scales, shift, values, noises, noise, inverse, inverse @ values, _shares(left))


def _chance(rng: np.random.Generator, variance: float | Floats, size: int) -> Floats:
    return rng.standard_normal(size) * np.sqrt(variance)


def _by(place: Indices, columns: Floats, places: int) -> Floats:
    """Add up rows by place, column by column."""
    sums = np.zeros((places, columns.shape[1]))
    for column in range(columns.shape[1]):
        sums[:, column] = np.bincount(place, weights=columns[:, column], minlength=places)
    return sums


def _shares(left: Floats) -> Floats:
    squares: Floats = np.array([float(column @ column) for column in left.T])
    whole = float(squares.sum())
    if whole <= 0.0:
        squares, whole = np.ones(len(squares)), float(len(squares))
    return np.sqrt(squares / whole)


def _kernel(left: Floats, right: Floats, scales: Scales) -> Floats:
    """Compute the similarity of two sets from their shared segments and their shared pairs."""
    common = left @ right.T
    length = np.outer(left.sum(axis=1), right.sum(axis=1))
    return _LEVEL + scales.segment * common + _SHARED * length + scales.pair * common * (common - 1.0) / 2.0


def _covariance(sets: Floats, noise: Floats, scales: Scales) -> Floats:
    covariance = _kernel(sets, sets, scales)
    covariance[np.diag_indices_from(covariance)] += scales.own + noise
    return covariance


def _better_scales(sets: Floats, values: Floats, noise: Floats, scales: Scales) -> Scales:
    """Take one step towards the scales under which the evidence is least surprising."""
    least = _surprise(sets, values, noise, scales)
    for kind in range(len(scales)):
        for factor in (_STEP, 1.0 / _STEP):
            other = Scales(*(one * factor if place == kind else one for place, one in enumerate(scales)))
            surprise = _surprise(sets, values, noise, other)
            if surprise < least:
                least, scales = surprise, other
                break
    return scales


def _surprise(sets: Floats, values: Floats, noise: Floats, scales: Scales) -> float:
    lower = np.linalg.cholesky(_covariance(sets, noise, scales))
    scaled = np.linalg.solve(lower, values)
    far = sum(
        (log(one / expected) / leeway) ** 2
        for one, expected, leeway in zip(scales, _EXPECTED, _LEEWAY, strict=True)
    )
    return float(0.5 * scaled @ scaled + np.log(np.diagonal(lower)).sum()) + 0.5 * far


def _ease(left: Floats, sheet: ScoreTable, noise: float) -> Floats:
    """Estimate how easy each case is, drawn to nought where little is known of it."""
    count = np.bincount(sheet.case, minlength=sheet.cases)
    ease = _by(sheet.case, left, sheet.cases) / (count + noise / _CASE)[:, None]
    return ease - ease.mean(axis=0) if len(ease) else ease


def _noise(left: Floats, sheet: ScoreTable) -> float:
    freedom = max(len(left) - len(sheet.sets) - sheet.cases + 1, 1)
    return float((left @ left + _NOISE * _NOISE_WORTH) / (freedom + _NOISE_WORTH))


def sheet_of(
    sets: Sequence[Floats], rows: Sequence[tuple[int, int, Sequence[float]]], segments: int, cases: int
) -> ScoreTable:
    """Lay out sets and answers; each answer names its set, its case and its six scores."""
    return ScoreTable(
        np.array(sets, dtype=np.float64).reshape(len(sets), segments),
        np.array([row[0] for row in rows], dtype=np.int64),
        np.array([row[1] for row in rows], dtype=np.int64),
        np.array([row[2] for row in rows], dtype=np.float64).reshape(len(rows), 6),
        cases,
    )


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
