"""The strategies that propose sets of segments from the ledger, and the choice of their cases."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from personalab.lab.engine.ledger import Floats, Landscape, Ledger, Mask
from personalab.lab.engine.problem import Candidate, Scorebook, SearchProblem, Strategy
from personalab.lab.records import CATEGORIES, Category


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


_OTHERS: Mapping[int, tuple[Strategy, ...]] = {
    0: (),
    1: (),
    2: ("SEGMENT_EXPLORE", "CROSS_POLLINATE"),
    3: ("SEGMENT_EXPLORE", "CROSS_POLLINATE", "RANDOM_SUBSET"),
}
"""What takes turns with the climb at each plateau level: nothing is as good as the climb while that gains."""
_EVERY = 3
HEATS: Mapping[int, float] = {0: 0.8, 1: 0.8, 2: 1.0, 3: 1.0}
"""How far draws go from what is believed, as a share of how uncertain that is: further on a plateau."""
HARVEST = 0.0
_STARTS = 2
_PARTNERS = 4
_SEARCHED = 4096


@dataclass(frozen=True)
class Outlook:
    """What a strategy may look at: the ledger, the scored sets from the best down, and what may be changed."""

    ledger: Ledger
    ranked: Sequence[Floats]
    free: Mask
    heat: float
    rng: np.random.Generator


@dataclass(frozen=True)
class Proposal:
    """A set, the sets it came from, and the landscape on which it was found."""

    chosen: Floats
    parents: tuple[Floats, ...]
    landscape: Landscape


def strategy_at(level: int, number: int) -> Strategy:
    """Return the strategy that makes the nth proposal of a search."""
    others = _OTHERS[level]
    if not others or number % _EVERY != _EVERY - 1:
        return "GREEDY"
    return others[number // _EVERY % len(others)]


def is_focus(ledger: Ledger, best: Floats, chosen: Floats, weakest: int) -> bool:
    """Return whether at least half of a change's expected gain is in the weakest dimension."""
    whole, part = ledger.mean(), ledger.dimension(weakest)
    gain = part.value(chosen) - part.value(best)
    return gain > 0.0 and 2.0 * gain >= whole.value(chosen) - whole.value(best)


def propose(strategy: Strategy, outlook: Outlook) -> Proposal:
    """Return a strategy's proposed set."""
    drawn = outlook.ledger.draw(outlook.rng, outlook.heat)
    match strategy:
        case "GREEDY" | "DIMENSION_FOCUS":
            return _top(drawn, outlook)
        case "SEGMENT_EXPLORE":
            return _least_known(drawn, outlook)
        case "CROSS_POLLINATE":
            return _crossed(drawn, outlook)
        case "RANDOM_SUBSET":
            chance = (outlook.rng.random(len(outlook.free)) < 0.5).astype(np.float64)
            return Proposal(np.where(outlook.free, chance, outlook.ranked[0]), (), drawn)


def _top(landscape: Landscape, outlook: Outlook) -> Proposal:
    """Climb from the best sets to the highest top in reach."""
    tops = [landscape.climb(start, outlook.free) for start in outlook.ranked[:_STARTS]]
    place = max(range(len(tops)), key=lambda one: landscape.value(tops[one]))
    return Proposal(tops[place], (outlook.ranked[place],), landscape)


def _least_known(landscape: Landscape, outlook: Outlook) -> Proposal:
    """Change the segment of the best set that is the least certain to be right."""
    best = outlook.ranked[0]
    by_dimension, spread = outlook.ledger.effects(best)
    gain = (1.0 - 2.0 * best) * by_dimension.sum(axis=1)
    hope = np.where(outlook.free, gain + 2.0 * spread, -np.inf)
    chosen = best.copy()
    place = int(np.argmax(hope))
    if outlook.free[place]:
        chosen[place] = 1.0 - chosen[place]
    return Proposal(chosen, (best,), landscape)


def _crossed(landscape: Landscape, outlook: Outlook) -> Proposal:
    """Take the best of two good sets: what both have stays, the rest is climbed for."""
    others = min(len(outlook.ranked) - 1, _PARTNERS)
    if others < 1:
        return _top(landscape, outlook)
    best, partner = outlook.ranked[0], outlook.ranked[1 + int(outlook.rng.integers(others))]
    differing: Mask = outlook.free & (best != partner)
    return Proposal(landscape.climb(best, differing), (best, partner), landscape)


def nearest_new(proposal: Proposal, free: Mask, known: set[bytes]) -> Floats | None:
    """Return the proposed set, or where it is known already, the best new one around it; None if there is none."""
    landscape = proposal.landscape
    start = proposal.chosen
    reached = {set_key(start)}
    queue: list[tuple[float, bytes]] = [(-landscape.value(start), set_key(start))]
    for _ in range(_SEARCHED):
        if not queue:
            return None
        height, key = heapq.heappop(queue)
        if key not in known and any(key):
            return set_of(key)
        chosen = set_of(key)
        gains = landscape.gains(chosen)
        for place in np.flatnonzero(free):
            chosen[place] = 1.0 - chosen[place]
            neighbour = set_key(chosen)
            chosen[place] = 1.0 - chosen[place]
            if neighbour not in reached:
                reached.add(neighbour)
                heapq.heappush(queue, (height - float(gains[place]), neighbour))
    return None


def set_key(chosen: Floats) -> bytes:
    """Name a set by which segments it has."""
    return chosen.astype(np.uint8).tobytes()


def set_of(key: bytes) -> Floats:
    """Return the set of a name."""
    return np.frombuffer(key, dtype=np.uint8).astype(np.float64)
