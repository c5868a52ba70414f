"""Tests of the iteration: search result, kept segments, and resuming without repeated costs."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from graph.iterate import stream_iterate
from nodes.iterate.state import IterateInput
from personalab.errors import NotFound, UserError
from personalab.lab.calling import Call, CallAnswer
from personalab.lab.engine.problem import candidate_of
from personalab.lab.findings import (
    AdvantageSegment,
    AnalysisReport,
    DimensionLeaders,
    ExplorationLog,
    IterationReport,
    RoundConfig,
)
from personalab.lab.iterating import IterationPlan
from personalab.lab.projects import Result
from personalab.lab.records import DIMENSIONS, MAXIMA
from personalab.operations.lab.iterating import iteration_bound, iteration_status, stop_iteration
from personalab.operations.lab.projects import change_options, pause_project
from personalab.services import Services
from personalab.storage.lab.iterations import IterationFiles
from personalab.storage.lab.projects import ProjectPlace
from tests.support.lab.running import NOW, SKILLS, told
from tests.unit.graph.searches import BETA, POINTS, Sent, by_pieces, files_of, iterate, iterated, prepared


@pytest.mark.anyio
async def test_the_search_finds_the_best_set_of_pieces_and_puts_it_into_the_library(
    services: Services,
) -> None:
    place, _, result = await iterated(services)
    assert result["status"] == "done", result
    assert result["best"]["round"] > 0
    winner = services.assets.skill(result["skill_id"])
    assert winner.meta.name == f"alpha-v{result['best']['round']}"
    assert [name for name in POINTS if f"[{name}]" in winner.content] == ["good-8", "good-4", "good-7"]
    assert winner.provenance is not None
    assert {row.skill_id for row in winner.provenance.source_skills} == set(SKILLS)
    assert winner.provenance.source_project_id == place.config.id
    before = max(row.avg_score or 0 for row in cast("Any", place.summary()).ranking)
    assert result["best"]["avg_score"] > before
    assert result["best"]["corrected"]["low"] <= result["best"]["corrected"]["score"]


@pytest.mark.anyio
async def test_every_file_of_the_source_is_written_strictly_and_the_reports_agree(services: Services) -> None:
    place, _, result = await iterated(services)
    files = IterationFiles(place.folder)
    report = cast("IterationReport", files.report())
    log = cast("ExplorationLog", files.log())
    assert report.fields() == result["report"]
    assert report.doubts() == []
    assert log.doubts() == []
    assert log.fields()["params"] == {
        "maxRounds": 6, "beamWidth": 3, "plateauThreshold": 1.0, "stopThreshold": None,
    }  # fmt: skip
    assert report.total_rounds == len(log.rounds)
    assert report.best_skill_id == result["skill_id"]
    for number in range(1, report.total_rounds + 1):
        config = cast("RoundConfig", files.round_config(number))
        assert config.fields()["status"] == "completed"
    screened = [row for found in log.rounds for row in found.candidates if row.avg_score is None]
    assert all(row.error for row in screened)
    assert all(not row.won for row in screened)
    results = list((place.folder / "iterations").rglob("case_*.json"))
    for path in results:
        Result.read(json.loads(path.read_text(encoding="utf-8")), path.name).fields()
    homes = {path.parents[1].relative_to(place.folder / "iterations").as_posix() for path in results}
    rounds = {f"round_{number}/results" for number in range(1, report.total_rounds + 1)}
    assert homes == {*rounds, "x_retest/results"}, "resolution 25"
    ledger = cast("Sent", files.ledger())
    assert ledger["stop_cause"] == result["stop_cause"]
    assert {row["segment_id"] for row in ledger["segments"]} == {f"seg_{n:03d}" for n in range(1, 7)}


@pytest.mark.anyio
async def test_no_content_is_scored_twice_but_for_the_last_test(services: Services) -> None:
    _, executor, _ = await iterated(services)
    made = Counter((call.system, call.text) for call in executor.calls if call.call_id.startswith("x"))
    again = {
        call.system for call in executor.calls if call.call_id.startswith("x") and "-r2-" in call.call_id
    }
    assert len(again) <= 2
    assert all(count == (2 if system in again else 1) for (system, _), count in made.items())
    assert len(set(executor.ids())) == len(executor.ids())


@pytest.mark.anyio
@pytest.mark.parametrize("stop_after", [6, 13, 31])
async def test_an_interrupted_search_goes_on_and_ends_as_an_undisturbed_one(
    services: Services, stop_after: int
) -> None:
    place, executor, expected = await iterated(services)
    undisturbed = files_of(place)
    _remove(place.folder / "iterations")
    for skill in services.assets.skills():
        if skill.meta.id == expected["skill_id"]:
            _remove(skill.folder)
    executor.calls.clear()
    result: Sent = {}
    cuts = 0
    while not result and cuts < 100:
        result = await cut_short(services, place, stop_after)
        cuts += not result
    assert result["status"] == "done"
    assert cuts, "it was really interrupted"
    assert files_of(place) == undisturbed
    assert Counter(executor.ids()).most_common(1)[0][1] == 1


async def cut_short(services: Services, place: ProjectPlace, stop_after: int) -> Sent:
    """Iterate until so many events came; give the result if it came first."""
    seen = 0
    call = cast("IterateInput", {"project": place.name, "max_rounds": 6})
    async with aclosing(stream_iterate(services, call)) as stream:
        async for part in stream:
            if "type" not in part:
                return dict(part)
            seen += 1
            if seen > stop_after:
                break
    return {}


def _remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()


@pytest.mark.anyio
@pytest.mark.parametrize("wish", [{"keep": ["seg_001"]}, {"retention_rules": "必须保留seg_001"}])
async def test_a_kept_segment_is_in_every_candidate(services: Services, wish: dict[str, Any]) -> None:
    place, executor = await prepared(services)
    bad = BETA[2].strip()
    _mark(services, place, bad)
    executor.calls.clear()
    result = await iterate(services, place, max_rounds=5, **wish)
    contents = [
        path.read_text(encoding="utf-8") for path in (place.folder / "iterations").rglob("content.txt")
    ]
    assert contents
    assert all(bad in content for content in contents)
    assert bad in services.assets.skill(result["skill_id"]).content


def _mark(services: Services, place: ProjectPlace, content: str) -> None:
    segment = AdvantageSegment(
        id="seg_001", skill_id=SKILLS[1], skill_name="beta", type="format", content=content, reason="",
        dimension="readability",
    )  # fmt: skip
    leaders = DimensionLeaders(**dict.fromkeys(DIMENSIONS, SKILLS[0]))
    report = AnalysisReport(
        project_id=place.config.id, generated_at=NOW, best_skill_id=SKILLS[0], best_skill_name="alpha",
        dimension_leaders=leaders, advantage_segments=(segment,), issues=(),
    )  # fmt: skip
    place.save_analysis(report, {})


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("rules", "code"),
    [("必须保留seg_077", "lab_unknown_segment"), ("drop seg_001", "lab_iteration_drops")],
)
async def test_rules_that_cannot_be_kept_are_refused_before_anything_is_made(
    services: Services, rules: str, code: str
) -> None:
    place, executor = await prepared(services)
    executor.calls.clear()
    result = await iterate(services, place, retention_rules=rules)
    assert (result["status"], result["error"]["code"]) == ("error", code)
    assert not executor.calls
    assert not (place.folder / "iterations").exists()


@pytest.mark.anyio
async def test_a_candidate_without_a_kept_segment_cannot_be_written(services: Services) -> None:
    place, _ = await prepared(services)
    _mark(services, place, BETA[2].strip())
    await iterate(services, place, max_rounds=1, retention_rules="keep seg_001")
    plan = cast("IterationPlan", IterationFiles(place.folder).plan())
    assert plan.kept == ("seg_001",)
    without = candidate_of(plan.problem().skills[SKILLS[0]])
    with pytest.raises(UserError, match="seg_001"):
        plan.content(without)


@pytest.mark.anyio
async def test_a_person_can_stop_a_search_and_what_was_found_is_told(services: Services) -> None:
    place, executor = await prepared(services)
    executor.calls.clear()
    asked: list[asyncio.Task[Sent]] = []

    async def stop(_: Call) -> None:
        if len(executor.calls) == 20:
            asked.append(asyncio.create_task(stop_iteration(services, place.name)))
            await _asked_to_stop(place)

    executor.before = stop
    result = await iterate(services, place, max_rounds=50)
    assert await asked[0] == {"project": place.name, "status": "stopped"}
    assert result["status"] == "done"
    assert result["stop_cause"] == "manual"
    assert result["report"]["stop_reason"] == "manual"
    with pytest.raises(NotFound):
        await stop_iteration(services, place.name)
    assert not (place.folder / "iterations" / "x_stop").exists()


async def _asked_to_stop(place: ProjectPlace) -> None:
    """Wait until the wish stands there: whoever searches sees it before the next batch, at the latest."""
    while not list(place.folder.glob(".stop-*")):
        await asyncio.sleep(0.01)


@pytest.mark.anyio
async def test_the_budget_ends_a_search_and_is_told_as_the_true_cause(services: Services) -> None:
    place, _ = await prepared(services)
    spent = len(place.journal.read_text(encoding="utf-8").splitlines())
    await change_options(services, place.name, {"max_calls": spent + 30})
    result = await iterate(services, place, max_rounds=50)
    assert result["status"] == "done"
    assert result["stop_cause"] == "budget"
    assert result["report"]["stop_reason"] == "max_rounds"
    assert len(place.journal.read_text(encoding="utf-8").splitlines()) <= spent + 30


@pytest.mark.anyio
async def test_a_threshold_ends_a_search(services: Services) -> None:
    _, _, result = await iterated(services, stop_threshold=60.0, max_rounds=50)
    assert result["stop_cause"] == "threshold"
    assert result["report"]["stop_reason"] == "threshold_reached"
    assert result["report"]["stop_threshold"] == 60.0


@pytest.mark.anyio
async def test_another_search_sets_the_one_before_aside(services: Services) -> None:
    place, _, first = await iterated(services)
    assert await iterate(services, place) == {**first, "ended_before": True}
    refused = await iterate(services, place, seed=5)
    assert refused["error"]["code"] == "lab_iteration_ended"
    second = await iterate(services, place, max_rounds=2, seed=5, fresh=True)
    assert second["status"] == "done"
    assert [path.name for path in place.folder.glob("x_iterations_*")] == ["x_iterations_20251016103000"]
    aside = json.loads(
        (place.folder / "x_iterations_20251016103000" / "iteration_report.json").read_text(encoding="utf-8")
    )
    assert aside == first["report"]


@pytest.mark.anyio
async def test_a_search_that_has_not_ended_is_gone_on_with_under_the_same_terms_or_with_more_rounds(
    services: Services,
) -> None:
    place, _ = await prepared(services)
    call = cast("IterateInput", {"project": place.name, "max_rounds": 3, "baseline_id": "numbers"})
    async with aclosing(stream_iterate(services, call)) as stream:
        async for _ in stream:
            break
    refused = await iterate(services, place, beam_width=5)
    assert refused["error"]["code"] == "lab_other_iteration"
    assert (await iterate(services, place, max_rounds=4, baseline_id="numbers"))["status"] == "done"
    assert not list(place.folder.glob("x_iterations_*"))


@pytest.mark.anyio
async def test_more_rounds_go_on_with_a_search_that_had_ended_and_pay_for_nothing_again(
    services: Services,
) -> None:
    place, executor, first = await iterated(services, max_rounds=2)
    assert first["stop_cause"] == "max_rounds"
    result = await iterate(services, place, max_rounds=5)
    assert result["status"] == "done"
    assert result["round"] > 2
    assert not list(place.folder.glob("x_iterations_*"))
    made = Counter(call.call_id for call in executor.calls)
    assert made.most_common(1)[0][1] == 1


@pytest.mark.anyio
async def test_a_pause_leaves_a_search_open(services: Services) -> None:
    place, executor = await prepared(services)
    executor.calls.clear()
    asked: list[asyncio.Task[Any]] = []

    async def pause(_: Call) -> None:
        if len(executor.calls) == 20:
            asked.append(asyncio.create_task(pause_project(services, place.name, wait=60)))
            await _asked_to_stop(place)

    executor.before = pause
    result = await iterate(services, place, max_rounds=6)
    await asked[0]
    assert (result["status"], result["report"]) == ("interrupted", None)
    executor.before = None
    assert (await iterate(services, place, max_rounds=6))["status"] == "done"
    assert Counter(executor.ids()).most_common(1)[0][1] == 1


@pytest.mark.anyio
async def test_a_batch_that_fails_ends_the_run_and_is_made_again_the_next_time(services: Services) -> None:
    place, executor, expected = await iterated(services)
    _remove(place.folder / "iterations")
    for skill in services.assets.skills():
        if skill.meta.id == expected["skill_id"]:
            _remove(skill.folder)

    def down(call: Call) -> CallAnswer:
        return CallAnswer("failed", error="HTTP 400", error_code="provider.refused", executor="fake")

    executor.rule = down
    failed = await iterate(services, place, max_rounds=6)
    assert (failed["status"], failed["error"]["code"]) == ("error", "lab_iteration_failing")
    assert "HTTP 400" in failed["error"]["message"]
    executor.rule = lambda call: replace(down(call), error_params={"status": 400, "reason": "it is blank"})
    failed = await iterate(services, place, max_rounds=6)
    assert "400" in failed["error"]["message"]
    assert "它是空的" in failed["error"]["message"]
    executor.rule = by_pieces
    result = await iterate(services, place, max_rounds=6)
    assert result["status"] == "done"
    assert result["best"]["avg_score"] == expected["best"]["avg_score"]


@pytest.mark.anyio
async def test_scores_that_change_during_a_search_do_not_change_its_way(services: Services) -> None:
    place, executor, _ = await iterated(services)
    undisturbed = files_of(place)
    path = next(place.results.glob("*/case_001.json"))
    result = json.loads(path.read_text(encoding="utf-8"))
    result["scores"] = {**dict.fromkeys(DIMENSIONS, 0), "total": 0}
    path.write_text(json.dumps(result), encoding="utf-8")
    plan = cast("IterationPlan", IterationFiles(place.folder).plan())
    IterationFiles(place.folder).save_plan(plan.changed(completed_at=None, stop_cause=None))
    executor.calls.clear()
    assert (await iterate(services, place, max_rounds=6))["status"] == "done"
    assert executor.calls == []
    assert files_of(place) == undisturbed


@pytest.mark.anyio
async def test_every_call_of_a_second_search_is_accounted_for(services: Services) -> None:
    place, executor, _ = await iterated(services, max_rounds=2)
    before = len(place.journal.read_text(encoding="utf-8").splitlines())
    executor.calls.clear()
    assert (await iterate(services, place, fresh=True, max_rounds=2))["status"] == "done"
    assert len(place.journal.read_text(encoding="utf-8").splitlines()) - before == len(executor.calls) > 0


_ENGLISH = re.compile(r"[a-z]+ [a-z]+ [a-z]+")


def _without_a_text(plan: Sent) -> None:
    del plan["segments"][0]["text"]


def _with_another_case(plan: Sent) -> None:
    plan["cases"].append({"id": "case_900", "category": "standard"})


def _with_a_piece_less(plan: Sent) -> None:
    del plan["segments"][0]


def _without_skills(plan: Sent) -> None:
    plan["skills"] = {}


@pytest.mark.anyio
@pytest.mark.parametrize("spoil", [_without_a_text, _with_another_case, _with_a_piece_less, _without_skills])
async def test_a_plan_that_was_spoiled_by_hand_is_an_error_that_names_it(
    services: Services, spoil: Callable[[Sent], None]
) -> None:
    place, _ = await prepared(services)
    call = cast("IterateInput", {"project": place.name, "max_rounds": 6})
    async with aclosing(stream_iterate(services, call)) as stream:
        async for _ in stream:
            break
    path = place.folder / "iterations" / "x_iteration.json"
    plan = json.loads(path.read_text(encoding="utf-8"))
    spoil(plan)
    path.write_text(json.dumps(plan), encoding="utf-8")
    result = await iterate(services, place)
    assert result["status"] == "error"
    assert "x_iteration.json" in result["error"]["message"]
    assert not _ENGLISH.search(result["error"]["message"]), result["error"]["message"]


@pytest.mark.anyio
async def test_a_project_without_scores_cannot_be_iterated(services: Services) -> None:
    place, _ = await prepared(services)
    (place.results / "summary.json").unlink()
    result = await iterate(services, place)
    assert result["error"]["code"] == "lab_not_run_yet"


@pytest.mark.anyio
async def test_a_project_that_is_being_written_is_busy(hurried: Services) -> None:
    place, _ = await prepared(hurried)
    async with hurried.projects.leases.holding(place.name, "test", wait=1):
        result = await iterate(hurried, place)
    assert result["error"]["kind"] == "busy"


@pytest.mark.anyio
async def test_failed_evaluations_do_not_end_a_search(services: Services) -> None:
    place, executor = await prepared(services)

    def sometimes(call: Call) -> CallAnswer:
        if call.call_id.startswith("x-") and call.text == "Say 3.":
            return CallAnswer("failed", error="no", error_code="provider.refused", executor="fake")
        return by_pieces(call)

    executor.rule = sometimes
    result = await iterate(services, place, max_rounds=3)
    assert result["status"] == "done"
    assert result["best"] is not None


@pytest.mark.anyio
async def test_the_status_of_a_search_is_read_from_its_files(services: Services) -> None:
    place, _, result = await iterated(services)
    status = await iteration_status(services, place.name)
    assert status["running"] is False
    assert status["report"] == result["report"]
    assert status["ledger"]["best"] == result["best"]


@pytest.mark.anyio
async def test_what_is_no_better_than_the_originals_is_not_kept(services: Services) -> None:
    place, executor = await prepared(services)

    def all_alike(call: Call) -> CallAnswer:
        if call.schema is None:
            return told(call.system)
        scores = {name: {"score": MAXIMA[name] // 2, "reason": "half"} for name in DIMENSIONS}
        return told(json.dumps(scores))

    executor.rule = all_alike
    before = {skill.meta.id for skill in services.assets.skills()}
    result = await iterate(services, place, max_rounds=3)
    assert result["status"] == "done"
    assert (result["skill_id"], result["best"]["round"]) == (None, 0)
    assert result["report"]["best_skill_id"] == SKILLS[0]
    assert {skill.meta.id for skill in services.assets.skills()} == before


@pytest.mark.anyio
async def test_the_files_of_another_programs_iteration_are_told(services: Services) -> None:
    place, _, first = await iterated(services)
    (place.folder / "iterations" / "x_iteration.json").unlink()
    status = await iteration_status(services, place.name)
    assert status["report"] == first["report"]
    assert status["parameters"]["max_rounds"] == 6
    assert status["stop_cause"] == first["report"]["stop_reason"]


@pytest.mark.anyio
async def test_skills_whose_ids_are_another_programs_can_be_searched(services: Services) -> None:
    place, _ = await prepared(services)
    foreign = "a1b2c3d4-e5f6-7890-abcd-ef1234567890"
    for path in [*place.folder.rglob("*.json"), place.journal]:
        path.write_text(path.read_text(encoding="utf-8").replace(SKILLS[0], foreign), encoding="utf-8")
    (place.results / "aaaaaaaa_v1").rename(place.results / "a1b2c3d4_v1")
    result = await iterate(services, services.projects.project(place.name), max_rounds=2)
    assert result["status"] == "done", result["error"]


@pytest.mark.anyio
async def test_a_case_that_was_left_out_stays_out_and_nothing_is_searched_without_a_whole_original(
    services: Services,
) -> None:
    place, executor = await prepared(services)
    for path in place.results.glob("*/case_001.json"):
        path.unlink()
    executor.calls.clear()
    result = await iterate(services, place, max_rounds=2)
    assert result["status"] == "done"
    assert not [call for call in executor.calls if call.text == "Say 1."]
    (place.results / "aaaaaaaa_v1" / "case_002.json").unlink()
    (place.results / "bbbbbbbb_v1" / "case_003.json").unlink()
    refused = await iterate(services, place, fresh=True)
    assert refused["error"]["code"] == "lab_iterate_incomplete"


@pytest.mark.anyio
async def test_the_bound_of_a_search_is_never_exceeded(services: Services) -> None:
    place, executor = await prepared(services)
    executor.calls.clear()
    bound = await iteration_bound(services, place.name, {"max_rounds": 2})
    await iterate(services, place, max_rounds=2)
    assert 0 < len(executor.calls) <= bound["calls"]
