"""Synthetic worlds in which an iteration can be measured against the exact optimum.

A world hides the effect of each segment on each dimension in each category of cases, which pairs help or hurt
each other, and the cost of length. Every number of it follows from its seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import erf, sqrt
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from personalab.lab.engine.problem import (
    Candidate,
    CasePlace,
    EngineSegment,
    Observed,
    SearchProblem,
    Trial,
    original,
)
from personalab.lab.records import CATEGORIES, DIMENSIONS, MAXIMA, Dimension

Preset = Literal["base", "interactions", "noisy", "pure_noise", "deceptive"]
PRESETS: tuple[Preset, ...] = get_args(Preset)
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

SKILLS = 4
SEGMENTS_PER_SKILL = 4
SEGMENTS = SKILLS * SEGMENTS_PER_SKILL
CASES = 12
START_EVALUATIONS = SKILLS * CASES
LEAST_HEADROOM = 5.0
"""A world in which less can be won says nothing about a search."""

_HARMFUL = 0.25
_TAG_RIGHT = 0.65
_NOISE = 0.11
"""Of a dimension's maximum; with rounding, a total then varies by about 4.9."""
_REACH = 9.0
_STEPS = 4096


@dataclass(frozen=True, slots=True)
class _Shape:
    """What sets a preset apart."""

    pairs: int = 10
    pair_scale: float = 0.45
    main: float = 1.0
    length_cost: float = 0.15
    noise: float = 1.0


_SHAPES: Mapping[Preset, _Shape] = {
    "base": _Shape(),
    "interactions": _Shape(pairs=60),
    "noisy": _Shape(noise=1.75),
    "pure_noise": _Shape(pairs=0, main=0.0, length_cost=0.0),
    "deceptive": _Shape(pairs=60, pair_scale=0.6, main=0.0, length_cost=0.0),
}


@dataclass(frozen=True)
class World:
    """A problem with its hidden truth; ``truth`` holds the true average of every subset, by its bits."""

    seed: int
    preset: Preset
    problem: SearchProblem
    truth: Floats
    start: float
    optimum: float
    _hidden: _Hidden = field(repr=False)

    @property
    def counts(self) -> bool:
        """Whether enough can be won here for a share of it to mean something."""
        return self.optimum - self.start >= LEAST_HEADROOM

    def true_score(self, candidate: Candidate) -> float:
        """Return what a candidate would average if it were evaluated for ever."""
        return float(self.truth[_bits(candidate.segments)])

    def headroom(self, candidate: Candidate) -> float:
        """Return the share of what can be won above the best original that a candidate has won."""
        return (self.true_score(candidate) - self.start) / (self.optimum - self.start)

    def evaluate(self, trial: Trial) -> Observed:
        """Score one trial; the same trial always gets the same scores."""
        bits = _bits(trial.candidate.segments)
        scores = self._hidden.scores(bits, trial.repeat)[_CASE_INDEX[trial.case_id]]
        found: dict[Dimension, float] = {
            dimension: float(score) for dimension, score in zip(DIMENSIONS, scores, strict=True)
        }
        return Observed(trial.candidate.candidate_id, trial.case_id, trial.repeat, found)

    def originals(self) -> list[Observed]:
        """Score the original skills on all cases."""
        return [
            self.evaluate(Trial(original(self.problem, skill_id), case.case_id))
            for skill_id in self.problem.skills
            for case in self.problem.cases
        ]


@dataclass(frozen=True)
class _Hidden:
    """Levels by case and dimension, effects by category, segment and dimension, and pairs by dimension."""

    seed: int
    levels: Floats
    effects: Floats
    pairs: Floats
    noise: float
    drawn: dict[tuple[int, int], Floats] = field(default_factory=dict[tuple[int, int], Floats])

    def scores(self, bits: int, repeat: int) -> Floats:
        """Return the integer scores of a subset, by case and dimension."""
        key = (bits, repeat)
        if key not in self.drawn:
            rng = np.random.default_rng((self.seed, 77, bits, repeat))
            mean = _MAXIMA / (1.0 + np.exp(-self._latent(bits)))
            drawn = rng.normal(mean, self.noise * _MAXIMA)
            self.drawn[key] = np.clip(np.rint(drawn), 0.0, _MAXIMA)
        return self.drawn[key]

    def _latent(self, bits: int) -> Floats:
        chosen = _members()[bits].astype(np.float64)
        main = np.einsum("ksd,s->kd", self.effects, chosen)
        pair = np.einsum("dst,s,t->d", self.pairs, chosen, chosen)
        return self.levels + main[_CASE_CATEGORIES] + pair

    def truth(self) -> Floats:
        """Compute the true average of every subset."""
        members = _members()
        total = np.zeros(2**SEGMENTS, dtype=np.float32)
        for d in range(len(DIMENSIONS)):
            pair = (members @ self.pairs[d].astype(np.float32) * members).sum(axis=1)
            expected = _expected_score(d, self.noise)
            for k in range(len(CATEGORIES)):
                latent = members @ self.effects[k, :, d].astype(np.float32) + pair
                for level in self.levels[np.equal(_CASE_CATEGORIES, k), d]:
                    place = (latent + np.float32(level + _REACH)) * np.float32(_STEPS / (2 * _REACH))
                    total += expected[np.clip(place, 0, _STEPS - 1).astype(np.int32)]
        return total.astype(np.float64) / CASES


def make_world(seed: int, preset: Preset = "base") -> World:
    """Make the world of a seed."""
    shape = _SHAPES[preset]
    rng = np.random.default_rng((seed, 11))
    primary = rng.integers(len(DIMENSIONS), size=SEGMENTS)
    hidden = _hide(seed, shape, primary, rng)
    problem = _problem(primary, rng)
    truth = hidden.truth()
    start = max(float(truth[_bits(segments)]) for segments in problem.skills.values())
    return World(seed, preset, problem, truth, start, float(np.max(truth[1:])), hidden)


def _hide(seed: int, shape: _Shape, primary: NDArray[np.int64], rng: np.random.Generator) -> _Hidden:
    dims = len(DIMENSIONS)
    effects = rng.normal(0.0, 0.2, size=(SEGMENTS, dims))
    strength = rng.uniform(0.1, 1.0, size=SEGMENTS)
    harmful = rng.permutation(SEGMENTS) < round(_HARMFUL * SEGMENTS)
    effects[np.arange(SEGMENTS), primary] += np.where(harmful, -strength, strength)
    relevance = rng.uniform(0.4, 1.6, size=(len(CATEGORIES), SEGMENTS, 1))
    by_category = shape.main * effects * relevance
    by_category[:, :, DIMENSIONS.index("conciseness")] -= shape.length_cost
    levels = rng.normal(0.3, 0.3, size=dims) + rng.normal(0.0, 0.35, size=(CASES, 1))
    places = [(i, j) for i in range(SEGMENTS) for j in range(i)]
    pairs = np.zeros((dims, SEGMENTS, SEGMENTS))
    for place in rng.permutation(len(places))[: shape.pairs]:
        i, j = places[int(place)]
        pairs[int(rng.integers(dims)), i, j] = rng.normal(0.0, shape.pair_scale)
    return _Hidden(seed, levels, by_category, pairs, _NOISE * shape.noise)


def _problem(primary: NDArray[np.int64], rng: np.random.Generator) -> SearchProblem:
    wrong = rng.integers(1, len(DIMENSIONS), size=SEGMENTS)
    right = rng.random(SEGMENTS) < _TAG_RIGHT
    tags = np.where(right, primary, (primary + wrong) % len(DIMENSIONS))
    segments = tuple(
        EngineSegment(name, f"skill_{i // SEGMENTS_PER_SKILL + 1}", DIMENSIONS[int(tags[i])])
        for i, name in enumerate(_SEGMENT_IDS)
    )
    skills = {
        f"skill_{k + 1}": _SEGMENT_IDS[k * SEGMENTS_PER_SKILL : (k + 1) * SEGMENTS_PER_SKILL]
        for k in range(SKILLS)
    }
    cases = tuple(
        CasePlace(case_id, CATEGORIES[int(_CASE_CATEGORIES[i])]) for case_id, i in _CASE_INDEX.items()
    )
    return SearchProblem(segments, skills, cases)


@lru_cache(maxsize=32)
def _expected_score(dimension: int, noise: float) -> Singles:
    """Tabulate by latent value what a noisy, rounded and clipped score averages to."""
    most = float(_MAXIMA[dimension])
    latent = (np.arange(_STEPS) + 0.5) * (2 * _REACH / _STEPS) - _REACH
    means = most / (1.0 + np.exp(-latent))
    spread = noise * most * sqrt(2.0)
    table = [sum(0.5 - 0.5 * erf((k - 0.5 - m) / spread) for k in range(1, int(most) + 1)) for m in means]
    return np.array(table, dtype=np.float32)


@lru_cache(maxsize=1)
def _members() -> Singles:
    """Return every subset as a row of zeros and ones."""
    return ((np.arange(2**SEGMENTS)[:, None] >> np.arange(SEGMENTS)) & 1).astype(np.float32)


def _bits(segments: tuple[str, ...]) -> int:
    return sum(1 << _SEGMENT_INDEX[name] for name in segments)


_SEGMENT_IDS = tuple(f"seg_{i + 1:03d}" for i in range(SEGMENTS))
_SEGMENT_INDEX = {name: i for i, name in enumerate(_SEGMENT_IDS)}
_CASE_INDEX = {f"case_{i + 1:03d}": i for i in range(CASES)}
_CASE_CATEGORIES = np.arange(CASES) % len(CATEGORIES)
_MAXIMA = np.array([MAXIMA[dimension] for dimension in DIMENSIONS], dtype=np.float64)
