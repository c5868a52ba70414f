"""Summing up and growing over the API: as jobs, with previews, and taken back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from personalab.services import Services
from personalab.testing.in_memory import InMemoryLibrary
from personalab.testing.scripted import ScriptedModel
from tests.conftest import NOW
from tests.support.graph.turns import snapshot
from tests.support.graph.worked_example import lay_out
from tests.support.web.fixtures import Live
from tests.support.web.listening import listen
from tests.support.web.slow_model import HandedModel

pytestmark = pytest.mark.anyio
STORY = "/api/instances/inst_001"
GROWN = "经历背叛后变得多疑。但愿意为玩家等待时机。"


@pytest.fixture(autouse=True)
def example(services: Services, root: Path) -> Services:
    """The worked example: 41 turns in sess_003; what is learned about the player has its own tests."""
    services.__dict__["library"] = InMemoryLibrary()
    lay_out(root)
    (root / "modules" / "memory.json").write_text('{"enabled": false}', encoding="utf-8")
    return services


def _points() -> str:
    rows = [("他们立下约定", 1, 20), ("他们发现了 Victor", 21, 41)]
    told = [{"summary": f"{s}。", "plot": f"{s}的经过。", "turns": [first, last]} for s, first, last in rows]
    return json.dumps({"points": told}, ensure_ascii=False)


def _growth(text: str = GROWN) -> str:
    changes = [{"change": "学会了等待", "turns": [40, 41]}]
    return json.dumps({"evolved_persona": text, "changes": changes}, ensure_ascii=False)


async def _ended(live: Live, answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 202, answer.text
    return (await listen(live.client, answer.json()["stream"]))[-1].data


async def _job(live: Live, handed: HandedModel, path: str, said: str, **body: Any) -> dict[str, Any]:
    """Begin a job, let the model answer once, and follow it to its end."""
    asked = len(handed.replies) + 1
    answer = await live.client.post(f"{STORY}/{path}", json=body)
    await handed.asked(asked)
    handed.finish(said)
    return await _ended(live, answer)


async def _saved(live: Live, handed: HandedModel, path: str) -> dict[str, Any]:
    """Save what was shown: the model is not asked again."""
    asked = len(handed.replies)
    ended = await _ended(live, await live.client.post(f"{STORY}/{path}", json={"as_shown": True}))
    assert len(handed.replies) == asked
    return ended


async def test_what_was_taken_back_is_asked_anew(live: Live, handed: HandedModel) -> None:
    await _job(live, handed, "persona", _growth("他学会了等待。"), dry_run=True)
    await _saved(live, handed, "persona")
    await live.client.post(f"{STORY}/persona/undo")
    again = await _job(live, handed, "persona", _growth("他学会了信任。"))
    assert again["result"]["evolved_persona"] == "他学会了信任。"


async def test_what_was_shown_and_not_wanted_is_asked_anew(live: Live, handed: HandedModel) -> None:
    await _job(live, handed, "persona", _growth("他学会了等待。"), dry_run=True)
    other = await _job(live, handed, "persona", _growth("他学会了信任。"))
    assert other["result"]["evolved_persona"] == "他学会了信任。"


async def test_answers_that_cannot_be_used_are_asked_for_anew(live: Live, handed: HandedModel) -> None:
    answer = await live.client.post(f"{STORY}/persona", json={"as_shown": True})
    for asked in (1, 2):
        await handed.asked(asked)
        handed.finish("no JSON at all")
    assert (await _ended(live, answer))["status"] == "error"
    again = await _job(live, handed, "persona", _growth(), as_shown=True)
    assert again["result"]["status"] == "done"


async def test_a_story_that_went_on_after_the_look_is_asked_anew(live: Live, handed: HandedModel) -> None:
    await _job(live, handed, "persona", _growth("他学会了等待。"), dry_run=True)
    asked = len(handed.replies) + 1
    turn = await live.client.post(f"{STORY}/turns", json={"text": "走吧。"})
    await handed.asked(asked)
    handed.finish("走。")
    await listen(live.client, turn.json()["stream"])
    saved = await _job(live, handed, "persona", _growth("他学会了信任。"), as_shown=True)
    assert saved["result"]["evolved_persona"] == "他学会了信任。"


async def test_a_summary_is_shown_first_then_made_then_taken_back(
    live: Live, handed: HandedModel, root: Path
) -> None:
    before = snapshot(root / "instances")
    shown = await _job(live, handed, "summary", _points(), dry_run=True)
    assert (shown["status"], shown["result"]["status"]) == ("done", "preview")
    assert snapshot(root / "instances") == before

    made = await _saved(live, handed, "summary")
    assert (made["result"]["status"], made["result"]["points"]) == ("done", shown["result"]["points"])
    assert (made["result"]["session_id"], made["result"]["new_session_id"]) == ("sess_003", "sess_004")
    assert [point["turns"] for point in made["result"]["points"]] == [[1, 20], [21, 41]]
    assert made["result"]["kept_turns"] == 5
    assert "lease" not in made["result"]

    undone = await live.client.post(f"{STORY}/summary/undo")
    assert undone.json() == {"instance_id": "inst_001", "session_id": "sess_003", "turns": 0}
    again = await live.client.post(f"{STORY}/summary/undo")
    assert (again.status_code, again.json()["error"]["code"]) == (400, "nothing_to_undo")


async def test_a_character_grows_and_is_given_back(live: Live, handed: HandedModel, root: Path) -> None:
    before = snapshot(root / "instances")
    shown = await _job(live, handed, "persona", _growth(), dry_run=True)
    assert (shown["result"]["status"], shown["result"]["evolved_persona"]) == ("preview", GROWN)
    assert snapshot(root / "instances") == before

    grown = await _saved(live, handed, "persona")
    assert (grown["result"]["status"], grown["result"]["revision"]) == ("done", 1)
    assert grown["result"]["changes"] == [{"change": "学会了等待", "turns": [40, 41]}]
    persona = (await live.client.get(f"{STORY}/persona")).json()
    assert (persona["revision"], persona["evolved_persona"], persona["count"]) == (1, GROWN, 1)
    assert persona["revisions"][0] == {
        "revision": 1,
        "time": NOW,
        "before": grown["result"]["before"],
        "after": GROWN,
        "by": "model",
        "model": "handed",
        "session_id": "sess_003",
        "turns": [22, 41],
        "changes": grown["result"]["changes"],
    }

    undone = (await live.client.post(f"{STORY}/persona/undo")).json()
    assert (undone["revision"], undone["evolved_persona"]) == (0, grown["result"]["before"])
    persona = (await live.client.get(f"{STORY}/persona")).json()
    assert (persona["revisions"], [one["after"] for one in persona["withdrawn"]]) == ([], [GROWN])
    again = await live.client.post(f"{STORY}/persona/undo")
    assert (again.status_code, again.json()["error"]["code"]) == (400, "no_growth_to_undo")


async def test_only_the_newest_revisions_are_told(live: Live, handed: HandedModel) -> None:
    for text in ("甲。", "乙。", "丙。"):
        await _job(live, handed, "persona", _growth(text))
    persona = (await live.client.get(f"{STORY}/persona?newest=2")).json()
    assert (persona["count"], [one["after"] for one in persona["revisions"]]) == (3, ["乙。", "丙。"])
    assert (await live.client.get(f"{STORY}/persona?newest=0")).json()["revisions"] == []


async def test_whatever_else_a_history_says_is_told_only_where_it_fits(
    live: Live, handed: HandedModel, root: Path
) -> None:
    await _job(live, handed, "persona", _growth())
    path = root / "instances/inst_001/persona_history.json"
    history = json.loads(path.read_text(encoding="utf-8"))
    history["revisions"][0] |= {"model": 3, "session_id": [], "turns": ["a", 1], "before": "\ud800"}
    path.write_text(json.dumps(history), encoding="utf-8")
    answer = await live.client.get(f"{STORY}/persona")
    told = answer.json()["revisions"][0]
    assert answer.status_code == 200
    assert [told[name] for name in ("model", "session_id", "turns", "before")] == [None, None, None, "\ufffd"]


@pytest.mark.parametrize(("path", "code"), [("summary", "summary_stopped"), ("persona", "work_stopped")])
async def test_a_job_is_stopped_and_changes_nothing(
    live: Live, handed: HandedModel, root: Path, path: str, code: str
) -> None:
    before = snapshot(root / "instances")
    answer = await live.client.post(f"{STORY}/{path}", json={})
    await handed.asked()
    handed.say("{")
    job_id = answer.json()["job_id"]
    second = await live.client.post(f"{STORY}/{path}", json={})
    assert (second.status_code, second.json()["error"]["code"]) == (409, "job_running")
    stopping = asyncio.create_task(live.client.post(f"/api/jobs/{job_id}/stop"))
    while not stopping.done():
        handed.say(" ")
        await asyncio.sleep(0.01)
    state = await _ended(live, answer)
    assert (state["status"], state["error"]["code"]) == ("interrupted", code)
    assert (await stopping).json()["status"] == "interrupted"
    assert snapshot(root / "instances") == before


async def test_a_job_that_waits_for_a_turn_is_stopped_and_the_turn_goes_on(
    live: Live, handed: HandedModel
) -> None:
    begun = (await live.client.post(f"{STORY}/turns", json={"text": "还在吗？"})).json()
    await handed.asked()
    answer = await live.client.post(f"{STORY}/persona", json={})
    stopped = (await live.client.post(f"/api/jobs/{answer.json()['job_id']}/stop")).json()
    assert stopped["status"] == "interrupted"
    handed.finish("在。")
    done = (await listen(live.client, begun["stream"]))[-1]
    assert (done.data["content"], done.data["interrupted"]) == ("在。", False)


async def test_a_job_is_found_again_by_its_story(live: Live, handed: HandedModel) -> None:
    answer = await live.client.post(f"{STORY}/summary", json={"dry_run": True})
    await handed.asked()
    jobs = (await live.client.get("/api/jobs?subject=inst_001")).json()["jobs"]
    assert [(job["job_id"], job["kind"], job["status"]) for job in jobs] == [
        (answer.json()["job_id"], "summary", "running")
    ]
    handed.finish(_points())
    assert (await _ended(live, answer))["result"]["status"] == "preview"


@pytest.mark.parametrize("path", ["summary", "persona", "summary/undo", "persona/undo"])
async def test_a_story_that_is_not_there_is_refused_at_once(app_client: httpx.AsyncClient, path: str) -> None:
    answer = await app_client.post(f"/api/instances/nope/{path}", json={})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "no_instance")
    answer = await app_client.post(f"/api/instances/con/{path}", json={})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_id")


async def test_an_answer_that_cannot_be_used_ends_the_job_with_its_reason(
    live: Live, answer_with: Callable[..., ScriptedModel], root: Path
) -> None:
    before = snapshot(root / "instances")
    answer_with("这不是 JSON", "这也不是")
    state = await _ended(live, await live.client.post(f"{STORY}/persona", json={}))
    assert (state["status"], state["error"]["code"]) == ("error", "provider.bad_persona")
    assert snapshot(root / "instances") == before


async def test_fields_that_do_not_exist_are_refused(app_client: httpx.AsyncClient) -> None:
    wrong: list[Any] = [{"turns": 3}, {"dry_run": "yes"}, []]
    for body in wrong:
        assert (await app_client.post(f"{STORY}/persona", json=body)).status_code == 422
