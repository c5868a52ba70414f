"""Every test of every skill is on the board, the best first, and it says which scores still hold."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.lab.leaderboard import (
    AssetCatalogue,
    BoardBaseline,
    BoardProject,
    CurrentAsset,
    LeaderboardGroup,
    LeaderboardRecord,
    SkillTestSummary,
    board_project,
    groups_of,
    in_seconds,
    records_of,
    staleness_of,
    summaries_of,
)
from personalab.lab.projects import RankRow, RunSummary, breakdown_of
from personalab.lab.records import DIMENSIONS
from personalab.operations.lab.baselines import add_case
from personalab.operations.lab.leaderboard import leaderboard
from personalab.operations.lab.leaderboard import test_summaries as sum_up
from personalab.operations.lab.skills import archive_skill, edit_skill, get_skill
from personalab.services import Services
from personalab.storage.lab.projects import ProjectPlace
from tests.support.lab.running import BASELINES, NOW, SKILLS, FakeExecutor, evaluate, make_project, use


def _row(skill_id: str, average: float | None, version: str = "v1") -> RankRow:
    return RankRow(
        rank=1,
        skill_id=skill_id,
        skill_name=f"old name of {skill_id}",
        skill_version=version,
        completed_cases=2,
        failed_cases=1,
        avg_score=average,
        score_breakdown=None if average is None else breakdown_of(dict.fromkeys(DIMENSIONS, average / 6)),
    )


def _project(
    number: int, *rows: RankRow, baseline: str = "base", version: str = "v1", sha256: str = ""
) -> BoardProject:
    tested = BoardBaseline(baseline, "old base", version, sha256, 3, rows)
    return BoardProject(f"p{number}", f"project {number}", NOW, (tested,), {"a": "hash of a"})


def _asset(asset_id: str, version: str = "v1", sha256: str = "") -> CurrentAsset:
    return CurrentAsset(asset_id, f"name of {asset_id}", version, "coding", sha256, 7)


LIBRARY = AssetCatalogue(
    {"a": _asset("a", sha256="hash of a"), "b": _asset("b", "v3")}, {"base": _asset("base", sha256="cases")}
)


# --- records


def test_records_and_groups_have_the_fields_of_the_source_in_its_order() -> None:
    records, _ = records_of([_project(1, _row("a", 80))], LIBRARY)
    assert list(records[0].model_dump()) == [
        *("skill_id", "skill_name", "skill_version_tested", "skill_version_current"),
        *("baseline_id", "baseline_name", "baseline_version_tested", "baseline_version_current"),
        *("avg_score", "score_breakdown", "project_id", "project_name", "tested_at"),
        *("case_count", "completed_cases", "failed_cases", "staleness"),
    ]
    assert list(LeaderboardGroup.model_fields) == [
        *("baseline_id", "baseline_name", "baseline_purpose", "baseline_case_count"),
        *("baseline_version_current", "skill_count", "records"),
    ]
    assert list(SkillTestSummary.model_fields) == [
        *("has_tests", "best_score", "best_baseline_name", "test_count", "staleness")
    ]


def test_a_score_is_stale_by_version_and_by_content() -> None:
    def staleness(row: RankRow, version: str = "v1", sha256: str = "cases") -> str:
        records, _ = records_of([_project(1, row, version=version, sha256=sha256)], LIBRARY)
        return records[0].staleness

    assert staleness(_row("a", 80)) == "current"
    assert staleness(_row("b", 80)) == "skill_updated"
    assert staleness(_row("b", 80, "v3")) == "current"
    assert staleness(_row("a", 80), version="v2") == "baseline_updated"
    assert staleness(_row("a", 80), sha256="other cases") == "baseline_updated"
    assert staleness(_row("b", 80), sha256="other cases") == "both_updated"
    edited = AssetCatalogue({"a": _asset("a", sha256="edited by hand")}, LIBRARY.baselines)
    assert records_of([_project(1, _row("a", 80))], edited)[0][0].staleness == "skill_updated"
    assert staleness_of(False, False) == "current"


def test_what_the_library_has_no_more_is_shown_as_it_was_tested_with_a_warning() -> None:
    """Resolution 32."""
    records, warnings = records_of([_project(1, _row("gone", 80, "v4"), baseline="lost")], LIBRARY)
    found = records[0]
    assert (found.skill_version_current, found.baseline_version_current) == ("v4", "v1")
    assert (found.skill_name, found.baseline_name, found.staleness) == (
        "old name of gone",
        "old base",
        "current",
    )
    assert [(row["code"], row["asset_id"]) for row in warnings] == [
        ("lab_board_skill_gone", "gone"),
        ("lab_board_baseline_gone", "lost"),
    ]
    group = groups_of(records, LIBRARY)[0]
    assert (group.baseline_case_count, group.baseline_purpose) == (3, "")


def test_repeated_tests_are_all_there_and_skills_are_counted_once() -> None:
    projects = [
        _project(1, _row("a", 70), _row("b", None)),
        _project(2, _row("a", 90)),
        _project(3, _row("b", 80)),
    ]
    records, _ = records_of(projects, LIBRARY)
    group = groups_of(records, LIBRARY)[0]
    assert [(row.skill_id, row.avg_score) for row in group.records] == [
        ("a", 90),
        ("b", 80),
        ("a", 70),
        ("b", None),
    ]
    assert (group.skill_count, group.baseline_case_count, group.baseline_name) == (2, 7, "name of base")


@given(st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(0, 100)), max_size=8))
def test_records_fall_in_score_and_those_without_come_last(rows: list[tuple[str, int | None]]) -> None:
    records, _ = records_of(
        [_project(at, _row(name, score)) for at, (name, score) in enumerate(rows)], LIBRARY
    )
    scores = [record.avg_score for record in records]
    known = [score for score in scores if score is not None]
    assert known == sorted(known, reverse=True)
    assert scores == [*known, *[None] * (len(rows) - len(known))]


def test_times_with_fractions_are_read_and_told_in_seconds() -> None:
    """Resolution 31."""
    assert in_seconds("2024-02-27T10:30:00.000Z") == "2024-02-27T10:30:00Z"
    assert in_seconds("2024-02-27T12:30:00.5+02:00") == "2024-02-27T10:30:00Z"


# --- summaries of tests


def test_a_summary_has_the_best_score_and_the_freshest_state() -> None:
    projects = [
        _project(1, _row("a", 70)),
        _project(2, _row("a", 90, "v9")),
        _project(3, _row("b", None), version="v8"),
    ]
    found = summaries_of(records_of(projects, LIBRARY)[0])
    assert found["a"] == SkillTestSummary(
        has_tests=True, best_score=90, best_baseline_name="name of base", test_count=2, staleness="current"
    )
    assert (found["b"].best_score, found["b"].best_baseline_name, found["b"].staleness) == (
        None,
        None,
        "both_updated",
    )


@given(
    st.lists(st.sampled_from(["current", "baseline_updated", "skill_updated", "both_updated"]), min_size=1)
)
def test_any_current_test_makes_a_skill_current(states: list[Any]) -> None:
    record = records_of([_project(1, _row("a", 70))], LIBRARY)[0][0]
    found = summaries_of([record.changed(staleness=state) for state in states])["a"]
    assert (found.staleness == "current") == ("current" in states)
    assert (found.staleness == "both_updated") == (set(states) == {"both_updated"})


# --- what projects tell


def test_with_one_baseline_the_sources_summary_is_enough() -> None:
    summary = RunSummary(
        project_id="p", generated_at="2024-01-01T00:00:00.123Z", total_cases=3, ranking=(_row("a", 6),)
    )
    found = board_project(summary, "name", [("base", "Base", "v2")], {})
    assert (found.tested_at, found.baselines[0].version) == ("2024-01-01T00:00:00Z", "v2")
    assert (found.baselines[0].ranking, found.baselines[0].case_count) == (summary.ranking, 3)


def test_with_two_baselines_each_has_the_ranking_of_the_sidecar() -> None:
    summary = RunSummary(project_id="p", generated_at=NOW, total_cases=5, ranking=(_row("a", 50),))
    told = [
        {"baseline_id": name, "total_cases": cases, "ranking": [_row("a", score).model_dump()]}
        for name, cases, score in (("one", 2, 90), ("two", 3, 20))
    ]
    refs = [("one", "", "v1"), ("two", "", "v1")]
    found = board_project(summary, "n", refs, {"generated_at": NOW, "baselines": told})
    assert [(row.case_count, row.ranking[0].avg_score) for row in found.baselines] == [(2, 90), (3, 20)]


def test_a_sidecar_of_another_summary_says_nothing() -> None:
    summary = RunSummary(project_id="p", generated_at=NOW, total_cases=3, ranking=(_row("a", 8),))
    extra: dict[str, Any] = {"skills": [{"skill_id": "a", "content_sha256": "x"}]}
    assert board_project(summary, "n", [("base", "", "v1")], {**extra, "generated_at": NOW}).skill_hashes == {
        "a": "x"
    }
    older = {**extra, "generated_at": "2020-01-01T00:00:00Z"}
    assert board_project(summary, "n", [("base", "", "v1")], older).skill_hashes == {}


# --- over the workspace


@pytest.fixture
def services(services: Services, root: Path) -> Services:
    """A workspace without the shipped samples."""
    shutil.rmtree(root / "workspace", ignore_errors=True)
    return services


async def _evaluated(services: Services, **options: Any) -> ProjectPlace:
    use(services, FakeExecutor())
    place = await make_project(services, **options)
    await evaluate(services, place.name)
    return place.again()


def test_the_board_follows_the_library(services: Services) -> None:
    """Resolution 34: a skill without tests has no summary at all."""

    async def run() -> None:
        assert await leaderboard(services) == {"groups": [], "archived_baselines": [], "warnings": []}
        place = await _evaluated(services)
        board = await leaderboard(services)
        (group,) = board["groups"]
        assert [row["skill_id"] for row in group["records"]] == list(SKILLS)
        assert {row["staleness"] for row in group["records"]} == {"current"}
        assert (group["skill_count"], group["baseline_case_count"], board["warnings"]) == (2, 3, [])
        assert group["records"][0]["project_name"] == place.config.name
        await edit_skill(services, SKILLS[0], content="alpha is another now.\n")
        await add_case(
            services, BASELINES[0], name="n", category="boundary", input="more", expected_output="less"
        )
        flat = (await leaderboard(services, group=False))["records"]
        assert [row["staleness"] for row in flat] == ["both_updated", "baseline_updated"]
        assert [row["skill_version_current"] for row in flat] == ["v2", "v1"]
        summary = (await get_skill(services, SKILLS[0]))["testSummary"]
        assert (summary["test_count"], summary["staleness"]) == (1, "both_updated")
        assert set(await sum_up(services)) == set(SKILLS)
        assert (await leaderboard(services, purpose="nothing"))["groups"] == []
        assert len((await leaderboard(services, baseline_id=BASELINES[0][:8]))["groups"]) == 1

    asyncio.run(run())


def test_an_edit_by_hand_makes_a_score_stale_though_the_version_is_the_same(services: Services) -> None:
    async def run() -> None:
        await _evaluated(services)
        stored = services.assets.skill(SKILLS[1])
        (stored.folder / "content.txt").write_text("edited elsewhere\n", encoding="utf-8")
        flat = (await leaderboard(services, group=False))["records"]
        assert [row["staleness"] for row in flat] == ["current", "skill_updated"]

    asyncio.run(run())


def test_assets_that_are_deleted_or_archived_stay_on_the_board(services: Services) -> None:
    async def run() -> None:
        await _evaluated(services)
        await archive_skill(services, SKILLS[0])
        shutil.rmtree(services.assets.skill(SKILLS[1]).folder)
        shutil.rmtree(services.assets.baseline(BASELINES[0]).folder)
        board = await leaderboard(services)
        assert board["archived_baselines"] == [BASELINES[0]]
        assert {row["code"] for row in board["warnings"]} == {
            "lab_board_skill_gone",
            "lab_board_baseline_gone",
        }
        assert len(board["groups"][0]["records"]) == 2

    asyncio.run(run())


def test_several_baselines_are_told_apart_also_without_our_sidecar(services: Services) -> None:
    """Resolution 8: then the results say which baseline a score is of."""

    async def run() -> None:
        place = await _evaluated(services, baselines=2)
        with_sidecar = (await leaderboard(services))["groups"]
        assert sorted(group["baseline_id"] for group in with_sidecar) == sorted(BASELINES)
        assert [len(group["records"]) for group in with_sidecar] == [2, 2]
        (place.results / "x_summary.json").unlink()
        assert (await leaderboard(services))["groups"] == with_sidecar

    asyncio.run(run())


def test_a_project_that_cannot_be_read_is_warned_of_and_the_rest_is_there(services: Services) -> None:
    async def run() -> None:
        place = await _evaluated(services)
        (place.results / "summary.json").write_text("{", encoding="utf-8")
        board = await leaderboard(services)
        assert board["groups"] == []
        assert [row["code"] for row in board["warnings"]] == ["lab_board_unreadable"]

    asyncio.run(run())


def test_an_average_that_is_not_the_sum_of_its_parts_is_warned_of_and_the_sum_is_shown(
    services: Services,
) -> None:
    """Resolution 2."""

    async def run() -> None:
        place = await _evaluated(services)
        before = (await leaderboard(services, group=False))["records"]
        path = place.results / "summary.json"
        summary = json.loads(path.read_text(encoding="utf-8"))
        summary["ranking"][0]["avg_score"] += 2
        path.write_text(json.dumps(summary), encoding="utf-8")
        board = await leaderboard(services, group=False)
        assert board["records"] == before
        (warning,) = board["warnings"]
        assert (warning["code"], warning["project"]) == ("lab_board_doubt", place.config.name)
        assert "its parts are" in warning["reason"]

    asyncio.run(run())


def test_a_record_can_be_written_and_read_again() -> None:
    record = records_of([_project(1, _row("a", 80))], LIBRARY)[0][0]
    assert LeaderboardRecord.read(record.model_dump(mode="json"), "board") == record
