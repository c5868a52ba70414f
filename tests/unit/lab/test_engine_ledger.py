"""What the ledger engine is worth: it finds more than others, claims no more than it found, and shows why."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from personalab.lab.engine.ledger import (
    SURE,
    Estimate,
    Landscape,
    Scales,
    balance,
    by_retest,
    interval,
    settled,
    sheet_of,
)
from personalab.lab.engine.ledger_engine import LedgerEngine
from personalab.lab.engine.problem import (
    BestLog,
    CasePlace,
    Corrected,
    EngineSegment,
    Observed,
    Params,
    RoundLog,
    SearchProblem,
    Trial,
    candidate_of,
)
from personalab.lab.engine.proposing import Proposal, nearest_new, set_key, strategy_at
from personalab.lab.engine.rivals import RandomSubset
from personalab.lab.records import DIMENSIONS, MAXIMA, Dimension
from personalab.lab.world import Preset, World, make_world

_PAID = 48


def searched(world: World, budget: int) -> tuple[LedgerEngine, list[list[Trial]]]:
    engine = LedgerEngine(
        world.problem, Params(max_rounds=999, max_evaluations=budget - _PAID, seed=9), world.originals()
    )
    asked: list[list[Trial]] = []
    while trials := engine.ask():
        asked.append(trials)
        engine.tell([world.evaluate(trial) for trial in trials])
    return engine, asked


def random_best(world: World, budget: int) -> BestLog:
    engine = RandomSubset(
        world.problem, Params(max_rounds=999, max_evaluations=budget - _PAID, seed=9), world.originals()
    )
    while trials := engine.ask():
        engine.tell([world.evaluate(trial) for trial in trials])
    return engine.best


def headroom(worlds: Sequence[World], bests: Sequence[BestLog]) -> float:
    shares = [
        world.headroom(best.candidate) for world, best in zip(worlds, bests, strict=True) if best.candidate
    ]
    return sum(shares) / len(worlds)


@pytest.mark.parametrize("preset", ["base", "deceptive"])
def test_the_ledger_wins_far_more_than_chance(preset: Preset) -> None:
    worlds = [world for seed in range(5) if (world := make_world(seed, preset)).counts]
    ours = headroom(worlds, [searched(world, 250)[0].best for world in worlds])
    theirs = headroom(worlds, [random_best(world, 250) for world in worlds])
    assert ours > theirs + 0.25
    assert ours > 0.6


def test_what_is_reported_is_close_to_the_truth_and_closer_than_the_plain_average() -> None:
    off: list[float] = []
    plain: list[float] = []
    inside: list[bool] = []
    for seed in range(8):
        world = make_world(seed)
        best = searched(world, 250)[0].best
        assert best.candidate is not None
        assert best.corrected is not None
        assert best.avg is not None
        true = world.true_score(best.candidate)
        off.append(abs(best.corrected.score - true))
        plain.append(abs(best.avg - true))
        inside.append(best.corrected.low <= true <= best.corrected.high)
    assert sum(off) / len(off) <= 1.0
    assert sum(off) < sum(plain)
    assert sum(inside) >= 6


def test_under_pure_noise_hardly_any_gain_is_claimed() -> None:
    gains: list[float] = []
    for seed in range(8):
        world = make_world(seed, "pure_noise")
        corrected = searched(world, 300)[0].best.corrected
        assert corrected is not None
        gains.append(corrected.score - world.start)
    assert sum(gains) / len(gains) <= 1.0


def test_candidates_are_screened_on_all_categories_and_one_a_round_is_promoted() -> None:
    world = make_world(4)
    engine, asked = searched(world, 250)
    category = {case.case_id: case.category for case in world.problem.cases}
    first = asked[0]
    for candidate in {trial.candidate for trial in first}:
        assert len({category[trial.case_id] for trial in first if trial.candidate == candidate}) == 3
    for one in engine.rounds:
        assert sum(log.avg is not None for log in one.candidates) <= 1
        screened = [log for log in one.candidates if log.avg is None]
        assert all(log.error == "screened_out 3/12" for log in screened)
    assert engine.best.round in {one.round for one in engine.rounds}


def test_the_last_two_are_tested_once_more_and_one_of_them_wins() -> None:
    world = make_world(4)
    engine, asked = searched(world, 250)
    again = asked[-1]
    finalists = {trial.candidate.candidate_id for trial in again}
    assert {trial.repeat for trial in again} == {2}
    assert (len(finalists), len(again)) == (2, 24)
    assert all(trial.repeat == 1 for batch in asked[:-1] for trial in batch)
    best = engine.best.candidate
    assert best is not None
    assert best.candidate_id in finalists
    assert engine.best.stop_cause == "budget"


def test_the_average_of_the_best_is_the_plain_one_of_its_first_repeats() -> None:
    world = make_world(6)
    best = searched(world, 250)[0].best
    assert best.candidate is not None
    totals = [
        sum((world.evaluate(Trial(best.candidate, case.case_id)).scores or {}).values())
        for case in world.problem.cases
    ]
    assert best.avg == pytest.approx(sum(totals) / len(totals))
    assert best.breakdown is not None
    assert best.avg == pytest.approx(sum(best.breakdown.values()))


def test_the_ledger_tells_helpful_segments_from_harmful_ones() -> None:
    world = make_world(6)
    engine, _ = searched(world, 408)
    best = engine.best.candidate
    assert best is not None
    inside = covered = 0
    told: list[bool] = []
    for row in engine.ledger():
        name = row["segment_id"]
        with_it, without = {*best.segments, name}, set(best.segments) - {name}
        true = world.true_score(candidate_of(with_it)) - world.true_score(candidate_of(without))
        covered += row["total"]["low"] <= true <= row["total"]["high"]
        if row["total"]["low"] > 0 or row["total"]["high"] < 0:
            told.append((row["total"]["effect"] > 0) == (true > 0))
        inside += row["in_best"]
        parts = sum(row["dimensions"][dimension]["effect"] for dimension in DIMENSIONS)
        assert parts == pytest.approx(row["total"]["effect"], abs=0.01)
    assert inside == len(best.segments)
    assert covered >= 13
    assert len(told) >= 6
    assert all(told)


def test_strategies_other_than_the_climb_come_in_on_a_plateau() -> None:
    world = make_world(1)
    engine, _ = searched(world, 500)
    used: dict[bool, set[str]] = {True: set(), False: set()}
    for one in engine.rounds:
        for log in one.candidates:
            # An older candidate that is promoted later keeps the strategy that made it.
            if log.avg is None:
                used[one.plateau_level >= 2].add(log.strategy or "")
    assert used[False] <= {"GREEDY", "DIMENSION_FOCUS"}
    assert {"SEGMENT_EXPLORE", "CROSS_POLLINATE", "RANDOM_SUBSET"} <= used[True]
    odds = engine.strategy_odds()
    assert sum(one["improved"] for one in odds.values()) >= 1
    assert all(0.0 < one["odds"] < 1.0 for one in odds.values())
    assert [strategy_at(0, number) for number in range(6)] == ["GREEDY"] * 6


def test_a_search_with_nothing_to_hope_for_ends_on_a_plateau() -> None:
    world = make_world(0, "pure_noise")
    params = Params(max_rounds=400, plateau_threshold=20.0, plateau_rounds_before_escape=1)
    engine = LedgerEngine(world.problem, params, world.originals())
    while trials := engine.ask():
        engine.tell([world.evaluate(trial) for trial in trials])
    assert engine.best.stop_cause == "plateau"
    assert len(engine.rounds) < 400


def test_a_problem_of_the_largest_size_is_searched() -> None:
    segments = tuple(EngineSegment(f"s{i:03d}", f"skill_{i % 5}", DIMENSIONS[i % 6]) for i in range(400))
    skills = {f"skill_{k}": tuple(one.segment_id for one in segments[k::5]) for k in range(5)}
    cases = tuple(CasePlace(f"c{i:03d}", "standard") for i in range(200))
    problem = SearchProblem(segments, skills, cases, frozenset({"s000"}))
    engine = LedgerEngine(problem, Params(max_rounds=2), ())
    asked = engine.ask()
    assert len(asked) == 3 * 50
    world = make_world(0)
    row = world.originals()[0].scores
    engine.tell([Observed(one.candidate.candidate_id, one.case_id, one.repeat, row) for one in asked])
    assert len(engine.ask()) == 150
    assert len(engine.ledger()) == 400


def _only_whole(trial: Trial) -> Observed:
    """Score without any noise: all segments together are good, any fewer are bad."""
    share = 0.9 if len(trial.candidate.segments) == 3 else 0.3
    scores: dict[Dimension, float] = {name: float(int(MAXIMA[name] * share)) for name in DIMENSIONS}
    return Observed(trial.candidate.candidate_id, trial.case_id, trial.repeat, scores)


@pytest.mark.parametrize("cases", [3, 4, 12])
@pytest.mark.parametrize("budget", [None, 12])
def test_what_segments_do_not_explain_is_reported_as_it_was_measured(cases: int, budget: int | None) -> None:
    segments = tuple(EngineSegment(f"s{i}", "skill") for i in range(3))
    places = tuple(CasePlace(f"c{i:02d}", "standard") for i in range(cases))
    problem = SearchProblem(segments, {"skill": ("s0", "s1", "s2")}, places)
    original = candidate_of(("s0", "s1", "s2"))
    known = [_only_whole(Trial(original, place.case_id)) for place in places]
    engine = LedgerEngine(problem, Params(max_rounds=2, max_evaluations=budget), known)
    while trials := engine.ask():
        engine.tell([_only_whole(trial) for trial in trials])
    best = engine.best
    assert best.candidate == original
    assert best.corrected is not None
    assert best.avg == 89.0
    assert best.corrected.low <= 89.0 <= best.corrected.high
    if best.evaluations:
        assert best.corrected.score == pytest.approx(89.0, abs=1.0)


# --- the parts


def test_a_belief_that_fits_stays_and_one_that_does_not_gives_way_to_what_was_seen() -> None:
    belief, seen = Estimate(80.0, 1.0), Estimate(90.0, 1.0)
    assert settled(belief, seen, -5.0) == belief
    assert settled(belief, seen, 1.0).score == pytest.approx(85.0)
    far = settled(belief, seen, 1e6)
    assert far.score == pytest.approx(90.0, abs=0.01)
    assert far.error == pytest.approx(1.0, abs=0.01)


def test_the_interval_reaches_as_far_as_the_re_test_with_its_error() -> None:
    told = Estimate(80.0, 1.0)
    assert interval(told, None) == Corrected(80.0, 80.0 - SURE, 80.0 + SURE)
    assert interval(told, Estimate(80.5, 1.0)) == interval(told, None)
    assert interval(told, Estimate(83.0, 1.5)) == Corrected(80.0, 80.0 - SURE, 84.5)
    assert interval(told, Estimate(77.0, 1.5)) == Corrected(80.0, 75.5, 80.0 + SURE)
    assert interval(Estimate(99.5, 1.0), Estimate(101.0, 1.0)).high == 100.0


def test_a_re_test_within_chance_only_moves_the_report_and_one_beyond_decides_it() -> None:
    expected = {"a": Estimate(80.0, 1.0), "b": Estimate(78.0, 1.0)}
    near = by_retest(expected, {"a": Estimate(81.0, 1.0), "b": Estimate(79.0, 1.0)}, "a")
    assert near.score == pytest.approx(80.5)
    far = by_retest(expected, {"a": Estimate(92.0, 1.0), "b": Estimate(66.0, 1.0)}, "a")
    assert far.score == pytest.approx(92.0, abs=0.2)
    other = by_retest(expected, {"b": Estimate(80.0, 1.0)}, "a")
    assert other.score == pytest.approx(81.0)


def test_the_balance_finds_effects_and_the_ease_of_cases() -> None:
    rng = np.random.default_rng(3)
    effect, ease = np.array([4.0, -3.0, 0.0, 2.0]), np.array([6.0, -6.0, 0.0])
    sets = [rng.integers(0, 2, 4).astype(np.float64) for _ in range(40)]
    rows: list[tuple[int, int, list[float]]] = []
    for place, chosen in enumerate(sets):
        for case in rng.permutation(3)[:2]:
            total = 60.0 + float(effect @ chosen) + float(ease[int(case)]) + float(rng.normal(0.0, 1.0))
            rows.append((place, int(case), [total / 6.0] * 6))
    ledger = balance(sheet_of(sets, rows, 4, 3), Scales())
    found, spread = ledger.effects(np.zeros(4))
    assert np.abs(found.sum(axis=1) - effect).max() < 1.2
    assert spread.max() < 1.0
    assert np.allclose(found[:, 0] * 6, found.sum(axis=1))
    parts = sum(ledger.dimension(place).value(sets[0]) for place in range(6))
    assert parts == pytest.approx(ledger.mean().value(sets[0]))


def test_a_climb_ends_where_no_single_change_helps_and_leaves_alone_what_is_not_free() -> None:
    rng = np.random.default_rng(5)
    upper = np.triu(rng.normal(size=(10, 10)), 1)
    landscape = Landscape(1.0, rng.normal(size=10), upper + upper.T)
    free = np.arange(10) > 2
    start = np.ones(10)
    top = landscape.climb(start, free)
    assert landscape.value(top) >= landscape.value(start)
    assert (landscape.gains(top)[free] <= 1e-9).all()
    assert (top[~free] == 1.0).all()
    changed = top.copy()
    changed[7] = 1.0 - changed[7]
    assert landscape.value(changed) - landscape.value(top) == pytest.approx(landscape.gains(top)[7])


def test_the_nearest_new_set_is_the_best_one_around_that_is_not_known() -> None:
    landscape = Landscape(0.0, np.array([3.0, 2.0, -1.0]), np.zeros((3, 3)))
    free, top = np.ones(3, dtype=np.bool_), np.array([1.0, 1.0, 0.0])
    known: set[bytes] = set()
    found: list[tuple[float, ...]] = []
    while (chosen := nearest_new(Proposal(top, (), landscape), free, known)) is not None:
        found.append(tuple(chosen))
        known.add(set_key(chosen))
    assert found[:3] == [(1.0, 1.0, 0.0), (1.0, 1.0, 1.0), (1.0, 0.0, 0.0)]
    assert len(found) == 7


def test_rounds_once_told_do_not_change() -> None:
    world = make_world(2)
    engine = LedgerEngine(world.problem, Params(max_rounds=6), world.originals())
    seen: tuple[RoundLog, ...] = ()
    while trials := engine.ask():
        engine.tell([world.evaluate(trial) for trial in trials])
        assert engine.rounds[: len(seen)] == seen
        seen = engine.rounds
    assert len(seen) == 6
