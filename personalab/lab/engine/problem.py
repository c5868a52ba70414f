"""The interface between a search engine and its caller, and the scores so far."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from personalab.errors import UserError
from personalab.lab.records import DIMENSIONS, Category, Dimension

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


Scores = Mapping[Dimension, float]


@dataclass(frozen=True, slots=True)
class Average:
    """A plain average over all cases."""

    total: float
    breakdown: Mapping[Dimension, float]


class Scorebook:
    """Keeps every answer once, by candidate, case and repeat."""

    def __init__(self, problem: SearchProblem) -> None:
        self._cases = {case.case_id for case in problem.cases}
        self._answers: dict[str, dict[tuple[str, int], Scores | None]] = {}
        self._tried: dict[str, set[str]] = {}
        self._totals: dict[str, dict[str, float]] = {}
        self._averages: dict[str, Average | None] = {}
        self.candidates: dict[str, Candidate] = {}
        self.originals: frozenset[str] = frozenset()
        self.evaluations = 0
        """Number of evaluations requested here; known ones are already paid for."""

    def enter(self, candidate: Candidate) -> None:
        """Take note that a candidate exists; the first to name a content stays."""
        self.candidates.setdefault(candidate.candidate_id, candidate)

    def add(self, observed: Iterable[Observed]) -> None:
        """Keep answers; one that is there already, or is about nothing known, counts for nothing."""
        for one in observed:
            if one.candidate_id not in self.candidates or one.case_id not in self._cases:
                continue
            answers = self._answers.setdefault(one.candidate_id, {})
            if (one.case_id, one.repeat) not in answers:
                answers[one.case_id, one.repeat] = one.scores
                self._tried.setdefault(one.candidate_id, set()).add(one.case_id)
                if one.scores is not None:
                    totals = self._totals.setdefault(one.candidate_id, {})
                    totals.setdefault(one.case_id, sum(one.scores[name] for name in DIMENSIONS))
                self._averages.pop(one.candidate_id, None)
                self.evaluations += 1

    def answers(self, candidate_id: str) -> Mapping[tuple[str, int], Scores | None]:
        """Return all answers about a candidate, by case and repeat."""
        return self._answers.get(candidate_id, {})

    def tried(self, candidate_id: str) -> set[str]:
        """Return the cases a candidate was tried on at least once, answered or failed."""
        return self._tried.get(candidate_id, set())

    def is_whole(self, candidate_id: str) -> bool:
        """Return whether a candidate has scores on every case; only such candidates can be compared."""
        return 0 < len(self._cases) == len(self.totals(candidate_id))

    def failures(self, candidate_id: str) -> int:
        """Count the cases a candidate was tried on without ever being answered."""
        return len(self.tried(candidate_id)) - len(self.totals(candidate_id))

    def is_open(self, candidate_id: str) -> bool:
        """Return whether a candidate can still become whole; originals are evaluated only by the project's own run."""
        is_candidate = candidate_id not in self.originals and not self.failures(candidate_id)
        return is_candidate and len(self.tried(candidate_id)) < len(self._cases)

    def is_answered(self, candidate_id: str) -> bool:
        """Return whether any evaluation of a candidate was answered."""
        return candidate_id in self._totals

    def totals(self, candidate_id: str) -> Mapping[str, float]:
        """Return the first answered total of a candidate on each case."""
        return self._totals.get(candidate_id, {})

    def average(self, candidate_id: str) -> Average | None:
        """Average the first repeats of a candidate that has scores on every case."""
        if candidate_id not in self._averages:
            self._averages[candidate_id] = self._averaged(candidate_id)
        return self._averages[candidate_id]

    def _averaged(self, candidate_id: str) -> Average | None:
        if not self.is_whole(candidate_id):
            return None
        firsts = [
            scores
            for (_, repeat), scores in sorted(self.answers(candidate_id).items())
            if repeat == 1 and scores is not None
        ]
        if not firsts:
            return None
        breakdown: dict[Dimension, float] = {
            dimension: sum(scores[dimension] for scores in firsts) / len(firsts) for dimension in DIMENSIONS
        }
        return Average(sum(breakdown.values()), breakdown)


def open_scorebook(problem: SearchProblem, known: Sequence[Observed]) -> Scorebook:
    """Open a book with what is known of the originals."""
    book = Scorebook(problem)
    told = {one.candidate_id for one in known}
    for skill_id in problem.skills:
        candidate = original(problem, skill_id)
        if candidate.candidate_id in told:
            book.enter(candidate)
    book.add(known)
    book.originals = frozenset(book.candidates)
    book.evaluations = 0
    return book


def log_candidate(book: Scorebook, candidate: Candidate, cases: int, won: str | None) -> CandidateLog:
    """Write down how a candidate fared in the round that ends now."""
    one, strategy = candidate.candidate_id, candidate.strategy
    average = book.average(one)
    if average is not None:
        return CandidateLog(candidate, strategy, average.total, average.breakdown, one == won, None)
    failed, tried = book.failures(one), len(book.tried(one))
    error = f"failed {failed}/{cases}" if failed else f"screened_out {tried}/{cases}"
    return CandidateLog(candidate, strategy, None, None, False, error)
