"""Tests that the source's example files are read, and that written records follow the format strictly."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.errors import BadRecord, Reason
from personalab.lab.assets import (
    AutoTagLog,
    BaselineMeta,
    Cases,
    HistoryRecord,
    SkillMeta,
    Tags,
    baseline_doubts,
)
from personalab.lab.findings import AnalysisReport, ExplorationLog, IterationReport, Provenance, RoundConfig
from personalab.lab.leaderboard import LeaderboardGroup, LeaderboardRecord, SkillTestSummary
from personalab.lab.options import CliSettings, TempSession, expiry
from personalab.lab.projects import NO_SCORES, ProjectConfig, Result, RunSummary, rounded_average, scores_of
from personalab.lab.records import (
    DIMENSIONS,
    MAXIMA,
    Dimension,
    Doubt,
    Record,
    asset_folder,
    compact_time,
    is_uuid4,
    next_version,
    parse_time,
)

EXAMPLES: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "support" / "lab" / "source_examples.json").read_text(encoding="utf-8")
)
FILES: dict[str, type[Record]] = {
    "2.1": SkillMeta,
    "2.2": Tags,
    "2.3": HistoryRecord,
    "2.4": AutoTagLog,
    "3.1": BaselineMeta,
    "3.2": Cases,
    "4.1": ProjectConfig,
    "5.1": Result,
    "5.2": RunSummary,
    "6.1": AnalysisReport,
    "6.2": Provenance,
    "7.1": RoundConfig,
    "7.2": IterationReport,
    "7.3": ExplorationLog,
    "8.1": CliSettings,
    "8.2": TempSession,
    "8.5.1": LeaderboardRecord,
    "8.5.2": LeaderboardGroup,
    "8.5.3": SkillTestSummary,
}
V4 = "3f2b8c1e-5d47-4a90-9b3e-7c6d5e4f3a2b"
_NO_ID = frozenset({"2.3", "5.1", "7.1", "8.1", "8.2", "8.5.1", "8.5.2", "8.5.3"})
"""Examples with no id of their own, only those of assets that may be another program's, or that are never written."""


def with_v4(value: Any) -> Any:
    """Give an example the ids it would have if the source kept its own rule."""
    if isinstance(value, dict):
        return {name: with_v4(found) for name, found in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [with_v4(found) for found in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, str) and len(value) == 36 and value.count("-") == 4:
        return str(UUID(bytes=value.encode()[:16], version=4))
    return value


def test_there_is_a_record_for_every_example_of_the_source() -> None:
    assert set(FILES) == set(EXAMPLES)


@pytest.mark.parametrize("number", FILES)
def test_an_example_of_the_source_is_read_and_nothing_of_it_is_lost(number: str) -> None:
    """Resolution 1: its ids are no UUIDs of version 4, and are taken as they are."""
    read = FILES[number].read(EXAMPLES[number], number)
    again = read.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert again == EXAMPLES[number]


@pytest.mark.parametrize("number", sorted(set(FILES) - _NO_ID))
def test_what_the_source_wrote_with_ids_that_are_none_is_not_written_by_us(number: str) -> None:
    with pytest.raises(BadRecord) as refused:
        FILES[number].read(EXAMPLES[number], number).fields("file.json")
    assert "file.json" in str(refused.value)


@pytest.mark.parametrize("number", FILES)
def test_an_example_with_real_ids_is_written_as_it_was_read(number: str) -> None:
    example = with_v4(EXAMPLES[number])
    if number == "8.5.1":
        example["tested_at"] = "2024-02-27T10:30:00Z"
    written = FILES[number].read(example, number).fields()
    kept = {name: value for name, value in written.items() if name in example}
    expected = deepcopy(example)
    if number == "7.2":
        expected["rounds"] = [{**row, "strategy": row.get("strategy")} for row in expected["rounds"]]
    if number == "7.3":
        for found in (row for explored in expected["rounds"] for row in explored["candidates"]):
            found["score_breakdown"] = {**dict.fromkeys(DIMENSIONS), **found["score_breakdown"]}
    assert kept == expected


@pytest.mark.parametrize("number", FILES)
@pytest.mark.parametrize("wrong", [None, [], "text", 7, {}])
def test_a_value_that_is_no_such_record_is_refused_by_name(number: str, wrong: object) -> None:
    with pytest.raises(BadRecord) as refused:
        FILES[number].read(wrong, "workspace/some.json")
    assert "workspace/some.json" in str(refused.value)


@given(st.dictionaries(st.text(max_size=8), st.none() | st.integers() | st.text(max_size=8), max_size=3))
def test_fields_we_do_not_know_are_kept(more: dict[str, Any]) -> None:
    unknown = {f"x{name}": value for name, value in more.items()}
    data = {**EXAMPLES["8.2"], **unknown}
    assert TempSession.read(data, "s").fields() == data


# --- what the source contradicts itself in


def test_averages_that_are_not_the_sum_of_their_parts_are_doubted() -> None:
    """Resolution 2."""
    doubts = RunSummary.read(EXAMPLES["5.2"], "summary.json").doubts()
    assert [doubt.field for doubt in doubts] == ["ranking[0].avg_score"]
    assert str(doubts[0].reason) == "85.3, but its parts are 87.3"


def test_an_average_is_the_sum_of_the_unrounded_parts() -> None:
    """Resolution 2: six parts of .04 are .2 together, though each is .0 on paper."""
    assert rounded_average(dict.fromkeys(DIMENSIONS, 1.04)) == 6.2


def test_a_round_without_a_strategy_is_read_and_doubted() -> None:
    """Resolution 4; the averages of all three rounds are doubted as well."""
    doubts = IterationReport.read(EXAMPLES["7.2"], "report").doubts()
    assert [doubt.field for doubt in doubts if "strategy" in doubt.field] == [
        "rounds[1].strategy",
        "rounds[2].strategy",
    ]
    assert sum("avg_score" in doubt.field for doubt in doubts) == 3


def test_the_best_candidate_is_computed_from_the_rounds() -> None:
    """Resolution 5: the example names a round that it does not have."""
    log = ExplorationLog.read(EXAMPLES["7.3"], "log")
    best = log.recomputed_best()
    assert best is not None
    assert (best.round, best.skill_id, best.avg_score) == (1, "mock-iter-000001", 82.1)
    assert log.doubts() == [Doubt("best_ever", Reason("not_best"))]


def test_a_candidate_has_six_parts_when_written() -> None:
    """Resolution 6."""
    log = ExplorationLog.read(with_v4(EXAMPLES["7.3"]), "log").fields()
    assert set(log["rounds"][0]["candidates"][0]["score_breakdown"]) == set(DIMENSIONS)


def test_a_baseline_that_miscounts_its_cases_is_doubted() -> None:
    """Resolution 10: it has neither a type nor a content file."""
    meta = BaselineMeta.read(EXAMPLES["3.1"], "meta.json")
    cases = Cases.read(EXAMPLES["3.2"], "cases.json")
    assert [doubt.field for doubt in baseline_doubts(meta, cases)] == ["case_count"]
    assert "type" not in meta.model_dump()
    assert "content_file" not in meta.model_dump()


def test_a_log_says_when_it_was_begun() -> None:
    """Resolution 13."""
    data = {name: value for name, value in EXAMPLES["2.4"].items() if name != "triggered_at"}
    with pytest.raises(BadRecord, match="triggered_at"):
        AutoTagLog.read(data, "log")


@pytest.mark.parametrize("status", ["failed", "skipped"])
def test_only_what_is_completed_has_scores(status: str) -> None:
    """Resolution 15."""
    without = {
        **EXAMPLES["5.1"],
        "status": status,
        "scores": NO_SCORES.model_dump(),
        "score_evaluated_at": None,
    }
    assert Result.read(without, "r").scores == NO_SCORES
    with pytest.raises(BadRecord, match="has scores"):
        Result.read({**EXAMPLES["5.1"], "status": status}, "r")
    with pytest.raises(BadRecord, match="no scores"):
        Result.read({**without, "status": "completed"}, "r")


def test_a_total_is_the_sum_of_its_six_scores() -> None:
    half: dict[Dimension, float] = {name: MAXIMA[name] / 2 for name in DIMENSIONS}
    assert scores_of(half).total == 50
    wrong = {**EXAMPLES["5.1"], "scores": {**EXAMPLES["5.1"]["scores"], "total": 70}}
    assert [doubt.field for doubt in Result.read(wrong, "r").doubts()] == ["scores.total"]


@pytest.mark.parametrize("dimension", DIMENSIONS)
@pytest.mark.parametrize("off", [-1, 0.5, float("nan")])
def test_a_score_out_of_range_is_refused(dimension: str, off: float) -> None:
    wrong = off if off != 0.5 else MAXIMA[dimension] + off  # pyright: ignore[reportArgumentType]
    data = {**EXAMPLES["5.1"], "scores": {**EXAMPLES["5.1"]["scores"], dimension: wrong}}
    with pytest.raises(BadRecord):
        Result.read(data, "r")


def test_times_with_fractions_are_read_and_times_in_seconds_written() -> None:
    """Resolution 31."""
    data = {**EXAMPLES["8.2"], "created_at": "2024-01-01T12:10:00.250Z"}
    session = TempSession.read(data, "s")
    assert session.created_at == "2024-01-01T12:10:00.250Z"
    with pytest.raises(BadRecord, match="created_at"):
        session.fields("s")
    assert parse_time("2024-01-01T12:10:00.250Z") > parse_time("2024-01-01T12:10:00Z")
    assert parse_time("2024-01-01T20:10:00+08:00") == parse_time("2024-01-01T12:10:00")


def test_a_project_has_at_least_one_skill_and_one_baseline() -> None:
    for name in ("skills", "baselines"):
        with pytest.raises(BadRecord, match=name):
            ProjectConfig.read({**EXAMPLES["4.1"], name: []}, "config.json")


def test_two_cases_of_one_id_are_refused() -> None:
    data = deepcopy(EXAMPLES["3.2"])
    data["cases"][2]["id"] = "case_001"
    with pytest.raises(BadRecord, match="case_001 occurs twice"):
        Cases.read(data, "cases.json")


# --- derived values and names


def test_a_session_expires_after_its_days() -> None:
    example = TempSession.read(EXAMPLES["8.2"], "s")
    assert expiry(example.created_at, CliSettings.read(EXAMPLES["8.1"], "c").temp_session_ttl_days) == (
        example.expires_at
    )
    assert not example.is_over("2024-01-08T12:09:59Z")
    assert example.is_over("2024-01-08T12:10:00Z")


def test_folders_are_named_by_the_first_eight_characters_and_the_version() -> None:
    assert asset_folder("skill", EXAMPLES["2.1"]["id"], "v1") == "skill_a1b2c3d4_v1"
    assert asset_folder("baseline", EXAMPLES["3.1"]["id"], "v10") == "baseline_b2c3d4e5_v10"
    assert next_version("v9") == "v10"
    assert compact_time("2024-01-01T12:10:00Z") == "20240101121000"


@given(st.text(max_size=40))
def test_only_a_uuid_of_version_4_is_one(text: str) -> None:
    assert is_uuid4(V4)
    assert not is_uuid4(V4.upper())
    assert not is_uuid4(V4.replace("-4", "-7"))
    assert not is_uuid4(text) or UUID(text).version == 4


@pytest.mark.parametrize("version", ["v0", "1", "v01", "V1", "v", "v1 ", "v-1"])
def test_a_version_is_v_and_a_positive_number(version: str) -> None:
    with pytest.raises(BadRecord, match="version"):
        SkillMeta.read({**EXAMPLES["2.1"], "version": version}, "meta.json")


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "yesterday", ""])
def test_a_time_that_no_clock_shows_is_refused_like_any_other_field(time: str) -> None:
    with pytest.raises(BadRecord, match="created_at"):
        SkillMeta.read({**EXAMPLES["2.1"], "created_at": time}, "meta.json")


def test_a_number_without_measure_is_refused() -> None:
    data = {**EXAMPLES["5.1"], "scores": {**EXAMPLES["5.1"]["scores"], "total": 10**400}}
    with pytest.raises(BadRecord, match="total"):
        Result.read(data, "r")


def test_an_average_of_another_program_is_derived_from_its_parts() -> None:
    """Resolution 2."""
    summary = RunSummary.read(EXAMPLES["5.2"], "summary.json")
    assert [row.derived().avg_score for row in summary.ranking] == [87.3, 79.2]
