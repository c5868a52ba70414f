"""The source's beam search: one strategy per beam position, other strategies on a plateau.

The source names the strategies and the levels and leaves their bodies open; this module is our reading of
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from personalab.lab.dimensions import DIMENSIONS, MAXIMA, Dimension
from personalab.lab.engine.full_rounds import Draw, FullRounds, ProposalContext
from personalab.lab.engine.problem import Observed, Params, SearchProblem, Strategy

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
        super().__init__(problem, replace(params, beam_width=wide), known, propose, wide)


def propose(standing: ProposalContext, turn: int) -> Draw | None:
    """Choose segments by the strategy that is next at this plateau level."""
    menu = _MENUS[standing.level]
    return edited(standing, menu[turn % len(menu)])


def edited(standing: ProposalContext, strategy: Strategy) -> Draw | None:
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
