"""Tests of an iteration's parameters, its files and who may stop it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from personalab.errors import NotFound
from personalab.lab.calling import Call
from personalab.lab.engine.problem import BestLog, StopCause
from personalab.lab.findings import RoundConfig
from personalab.lab.iterating import IterationPlan, iteration_report
from personalab.lab.records import is_uuid4
from personalab.operations.lab.iterating import (
    iteration_bound,
    iteration_status,
    parameters_of,
    stop_iteration,
)
from personalab.services import Services
from personalab.storage.lab.iterations import IterationFiles
from personalab.storage.lab.projects import ProjectPlace
from tests.support.lab.running import BASELINES, NOW, SKILLS, evaluate
from tests.unit.graph.searches import CASES, iterate, iterated, prepared

pytestmark = pytest.mark.anyio
OWN = {"beam_width": 2, "plateau_threshold": 4.5, "plateau_rounds_before_escape": 3}
"""What the project itself says of its iterations."""


def _configured(place: ProjectPlace, mode: str) -> ProjectPlace:
    return place.save_config(place.config.changed(iteration_config={"mode": mode, **OWN}))


def _plan(place: ProjectPlace) -> IterationPlan:
    return cast("IterationPlan", IterationFiles(place.folder).plan())


# --- its terms


@pytest.mark.parametrize(("mode", "width"), [("standard", 3), ("beam", 2)])
async def test_what_the_project_says_of_its_iterations_holds_and_its_width_only_in_beam_mode(
    services: Services, mode: str, width: int
) -> None:
    place = _configured((await prepared(services))[0], mode)
    found = parameters_of(place.config.iteration_config, {})
    assert found.model_dump(include=set(OWN)) == {**OWN, "beam_width": width}
    assert parameters_of(place.config.iteration_config, {"beam_width": 7}).beam_width == 7


async def test_the_effective_values_stand_beside_the_log_which_lacks_some_of_them(services: Services) -> None:
    """Resolution 23."""
    place = _configured((await prepared(services))[0], "beam")
    await iterate(services, place, max_rounds=1, plateau_threshold=2.0, seed=9)
    top = place.folder / "iterations"
    plan = json.loads((top / "x_iteration.json").read_text(encoding="utf-8"))
    assert plan["parameters"] == {
        "max_rounds": 1, "beam_width": 2, "plateau_threshold": 2.0, "plateau_rounds_before_escape": 3,
        "stop_threshold": None, "max_evaluations": None, "seed": 9,
    }  # fmt: skip
    log = json.loads((top / "exploration_log.json").read_text(encoding="utf-8"))
    assert log["params"] == {
        "maxRounds": 1, "beamWidth": 2, "plateauThreshold": 2.0, "stopThreshold": None,
    }  # fmt: skip


async def test_what_is_written_is_synced_if_a_person_prefers_it_so(services: Services) -> None:
    place, _ = await prepared(services)
    synced = _synced_below(place.folder / "iterations")
    await iterate(services, place, max_rounds=1)
    assert not synced
    services.preferences.change({"durability": "fsync"})
    await iterate(services, place, max_rounds=2)
    assert {Path(folder).parent.name for folder in synced} == {"results"}


def _synced_below(top: Path) -> set[str]:
    """Note, from now on, which folders are opened to make what was renamed in them survive a power loss."""
    found: set[str] = set()

    def notice(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and str(arguments[0]).startswith(f"{top}/") and Path(arguments[0]).is_dir():
            found.add(str(arguments[0]))

    sys.addaudithook(notice)
    return found


# --- its files


async def test_a_round_is_running_while_it_runs_and_completed_after(services: Services) -> None:
    """Resolution 24: what a round's config has no place for stands in the sidecars."""
    place, executor = await prepared(services)
    seen: list[RoundConfig] = []
    files = IterationFiles(place.folder)

    async def look(_: Call) -> None:
        found = files.round_config(1)
        if found is not None and files.round_config(2) is None:
            seen.append(found)

    executor.before = look
    await iterate(services, place, max_rounds=2)
    assert {(found.status, found.completed_at) for found in seen} == {("running", None)}
    after = cast("RoundConfig", files.round_config(1))
    assert (after.status, after.started_at, after.completed_at) == ("completed", NOW, NOW)
    assert set(after.fields()) == {
        "round", "skill_id", "skill_name", "skill_version", "baseline_id", "retention_rules", "started_at",
        "completed_at", "status",
    }  # fmt: skip
    assert (_plan(place).baseline_id, _plan(place).baseline_version) == (BASELINES[0], "v1")
    ledger = cast("dict[str, Any]", files.ledger())
    assert ledger["best"]["strategy"] in ledger["strategy_odds"]


async def test_a_winner_is_a_new_skill_and_says_from_which_round_and_parent_it_comes(
    services: Services,
) -> None:
    """Resolutions 26 and 27."""
    place, _, result = await iterated(services)
    winner, number = services.assets.skill(result["skill_id"]), result["best"]["round"]
    assert is_uuid4(winner.meta.id)
    assert winner.meta.id not in SKILLS
    assert (winner.meta.version, winner.meta.version_count) == ("v1", 1)
    assert winner.meta.name == f"alpha-v{number}"
    assert winner.provenance is not None
    assert winner.provenance.type == "recomposed"
    strategy = winner.provenance.recomposition_strategy
    assert strategy.startswith(f"Round {number}, strategy {result['best']['strategy']}, from ")
    log = IterationFiles(place.folder).log()
    assert log is not None
    tried = {row.skill_id for found in log.rounds for row in found.candidates}
    parents = strategy.partition("from ")[2].partition(": ")[0].split(", ")
    assert parents
    assert set(parents) <= {*SKILLS, *tried} - {winner.meta.id}
    others = {skill.meta.id for skill in services.assets.skills()} & tried
    assert others == {winner.meta.id}, "only winners enter the library"


@pytest.mark.parametrize("cause", ["max_rounds", "budget", "plateau", "exhausted"])
async def test_the_source_knows_no_plateau_so_its_reason_is_the_last_round(
    services: Services, cause: StopCause
) -> None:
    """Resolution 21."""
    place, _, _ = await iterated(services, max_rounds=1)
    best = BestLog(None, 0, None, None, None, 0, cause)
    report = iteration_report(_plan(place), (), best, lambda _: "", NOW)
    assert report.stop_reason == "max_rounds"


async def test_a_search_that_tried_everything_says_so_beside_the_sources_reason(services: Services) -> None:
    """Resolution 21."""
    place, _, result = await iterated(services, max_rounds=200)
    assert result["stop_cause"] in ("plateau", "exhausted")
    assert result["report"]["stop_reason"] == "max_rounds"
    assert _plan(place).stop_cause == result["stop_cause"]


# --- its end


async def test_another_programs_reason_is_told_as_one_of_our_causes(services: Services) -> None:
    place, _, _ = await iterated(services, stop_threshold=60.0, max_rounds=50)
    (place.folder / "iterations" / "x_iteration.json").unlink()
    status = await iteration_status(services, place.name)
    assert (status["report"]["stop_reason"], status["stop_cause"]) == ("threshold_reached", "threshold")


async def test_a_search_that_has_ended_costs_nothing_more_unless_it_may_go_on(services: Services) -> None:
    place, executor, first = await iterated(services, max_rounds=1)
    assert first["stop_cause"] == "max_rounds"
    executor.calls.clear()
    for wishes in ({}, {"max_rounds": 1}):
        bound = await iteration_bound(services, place.name, wishes)
        assert (bound["evaluations"], bound["calls"]) == (0, 0)
        assert (await iterate(services, place, **wishes))["ended_before"]
    assert not executor.calls
    for wishes in ({"max_rounds": 2}, {"fresh": True}):
        assert (await iteration_bound(services, place.name, wishes))["evaluations"] > CASES


async def test_nobody_is_stopped_who_does_something_else(services: Services) -> None:
    place, executor = await prepared(services)
    iterations = place.folder / "iterations"
    iterations.mkdir()
    with pytest.raises(NotFound, match="No search is running"):
        await stop_iteration(services, place.name)
    refused: list[NotFound] = []

    async def stop(_: Call) -> None:
        with pytest.raises(NotFound, match="No search is running") as caught:
            await stop_iteration(services, place.name)
        refused.append(caught.value)

    (place.results / "aaaaaaaa_v1" / "case_001.json").unlink()
    (place.results / "aaaaaaaa_v1" / "x_case_001.json").unlink()
    executor.before = stop
    _, result = await evaluate(services, place.name)
    assert (result["status"], result["completed"]) == ("done", 2 * CASES)
    assert refused
    assert list(iterations.iterdir()) == []


async def test_a_search_that_ends_by_itself_while_it_is_being_stopped_leaves_no_wish_behind(
    services: Services,
) -> None:
    place, _ = await prepared(services)
    iterations = place.folder / "iterations"
    iterations.mkdir()
    async with services.projects.leases.holding(place.name, "iterate", wait=1) as lease:
        asked = asyncio.create_task(stop_iteration(services, place.name))
        while not lease.stop_requested():
            await asyncio.sleep(0.01)
        assert (iterations / "x_stop").exists()
    assert (await asked)["status"] == "stopped"
    assert list(iterations.iterdir()) == []
