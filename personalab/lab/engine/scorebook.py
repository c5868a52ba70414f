"""The scores so far, and the averages of each candidate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from personalab.lab.dimensions import DIMENSIONS, Dimension
from personalab.lab.engine.problem import Candidate, CandidateLog, Observed, SearchProblem, original

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


def opened(problem: SearchProblem, known: Sequence[Observed]) -> Scorebook:
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


def logged(book: Scorebook, candidate: Candidate, cases: int, won: str | None) -> CandidateLog:
    """Write down how a candidate fared in the round that ends now."""
    one, strategy = candidate.candidate_id, candidate.strategy
    average = book.average(one)
    if average is not None:
        return CandidateLog(candidate, strategy, average.total, average.breakdown, one == won, None)
    failed, tried = book.failures(one), len(book.tried(one))
    error = f"failed {failed}/{cases}" if failed else f"screened_out {tried}/{cases}"
    return CandidateLog(candidate, strategy, None, None, False, error)
