"""The lab over HTTP: what is compared, what it would cost, who is better, and what waits for a person's word."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from personalab.lab.reports.data import Iteration, RoundMark
from personalab.operations.lab.baselines import create_baseline
from personalab.operations.lab.skills import archive_skill, create_skill, edit_skill
from personalab.services import Services
from tests.support.web.listening import Heard, parsed
from tests.support.web.slow_model import HandedModel
from web.api.lab_findings import rounds_of

pytestmark = pytest.mark.anyio

PLAIN = "2abeadd6-a506-40ee-a0c7-23f42a98bda8"
CAREFUL = "fa2286f2-3ee4-42ed-ba82-12e3a85cc593"
CODING = "92e110b0-aaed-4f5d-86e7-7eb782cf789a"


async def got(client: httpx.AsyncClient, path: str, status: int = 200, **params: Any) -> Any:
    """Read something of the lab."""
    answer = await client.get(f"/api/lab{path}", params=params)
    assert answer.status_code == status, answer.text
    return answer.json()


async def posted(client: httpx.AsyncClient, path: str, status: int = 200, **body: Any) -> Any:
    """Ask the lab for something."""
    answer = await client.post(f"/api/lab{path}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.fixture
async def baseline(services: Services, anyio_backend: str) -> str:
    """A baseline of three cases: enough to rank by, and soon run."""
    cases = [
        {"name": text, "category": "standard", "input": text, "expected_output": "It is right."}
        for text in ("Sort a list.", "Count the words.", "Read a file.")
    ]
    return (await create_baseline(services, name="Small", purpose="coding", cases=cases)).meta.id


async def made(client: httpx.AsyncClient, baseline: str, **options: Any) -> str:
    """Make a project of the two coding skills; give the path of its routes."""
    body = {"name": "First look", "skill_ids": [PLAIN, CAREFUL], "baseline_ids": [baseline]}
    body |= {"options": options}
    return f"/projects/{(await posted(client, '/projects', 201, **body))['project']}"


async def done(client: httpx.AsyncClient, path: str, **body: Any) -> Heard:
    """Begin a job and wait for its end."""
    job = await posted(client, path, 202, **body)
    return parsed((await client.get(job["stream"])).text)[-1]


async def asked_to_stop(services: Services, project: str) -> None:
    """Wait until whoever works on a project finds that it should end."""
    folder = services.projects.project(project.removeprefix("/projects/")).folder
    async with asyncio.timeout(60):
        while not any(folder.glob(".stop-*")):
            await asyncio.sleep(0.005)


async def answered(model: HandedModel, until: asyncio.Task[Any]) -> None:
    """Let every call come to its end until something is done."""
    async with asyncio.timeout(60):
        while not until.done():
            for reply in model.replies:
                reply.finish("an answer")
            await asyncio.sleep(0.005)


@pytest.fixture
async def ran(app_client: httpx.AsyncClient, baseline: str) -> str:
    """A project that was run by the stand-in, with an arm that has no skill."""
    project = await made(app_client, baseline, no_skill_arm=True)
    assert (await done(app_client, f"{project}/run")).data["status"] == "done"
    return project


# --- the library


async def test_the_shipped_skills_and_baselines_are_listed_and_read_whole(
    app_client: httpx.AsyncClient,
) -> None:
    skills = (await got(app_client, "/skills"))["skills"]
    assert {row["purpose"] for row in skills} == {"coding", "persona"}
    assert [row["name"] for row in (await got(app_client, "/skills", query="smallest prose"))["skills"]] == [
        "Plain and Small Python"
    ]
    skill = await got(app_client, f"/skills/{PLAIN[:8]}")
    assert skill["skill"]["tags"] == ["Python", "concise"]
    assert skill["content"].startswith("You write Python")
    assert {row["id"]: row["case_count"] for row in (await got(app_client, "/baselines"))["baselines"]} == {
        CODING: 9,
        "00ebb45f-31e6-4b09-87a2-71c5e343162b": 9,
    }
    assert len((await got(app_client, f"/baselines/{CODING}"))["cases"]) == 9


async def test_older_versions_can_be_read_and_archived_skills_are_listed_only_when_asked_for(
    app_client: httpx.AsyncClient, services: Services
) -> None:
    await edit_skill(services, PLAIN, content="Be brief.")
    newest = await got(app_client, f"/skills/{PLAIN}")
    assert (newest["versions"], newest["content"]) == (["v1", "v2"], "Be brief.")
    assert newest["history"][0]["changed_fields"] == ["content"]
    assert (await got(app_client, f"/skills/{PLAIN}", version="v1"))["content"].startswith("You write Python")
    await archive_skill(services, PLAIN)
    assert PLAIN not in [row["id"] for row in (await got(app_client, "/skills"))["skills"]]
    everything = (await got(app_client, "/skills", archived=True))["skills"]
    assert [row["status"] for row in everything if row["id"] == PLAIN] == ["archived"]


async def test_tags_that_a_model_proposed_wait_until_a_person_approves_or_rejects_them(
    app_client: httpx.AsyncClient,
) -> None:
    assert (await got(app_client, "/tags"))["waiting"] == []
    ended = await done(app_client, "/tags/propose", kind="skill", asset_id=PLAIN)
    waiting = (await got(app_client, "/tags"))["waiting"]
    assert [row["value"] for row in waiting] == ended.data["result"]["proposed"] != []
    first, second = waiting[:2]
    one: dict[str, Any] = {"kind": "skill", "asset_id": PLAIN}
    await posted(app_client, "/tags/approve", **one, tag=first["tag_id"])
    told = await posted(app_client, "/tags/reject", **one, tag=second["tag_id"])
    assert {row["id"]: row["status"] for row in told["all_tags"] if row["by"] == "model"}[
        second["tag_id"]
    ] == "rejected"
    assert (await got(app_client, "/tags"))["waiting"] == waiting[2:]
    assert first["value"] in (await got(app_client, f"/skills/{PLAIN}"))["skill"]["tags"]


# --- projects


async def test_a_plan_tells_the_calls_before_a_run_and_nothing_is_left_after_it(
    app_client: httpx.AsyncClient,
    baseline: str,
) -> None:
    project = await made(app_client, baseline)
    plan = await got(app_client, f"{project}/plan")
    assert (plan["execute_calls"], plan["judge_calls"], plan["cost_usd"]) == (6, 6, None)
    assert plan["is_free"]
    assert not plan["needs_confirm"]
    ended = await done(app_client, f"{project}/run")
    assert (ended.name, ended.data["result"]["completed"]) == ("done", 6)
    assert (await got(app_client, f"{project}/plan"))["calls"] == 0
    status = await got(app_client, project)
    assert (status["status"], status["progress"]["left"], status["running"]) == ("completed", 0, None)
    assert status["calls_made"] == plan["calls"]


async def test_a_run_that_may_cost_money_is_refused_until_it_is_confirmed_and_its_cost_is_unknown_not_zero(
    app_client: httpx.AsyncClient,
    baseline: str,
) -> None:
    project = await made(app_client, baseline, model="dear", max_calls=0)
    plan = await got(app_client, f"{project}/plan")
    assert plan["needs_confirm"]
    assert plan["cost_usd"] is None
    assert plan["within_budget"] is False
    refused = await posted(app_client, f"{project}/run", 400)
    assert refused["error"]["code"] == "lab_not_confirmed"
    status = await got(app_client, project)
    assert (status["calls_made"], status["spent_usd"], status["running"]) == (0, None, None)
    ended = await done(app_client, f"{project}/run", confirm=True)
    assert ended.data["kind"] == "lab_run"
    assert (await got(app_client, project))["calls_made"] == 0, "the limit was not kept"


async def test_limits_of_a_plan_change_nothing_and_those_of_a_run_are_kept(
    app_client: httpx.AsyncClient,
    baseline: str,
) -> None:
    project = await made(app_client, baseline)
    assert (await posted(app_client, f"{project}/plan", max_calls=8))["within_budget"] is False
    assert (await got(app_client, f"{project}/plan"))["max_calls"] is None
    await done(app_client, f"{project}/run", max_calls=8)
    status = await got(app_client, project)
    assert status["calls_made"] == 8
    assert status["options"]["max_calls"] == 8
    cells = [cell for row in (await got(app_client, f"{project}/results"))["cases"] for cell in row["cells"]]
    assert "skipped" in {cell["status"] for cell in cells}
    await done(app_client, f"{project}/run", max_calls=None)
    assert (await got(app_client, project))["progress"]["left"] == 0


async def test_a_run_that_is_paused_keeps_what_was_answered_and_only_one_works_on_a_project_at_once(
    app_client: httpx.AsyncClient, baseline: str, services: Services, handed: HandedModel
) -> None:
    project = await made(app_client, baseline, controls=False, concurrency=1)
    job = await posted(app_client, f"{project}/run", 202)
    assert job["subject"] == f"lab:{project.removeprefix('/projects/')}"
    await handed.asked()
    assert (await got(app_client, project))["running"]["job_id"] == job["job_id"]
    assert (await posted(app_client, f"{project}/run", 409))["error"]["code"] == "job_running"
    pausing = asyncio.create_task(posted(app_client, f"{project}/pause"))
    await asked_to_stop(services, project)
    await answered(handed, pausing)
    assert (await pausing)["status"] == "interrupted"
    ended = parsed((await app_client.get(job["stream"])).text)[-1]
    assert (ended.name, ended.data["status"]) == ("done", "interrupted")
    status = await got(app_client, project)
    assert status["status"] == "interrupted"
    left = (await got(app_client, f"{project}/plan"))["calls"]
    assert left > 0
    assert status["calls_made"] + left == 12, "a call that was answered would be made again"


async def test_a_case_that_is_skipped_is_left_out_and_can_be_taken_in_again(
    app_client: httpx.AsyncClient,
    baseline: str,
) -> None:
    project = await made(app_client, baseline)
    one: dict[str, Any] = {"skill_id": PLAIN, "case_id": "case_001"}
    assert (await posted(app_client, f"{project}/skip", **one))["status"] == "skipped"
    assert (await got(app_client, f"{project}/plan"))["execute_calls"] == 5
    assert (await posted(app_client, f"{project}/skip", **one, undo=True))["status"] == "open"
    assert (await got(app_client, f"{project}/plan"))["execute_calls"] == 6


# --- results


async def test_the_matrix_has_a_score_for_every_skill_and_case_and_is_paged_by_cases(
    app_client: httpx.AsyncClient, ran: str
) -> None:
    first = await got(app_client, f"{ran}/results", limit=2)
    rest = await got(app_client, f"{ran}/results", offset=first["next_offset"])
    assert (len(first["cases"]), first["total_cases"], rest["next_offset"]) == (2, 3, None)
    cases = [*first["cases"], *rest["cases"]]
    assert len({row["case_id"] for row in cases}) == 3
    assert [one["is_no_skill"] for one in first["skills"]] == [False, False, True]
    cells = [cell for row in cases for cell in row["cells"]]
    assert len(cells) == 9
    assert {cell["status"] for cell in cells} == {"completed"}
    assert all(cell["text"] == f"{cell['total']:.1f}" for cell in cells)


async def test_a_project_that_was_not_run_has_open_cells_and_no_ranks(
    app_client: httpx.AsyncClient, baseline: str
) -> None:
    project = await made(app_client, baseline)
    cells = [cell for row in (await got(app_client, f"{project}/results"))["cases"] for cell in row["cells"]]
    assert {(cell["status"], cell["total"]) for cell in cells} == {("open", None)}
    ranking = await got(app_client, f"{project}/ranking")
    assert {(row["rank"], row["mean"]) for row in ranking["rows"]} == {(None, None)}
    open_cell = await got(app_client, f"{project}/cell", skill_id=PLAIN, case_id="case_002")
    assert (open_cell["status"], open_cell["answer"], open_cell["scores"]) == ("open", "", [])


async def test_a_cell_tells_the_answer_the_scores_that_make_its_total_and_the_reasons(
    app_client: httpx.AsyncClient, ran: str
) -> None:
    cell = await got(app_client, f"{ran}/cell", skill_id=PLAIN, case_id="case_001", version="v1")
    assert sum(one["score"] for one in cell["scores"]) == cell["total"]
    assert sum(one["maximum"] for one in cell["scores"]) == 100
    assert cell["answer"]
    assert cell["reasoning"]
    assert cell["expected"]
    further = await got(app_client, f"{ran}/cell", skill_id=PLAIN, case_id="case_001", offset=10)
    assert further["answer"] == cell["answer"][10:]
    assert further["answer_length"] == len(cell["answer"])
    unknown = await got(app_client, f"{ran}/cell", 404, skill_id=PLAIN, case_id="case_099")
    assert unknown["error"]["code"] == "lab_no_task"


async def test_the_ranking_has_intervals_and_says_that_a_stand_in_answered(
    app_client: httpx.AsyncClient, ran: str
) -> None:
    ranking = await got(app_client, f"{ran}/ranking")
    first, second, idle = ranking["rows"]
    assert (first["skill_id"], first["rank"], second["rank"], idle["rank"]) == (PLAIN, 1, 2, None)
    assert first["interval"][0] <= first["mean"] <= first["interval"][1]
    assert second["behind"] < 0
    low, high = (f"{end:+.1f}".replace("-", "−") for end in second["behind_interval"])
    assert any(f"{low} 到 {high}" in note for note in second["notes"])
    assert first["behind"] is None
    assert [notice["code"] for notice in ranking["notices"] if notice["loud"]] == ["notice_rehearsal"]


async def test_skills_that_cannot_be_told_apart_are_a_tie(
    app_client: httpx.AsyncClient, baseline: str, services: Services
) -> None:
    ids = [
        (await create_skill(services, name=name, content=f"Answer {name}.", purpose="coding")).meta.id
        for name in ("briefly", "shortly")
    ]
    body = {"name": "Tie", "skill_ids": ids, "baseline_ids": [baseline]}
    project = f"/projects/{(await posted(app_client, '/projects', 201, **body))['project']}"
    await done(app_client, f"{project}/run")
    rows = (await got(app_client, f"{project}/ranking"))["rows"]
    assert [(row["tied"], row["tie_group"]) for row in rows] == [(True, 1), (True, 1)]
    assert rows[0]["interval"][0] <= rows[1]["interval"][1]


async def test_reports_come_as_files(app_client: httpx.AsyncClient, ran: str) -> None:
    begins = {"html": b"<!doctype html>", "junit": b"<?xml", "csv": b"project"}
    media = {"html": "text/html", "junit": "application/xml", "csv": "text/csv"}
    for kind, first in begins.items():
        answer = await app_client.get(f"/api/lab{ran}/report", params={"format": kind})
        assert answer.status_code == 200, kind
        assert answer.headers["content-type"] == f"{media[kind]}; charset=utf-8"
        assert answer.headers["content-disposition"].startswith('attachment; filename="project_first_look_')
        assert answer.content.lower().removeprefix(b"\xef\xbb\xbf").startswith(first), answer.content[:60]


async def test_the_leaderboard_lists_every_test_and_notices_that_a_skill_has_changed_since(
    app_client: httpx.AsyncClient, services: Services, ran: str
) -> None:
    group = (await got(app_client, "/leaderboard"))["groups"][0]
    assert [row["skill_id"] for row in group["records"]] == [PLAIN, CAREFUL]
    assert {row["staleness"] for row in group["records"]} == {"current"}
    await edit_skill(services, PLAIN, content="Be brief.")
    rows = (await got(app_client, "/leaderboard", baseline_id=group["baseline_id"]))["groups"][0]["records"]
    assert {row["skill_id"]: row["staleness"] for row in rows}[PLAIN] == "skill_updated"
    tested = (await got(app_client, f"/skills/{PLAIN}"))["skill"]["testSummary"]
    assert (tested["has_tests"], tested["test_count"]) == (True, 1)
    assert tested["staleness"] == "skill_updated"


# --- findings


async def test_an_analysis_quotes_segments_letter_by_letter(app_client: httpx.AsyncClient, ran: str) -> None:
    assert not (await got(app_client, f"{ran}/analysis"))["done"]
    assert (await done(app_client, f"{ran}/analysis")).data["status"] == "done"
    found = await got(app_client, f"{ran}/analysis")
    contents = "".join([(await got(app_client, f"/skills/{one}"))["content"] for one in (PLAIN, CAREFUL)])
    assert found["done"]
    assert found["segments"]
    assert all(row["content"] in contents for row in found["segments"])


async def test_a_search_tells_its_bound_first_and_its_rounds_with_the_best_so_far_after(
    app_client: httpx.AsyncClient, ran: str
) -> None:
    assert not (await got(app_client, f"{ran}/iteration"))["started"]
    bound = await posted(app_client, f"{ran}/iteration/plan", max_rounds=2)
    assert 0 < bound["evaluations"] * bound["calls_each"] == bound["calls"]
    assert not bound["needs_confirm"]
    ended = await done(app_client, f"{ran}/iteration", max_rounds=2)
    assert (ended.name, ended.data["result"]["stop_cause"]) == ("done", "max_rounds")
    found = await got(app_client, f"{ran}/iteration")
    assert [row["round"] for row in found["rounds"]] == [1, 2]
    assert found["completed_at"]
    best = [found["start_score"], *(row["best_so_far"] for row in found["rounds"])]
    assert best == sorted(best)
    assert all(row["candidates"] for row in found["rounds"])
    assert 0 < found["evaluations"] <= bound["evaluations"]
    assert (await posted(app_client, f"{ran}/iteration/plan", max_rounds=2))["calls"] == 0


async def test_the_best_so_far_is_kept_by_rounds_that_found_nothing_better() -> None:
    marks = tuple(RoundMark(round=at, score=score) for at, score in enumerate((60.0, None, 55.0, 70.0), 1))
    rounds = rounds_of(Iteration(rounds=marks, start_score=50.0))
    assert [row.best_so_far for row in rounds] == [60.0, 60.0, 60.0, 70.0]
    assert [row.score for row in rounds] == [60.0, None, 55.0, 70.0]


async def test_a_search_that_is_stopped_ends_with_its_report(
    app_client: httpx.AsyncClient, ran: str, services: Services
) -> None:
    model = HandedModel()
    services.models["rehearsal"] = model
    job = await posted(app_client, f"{ran}/iteration", 202, max_rounds=2)
    await model.asked()
    stopping = asyncio.create_task(posted(app_client, f"{ran}/iteration/stop"))
    await asked_to_stop(services, ran)
    await answered(model, stopping)
    assert (await stopping)["status"] == "stopped"
    assert parsed((await app_client.get(job["stream"])).text)[-1].data["result"]["stop_cause"] == "manual"
    assert (await got(app_client, f"{ran}/iteration"))["stop_cause"] == "manual"


async def test_a_search_before_a_run_ends_with_an_error_that_says_what_to_do(
    app_client: httpx.AsyncClient,
    baseline: str,
) -> None:
    project = await made(app_client, baseline)
    ended = await done(app_client, f"{project}/iteration", max_rounds=1)
    assert (ended.name, ended.data["error"]["code"]) == ("error", "lab_not_run_yet")


# --- refusals


async def test_what_is_not_there_is_not_found(app_client: httpx.AsyncClient, baseline: str) -> None:
    for path in ("", "/plan", "/results", "/ranking", "/analysis", "/iteration", "/report"):
        assert (await got(app_client, f"/projects/nowhere{path}", 404))["error"]["code"] == "lab_no_project"
    assert (await got(app_client, "/skills/nowhere1", 404))["error"]["code"] == "lab_no_skill"
    project = await made(app_client, baseline)
    assert (await posted(app_client, f"{project}/pause", 404))["error"]["code"] == "lab_project_idle"
    assert (await posted(app_client, f"{project}/iteration/stop", 404))["error"][
        "code"
    ] == "lab_not_iterating"


@pytest.mark.parametrize(
    "change",
    [
        {"skill_ids": []},
        {"skill_ids": ["../../etc"]},
        {"options": {"concurrency": 0}},
        {"options": {"unheard": 1}},
        {"name": "x" * 201},
    ],
)
async def test_a_project_of_another_form_is_refused(
    app_client: httpx.AsyncClient, change: dict[str, Any]
) -> None:
    body = {"name": "First look", "skill_ids": [PLAIN], "baseline_ids": [CODING], **change}
    assert (await posted(app_client, "/projects", 422, **body))["error"]["code"] == "bad_request"
    assert (await got(app_client, "/projects"))["projects"] == []
