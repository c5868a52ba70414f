"""The random baseline among the engines, which draws subsets of segments by chance."""

from __future__ import annotations

from collections.abc import Sequence

from personalab.lab.engine.full_rounds import Draw, FullRounds, ProposalContext
from personalab.lab.engine.problem import Observed, Params, SearchProblem


class RandomSubset(FullRounds):
    """Draws each candidate by chance, as something to be better than."""

    def __init__(self, problem: SearchProblem, params: Params, known: Sequence[Observed] = ()) -> None:
        super().__init__(problem, params, known, propose, width=1)


def propose(standing: ProposalContext, turn: int) -> Draw | None:
    """Draw each segment with even odds."""
    del turn
    chosen = frozenset(one.segment_id for one in standing.problem.segments if standing.rng.random() < 0.5)
    return "RANDOM_SUBSET", chosen, ()
