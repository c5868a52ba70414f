"""What characters know about people, over the API: looked at, searched, mended, taken back, learned, forgotten."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from personalab.operations.memory import add_entry, save_conversation
from personalab.services import Services
from personalab.testing.in_memory import InMemoryLibrary
from personalab.testing.scripted import ScriptedModel
from tests.support.graph.turns import say
from tests.support.web.listening import listen

pytestmark = pytest.mark.anyio
AGENT = "char_alserqi"
ABOUT = {"agent_id": AGENT}
"""Who is known is the player where nobody is named."""
NOBODY = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(autouse=True)
def _light_library(services: Services) -> None:  # pyright: ignore[reportUnusedFunction] (a fixture)
    services.__dict__["library"] = InMemoryLibrary()


async def _know(services: Services, *texts: str, kind: Any = "profile") -> list[str]:
    made = [await add_entry(services, AGENT, "player", kind, text) for text in texts]
    return [change.steps[0].entry.content_id for change in made if change]


async def _memory(client: httpx.AsyncClient, **about: str) -> dict[str, Any]:
    answer = await client.get("/api/memory", params=about or ABOUT)
    assert answer.status_code == 200, answer.text
    return answer.json()


def _texts(memory: dict[str, Any], kind: str = "profile") -> list[str]:
    return [entry["text"] for entry in memory[kind]]


async def _code(answer: httpx.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    return answer.json()["error"]["code"]


# --- looking


async def test_those_who_know_somebody_are_listed_with_their_names(
    app_client: httpx.AsyncClient, services: Services
) -> None:
    await _know(services, "玩家喜欢猫")
    await add_entry(services, "some agent", "anna/berta", "mind", "Anna is calm")
    told = (await app_client.get("/api/memories")).json()
    found = {one["agent_id"]: one for one in told["memories"]}
    assert found[AGENT]["agent_name"] == services.stories.character(AGENT).name
    assert found[AGENT]["entries"] == 1
    assert (found["some agent"]["agent_name"], found["some agent"]["user_id"]) == ("some agent", "anna/berta")
    assert (told["player"], told["enabled"], told["after"]) == ("player", True, None)


async def test_nobody_knows_anybody_in_a_fresh_root(app_client: httpx.AsyncClient) -> None:
    assert (await app_client.get("/api/memories")).json()["memories"] == []
    memory = await _memory(app_client)
    assert (memory["memory_id"], memory["profile"], memory["stories"]) == (None, [], [])
    assert (await app_client.get("/api/memory/changes", params=ABOUT)).status_code == 404


async def test_a_character_of_a_story_who_knows_nothing_yet_is_listed_last(
    app_client: httpx.AsyncClient, services: Services, instance: str
) -> None:
    await add_entry(services, "some agent", "anna", "mind", "Anna is calm")
    rows = (await app_client.get("/api/memories")).json()["memories"]
    assert [(row["agent_id"], row["memory_id"] is None) for row in rows] == [
        ("some agent", False),
        (AGENT, True),
    ]
    memory = await _memory(app_client)
    assert (memory["stories"], memory["is_player"], memory["enabled"]) == ([instance], True, True)
    assert (await _memory(app_client, agent_id=AGENT, user_id="anna"))["stories"] == []


async def test_a_memory_is_told_list_by_list_with_ids_and_times(
    app_client: httpx.AsyncClient, services: Services
) -> None:
    (first, second) = await _know(services, "玩家叫小林", "玩家喜欢猫")
    await _know(services, "玩家很平静", kind="mind")
    memory = await _memory(app_client)
    assert [entry["content_id"] for entry in memory["profile"]] == [first, second]
    assert (_texts(memory, "mind"), memory["event"], memory["version"]) == (["玩家很平静"], [], 3)
    assert memory["profile"][0]["created_at"] == services.now()
    assert memory["profile"][0]["sources"] == []
    newest = (await app_client.get("/api/memory", params={**ABOUT, "newest": 1})).json()
    assert _texts(newest) == ["玩家喜欢猫"]


async def test_names_of_any_kind_can_be_asked_for(app_client: httpx.AsyncClient, services: Services) -> None:
    await add_entry(services, "a/b?c", "用户 #1", "event", "went/away")
    assert _texts(await _memory(app_client, agent_id="a/b?c", user_id="用户 #1"), "event") == ["went/away"]


async def test_a_search_finds_entries_by_their_words_and_only_of_the_lists_that_are_asked_for(
    app_client: httpx.AsyncClient, services: Services
) -> None:
    await _know(services, "玩家喜欢猫")
    await _know(services, "玩家养过一只猫", kind="event")
    both = (await app_client.get("/api/memory/search", params={**ABOUT, "query": "猫"})).json()["hits"]
    assert {hit["content_type"] for hit in both} == {"profile", "event"}
    params = {**ABOUT, "query": "猫", "content_type": "event"}
    hits = (await app_client.get("/api/memory/search", params=params)).json()["hits"]
    assert [hit["text"] for hit in hits] == ["玩家养过一只猫"]


async def test_a_blank_search_is_refused(app_client: httpx.AsyncClient) -> None:
    blank = await app_client.get("/api/memory/search", params={**ABOUT, "query": "  "})
    assert await _code(blank, 400) == "blank_input"


async def test_a_conversation_is_found_and_read_page_by_page(
    app_client: httpx.AsyncClient, services: Services
) -> None:
    said = [{"role": "user", "content": f"第{number}句，我叫小林"} for number in range(5)]
    saved = await save_conversation(services, {"agent_id": AGENT, "user_id": "player", "messages": said})
    for params in (ABOUT, {**ABOUT, "query": "小林"}):
        listed = (await app_client.get("/api/memory/conversations", params=params)).json()["conversations"]
        assert [one["conversation_id"] for one in listed] == [saved.conversation_id]
        assert (listed[0]["turn_count"], listed[0]["learned"], listed[0]["story"]) == (5, False, None)
    path = f"/api/memory/conversations/{saved.conversation_id.upper()}"
    page = (await app_client.get(path, params={"first": 3, "count": 1})).json()
    assert [(one["message_index"], one["content"]) for one in page["messages"]] == [(3, "第3句，我叫小林")]
    nobody = await app_client.get(f"/api/memory/conversations/{NOBODY}")
    assert await _code(nobody, 404) == "no_conversation"


# --- changing


async def test_what_is_written_down_twice_is_kept_once(app_client: httpx.AsyncClient) -> None:
    body = {"content_type": "profile", "text": "玩家喜欢猫"}
    first = await app_client.post("/api/memory/entries", params=ABOUT, json=body)
    assert (first.status_code, first.json()["change"]["steps"][0]["after"]) == (201, "玩家喜欢猫")
    again = await app_client.post("/api/memory/entries", params=ABOUT, json={**body, "text": "玩家喜欢猫。"})
    assert again.json() == {"change": None}
    assert _texts(await _memory(app_client)) == ["玩家喜欢猫"]


async def test_an_entry_that_was_reworded_stands_in_the_history_as_it_was(
    app_client: httpx.AsyncClient, services: Services
) -> None:
    (content_id,) = await _know(services, "玩家喜欢猫")
    body = {"text": "玩家喜欢狗"}
    await app_client.put(f"/api/memory/entries/{content_id}", params=ABOUT, json=body)
    changes = (await app_client.get("/api/memory/changes", params=ABOUT)).json()["changes"]
    assert [change["origin"] for change in changes] == ["edit", "edit"]
    step = changes[0]["steps"][0]
    assert (step["verb"], step["before"], step["after"]) == ("replace", "玩家喜欢猫", "玩家喜欢狗")


async def test_an_entry_that_someone_else_has_reworded_meanwhile_is_not_overwritten(
    app_client: httpx.AsyncClient, services: Services
) -> None:
    (content_id,) = await _know(services, "玩家喜欢猫")
    path = f"/api/memory/entries/{content_id.upper()}"
    first = await app_client.put(path, params=ABOUT, json={"text": "玩家喜欢狗", "was": "玩家喜欢猫"})
    assert first.status_code == 200
    second = await app_client.put(path, params=ABOUT, json={"text": "玩家喜欢鱼", "was": "玩家喜欢猫"})
    assert await _code(second, 400) == "entry_changed"
    assert _texts(await _memory(app_client)) == ["玩家喜欢狗"]


async def test_an_entry_that_was_forgotten_comes_back_by_undo(
    app_client: httpx.AsyncClient, services: Services
) -> None:
    (content_id,) = await _know(services, "玩家喜欢猫")
    gone = await app_client.delete(f"/api/memory/entries/{content_id}", params=ABOUT)
    assert _texts(await _memory(app_client)) == []
    body = {"change_id": gone.json()["change"]["change_id"]}
    undone = await app_client.post("/api/memory/undo", params=ABOUT, json=body)
    assert undone.json()["change"]["undoes"] == body["change_id"]
    assert _texts(await _memory(app_client)) == ["玩家喜欢猫"]


async def test_undo_of_one_change_does_not_take_back_another_that_came_after_it(
    app_client: httpx.AsyncClient, services: Services
) -> None:
    (content_id,) = await _know(services, "玩家喜欢猫")
    gone = (await app_client.delete(f"/api/memory/entries/{content_id}", params=ABOUT)).json()["change"]
    await _know(services, "玩家叫小林")
    body = {"change_id": gone["change_id"]}
    refused = await app_client.post("/api/memory/undo", params=ABOUT, json=body)
    assert await _code(refused, 400) == "change_not_newest"
    assert _texts(await _memory(app_client)) == ["玩家叫小林"]


async def test_there_is_an_end_to_undo(app_client: httpx.AsyncClient, services: Services) -> None:
    await _know(services, "玩家喜欢猫")
    assert (await app_client.post("/api/memory/undo", params=ABOUT, json={})).status_code == 200
    ended = await app_client.post("/api/memory/undo", params=ABOUT, json={})
    assert await _code(ended, 400) == "no_change_to_undo"


async def test_forgetting_everything_leaves_neither_history_nor_conversations(
    app_client: httpx.AsyncClient, services: Services
) -> None:
    await _know(services, "玩家喜欢猫")
    messages = [{"role": "user", "content": "你好"}]
    await save_conversation(services, {"agent_id": AGENT, "user_id": "player", "messages": messages})
    gone = await app_client.delete("/api/memory", params=ABOUT)
    assert gone.json() == {"agent_id": AGENT, "user_id": "player"}
    assert (await app_client.get("/api/memory/changes", params=ABOUT)).status_code == 404
    left = await app_client.get("/api/memory/conversations", params=ABOUT)
    assert left.json() == {"conversations": []}
    assert await _code(await app_client.delete("/api/memory", params=ABOUT), 404) == "no_memory"


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PUT", f"/api/memory/entries/{NOBODY}", {"text": "x"}, 404),
        ("DELETE", f"/api/memory/entries/{NOBODY}", None, 404),
        ("PUT", "/api/memory/entries/0", {"text": "x"}, 422),
        ("POST", "/api/memory/entries", {"content_type": "profile", "text": " \n "}, 400),
        ("POST", "/api/memory/entries", {"content_type": "profile", "text": "x" * 2_001}, 422),
        ("POST", "/api/memory/entries", {"content_type": "dream", "text": "x"}, 422),
        ("POST", "/api/memory/undo", {"change_id": "x"}, 422),
        ("POST", "/api/instances/inst_404/learn", None, 404),
    ],
)
async def test_what_cannot_be_done_is_refused_and_changes_nothing(
    app_client: httpx.AsyncClient,
    services: Services,
    method: str,
    path: str,
    body: dict[str, Any] | None,
    status: int,
) -> None:
    await _know(services, "玩家喜欢猫")
    answer = await app_client.request(method, path, params=ABOUT, json=body)
    assert answer.status_code == status, answer.text
    assert _texts(await _memory(app_client)) == ["玩家喜欢猫"]


async def test_a_name_nobody_can_see_is_refused(app_client: httpx.AsyncClient) -> None:
    hidden = await app_client.get("/api/memory", params={"agent_id": "a\u202eb\x00"})
    assert await _code(hidden, 400) == "bad_record"


# --- learning


def _learner(*, texts: bool = True) -> list[str]:
    """Say what a model says that learns one fact from a conversation."""
    facts = [{"text": "玩家叫小林", "type": "profile", "messages": [0]}]
    wish = {"op": "add", "type": "profile", "text": "玩家叫小林", "reason": "自己说的", "messages": [0]}
    said: list[dict[str, Any]] = [
        {"facts": facts},
        {"operations": [wish]},
        {"insights": "平静", "confidence_score": 0.5, "operations": []},
    ]
    return [json.dumps(one, ensure_ascii=False) for one in said] if texts else ["…"] * 9


async def _learn(client: httpx.AsyncClient, instance_id: str) -> dict[str, Any]:
    answer = await client.post(f"/api/instances/{instance_id}/learn")
    assert answer.status_code == 202, answer.text
    return (await listen(client, answer.json()["stream"]))[-1].data


async def test_a_character_learns_from_its_story_as_a_job_and_only_once(
    app_client: httpx.AsyncClient, services: Services, instance: str
) -> None:
    services.models["rehearsal"] = ScriptedModel(["你好，小林。", *_learner()])
    await say(services, "我叫小林", instance)
    state = await _learn(app_client, instance)
    assert (state["status"], state["result"]["turns"], state["result"]["steps"]) == ("done", 1, 1)
    memory = await _memory(app_client)
    assert _texts(memory) == ["玩家叫小林"]
    assert memory["profile"][0]["reason"] == "自己说的"
    source = memory["profile"][0]["sources"][0]
    conversation = await app_client.get(f"/api/memory/conversations/{source['conversation_id']}")
    assert conversation.json()["messages"][source["messages"][0]]["content"] == "我叫小林"
    assert conversation.json()["story"] == {
        "instance_id": instance,
        "session_id": "sess_001",
        "turns": [1, 1],
    }
    change = (await app_client.get("/api/memory/changes", params=ABOUT)).json()["changes"][0]
    assert (change["origin"], change["steps"][0]["reason"]) == ("memorize", "自己说的")
    again = await _learn(app_client, instance)
    assert (again["status"], again["result"]["turns"]) == ("done", 0)


async def test_what_cannot_be_learned_is_told_and_leaves_the_memory_as_it_was(
    app_client: httpx.AsyncClient, services: Services, instance: str
) -> None:
    services.models["rehearsal"] = ScriptedModel(["你好，小林。", *_learner(texts=False)])
    await say(services, "我叫小林", instance)
    state = await _learn(app_client, instance)
    assert state["status"] == "error"
    assert state["error"]["message"]
    assert _texts(await _memory(app_client)) == []
