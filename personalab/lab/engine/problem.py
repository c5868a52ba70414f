"""The interface between a search engine and its caller: problem, parameters, trials, results and logs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from personalab.errors import UserError
from personalab.lab.dimensions import Category, Dimension

Strategy = Literal["GREEDY", "DIMENSION_FOCUS", "SEGMENT_EXPLORE", "CROSS_POLLINATE", "RANDOM_SUBSET"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
StopCause = Literal["threshold", "max_rounds", "budget", "plateau", "manual", "exhausted"]


@dataclass(frozen=True, slots=True)
class EngineSegment:
    """A piece of an original skill; ``dimension`` is the analyst's tag, which is often wrong."""

    segment_id: str
    skill_id: str
    dimension: Dimension | None = None


@dataclass(frozen=True, slots=True)
class CasePlace:
    """A test case, as far as the search has to know it."""

    case_id: str
    category: Category


@dataclass(frozen=True)
class SearchProblem:
    """The pieces, the originals they come from, the cases, and the pieces every candidate has to contain."""

    segments: tuple[EngineSegment, ...]
    skills: Mapping[str, tuple[str, ...]]
    cases: tuple[CasePlace, ...]
    kept: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Params:
    """How long and how wide to search; ``max_evaluations`` does not count what is known of the originals."""

    max_rounds: int
    beam_width: int = 3
    plateau_threshold: float = 1.0
    plateau_rounds_before_escape: int = 2
    stop_threshold: float | None = None
    max_evaluations: int | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A set of segments under a name that depends on nothing else; ``strategy`` is None for an original."""

    candidate_id: str
    segments: tuple[str, ...]
    strategy: Strategy | None = None
    parents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trial:
    """One requested evaluation; ``repeat`` is 1 for the first and more for re-tests."""

    candidate: Candidate
    case_id: str
    repeat: int = 1


@dataclass(frozen=True, slots=True)
class Observed:
    """One evaluation answered; ``scores`` is None if it failed."""

    candidate_id: str
    case_id: str
    repeat: int
    scores: Mapping[Dimension, float] | None


@dataclass(frozen=True, slots=True)
class CandidateLog:
    """How one candidate of a round fared; ``avg`` is None if not every case was answered."""

    candidate: Candidate
    strategy: Strategy | None
    avg: float | None
    breakdown: Mapping[Dimension, float] | None
    won: bool
    error: str | None


@dataclass(frozen=True, slots=True)
class RoundLog:
    """What a round tried; ``winner`` is the best of its own candidates that are whole, or else the best so far."""

    round: int
    plateau_level: int
    strategies_tried: tuple[Strategy, ...]
    candidates: tuple[CandidateLog, ...]
    winner: Candidate | None


@dataclass(frozen=True, slots=True)
class Corrected:
    """The best estimate of a true score, and a 95 % interval around it."""

    score: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class BestLog:
    """The best so far; ``round`` is 0 for an original, ``stop_cause`` is None while the search goes on.

    ``avg`` is the plain average of the first repeats; ``corrected`` allows for it having been chosen for being high.
    """

    candidate: Candidate | None
    round: int
    avg: float | None
    breakdown: Mapping[Dimension, float] | None
    corrected: Corrected | None
    evaluations: int
    stop_cause: StopCause | None


class Engine(Protocol):
    """Requests evaluations and receives their results, batch by batch."""

    def ask(self) -> list[Trial]:
        """Return the next evaluations; none when the search is over."""
        ...

    def tell(self, observed: Sequence[Observed]) -> None:
        """Take the answers to the last batch, complete, in any order."""
        ...

    def stop(self) -> None:
        """End the search early: only re-tests may follow."""
        ...

    @property
    def rounds(self) -> tuple[RoundLog, ...]:
        """The rounds that have ended."""
        ...

    @property
    def best(self) -> BestLog:
        """The best candidate so far."""
        ...


def candidate_id_of(segments: Iterable[str]) -> str:
    """Name a set of segments by its content alone."""
    return hashlib.sha256("\n".join(sorted(segments)).encode()).hexdigest()[:16]


def candidate_of(
    segments: Iterable[str], strategy: Strategy | None = None, parents: Sequence[str] = ()
) -> Candidate:
    """Make a candidate of a set of segments."""
    chosen = tuple(sorted(set(segments)))
    return Candidate(candidate_id_of(chosen), chosen, strategy, tuple(parents))


def original(problem: SearchProblem, skill_id: str) -> Candidate:
    """Return an original skill as the set of all its segments."""
    return candidate_of(problem.skills[skill_id])


def check_kept(problem: SearchProblem, candidate: Candidate) -> Candidate:
    """Refuse a candidate that lost a segment which had to stay."""
    lost = problem.kept - set(candidate.segments)
    if lost:
        raise UserError("lab_kept_segment_lost", segments=", ".join(sorted(lost)))
    return candidate


def plateau_level(streak: int, before_escape: int) -> int:
    """Return the plateau level of a search after ``streak`` rounds without enough gain."""
    if streak <= 0:
        return 0
    if streak < before_escape:
        return 1
    return 2 if streak < 2 * before_escape else 3
