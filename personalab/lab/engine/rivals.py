"""Searches that the ledger engine is compared with: chance, the source's beam search and a Pareto race."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from random import Random

from personalab.lab.engine.problem import (
    BestLog,
    Candidate,
    CandidateLog,
    Corrected,
    Observed,
    Params,
    RoundLog,
    Scorebook,
    SearchProblem,
    StopCause,
    Strategy,
    Trial,
    candidate_of,
    check_kept,
    log_candidate,
    open_scorebook,
    plateau_level,
)
from personalab.lab.records import DIMENSIONS, MAXIMA, Dimension

_TRIES = 40
"""Attempts at something new by a strategy before it is skipped."""


@dataclass(frozen=True)
class ProposalContext:
    """What a proposer may look at."""

    problem: SearchProblem
    book: Scorebook
    base: Candidate | None
    ranked: tuple[Candidate, ...]
    level: int
    rng: Random


Draw = tuple[Strategy, frozenset[str], tuple[str, ...]]
"""A strategy, the segments it chose, and the ids of the candidates they came from."""
Propose = Callable[[ProposalContext, int], Draw | None]
"""Makes the nth proposal of a round."""


@dataclass(frozen=True)
class ScreeningRule:
    """Try a candidate on a few cases first; only one that passes goes on to the rest."""

    cases: int
    passes: Callable[[Scorebook, Candidate], bool]


class FullRounds:
    """Each round: a few new candidates on all cases; the best ever is the base of the next."""

    def __init__(
        self,
        problem: SearchProblem,
        params: Params,
        known: Sequence[Observed],
        propose: Propose,
        width: int,
        screen: ScreeningRule | None = None,
    ) -> None:
        self._problem = problem
        self._params = params
        self._propose = propose
        self._width = max(1, width)
        self._screen = screen
        self._screened = False
        self._book = open_scorebook(problem, known)
        self._pending: list[Trial] = []
        self._before: float | None = None
        self._order: list[Candidate] = []
        self._order_at = -1
        self._current: list[Candidate] = []
        self._rounds: list[RoundLog] = []
        self._streak = 0
        self._cause: StopCause | None = None
        self._born: dict[str, int] = {}

    @property
    def rounds(self) -> tuple[RoundLog, ...]:
        """The rounds that have ended."""
        return tuple(self._rounds)

    @property
    def best(self) -> BestLog:
        """The candidate with the highest plain average, which is also all that is claimed for it."""
        ranked = self._ranked()
        evaluations = self._book.evaluations
        if not ranked:
            return BestLog(None, 0, None, None, None, evaluations, self._cause)
        top = ranked[0]
        average = self._book.average(top.candidate_id)
        assert average is not None
        return BestLog(
            top,
            self._born.get(top.candidate_id, 0),
            average.total,
            average.breakdown,
            self._claimed(top, average.total),
            evaluations,
            self._cause,
        )

    def ask(self) -> list[Trial]:
        """Return the next evaluations; none when the search is over."""
        if self._pending:
            return list(self._pending)
        if self._cause is None:
            self._cause = self._reason_to_end()
        if self._cause is not None:
            return []
        self._current = self._new_candidates()
        if not self._current:
            self._cause = "exhausted"
            return []
        for candidate in self._current:
            self._book.enter(candidate)
            self._born[candidate.candidate_id] = len(self._rounds) + 1
        self._before = self.best.avg
        self._screened = False
        self._pending = [trial for candidate in self._current for trial in self._trials(candidate)]
        return list(self._pending)

    def tell(self, observed: Sequence[Observed]) -> None:
        """Take the answers to the last batch, complete, in any order."""
        if not self._pending:
            return
        self._book.add(observed)
        self._pending = []
        if self._screen is not None and not self._screened:
            self._screened = True
            passed = [one for one in self._current if self._screen.passes(self._book, one)]
            self._pending = [trial for candidate in passed for trial in self._trials(candidate)]
        if not self._pending:
            self._end_round()

    def stop(self) -> None:
        """End the search: there is nothing to re-test."""
        if self._pending and self._screened:
            self._end_round()
        self._pending = []
        if self._cause is None:
            self._cause = "manual"

    def _trials(self, candidate: Candidate) -> list[Trial]:
        """Return the cases a candidate is tried on next: a few to begin with if there is a screen, else the rest."""
        check_kept(self._problem, candidate)
        tried = self._book.tried(candidate.candidate_id)
        left = [case.case_id for case in self._problem.cases if case.case_id not in tried]
        if self._screen is not None and not self._screened:
            left = self._rng("cases").sample(left, min(self._screen.cases, len(left)))
        return [Trial(candidate, case_id) for case_id in left]

    def _rng(self, purpose: str) -> Random:
        return Random(f"{self._params.seed}:{len(self._rounds)}:{purpose}")

    def _end_round(self) -> None:
        level, before, now = self._level(), self._before, self.best
        gained = now.avg is not None and (
            before is None or now.avg - before >= self._params.plateau_threshold
        )
        self._streak = 0 if gained else self._streak + 1
        averages = {one.candidate_id: self._book.average(one.candidate_id) for one in self._current}
        scored = {one: average.total for one, average in averages.items() if average is not None}
        won = max(scored, key=lambda one: (scored[one], one), default=None)
        self._rounds.append(
            RoundLog(
                len(self._rounds) + 1,
                level,
                tuple(dict.fromkeys(c.strategy for c in self._current if c.strategy is not None)),
                tuple(self._log(candidate, won) for candidate in self._current),
                self._book.candidates[won] if won else now.candidate,
            )
        )

    def _level(self) -> int:
        return plateau_level(self._streak, self._params.plateau_rounds_before_escape)

    def _ranked(self) -> list[Candidate]:
        if self._order_at != self._book.evaluations:
            self._order, self._order_at = self._ordered(), self._book.evaluations
        return self._order

    def _ordered(self) -> list[Candidate]:
        scored: list[tuple[float, str, Candidate]] = []
        for candidate_id, candidate in self._book.candidates.items():
            average = self._book.average(candidate_id)
            if average is not None and self._problem.kept <= set(candidate.segments):
                scored.append((-average.total, candidate_id, candidate))
        return [candidate for _, _, candidate in sorted(scored, key=lambda one: one[:2])]

    def _reason_to_end(self) -> StopCause | None:
        params, best = self._params, self.best
        if params.stop_threshold is not None and best.avg is not None and best.avg >= params.stop_threshold:
            return "threshold"
        if len(self._rounds) >= params.max_rounds:
            return "max_rounds"
        if not self._problem.cases or not self._problem.segments:
            return "exhausted"
        if self._room() < 1:
            return "budget"
        return None

    def _room(self) -> int:
        if self._params.max_evaluations is None:
            return self._width
        left = self._params.max_evaluations - self._book.evaluations
        return min(self._width, left // len(self._problem.cases))

    def _new_candidates(self) -> list[Candidate]:
        rng = self._rng("proposals")
        ranked = tuple(self._ranked())
        base = ranked[0] if ranked else None
        standing = ProposalContext(self._problem, self._book, base, ranked, self._level(), rng)
        found: dict[str, Candidate] = {}
        for turn in range(self._room()):
            candidate = self._first_new(standing, turn, found)
            if candidate is not None:
                found[candidate.candidate_id] = candidate
        return list(found.values())

    def _first_new(
        self, standing: ProposalContext, turn: int, found: dict[str, Candidate]
    ) -> Candidate | None:
        for attempt in range(_TRIES):
            drawn = self._propose(standing, turn + attempt // 8)
            if drawn is None:
                continue
            strategy, segments, parents = drawn
            chosen = segments | self._problem.kept
            candidate = candidate_of(chosen, strategy, parents)
            known = candidate.candidate_id in found or candidate.candidate_id in self._book.candidates
            if chosen and not known:
                return candidate
        return None

    def _log(self, candidate: Candidate, won: str | None) -> CandidateLog:
        return log_candidate(self._book, candidate, len(self._problem.cases), won)

    def _claimed(self, candidate: Candidate, average: float) -> Corrected:
        totals = list(self._book.totals(candidate.candidate_id).values())
        middle = sum(totals) / len(totals)
        squares = sum((one - middle) ** 2 for one in totals)
        reach = 1.96 * sqrt(squares / (len(totals) - 1) / len(totals)) if len(totals) > 1 else 100.0
        return Corrected(average, average - reach, average + reach)


class RandomSubset(FullRounds):
    """Draws each candidate by chance, as something to be better than."""

    def __init__(self, problem: SearchProblem, params: Params, known: Sequence[Observed] = ()) -> None:
        super().__init__(problem, params, known, _propose_subset, width=1)


def _propose_subset(standing: ProposalContext, turn: int) -> Draw | None:
    """Draw each segment with even odds."""
    del turn
    chosen = frozenset(one.segment_id for one in standing.problem.segments if standing.rng.random() < 0.5)
    return "RANDOM_SUBSET", chosen, ()


_MENUS: Mapping[int, tuple[Strategy, ...]] = {
    0: ("GREEDY", "DIMENSION_FOCUS", "SEGMENT_EXPLORE"),
    1: ("DIMENSION_FOCUS", "SEGMENT_EXPLORE", "GREEDY"),
    2: ("SEGMENT_EXPLORE", "CROSS_POLLINATE", "DIMENSION_FOCUS"),
    3: ("CROSS_POLLINATE", "RANDOM_SUBSET", "SEGMENT_EXPLORE"),
}
_PARTNERS = 4


class SourceBeam(FullRounds):
    """The source's beam; a beam of one is its standard mode."""

    def __init__(
        self,
        problem: SearchProblem,
        params: Params,
        known: Sequence[Observed] = (),
        *,
        width: int | None = None,
    ) -> None:
        wide = params.beam_width if width is None else width
        super().__init__(problem, replace(params, beam_width=wide), known, _propose_by_menu, wide)


def _propose_by_menu(standing: ProposalContext, turn: int) -> Draw | None:
    """Choose segments by the strategy that is next at this plateau level."""
    menu = _MENUS[standing.level]
    return edit_base(standing, menu[turn % len(menu)])


def edit_base(standing: ProposalContext, strategy: Strategy) -> Draw | None:
    """Choose segments by a strategy, starting from the base."""
    if standing.base is None:
        return "RANDOM_SUBSET", _random_subset(standing), ()
    base = frozenset(standing.base.segments)
    parents = (standing.base.candidate_id,)
    match strategy:
        case "GREEDY":
            chosen = _greedy(standing, base)
        case "DIMENSION_FOCUS":
            chosen = _dimension_focus(standing, base)
        case "SEGMENT_EXPLORE":
            chosen = base ^ {standing.rng.choice(standing.problem.segments).segment_id}
        case "CROSS_POLLINATE":
            return _cross_pollinate(standing, base)
        case "RANDOM_SUBSET":
            chosen, parents = _random_subset(standing), ()
    return None if chosen is None else (strategy, chosen, parents)


def _greedy(standing: ProposalContext, base: frozenset[str]) -> frozenset[str] | None:
    """Add a segment of the best other candidate that has one to give."""
    for candidate in standing.ranked[1:]:
        spare = [name for name in candidate.segments if name not in base]
        if spare:
            return base | {standing.rng.choice(spare)}
    return None


def _dimension_focus(standing: ProposalContext, base: frozenset[str]) -> frozenset[str] | None:
    """Add a segment tagged with the base's weakest dimension, or drop one that is not."""
    assert standing.base is not None
    average = standing.book.average(standing.base.candidate_id)
    assert average is not None
    weakest: Dimension = min(DIMENSIONS, key=lambda one: average.breakdown[one] / MAXIMA[one])
    tagged = {one.segment_id for one in standing.problem.segments if one.dimension == weakest}
    spare, other = sorted(tagged - base), sorted(base - tagged)
    if spare:
        return base | {standing.rng.choice(spare)}
    return base - {standing.rng.choice(other)} if other else None


def _cross_pollinate(standing: ProposalContext, base: frozenset[str]) -> Draw | None:
    """Mix the base with another good candidate: what both have stays, the rest is drawn."""
    partners = standing.ranked[1 : 1 + _PARTNERS]
    if not partners:
        return None
    partner = standing.rng.choice(partners)
    theirs = frozenset(partner.segments)
    mixed = {name for name in sorted(base ^ theirs) if standing.rng.random() < 0.5}
    assert standing.base is not None
    return "CROSS_POLLINATE", (base & theirs) | mixed, (standing.base.candidate_id, partner.candidate_id)


def _random_subset(standing: ProposalContext) -> frozenset[str]:
    return frozenset(one.segment_id for one in standing.problem.segments if standing.rng.random() < 0.5)


_SCREENED = 3
_EDITS: tuple[Strategy, ...] = ("GREEDY", "DIMENSION_FOCUS", "SEGMENT_EXPLORE", "CROSS_POLLINATE")


class ParetoRace(FullRounds):
    """One edit of a parent from the front at a time; it goes on only if it beats the parent on a few cases."""

    def __init__(self, problem: SearchProblem, params: Params, known: Sequence[Observed] = ()) -> None:
        super().__init__(problem, params, known, _propose_edit, 1, ScreeningRule(_SCREENED, beats_its_parent))


def _propose_edit(standing: ProposalContext, turn: int) -> Draw | None:
    """Edit a parent, the likelier the more cases it is the best on."""
    del turn
    front = _front(standing)
    parent = standing.rng.choice(front) if front else standing.base
    return edit_base(replace(standing, base=parent), standing.rng.choice(_EDITS))


def _front(standing: ProposalContext) -> list[Candidate]:
    """Return the best candidate of each case; one that is the best on two is listed twice."""
    front: dict[str, tuple[float, Candidate]] = {}
    for one in standing.ranked:
        for case_id, total in standing.book.totals(one.candidate_id).items():
            if case_id not in front or total > front[case_id][0]:
                front[case_id] = (total, one)
    return [front[case.case_id][1] for case in standing.problem.cases if case.case_id in front]


def beats_its_parent(book: Scorebook, candidate: Candidate) -> bool:
    """Compare a candidate with its first parent on the cases both were answered on."""
    own = book.totals(candidate.candidate_id)
    if not own or not candidate.parents:
        return bool(own)
    theirs = book.totals(candidate.parents[0])
    return sum(own[case_id] - theirs[case_id] for case_id in sorted(own) if case_id in theirs) > 0.0
