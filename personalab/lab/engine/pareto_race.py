"""A search that edits a skill from the Pareto front over cases and races the edit against its parent.

The selection is that of reflective prompt evolution (a Pareto front over cases, a small batch as the gate);
the edits are the source's, drawn at random, and no model reflects on anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from personalab.lab.engine.full_rounds import Draw, FullRounds, ProposalContext, ScreeningRule
from personalab.lab.engine.problem import Candidate, Observed, Params, SearchProblem, Strategy
from personalab.lab.engine.scorebook import Scorebook
from personalab.lab.engine.source_beam import edited

_SCREENED = 3
_EDITS: tuple[Strategy, ...] = ("GREEDY", "DIMENSION_FOCUS", "SEGMENT_EXPLORE", "CROSS_POLLINATE")


class ParetoRace(FullRounds):
    """One edit of a parent from the front at a time; it goes on only if it beats the parent on a few cases."""

    def __init__(self, problem: SearchProblem, params: Params, known: Sequence[Observed] = ()) -> None:
        super().__init__(problem, params, known, propose, 1, ScreeningRule(_SCREENED, beats_its_parent))


def propose(standing: ProposalContext, turn: int) -> Draw | None:
    """Edit a parent, the likelier the more cases it is the best on."""
    del turn
    front = _front(standing)
    parent = standing.rng.choice(front) if front else standing.base
    return edited(replace(standing, base=parent), standing.rng.choice(_EDITS))


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
