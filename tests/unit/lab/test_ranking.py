"""Averages are over what was completed, ranks need the same cases, and ties are called ties."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.lab.assets import Case, Cases
from personalab.lab.projects import NO_SCORES, Result, ResultStatus, RunSummary, scores_of
from personalab.lab.ranking import (
    CaseResult,
    CostFacts,
    JudgeFacts,
    RankedArm,
    RankedBaseline,
    RunFacts,
    case_result,
    cases_hash,
    summarise,
)
from personalab.lab.records import DIMENSIONS, MAXIMA, Category, Dimension
from personalab.lab.segments import text_hash
from personalab.lab.statistics import difference_of, interval_of, pooled_spread, spread_of, t_quantile
from personalab.texts import languages, say

NOW = "2024-01-01T16:00:00Z"
PROJECT = "c3d4e5f6-a7b8-4012-8def-234567890123"
BASE = "b2c3d4e5-f6a7-4901-8cde-f12345678901"
OTHER = "b2c3d4e5-f6a7-4901-8cde-f12345678902"
_SHARES: dict[Dimension, float] = {name: MAXIMA[name] / 100 for name in DIMENSIONS}


def _scores(total: float) -> dict[Dimension, float]:
    return {name: total * share for name, share in _SHARES.items()}


def _baseline(count: int, baseline_id: str = BASE) -> RankedBaseline:
    kinds: tuple[Category, ...] = ("standard", "boundary", "exception")
    cases = tuple(
        Case(
            id=f"case_{number:03d}",
            name="",
            category=kinds[(number - 1) % 3],
            input=f"in {number}",
            expected_output="out",
            created_at=NOW,
            updated_at=NOW,
        )
        for number in range(1, count + 1)
    )
    return RankedBaseline(
        baseline_id,
        f"name of {baseline_id[-1]}",
        "v1",
        Cases(baseline_id=baseline_id, version="v1", cases=cases),
    )


def _row(
    number: int, total: float | None, baseline_id: str = BASE, status: ResultStatus = "failed"
) -> CaseResult:
    done = total is not None
    return CaseResult(
        baseline_id, f"case_{number:03d}", "completed" if done else status, _scores(total) if done else None
    )


def _run(
    totals: dict[str, list[float | None]], *, facts: RunFacts | None = None, idle: str = ""
) -> tuple[RunSummary, dict[str, Any]]:
    arms = [RankedArm(name, name.upper(), "v1", f"content of {name}", name == idle) for name in totals]
    results = {
        name: [_row(at, total) for at, total in enumerate(rows, start=1)] for name, rows in totals.items()
    }
    count = max(len(rows) for rows in totals.values())
    return summarise(PROJECT, NOW, arms, results, baselines=[_baseline(count)], facts=facts)


def _order(summary: RunSummary) -> list[str]:
    return [row.skill_id for row in summary.ranking]


# --- the source's summary


def test_an_average_is_the_sum_of_its_unrounded_parts() -> None:
    """Resolution 2: the parts, each rounded, may add up to something else."""
    scores = dict(zip(DIMENSIONS, (10.04, 10.04, 10.04, 10.04, 5.04, 5.04), strict=True))
    result = CaseResult(BASE, "case_001", "completed", scores)
    summary, told = summarise(
        PROJECT, NOW, [RankedArm("a", "A", "v1", "")], {"a": [result]}, baselines=[_baseline(1)]
    )
    row = summary.ranking[0]
    assert row.avg_score == 50.2
    assert row.score_breakdown is not None
    assert sum(row.score_breakdown.by_dimension().values()) == 50
    assert told["skills"][0]["mean"] == 50.24
    assert summary.doubts() == []


def test_ranks_are_plain_and_equals_go_by_id() -> None:
    summary, _ = _run({"b": [80, 80], "c": [90, 90], "a": [80, 80]})
    assert [(row.rank, row.skill_id) for row in summary.ranking] == [(1, "c"), (2, "a"), (3, "b")]


def test_failed_cases_are_no_part_of_the_average_and_who_lacks_cases_ranks_after() -> None:
    """Resolution 18."""
    summary, told = _run({"a": [99, None, 99], "b": [60, 70, 80]})
    assert _order(summary) == ["b", "a"]
    last = summary.ranking[1]
    assert (last.avg_score, last.completed_cases, last.failed_cases) == (99, 2, 1)
    assert [row["is_complete"] for row in told["skills"]] == [True, False]
    assert [(row["code"], row["skill_id"]) for row in told["warnings"]] == [("lab_incomplete_set", "a")]


def test_a_case_that_nobody_completed_makes_nobody_incomplete() -> None:
    summary, told = _run({"a": [99, None], "b": [60, None]})
    assert _order(summary) == ["a", "b"]
    assert told["warnings"] == []


def test_who_completed_nothing_comes_last_and_has_no_scores() -> None:
    summary, told = _run({"a": [None, None], "b": [None, 10]})
    assert _order(summary) == ["b", "a"]
    assert (summary.ranking[1].avg_score, summary.ranking[1].score_breakdown) == (None, None)
    assert told["skills"][1]["tie_group"] is None
    assert told["warnings"][0]["code"] == "lab_nothing_completed"
    summary.fields()


@pytest.mark.parametrize(
    ("statuses", "code", "idle_code"),
    [
        (("skipped", "skipped"), "lab_only_skipped", "lab_no_skill_skipped"),
        (("failed", "skipped"), "lab_nothing_completed", "lab_no_skill_nothing"),
        (("completed", "skipped"), "lab_incomplete_set", "lab_no_skill_incomplete"),
    ],
)
def test_what_an_arm_lacks_is_told_by_its_kind_and_of_the_one_without_a_skill_as_such(
    statuses: tuple[ResultStatus, ...], code: str, idle_code: str
) -> None:
    lacking = [
        _row(at, 50 if status == "completed" else None, status=status)
        for at, status in enumerate(statuses, 1)
    ]
    arms = [RankedArm("a", "A", "v1", ""), RankedArm("b", "B", "v1", ""), RankedArm("n", "N", "v1", "", True)]
    results = {"a": [_row(1, 60), _row(2, 60)], "b": lacking, "n": lacking}
    _, told = summarise(PROJECT, NOW, arms, results, baselines=[_baseline(2)])
    assert [(row["skill_id"], row["code"]) for row in told["warnings"]] == [("b", code), ("n", idle_code)]
    of_skill, of_none = told["warnings"]
    for language in languages():
        params = {name: value for name, value in of_none.items() if name != "code"}
        said = say(idle_code, language, **params)
        assert "{" not in said
        assert "N " not in said
        assert said != say(code, language, **{**params, "skill_name": of_skill["skill_name"]})


def test_results_of_cases_that_are_in_no_baseline_do_not_count() -> None:
    rows = [_row(1, 50), _row(9, 100), _row(1, 100, OTHER)]
    summary, _ = summarise(
        PROJECT, NOW, [RankedArm("a", "A", "v1", "")], {"a": rows}, baselines=[_baseline(1)]
    )
    assert (summary.total_cases, summary.ranking[0].avg_score) == (1, 50)


def test_scores_are_there_only_where_a_result_is_completed() -> None:
    """Resolution 15."""
    fields: dict[str, Any] = {
        "case_id": "case_001",
        "skill_id": "a",
        "skill_version": "v1",
        "baseline_id": BASE,
        "baseline_version": "v1",
        "executed_at": NOW,
        "input": "",
        "expected_output": "",
    }
    done = Result(status="completed", scores=scores_of(_scores(50)), **fields)
    assert case_result(done, [40, 60]).repeat_totals == (40, 60)
    assert sum((case_result(done).scores or {}).values()) == 50
    assert case_result(Result(status="failed", scores=NO_SCORES, **fields)).scores is None


_TABLE = st.dictionaries(
    st.sampled_from("abcde"),
    st.lists(st.one_of(st.none(), st.integers(0, 100).map(float)), min_size=1, max_size=5),
    min_size=1,
)


@given(_TABLE, st.randoms(use_true_random=False))
def test_the_order_of_arms_and_results_changes_nothing(
    table: dict[str, list[float | None]], rng: random.Random
) -> None:
    arms = [RankedArm(name, name, "v1", "") for name in table]
    results = {name: [_row(at, total) for at, total in enumerate(rows, 1)] for name, rows in table.items()}
    first = summarise(PROJECT, NOW, arms, results, baselines=[_baseline(5)])
    rng.shuffle(arms)
    mixed = {name: rng.sample(rows, len(rows)) for name, rows in results.items()}
    assert summarise(PROJECT, NOW, arms, mixed, baselines=[_baseline(5)]) == first


@given(_TABLE)
def test_averages_and_intervals_stay_within_bounds(table: dict[str, list[float | None]]) -> None:
    summary, told = _run(table)
    json.dumps(told, allow_nan=False)
    assert [row.rank for row in summary.ranking] == list(range(1, len(table) + 1))
    for row, more in zip(summary.ranking, told["skills"], strict=True):
        totals = [total for total in table[row.skill_id] if total is not None]
        assert row.completed_cases == more["n"] == len(totals)
        if totals:
            assert row.avg_score == pytest.approx(sum(totals) / len(totals), abs=0.051)
            assert min(totals) - 0.01 <= more["mean"] <= max(totals) + 0.01
        if len(totals) < 2:
            assert more["interval"] is None
        else:
            low, high = more["interval"]
            assert 0 <= low <= more["mean"] + 0.01
            assert more["mean"] - 0.01 <= high <= 100


# --- what is told beside it


def test_one_case_has_no_interval_and_everything_ties() -> None:
    _, told = _run({"a": [90], "b": [10]})
    assert [row["interval"] for row in told["skills"]] == [None, None]
    assert told["tie_groups"] == [["a", "b"]]
    assert told["minimum_detectable_difference"] is None


def test_ranks_whose_intervals_overlap_with_the_first_of_their_group_are_ties() -> None:
    _, told = _run(
        {"a": [90, 92, 94], "b": [88, 91, 94], "c": [50, 52, 54], "d": [49, 52, 55], "e": [9, 10, 11]}
    )
    assert told["tie_groups"] == [["a", "b"], ["c", "d"], ["e"]]
    assert [row["tie_group"] for row in told["skills"]] == [1, 1, 2, 2, 3]


def test_a_skill_is_told_with_its_spread_its_categories_and_what_passed() -> None:
    facts = RunFacts(
        pass_score=70, repeats=2, costs=CostFacts(calls=3, input_tokens=5, output_tokens=7, usd=0.5)
    )
    _, told = _run({"a": [60, 70, 80, 90]}, facts=facts)
    row = told["skills"][0]
    assert (row["mean"], row["sd"], row["passed"], row["n"]) == (75, 12.91, 3, 4)
    assert row["interval"] == [pytest.approx(54.46, abs=0.01), pytest.approx(95.54, abs=0.01)]
    assert row["by_category"] == {
        "standard": {"mean": 75, "n": 2},
        "boundary": {"mean": 70, "n": 1},
        "exception": {"mean": 80, "n": 1},
    }
    assert row["content_sha256"] == text_hash("content of a")
    assert told["costs"] == {"calls": 3, "input_tokens": 5, "output_tokens": 7, "usd": 0.5}


def test_differences_to_the_first_are_paired() -> None:
    _, told = _run({"a": [50, 70, 90], "b": [40, 61, 79]})
    gap = told["skills"][1]["difference_to_first"]
    assert (gap["mean"], gap["n"]) == (10, 3)
    assert gap["interval"] == [pytest.approx(7.52, abs=0.01), pytest.approx(12.48, abs=0.01)]
    assert told["tie_groups"] == [["a", "b"]]
    assert gap["minimum_detectable"] == told["minimum_detectable_difference"] == pytest.approx(3.10, abs=0.01)


def test_the_arm_without_a_skill_is_measured_and_not_ranked() -> None:
    summary, told = _run({"a": [50, 70], "none": [40, 40, 99]}, idle="none")
    assert _order(summary) == ["a"]
    assert told["skills"][0]["is_complete"]
    assert told["skills"][0]["gain_over_no_skill"]["mean"] == 20
    assert (told["no_skill"]["skill_id"], told["no_skill"]["n"]) == ("none", 3)


def test_repeats_tell_how_far_scores_vary_by_themselves() -> None:
    rows = [
        CaseResult(BASE, "case_001", "completed", _scores(50), (48, 52)),
        CaseResult(BASE, "case_002", "completed", _scores(90), (90, 90)),
    ]
    _, told = summarise(PROJECT, NOW, [RankedArm("a", "A", "v1", "")], {"a": rows}, baselines=[_baseline(2)])
    assert told["repeat_sd"] == told["skills"][0]["repeat_sd"] == 2


def test_judges_are_named_with_how_far_they_see() -> None:
    facts = RunFacts(judges=(JudgeFacts("m#1", "m", 55.0, True),))
    _, told = _run({"a": [1]}, facts=facts)
    assert told["judges"] == [{"identity": "m#1", "model": "m", "control_gap": 55.0, "controls_passed": True}]


def test_each_baseline_has_a_ranking_of_its_own() -> None:
    """Resolution 8: the source's summary cannot say which baseline a score is of."""
    arms = [RankedArm("a", "A", "v1", ""), RankedArm("b", "B", "v1", "")]
    results = {
        "a": [_row(1, 90), _row(1, 10, OTHER)],
        "b": [_row(1, 50), _row(1, 60, OTHER)],
    }
    baselines = [_baseline(1), _baseline(1, OTHER)]
    summary, told = summarise(PROJECT, NOW, arms, results, baselines=baselines)
    assert (summary.total_cases, _order(summary)) == (2, ["b", "a"])
    first, second = told["baselines"]
    assert (first["baseline_id"], [row["skill_id"] for row in first["ranking"]]) == (BASE, ["a", "b"])
    assert (second["baseline_id"], [row["skill_id"] for row in second["ranking"]]) == (OTHER, ["b", "a"])
    assert second["ranking"][0]["avg_score"] == 60
    assert first["content_sha256"] == cases_hash(baselines[0].cases)


# --- figures


@pytest.mark.parametrize(
    ("share", "freedom", "value"),
    [
        (0.975, 1, 12.7062),
        (0.975, 2, 4.30265),
        (0.975, 11, 2.20099),
        (0.975, 1000, 1.96234),
        (0.8, 9, 0.88340),
        (0.995, 5, 4.03214),
        (0.025, 2, -4.30265),
        (0.5, 3, 0.0),
    ],
)
def test_students_quantiles_are_those_of_the_tables(share: float, freedom: int, value: float) -> None:
    assert t_quantile(share, freedom) == pytest.approx(value, rel=1e-5)


@given(st.integers(1, 500), st.floats(0.51, 0.999))
def test_quantiles_fall_towards_the_normal_ones_with_more_values(freedom: int, share: float) -> None:
    assert t_quantile(share, freedom) > t_quantile(share, freedom + 1) > 0


@given(st.lists(st.floats(0, 100), min_size=2, max_size=30), st.floats(-50, 50))
def test_intervals_move_with_their_values(values: list[float], shift: float) -> None:
    here, there = interval_of(values), interval_of([value + shift for value in values])
    assert here is not None
    assert there is not None
    assert there.low - here.low == pytest.approx(shift, abs=1e-6)
    assert there.high - here.high == pytest.approx(shift, abs=1e-6)


def test_one_value_or_none_has_no_spread() -> None:
    assert spread_of([3]) is None
    assert interval_of([3]) is None
    assert difference_of([]) is None
    assert pooled_spread([[1], []]) is None
    gap = difference_of([(3, 1)])
    assert gap is not None
    assert (gap.mean, gap.interval, gap.detectable) == (2, None, None)
    assert math.isclose(pooled_spread([[1, 3], [10, 12]]) or 0, math.sqrt(2))
