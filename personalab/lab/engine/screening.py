"""Choice of the cases that a candidate is tried on next."""

from __future__ import annotations

import numpy as np

from personalab.lab.dimensions import CATEGORIES, Category
from personalab.lab.engine.problem import Candidate, SearchProblem
from personalab.lab.engine.scorebook import Scorebook


def cases_for(
    problem: SearchProblem,
    book: Scorebook,
    candidate: Candidate,
    many: int,
    use: dict[str, int],
    rng: np.random.Generator,
) -> list[str]:
    """Choose cases a candidate has not seen: all categories alike, the least used first; ``use`` is kept up."""
    tried = book.tried(candidate.candidate_id)
    left: dict[str, Category] = {
        one.case_id: one.category for one in problem.cases if one.case_id not in tried
    }
    chance = {case_id: float(rng.random()) for case_id in left}
    taken = dict[Category, int].fromkeys(CATEGORIES, 0)
    chosen: list[str] = []
    while left and len(chosen) < many:
        best = min(left, key=lambda one: (taken[left[one]], use[one], chance[one]))
        taken[left.pop(best)] += 1
        use[best] += 1
        chosen.append(best)
    return chosen


def use_of(problem: SearchProblem, book: Scorebook) -> dict[str, int]:
    """Count how often each case was tried."""
    use = {one.case_id: 0 for one in problem.cases}
    for one in book.candidates:
        for case_id, _ in book.answers(one):
            use[case_id] += 1
    return use
