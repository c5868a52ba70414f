"""Where a story stands, and what was said in it, page by page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from personalab.operations.instances import new_instance, switch_background
from personalab.services import Services
from personalab.story.open_turn import OpenTurn
from personalab.testing.scripted import ScriptedModel
from tests.support.web.fixtures import Live
from tests.support.web.listening import listen, text_of
from tests.support.web.slow_model import HandedModel

pytestmark = pytest.mark.anyio


def written(root: Path, instance_id: str, count: int, session_id: str = "sess_001", **metadata: Any) -> None:
    """Write a session of so many answered turns, as it would stand after they were played."""
    first = {"type": "metadata", "instance_id": instance_id, "session_id": session_id}
    lines: list[dict[str, Any]] = [{**first, "created_at": "2025-10-16T10:30:00Z", **metadata}]
    for turn in range(1, count + 1):
        lines.append({"role": "user", "content": f"question {turn}", "turn": turn, "timestamp": "2025-10-16"})
        lines.append(
            {"role": "assistant", "content": f"answer {turn}", "turn": turn, "timestamp": "2025-10-16"}
        )
    append(root, instance_id, *lines, session_id=session_id, fresh=True)


def append(
    root: Path, instance_id: str, *lines: dict[str, Any], session_id: str = "sess_001", fresh: bool = False
) -> None:
    path = root / "instances" / instance_id / "sessions" / f"{session_id}.jsonl"
    text = "".join(json.dumps(line) + "\n" for line in lines)
    before = "" if fresh else path.read_text(encoding="utf-8")
    path.write_text(before + text, encoding="utf-8")


async def got(client: httpx.AsyncClient, path: str, **query: Any) -> dict[str, Any]:
    answer = await client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_the_state_of_a_story_is_all_a_chat_needs_around_its_turns(
    app_client: httpx.AsyncClient, services: Services
) -> None:
    await new_instance(services, "char_alserqi", "bg_wasteland", "inst_new")
    state = await got(app_client, "/api/instances/inst_new")
    assert state["character"] == {"id": "char_alserqi", "name": "Alserqi"}
    assert state["background"]["id"] == "bg_wasteland"
    assert state["background"]["name"] == services.stories.background("bg_wasteland").name
    assert (state["current_session_id"], state["session_ids"]) == ("sess_001", ["sess_001"])
    assert state["plot_state"] == {"current_plot_index": 1, "current_status": "pending", "no_update_count": 0}
    assert [point["index"] for point in state["outline"]] == list(range(1, len(state["outline"]) + 1))
    assert {point["status"] for point in state["outline"]} == {"pending"}
    assert state["current_point"] == 1
    assert state["director_enabled"] is services.preferences.read().director.enabled
    assert state["running"] is None
    assert state["awaited_turn"] is None


async def test_a_reply_moves_the_outline_and_the_version(
    app_client: httpx.AsyncClient, services: Services, answer_with: Callable[..., ScriptedModel]
) -> None:
    await new_instance(services, "char_alserqi", "bg_wasteland", "inst_new")
    before = await got(app_client, "/api/instances/inst_new")
    answer_with("Further. [PROGRESS:2:in_progress]")
    begun = await app_client.post("/api/instances/inst_new/turns", json={"text": "go on"})
    await app_client.get(begun.json()["stream"])
    after = await got(app_client, "/api/instances/inst_new")
    assert [point["status"] for point in after["outline"]][:3] == ["completed", "in_progress", "pending"]
    assert after["current_point"] == 2
    assert after["total"] == before["total"] + 1
    assert after["version"] != before["version"]


async def test_a_story_without_a_background_or_with_a_lost_one_has_no_outline(
    app_client: httpx.AsyncClient, services: Services, root: Path
) -> None:
    await new_instance(services, "char_alserqi", "bg_wasteland", "inst_new")
    (root / "backgrounds" / "bg_wasteland" / "background.json").write_text("{", encoding="utf-8")
    lost = await got(app_client, "/api/instances/inst_new")
    assert (lost["background"], lost["outline"]) == ({"id": "bg_wasteland", "name": "bg_wasteland"}, [])
    await switch_background(services, "inst_new", None)
    none = await got(app_client, "/api/instances/inst_new")
    assert (none["background"], none["outline"], none["current_point"]) == (None, [], None)


async def test_pages_go_from_the_newest_turn_to_the_first_without_a_gap(
    app_client: httpx.AsyncClient, instance: str, root: Path
) -> None:
    written(root, instance, 23)
    path, seen, before = f"/api/instances/{instance}/sessions/sess_001/turns", list[int](), None
    while True:
        query = {"count": 10} if before is None else {"count": 10, "before": before}
        page = await got(app_client, path, **query)
        assert page["total"] == 23
        assert page["first"] + 1 == page["turns"][0]["turn"]
        seen = [turn["turn"] for turn in page["turns"]] + seen
        before = page["older"]
        if before is None:
            break
    assert seen == list(range(1, 24))


async def test_turns_with_the_same_number_are_all_given_once(
    app_client: httpx.AsyncClient, instance: str, root: Path
) -> None:
    written(root, instance, 1)
    twin = {"role": "user", "content": "again", "turn": 1, "timestamp": ""}
    append(root, instance, twin, {**twin, "content": "and again"})
    path = f"/api/instances/{instance}/sessions/sess_001/turns"
    newest = await got(app_client, path, count=1)
    older = await got(app_client, path, count=1, before=newest["older"])
    oldest = await got(app_client, path, count=1, before=older["older"])
    said = [page["turns"][0]["user"]["content"] for page in (oldest, older, newest)]
    assert said == ["question 1", "again", "and again"]


async def test_a_turn_shows_every_try_its_marks_and_the_summaries_before_it(
    app_client: httpx.AsyncClient, instance: str, root: Path
) -> None:
    written(root, instance, 0)
    reply = {"role": "assistant", "turn": 1, "timestamp": "2025-10-16T10:31:00Z"}
    append(
        root,
        instance,
        {"type": "summary", "content": "They met."},
        {"role": "user", "content": "hello", "turn": 1, "timestamp": "2025-10-16T10:30:00Z"},
        {**reply, "content": "I", "interrupted": True},
        {**reply, "content": "(无回复)", "empty": True},
        {**reply, "content": "Hello."},
        {"type": "summary", "content": "They spoke."},
    )
    page = await got(app_client, f"/api/instances/{instance}/sessions/sess_001/turns")
    assert page["trailing_summaries"] == ["They spoke."]
    [turn] = page["turns"]
    assert turn["summaries"] == ["They met."]
    assert turn["user"] == {"content": "hello", "timestamp": "2025-10-16T10:30:00Z"}
    tries = [(r["attempt"], r["content"], r["interrupted"], r["empty"], r["error"]) for r in turn["replies"]]
    assert tries == [
        (1, "I", True, False, False),
        (2, "(无回复)", False, True, False),
        (3, "Hello.", False, False, False),
    ]


async def test_the_chain_of_sessions_is_told_with_one_that_cannot_be_read(
    app_client: httpx.AsyncClient, instance: str, root: Path, services: Services
) -> None:
    written(root, instance, 4)
    written(root, instance, 2, "sess_002", continued_from="sess_001")
    state = root / "instances" / instance / "instance_state.json"
    state.write_text(state.read_text(encoding="utf-8").replace('"sess_001"', '"sess_002"'), encoding="utf-8")
    found = await got(app_client, f"/api/instances/{instance}/sessions")
    assert found["sessions"] == [
        {"session_id": "sess_001", "continued_from": None, "turns": 4, "is_current": False},
        {"session_id": "sess_002", "continued_from": "sess_001", "turns": 2, "is_current": True},
    ]
    page = await got(app_client, f"/api/instances/{instance}/sessions/sess_002/turns")
    assert page["continued_from"] == "sess_001"
    (root / "instances" / instance / "sessions" / "sess_001.jsonl").write_text(
        "no line\n\n", encoding="utf-8"
    )
    broken = await got(app_client, f"/api/instances/{instance}/sessions")
    assert [row["turns"] for row in broken["sessions"]] == [None, 2]


async def test_a_session_file_with_the_older_name_is_found(
    app_client: httpx.AsyncClient, instance: str, root: Path
) -> None:
    written(root, instance, 2)
    folder = root / "instances" / instance / "sessions"
    (folder / "sess_001.jsonl").rename(folder / "session_001.jsonl")
    assert (await got(app_client, f"/api/instances/{instance}"))["session_ids"] == ["sess_001"]
    assert (await got(app_client, f"/api/instances/{instance}/sessions/sess_001/turns"))["total"] == 2


async def test_text_that_is_no_unicode_is_shown_with_replacement_characters(
    app_client: httpx.AsyncClient, instance: str, root: Path
) -> None:
    written(root, instance, 0)
    append(root, instance, {"role": "user", "content": "a\ud800b", "turn": 1, "timestamp": "\udfff"})
    page = await got(app_client, f"/api/instances/{instance}/sessions/sess_001/turns")
    assert page["turns"][0]["user"] == {"content": "a\ufffdb", "timestamp": "\ufffd"}


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/api/instances/inst_none", 404, "no_instance"),
        ("/api/instances/inst_none/sessions", 404, "no_instance"),
        ("/api/instances/{}/sessions/sess_999/turns", 404, "no_session"),
        ("/api/instances/{}/sessions/con/turns", 404, "no_session"),
        ("/api/instances/{}/sessions/sess_001/turns?count=0", 422, "bad_request"),
        ("/api/instances/{}/sessions/sess_001/turns?before=-1", 422, "bad_request"),
        ("/api/instances/nul", 400, "bad_id"),
    ],
)
async def test_what_is_not_there_is_said(
    app_client: httpx.AsyncClient, instance: str, path: str, status: int, code: str
) -> None:
    answer = await app_client.get(path.format(instance))
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


async def test_a_page_that_comes_in_mid_reply_goes_on_from_what_the_file_shows(
    live: Live, instance: str, handed: HandedModel
) -> None:
    begun = (await live.client.post(f"/api/instances/{instance}/turns", json={"text": "hi"})).json()
    await handed.asked()
    handed.say("你好", "，朋友")
    path = f"/api/instances/{instance}/sessions/{begun['session_id']}/turns"
    shown = ""
    while not shown.endswith("朋友"):
        page = await got(live.client, path)
        shown = page["turns"][-1]["replies"][-1]["content"] if page["turns"][-1]["replies"] else ""
        await asyncio.sleep(0)
    assert page["turns"][-1]["replies"][-1]["closed"] is False  # pyright: ignore[reportPossiblyUnboundVariable]
    running = (await got(live.client, f"/api/instances/{instance}"))["running"]
    assert (running["task"], running["turn"], running["attempt"]) == ("say", begun["turn"], 1)
    handed.finish("。")
    rest = await listen(live.client, f"{begun['stream']}&offset={len(shown.encode())}")
    assert text_of(rest) == "。"
    assert (await got(live.client, f"/api/instances/{instance}"))["running"] is None


async def test_what_another_program_does_with_a_story_is_told(
    app_client: httpx.AsyncClient, instance: str, services: Services
) -> None:
    async with services.leases.holding(instance, "summarize", wait=1):
        running = (await got(app_client, f"/api/instances/{instance}"))["running"]
    assert running == {"task": "summarize", "session_id": "sess_001", "turn": None, "attempt": None}

    async def speak(turn: OpenTurn) -> None:
        await turn.say("hello", services.now(), None)

    turn = await services.turns.begin(instance, "say", speak)
    running = (await got(app_client, f"/api/instances/{instance}"))["running"]
    await turn.lease.release()
    assert (running["task"], running["turn"], running["attempt"]) == ("say", turn.number, 1)
