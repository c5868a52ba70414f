"""A run is the server's: callers come and go, money is spent after the plan was shown, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from mcp_server.lab_showing import iteration_fields, iteration_text
from mcp_server.server import PersonaServer, build_server
from personalab.leases import STOP_POLL_SECONDS
from personalab.operations.lab.projects import pause_project
from personalab.services import Services
from personalab.testing.scripted import ScriptedModel
from tests.integration.mcp_server.conftest import Mode
from tests.integration.mcp_server.lab_world import (
    PAID,
    Blind,
    Held,
    LabScribe,
    a_case,
    lab_server,
    make_project,
)
from tests.support.mcp_server.calls import call, data_of, refused, text_of
from tests.support.mcp_server.processes import SECONDS, talking, world

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server(services: Services) -> AsyncGenerator[PersonaServer]:
    """The server with this toolset alone; its runs end with the test."""
    made = lab_server(services)
    yield made
    await made.close()


@pytest.fixture
async def held(services: Services) -> Held:
    """A model of which nobody knows what it costs, and which answers when it may."""
    model = Held()
    services.models[PAID] = model
    return model


async def _until(condition: Callable[[], object]) -> None:
    with anyio.fail_after(SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


async def _stop_asked(services: Services, project: str) -> None:
    folder = services.projects.folder / project
    await _until(lambda: any(folder.glob(".stop-*")))


def _config(root: Path, project: str) -> dict[str, Any]:
    path = root / "workspace" / "projects" / project / "config.json"
    return json.loads(path.read_text(encoding="utf-8"))


# --- money


async def test_nothing_is_spent_before_the_plan_was_shown_and_agreed_to(
    server: PersonaServer, held: Held, mode: Mode
) -> None:
    held.go_on.set()
    async with Client(server, mode=mode) as client:
        project = await make_project(client, model=PAID)
        planned = await client.call_tool("project_run", {"project": project})
        assert (data_of(planned)["status"], data_of(planned)["plan"]["calls"]) == ("plan", 16)
        assert "confirm=true" in text_of(planned)
        assert held.calls == 0
        done = await client.call_tool("project_run", {"project": project, "confirm": True})
        assert (data_of(done)["status"], held.calls) == ("done", 16)
        standing = await client.call_tool("project_status", {"project": project})
        for told in (text_of(done), text_of(standing)):  # nobody said what it cost
            assert "? spent" in told
            assert "$0" not in told
        again = await call(client, "project_run", project=project)
        assert (again["status"], held.calls) == ("done", 16)
        search = await call(client, "iteration_start", project=project, max_rounds=1)
        assert (search["status"], held.calls) == ("plan", 16)
        assert search["plan"]["calls"] > 0
        bounded = await call(client, "iteration_start", project=project, max_rounds=1, max_evaluations=12)
        assert bounded["status"] == "done"


async def test_a_limit_needs_no_word_and_holds(server: PersonaServer, held: Held, mode: Mode) -> None:
    held.go_on.set()
    async with Client(server, mode=mode) as client:
        project = await make_project(client, model=PAID)
        ran = await client.call_tool("project_run", {"project": project, "max_calls": 8})
        assert data_of(ran)["status"] == "interrupted"
        assert data_of(ran)["budget"]
        assert "max_calls" in text_of(ran)
        assert held.calls <= 8
        more = await call(client, "project_run", project=project, max_calls=100)
        assert (more["status"], more["completed"], held.calls) == ("done", 6, 16)


async def test_a_limit_in_money_is_no_word_for_a_model_whose_price_nobody_tells(
    server: PersonaServer, held: Held, mode: Mode
) -> None:
    held.go_on.set()
    async with Client(server, mode=mode) as client:
        project = await make_project(client, model=PAID)
        planned = await call(client, "project_run", project=project, max_usd=5)
        assert (planned["status"], planned["plan"]["within_budget"], held.calls) == ("plan", None, 0)
        ran = await call(client, "project_run", project=project, max_usd=5, confirm=True)
        assert (ran["status"], held.calls) == ("interrupted", 1)
        assert "max_calls" in ran["budget"]


async def test_a_case_is_left_out_and_taken_in_again(server: PersonaServer, mode: Mode) -> None:
    async with Client(server, mode=mode) as client:
        project = await make_project(client, cases=2)
        standing = await call(client, "project_status", project=project)
        skip = {"skill_id": standing["project"]["skills"][0]["id"], "case_id": "case_001"}
        assert (await call(client, "project_run", project=project, skip=skip))["status"] == "skipped"
        ran = await call(client, "project_run", project=project)
        assert (ran["completed"], ran["skipped"]) == (3, 1)
        undone = await call(client, "project_run", project=project, skip={**skip, "undo": True})
        assert undone["status"] == "open"
        assert (await call(client, "project_run", project=project))["completed"] == 4


# --- whose run it is


async def test_a_call_that_is_cancelled_loses_nothing_and_the_run_goes_on(
    server: PersonaServer, held: Held, root: Path, mode: Mode
) -> None:
    async with Client(server, mode=mode) as client:
        project = await make_project(client, model=PAID)
        with anyio.move_on_after(SECONDS) as leaving:
            async with anyio.create_task_group() as group:
                group.start_soon(
                    lambda: client.call_tool("project_run", {"project": project, "confirm": True})
                )
                await held.asked.wait()
                leaving.cancel()
        assert leaving.cancelled_caught
        running = await call(client, "project_status", project=project)
        assert (running["project"]["status"], running["running"]["kind"]) == ("running", "evaluate")
        held.go_on.set()
        await _until(lambda: _config(root, project)["status"] == "completed")
        ended = await call(client, "project_status", project=project)
        assert ended["project"]["progress"]["completed_tasks"] == 6
        assert held.calls == 16


async def test_a_second_call_follows_the_run_instead_of_beginning_another(
    server: PersonaServer, held: Held, mode: Mode
) -> None:
    found: list[dict[str, Any]] = []
    async with Client(server, mode=mode) as client:
        project = await make_project(client, model=PAID)
        begun = await call(client, "project_run", project=project, confirm=True, wait=False)
        assert begun["status"] == "running"

        async def follow() -> None:
            found.append(await call(client, "project_run", project=project))

        async with anyio.create_task_group() as group:
            group.start_soon(follow)
            group.start_soon(follow)
            await held.asked.wait()
            searching = await refused(client, "iteration_start", project=project)
            assert "pause=true" in searching
            held.go_on.set()
    assert [row["status"] for row in found] == ["done", "done"]
    assert held.calls == 16


async def test_two_calls_at_once_begin_one_run(server: PersonaServer, held: Held) -> None:
    found: list[dict[str, Any]] = []
    async with Client(server) as client:
        project = await make_project(client, model=PAID)

        async def run() -> None:
            found.append(await call(client, "project_run", project=project, confirm=True))

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            group.start_soon(run)
            await held.asked.wait()
            held.go_on.set()
    assert found[0] == found[1]
    assert (found[0]["plan"]["calls"], held.calls) == (16, 16)


async def test_a_run_is_paused_and_gone_on_with(
    server: PersonaServer, held: Held, services: Services, mode: Mode
) -> None:
    async with Client(server, mode=mode) as client:
        project = await make_project(client, model=PAID, options={"controls": False, "concurrency": 1})
        await call(client, "project_run", project=project, confirm=True, wait=False)
        await held.asked.wait()
        asked = await pause_project(services, project, wait=0.2)
        assert asked["status"] == "stopping"
        pausing = asyncio.create_task(call(client, "project_run", project=project, pause=True))
        await _stop_asked(services, project)
        held.pace = STOP_POLL_SECONDS  # whoever looks that often sees the wish long before the last answer
        held.go_on.set()
        assert (await pausing)["status"] == "interrupted"
        assert 0 < held.calls < 12
        held.pace = 0
        ran = await call(client, "project_run", project=project, confirm=True)
        assert (ran["status"], ran["completed"]) == ("done", 6)
        assert held.calls == 12


async def test_the_end_of_the_server_interrupts_and_another_one_goes_on(
    server: PersonaServer, services: Services, held: Held, root: Path
) -> None:
    async with Client(server) as client:
        project = await make_project(client, model=PAID)
        await call(client, "project_run", project=project, confirm=True, wait=False)
        await held.asked.wait()
        await server.close()
        assert _config(root, project)["status"] == "interrupted"
        held.go_on.set()
        said = await refused(client, "project_run", project=project, confirm=True)
        assert "shutting down" in said
    services.models[PAID] = Held(held=False)
    async with Client(build_server(services, ["lab"])) as client:
        ran = await call(client, "project_run", project=project, confirm=True)
        assert (ran["status"], ran["completed"]) == ("done", 6)


async def test_a_run_that_failed_with_nobody_listening_says_so_later(
    server: PersonaServer, services: Services, root: Path, mode: Mode
) -> None:
    async with Client(server, mode=mode) as client:
        services.models[PAID] = Blind()
        project = await make_project(client, model=PAID)
        await call(client, "project_run", project=project, confirm=True, wait=False)
        await _until(lambda: _config(root, project)["status"] == "interrupted")
        await _until(lambda: server._runs.of(project) is None)  # pyright: ignore[reportPrivateUsage]
        found = await client.call_tool("project_status", {"project": project})
        last = data_of(found)["last_run"]
        assert last["status"] == "error"
        assert last["message"]
        assert last["message"] in text_of(found)
        assert last["message"] in await refused(client, "project_run", project=project, confirm=True)


# --- searching


async def test_a_search_is_ended_and_its_best_is_kept(
    server: PersonaServer, services: Services, mode: Mode
) -> None:
    async with Client(server, mode=mode) as client:
        project = await make_project(client)
        await call(client, "project_run", project=project)
        model = Held()
        services.models["rehearsal"] = model
        begun = await call(client, "iteration_start", project=project, max_rounds=5, wait=False)
        assert begun["status"] == "running"
        await model.asked.wait()
        assert "iteration_stop" in await refused(client, "project_run", project=project)
        stopping = asyncio.create_task(call(client, "iteration_stop", project=project))
        await _stop_asked(services, project)
        model.pace = STOP_POLL_SECONDS
        model.go_on.set()
        stopped = await stopping
        assert (stopped["status"], stopped["iteration"]["stop_cause"]) == ("stopped", "manual")
        assert stopped["iteration"]["best"]


async def test_a_search_is_paused_told_as_open_and_gone_on_with(
    server: PersonaServer, services: Services, mode: Mode
) -> None:
    async with Client(server, mode=mode) as client:
        project = await make_project(client)
        await call(client, "project_run", project=project)
        model = Held()
        services.models["rehearsal"] = model
        search = {"project": project, "max_rounds": 2}
        searching = asyncio.create_task(client.call_tool("iteration_start", search))
        await model.asked.wait()
        pausing = asyncio.create_task(client.call_tool("project_run", {"project": project, "pause": True}))
        await _stop_asked(services, project)
        model.pace = STOP_POLL_SECONDS
        model.go_on.set()
        paused, found = await pausing, await searching
        assert data_of(paused)["status"] == "interrupted"
        assert "iteration_start continues" in text_of(paused)
        assert (data_of(found)["status"], data_of(found)["iteration"]["stop_cause"]) == ("interrupted", None)
        assert "not finished" in text_of(found)
        model.pace = 0
        done = await call(client, "iteration_start", project=project)
        assert (done["status"], done["iteration"]["stop_cause"]) == ("done", "max_rounds")


async def test_what_is_no_run_and_no_search_is_paused_as_what_it_is(
    server: PersonaServer, services: Services
) -> None:
    async with Client(server) as client:
        project = await make_project(client)
        async with services.projects.leases.holding(project, "skip", wait=SECONDS):
            pausing = asyncio.create_task(call(client, "project_run", project=project, pause=True))
            await _stop_asked(services, project)
        assert (await pausing)["status"] == "pending"


async def test_a_search_that_had_ended_asks_for_no_money_and_says_how_to_go_on(
    server: PersonaServer, held: Held, mode: Mode
) -> None:
    held.go_on.set()
    async with Client(server, mode=mode) as client:
        project = await make_project(client, model=PAID)
        await call(client, "project_run", project=project, confirm=True)
        done = await client.call_tool(
            "iteration_start", {"project": project, "max_rounds": 1, "confirm": True}
        )
        assert data_of(done)["iteration"]["stop_cause"] == "max_rounds"
        assert "nothing was done" not in text_of(done)
        calls = held.calls
        again = await client.call_tool("iteration_start", {"project": project})
        assert (data_of(again)["status"], data_of(again)["iteration"]["ended_before"]) == ("done", True)
        assert "max_rounds" in text_of(again)
        assert "fresh=true" in text_of(again)
        assert (await call(client, "iteration_start", project=project, max_rounds=2))["status"] == "plan"
        assert (await call(client, "iteration_start", project=project, fresh=True))["status"] == "plan"
        assert held.calls == calls


@pytest.mark.parametrize(("retested", "word"), [(0, "Not re-tested"), (6, "by a re-test")])
def test_an_estimate_is_not_told_as_a_re_test(retested: int, word: str) -> None:
    ends = {"score": 71.0, "low": 65.0, "high": 77.0}
    best = {"name": "better", "avg_score": 74.0, "retested": retested, "corrected": ends}
    said = iteration_text(iteration_fields({"best": best, "stop_cause": "budget"}), "en")
    assert [line for line in said if word in line and "71.0 (65.0–77.0)" in line]


async def test_a_provider_does_the_small_works(
    server: PersonaServer, services: Services, provider: Callable[..., ScriptedModel]
) -> None:
    provider()
    scribe = LabScribe()
    services.models["scripted:test"] = scribe
    async with Client(server) as client:
        project = await make_project(client)
        await call(client, "project_run", project=project)
        skill_id = (await call(client, "skill_list"))["skills"][0]["id"]
        tags = await call(client, "skill_tag", asset_id=skill_id, action="auto")
        assert [row["value"] for row in tags["auto"]] == ["numbers", "short"]
        refusal = await refused(client, "analysis_run", project=project, answer="{}")
        assert "analysis_run" in refusal
        found = await call(client, "analysis_run", project=project)
        assert found["status"] == "done"


# --- over a real connection


def test_a_client_that_hangs_up_leaves_a_project_that_can_be_gone_on_with(tmp_path: Path) -> None:
    environment, script = world(tmp_path), tmp_path / "script.json"
    environment["PERSONALAB_MODEL"] = f"scripted:{script}"
    endless = {"pieces": ["On"], "hang": True}
    script.write_text(json.dumps({"replies": [endless]}), encoding="utf-8")
    with talking(environment, tmp_path / "log", "--toolsets", "lab", era="legacy") as talk:
        skills = [row["id"] for row in talk.call("skill_list")["skills"]][:1]
        baselines = [talk.call("baseline_save", name="n", purpose="talk", cases=[a_case(1)])["id"]]
        options = {"controls": False, "judges": ["rehearsal"]}
        parts = {"skill_ids": skills, "baseline_ids": baselines, "model": f"scripted:{script}"}
        made = talk.call("project_create", name="P", **parts, options=options)
        talk.begin_call("project_run", project=made["project"])
        while not talk.notified("notifications/progress").get("message"):
            continue  # a heartbeat: the run has not begun
        talk.hang_up()
        assert talk.running.wait() == 0
    left = _config(tmp_path / "data", made["project"])
    assert (left["status"], left["progress"]["completed_tasks"]) == ("interrupted", 0)
    script.write_text(json.dumps({"replies": ["One."]}), encoding="utf-8")
    with talking(environment, tmp_path / "log2", "--toolsets", "lab", era="modern") as talk:
        assert talk.call("project_run", project=made["project"])["status"] == "done"
