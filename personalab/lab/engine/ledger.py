"""The ledger: a statistical estimate of every segment, pair and candidate from all scores.

Every score of every candidate on every case is entered once. The score of a set is modelled as a level, a
part for each segment, a smaller part for each pair, and a remainder that segments do not explain; the size of
each kind of part is estimated from the evidence. Candidates that share segments thereby share evidence, and
the estimate of a candidate that was chosen for its luck shrinks towards what its segments predict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from personalab.lab.engine.landscape import Floats, Landscape

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
