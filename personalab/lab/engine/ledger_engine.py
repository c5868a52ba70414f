"""The ledger engine, which finds a better skill with few evaluations.

In each round a few new candidates are tried on a few cases of every category, the results are entered in the
ledger, and at most one candidate, of this round or an earlier one, is promoted to all cases. In the end the
best two are tested once more, so that the winner's reported score does not include the luck it was selected
for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from personalab.lab.engine.ledger import (
    Estimate,
    Floats,
    Ledger,
    Scales,
    balance,
    by_evidence,
    by_retest,
    interval,
    next_repeat,
    odds_of,
    retests,
    segment_rows,
    sheet_of,
)
from personalab.lab.engine.problem import (
    STRATEGIES,
    BestLog,
    Candidate,
    Corrected,
    Observed,
    Params,
    RoundLog,
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
from personalab.lab.engine.proposing import (
    HARVEST,
    HEATS,
    Outlook,
    Proposal,
    cases_for,
    is_focus,
    nearest_new,
    propose,
    set_key,
    strategy_at,
    use_of,
)
from personalab.lab.records import DIMENSIONS, MAXIMA

_LEAST_SCREENED = 3
_SCREENED = 4
"""A candidate is first tried on one case in so many."""
_SETTLED = 4
_HOPELESS = 0.25
"""A search is over when for so many times the rounds before an escape no draw promised this share of a gain."""
_FINALISTS = 2
_RETEST_FROM = 4
"""A finalist is tested again if the budget is at least so many times the number of cases."""
_HARVEST_ROUNDS = 2
_Phase = Literal["screen", "promote", "retest", "over"]


def screening_size(cases: int) -> int:
    """Return the number of cases, of so many, that a new candidate is tried on first."""
    return min(cases, max(_LEAST_SCREENED, round(cases / _SCREENED)))


class LedgerEngine:
    """Asks for evaluations, round by round; the same answers always lead to the same questions."""

    def __init__(self, problem: SearchProblem, params: Params, known: Sequence[Observed] = ()) -> None:
        self._problem = problem
        self._params = params
        self._place = {one.segment_id: place for place, one in enumerate(problem.segments)}
        self._case = {one.case_id: place for place, one in enumerate(problem.cases)}
        self._free = np.array(
            [one.segment_id not in problem.kept for one in problem.segments], dtype=np.bool_
        )
        self._book = open_scorebook(problem, known)
        self._scales: Scales = Scales()
        self._phase: _Phase = "screen"
        self._pending: list[Trial] = []
        self._current: list[Candidate] = []
        self._sets: dict[str, Floats] = {}
        self._proposed = 0
        self._level = 0
        self._before: str | None = None
        self._promoted: dict[str, int] = {}
        self._improved: list[Strategy] = []
        self._rounds: list[RoundLog] = []
        self._hopes: list[float] = []
        self._streak = 0
        self._cause: StopCause | None = None
        self._finalists: tuple[str, ...] = ()
        self._expected: dict[str, Estimate] = {}
        self._weigh()

    # --- questions and answers

    def ask(self) -> list[Trial]:
        """Return the next evaluations; none when the search is over."""
        if not self._pending and self._phase == "screen":
            self._cause = self._cause or self._reason_to_end()
            if self._cause is None:
                self._pending = self._screening()
                self._cause = None if self._pending else "exhausted"
            if self._cause is not None:
                self._pending = self._retest()
                self._phase = "retest" if self._pending else "over"
        for trial in self._pending:
            check_kept(self._problem, trial.candidate)
        return list(self._pending)

    def tell(self, observed: Sequence[Observed]) -> None:
        """Take the answers to the last batch, complete, in any order."""
        if not self._pending:
            return
        before = self._best_id()
        if self._phase == "retest":
            self._expected = {one: self._belief(one) for one in self._finalists}
        self._book.add(observed)
        self._pending = []
        self._weigh()
        if self._phase == "retest":
            self._phase = "over"
        elif self._phase == "screen" and (promotion := self._promotion()):
            self._pending, self._phase = promotion, "promote"
            self._before = before
        else:
            self._end_round(self._before if self._phase == "promote" else before)

    def stop(self) -> None:
        """End the search on a person's request: only re-tests may follow."""
        if self._cause is not None:
            return
        self._cause = "manual"
        self._pending = []
        if self._phase == "promote":
            self._end_round(self._before)

    # --- results

    @property
    def rounds(self) -> tuple[RoundLog, ...]:
        """The rounds that have ended."""
        return tuple(self._rounds)

    @property
    def best(self) -> BestLog:
        """The candidate that is believed to be the best of those tried on all cases."""
        best_id, evaluations = self._best_id(), self._book.evaluations
        cause = self._cause if self._phase == "over" else None
        average = None if best_id is None else self._book.average(best_id)
        if best_id is None or average is None:
            return BestLog(None, 0, None, None, None, evaluations, cause)
        return BestLog(
            self._book.candidates[best_id],
            self._promoted.get(best_id, 0),
            average.total,
            average.breakdown,
            self._corrected(best_id),
            evaluations,
            cause,
        )

    def ledger(self) -> list[dict[str, Any]]:
        """Return each segment's effect on the best candidate, in points with a 95 % interval."""
        if not self._place:
            return []
        best_id = self._best_id()
        chosen = self._set(self._book.candidates[best_id]) if best_id else self._blank()
        return segment_rows(self._problem, self._ledger, chosen)

    def strategy_odds(self) -> dict[str, dict[str, float]]:
        """Return how often each strategy was tried, promoted and a new best, and the odds of that."""
        tried: list[Strategy | None] = [one.strategy for log in self._rounds for one in log.candidates]
        promoted: list[Strategy | None] = [self._book.candidates[one].strategy for one in self._promoted]
        return odds_of(tried, promoted, self._improved)

    # --- what is believed

    def _weigh(self) -> None:
        """Rebuild the ledger from all evidence."""
        ids = [one for one in self._book.candidates if self._book.is_answered(one)]
        rows = [
            (place, self._case[case_id], [scores[name] for name in DIMENSIONS])
            for place, one in enumerate(ids)
            for (case_id, _), scores in sorted(self._book.answers(one).items())
            if scores is not None
        ]
        sets = [self._set(self._book.candidates[one]) for one in ids]
        self._ledger: Ledger = balance(sheet_of(sets, rows, len(self._place), len(self._case)), self._scales)
        self._scales = self._ledger.scales
        believed, spread = self._ledger.believed().sum(axis=1), self._ledger.spread()
        self._row = {one: place for place, one in enumerate(ids)}
        self._believed = {one: float(value) for one, value in zip(ids, believed, strict=True)}
        self._spread = {one: float(value) for one, value in zip(ids, spread, strict=True)}
        # Ties are broken by the id, so that nothing depends on the order of answers.
        self._ranked = sorted(ids, key=lambda one: (-self._believed[one], one))
        allowed = [one for one in self._ranked if self._is_allowed(one)]
        self._open = [one for one in allowed if self._book.is_open(one)]
        self._whole = [one for one in allowed if self._book.is_whole(one)]
        self._named = {set_key(self._set(self._book.candidates[one])): one for one in ids}

    def _best_id(self) -> str | None:
        finalists = [one for one in self._whole if one in self._finalists]
        return next(iter(finalists or self._whole), None)

    def _is_allowed(self, candidate_id: str) -> bool:
        return self._problem.kept <= set(self._book.candidates[candidate_id].segments)

    def _corrected(self, candidate_id: str) -> Corrected:
        found = retests(self._book, self._case, self._expected, self._ledger.variance)
        if found and candidate_id in self._expected:
            return interval(by_retest(self._expected, found, candidate_id), found.get(candidate_id))
        place = self._row[candidate_id]
        return interval(by_evidence(self._ledger, place, self._belief(candidate_id)), None)

    def _belief(self, candidate_id: str) -> Estimate:
        return Estimate(self._believed[candidate_id], self._spread[candidate_id])

    # --- a round

    def _reason_to_end(self) -> StopCause | None:
        params, best = self._params, self.best
        if best.avg is not None and best.corrected is not None and params.stop_threshold is not None:
            # A lucky average alone does not end the search.
            enough = min(best.avg, best.corrected.score) >= params.stop_threshold
            if enough:
                return "threshold"
        if len(self._rounds) >= params.max_rounds:
            return "max_rounds"
        if not self._case or not self._place:
            return "exhausted"
        if self._room() < 1:
            return "budget"
        settled = _SETTLED * params.plateau_rounds_before_escape
        if self._streak >= settled and max(self._hopes[-settled:]) < _HOPELESS * params.plateau_threshold:
            return "plateau"
        return None

    def _screened(self) -> int:
        return screening_size(len(self._case))

    def _room(self) -> int:
        """Return the number of candidates that can be screened with enough budget left to promote one."""
        wide = max(1, self._params.beam_width)
        if self._params.max_evaluations is None:
            return wide
        screened = self._screened()
        promotion = len(self._case) - screened
        return min(wide, (self._left() - self._reserve() - promotion) // screened)

    def _is_near_the_end(self) -> bool:
        """Return whether new evidence would come too late, so that the best estimate is tried instead."""
        if self._params.max_rounds - len(self._rounds) <= _HARVEST_ROUNDS:
            return True
        screened = self._screened()
        a_round = max(1, self._params.beam_width) * screened + len(self._case) - screened
        left = self._left() - self._reserve()
        return self._params.max_evaluations is not None and left < (_HARVEST_ROUNDS + 1) * a_round

    def _left(self) -> int:
        if self._params.max_evaluations is None:
            return _FINALISTS * len(self._case)
        return max(0, self._params.max_evaluations - self._book.evaluations)

    def _reserve(self) -> int:
        cases, most = len(self._case), self._params.max_evaluations
        if most is None:
            return 0
        return min(_FINALISTS, most // (_RETEST_FROM * cases)) * cases

    def _screening(self) -> list[Trial]:
        rng = self._rng()
        self._level = plateau_level(self._streak, self._params.plateau_rounds_before_escape)
        self._current = []
        harvest = self._is_near_the_end()
        heat = HARVEST if harvest else HEATS[self._level]
        outlook = Outlook(self._ledger, self._starts(), self._free, heat, rng)
        best, weakest, hope = outlook.ranked[0], self._weakest(), 0.0
        known = {set_key(self._set(one)) for one in self._book.candidates.values()}
        for _ in range(self._room()):
            strategy = "GREEDY" if harvest else strategy_at(self._level, self._proposed)
            proposal = propose(strategy, outlook)
            chosen = nearest_new(proposal, self._free, known)
            if chosen is None:
                break
            if strategy == "GREEDY" and is_focus(self._ledger, best, chosen, weakest):
                strategy = "DIMENSION_FOCUS"
            self._proposed += 1
            known.add(set_key(chosen))
            self._current.append(self._admitted(chosen, strategy, proposal))
            hope = max(hope, proposal.landscape.value(chosen) - proposal.landscape.value(best))
        self._hopes.append(hope)
        use, many = use_of(self._problem, self._book), self._screened()
        return [
            Trial(candidate, case_id)
            for candidate in self._current
            for case_id in cases_for(self._problem, self._book, candidate, many, use, rng)
        ]

    def _starts(self) -> list[Floats]:
        """Return the sets to start from: the best one, and then all that is known, from the best down."""
        best_id = self._best_id()
        ids = [*([best_id] if best_id else []), *self._ranked]
        sets = [self._with_kept(self._set(self._book.candidates[one])) for one in ids]
        return list({set_key(one): one for one in sets or [self._blank()]}.values())

    def _weakest(self) -> int:
        best_id = self._best_id()
        average = self._book.average(best_id) if best_id else None
        if average is None:
            return 0
        shares = [average.breakdown[name] / MAXIMA[name] for name in DIMENSIONS]
        return shares.index(min(shares))

    def _admitted(self, chosen: Floats, strategy: Strategy, proposal: Proposal) -> Candidate:
        """Make a candidate of a set: the one place that all strategies pass, where what is kept is put in."""
        names = {one.segment_id for one, there in zip(self._problem.segments, chosen, strict=True) if there}
        parents = [self._named[key] for one in proposal.parents if (key := set_key(one)) in self._named]
        candidate = candidate_of(names | self._problem.kept, strategy, parents)
        self._book.enter(candidate)
        return candidate

    def _promotion(self) -> list[Trial]:
        """Return the cases that the most promising candidate still lacks, if it may be the best."""
        if not self._open:
            return []
        top, best_id = self._open[0], self._best_id()
        # While the search gains fast, only what promises a good step is worth all cases.
        step = self._params.plateau_threshold / 2 if self._level == 0 else 0.0
        if best_id is not None and self._believed[top] < self._believed[best_id] + step:
            return []
        candidate = self._book.candidates[top]
        if candidate not in self._current:
            self._current.append(candidate)
        left = len(self._case) - len(self._book.tried(top))
        use = use_of(self._problem, self._book)
        cases = cases_for(self._problem, self._book, candidate, left, use, self._rng())
        return [Trial(candidate, case_id) for case_id in cases]

    def _end_round(self, before: str | None) -> None:
        number = len(self._rounds) + 1
        for candidate in self._current:
            if self._book.is_whole(candidate.candidate_id):
                self._promoted.setdefault(candidate.candidate_id, number)
        best_id = self._best_id()
        gain = 0.0
        if best_id is not None and best_id != before:
            gain = self._believed[best_id] - self._believed[before] if before else float("inf")
            strategy = self._book.candidates[best_id].strategy
            if strategy is not None:
                self._improved.append(strategy)
        self._streak = 0 if gain >= self._params.plateau_threshold else self._streak + 1
        ids = {one.candidate_id for one in self._current if self._promoted.get(one.candidate_id) == number}
        won = next((one for one in self._ranked if one in ids), None)
        winner = won or best_id
        used = {one.strategy for one in self._current}
        tried: tuple[Strategy, ...] = tuple(name for name in STRATEGIES if name in used)
        logs = tuple(log_candidate(self._book, one, len(self._case), won) for one in self._current)
        self._rounds.append(
            RoundLog(number, self._level, tried, logs, self._book.candidates[winner] if winner else None)
        )
        self._phase = "screen"

    def _retest(self) -> list[Trial]:
        """Ask for the best two once more on all cases, as far as the budget goes."""
        if not self._rounds:
            return []
        many = min(_FINALISTS, self._left() // len(self._case))
        self._finalists = tuple(self._whole[:many])
        return [
            Trial(self._book.candidates[one], case_id, next_repeat(self._book, one))
            for one in self._finalists
            for case_id in self._case
        ]

    # --- small things

    def _rng(self) -> np.random.Generator:
        """Draw chance from the seed and from how far the search has come, and from nothing else."""
        text = f"{self._params.seed}:{len(self._rounds)}:{self._book.evaluations}"
        return np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]))

    def _blank(self) -> Floats:
        return self._with_kept(np.zeros(len(self._place)))

    def _with_kept(self, chosen: Floats) -> Floats:
        return np.where(self._free, chosen, 1.0)

    def _set(self, candidate: Candidate) -> Floats:
        one = candidate.candidate_id
        if one not in self._sets:
            self._sets[one] = np.zeros(len(self._place))
            self._sets[one][[self._place[name] for name in candidate.segments if name in self._place]] = 1.0
        return self._sets[one]
