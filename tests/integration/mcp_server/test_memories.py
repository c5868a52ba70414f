"""What agents know about users: saved, learned, shown, found, mended and forgotten through tools."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import Client

from mcp_server.budget import Budget, page_of
from mcp_server.server import PersonaServer
from personalab.memory.records import MAX_ENTRY
from personalab.operations.memory import add_entry
from personalab.providers.tokens import OfflineCounter
from personalab.services import Services
from tests.conftest import NOW
from tests.integration.mcp_server.conftest import Mode
from tests.integration.mcp_server.test_budgets import SOME, TEXTS, at_the_desk
from tests.support.mcp_server.calls import call, data_of, refused, text_of
from tests.support.mcp_server.scribes import Scribe, as_host, tell_story

pytestmark = pytest.mark.anyio
SAVE = "memory_save_conversation"
SAID = [
    {"role": "user", "content": "我要往北走。"},
    {"role": "assistant", "content": "路上小心。"},
]


@pytest.fixture(autouse=True)
async def _closed(services: Services) -> AsyncGenerator[None]:  # pyright: ignore[reportUnusedFunction] (a fixture)
    yield
    await services.memories.close()


def _provide(services: Services, model: Any) -> None:
    services.settings = replace(services.settings, model="scripted:test")
    services.models["scripted:test"] = model


# --- saving and learning


async def test_a_saved_conversation_is_answered_as_the_format_says_and_kept_once(
    server: PersonaServer, mode: Mode
) -> None:
    async with Client(server, mode=mode) as client:
        saved = await call(client, SAVE, agent_id="agent", user_id="anna", messages=SAID)
        again = await call(client, SAVE, agent_id="agent", user_id="anna", messages=SAID)
        shown = await call(client, "memory_get", agent_id="agent", conversation_id=saved["conversation_id"])
        session = str(uuid.uuid4())
        named = await call(client, SAVE, agent_id="agent", messages=SAID, session_id=session)
        empty = await call(client, "memory_get", agent_id="agent", user_id="anna")
    assert list(saved) == [
        "success",
        "message",
        "conversation_id",
        "session_id",
        "created_at",
        "message_count",
    ]
    assert (saved["success"], saved["message_count"], saved["created_at"]) == (True, 2, NOW)
    assert again == saved
    assert [message["content"] for message in shown["conversation"]["messages"]] == [
        "我要往北走。",
        "路上小心。",
    ]
    assert (shown["user_id"], shown["conversation"]["learned"]) == ("anna", False)
    assert named["session_id"] == session
    assert (empty["profile_content"], empty["entries"]) == ([], [])


async def _check_learned(client: Client, found: dict[str, Any]) -> None:
    assert (found["status"], found["success"]) == ("done", True)
    assert [(step["verb"], step["after"]) for step in found["learned"]["steps"]] == [
        ("add", "用户要往北走。")
    ]
    memory = await call(client, "memory_get", agent_id="agent")
    assert memory["user_id"] == "player"
    assert memory["event_content"] == ["用户要往北走。"]
    entry = memory["entries"][0]
    assert (entry["content_type"], entry["sources"]) == (
        "event",
        [{"conversation_id": found["conversation_id"], "messages": [0]}],
    )
    again = await call(client, SAVE, agent_id="agent", conversation_id=found["conversation_id"], learn=True)
    assert (again["status"], again["learned"]["steps"]) == ("unchanged", [])


async def test_a_provider_learns_from_a_conversation(
    server: PersonaServer, services: Services, mode: Mode
) -> None:
    _provide(services, Scribe(bad=1))
    async with Client(server, mode=mode) as client:
        await _check_learned(client, await call(client, SAVE, agent_id="agent", messages=SAID, learn=True))


async def test_a_clients_model_learns_from_a_conversation(server: PersonaServer, mode: Mode) -> None:
    scribe = Scribe(bad=1)
    async with Client(server, mode=mode, sampling_callback=scribe) as client:
        await _check_learned(client, await call(client, SAVE, agent_id="agent", messages=SAID, learn=True))
    assert len(scribe.asked) == 4


@pytest.mark.parametrize("by_id", [False, True])
async def test_the_host_learns_from_a_conversation(server: PersonaServer, mode: Mode, by_id: bool) -> None:
    given: dict[str, Any] = {"messages": SAID, "learn": True}
    async with Client(server, mode=mode) as client:
        if by_id:
            saved = await call(client, SAVE, agent_id="agent", messages=SAID)
            given = {"conversation_id": saved["conversation_id"], "learn": True}
        found, rounds = await as_host(client, SAVE, Scribe(bad=1), agent_id="agent", **given)
        assert len(rounds) == 4
        assert all(asked["conversation_id"] == found["conversation_id"] for asked in rounds)
        await _check_learned(client, found)


async def test_a_conversation_stays_saved_when_nothing_can_be_learned_from_it(
    server: PersonaServer, services: Services
) -> None:
    _provide(services, Scribe(bad=2))
    async with Client(server) as client:
        failed = await client.call_tool(SAVE, {"agent_id": "agent", "messages": SAID, "learn": True})
        conversation_id = data_of(failed)["conversation_id"]
        assert failed.is_error
        assert f'conversation_id="{conversation_id}", learn=true' in text_of(failed)
        found = await call(client, SAVE, agent_id="agent", conversation_id=conversation_id, learn=True)
        await _check_learned(client, found)


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({}, "messages"),
        ({"messages": [{"content": "x"}]}, "role"),
        ({"messages": [{"role": "user"}]}, "content"),
        ({"messages": [{"role": "nobody", "content": "x"}]}, "role"),
        ({"messages": ["x"]}, "messages"),
        ({"messages": "x"}, "messages"),
        ({"messages": SAID, "agent_id": " "}, "agent_id"),
        ({"messages": SAID, "user_id": " "}, "user_id"),
        ({"messages": SAID, "session_id": "x"}, "session_id"),
        ({"messages": SAID, "memory_id": "../x"}, "memory_id"),
        ({"conversation_id": "nothing"}, "nothing"),
        ({"messages": SAID, "answer": "{}"}, "answer"),
    ],
)
async def test_a_request_that_lacks_something_is_refused_by_its_name(
    server: PersonaServer, given: dict[str, Any], word: str, mode: Mode
) -> None:
    async with Client(server, mode=mode) as client:
        assert word in await refused(client, SAVE, **{"agent_id": "agent", **given})


async def test_nobody_sees_another_agents_conversation(server: PersonaServer) -> None:
    async with Client(server) as client:
        saved = await call(client, SAVE, agent_id="agent", user_id="anna", messages=SAID)
        name = {"conversation_id": saved["conversation_id"]}
        for others in ({"agent_id": "other"}, {"agent_id": "agent", "user_id": "bert"}):
            for tool in ("memory_get", SAVE):
                assert saved["conversation_id"] in await refused(client, tool, **others, **name)


# --- looking, mending, forgetting


async def test_a_memory_is_mended_by_hand_and_taken_back(server: PersonaServer, mode: Mode) -> None:
    async with Client(server, mode=mode) as client:

        async def edit(action: str, **arguments: Any) -> dict[str, Any]:
            return await call(client, "memory_edit", agent_id="agent", action=action, **arguments)

        added = await edit("add", content_type="profile", text="She keeps bees.")
        assert (added["changed"], added["steps"][0]["after"]) == (True, "She keeps bees.")
        known = await edit("add", content_type="profile", text="she keeps bees")
        assert (known["changed"], known["steps"]) == (False, [])
        content_id = added["steps"][0]["content_id"]
        replaced = await edit("replace", content_id=content_id[:8], text="She keeps goats.")
        assert replaced["steps"][0]["before"] == "She keeps bees."
        found = await call(client, "memory_search", agent_id="agent", query="goats")
        assert [hit["content_id"] for hit in found["hits"]] == [content_id]
        none = await call(
            client, "memory_search", agent_id="agent", query="goats", content_types=["mind", "event"]
        )
        assert none["hits"] == []
        await edit("remove", content_id=content_id)
        await edit("undo")
        shown = await client.call_tool("memory_get", {"agent_id": "agent"})
        assert data_of(shown)["profile_content"] == ["She keeps goats."]
        assert f"[{content_id[:8]}] She keeps goats." in text_of(shown)
        history = await call(client, "memory_get", agent_id="agent", history=True)
        assert [change["verb"] for change in history["changes"]] == ["add", "remove", "replace", "add"]
        assert [change["origin"] for change in history["changes"]] == ["undo", "edit", "edit", "edit"]
        forgotten = await call(client, "memory_forget", agent_id="agent")
        assert forgotten == {"agent_id": "agent", "user_id": "player", "forgotten": True}
        for tool, given in (
            ("memory_get", {}),
            ("memory_get", {"history": True}),
            ("memory_forget", {}),
            ("memory_edit", {"action": "undo"}),
            ("memory_edit", {"action": "remove", "content_id": content_id}),
        ):
            assert "agent" in await refused(client, tool, agent_id="agent", **given)


async def test_conversations_are_found_by_what_was_said(server: PersonaServer) -> None:
    async with Client(server) as client:
        saved = await call(client, SAVE, agent_id="agent", messages=SAID)
        found = await client.call_tool(
            "memory_search", {"agent_id": "agent", "query": "往北走", "where": "conversations"}
        )
        nothing = await call(client, "memory_search", agent_id="nobody", query="往北走")
    assert [hit["conversation_id"] for hit in data_of(found)["hits"]] == [saved["conversation_id"]]
    assert saved["conversation_id"] in text_of(found)
    assert nothing["hits"] == []


@pytest.mark.parametrize(
    ("tool", "given", "word"),
    [
        ("memory_edit", {"action": "add", "text": "x"}, "content_type"),
        ("memory_edit", {"action": "add", "content_type": "mind"}, "text"),
        ("memory_edit", {"action": "add", "content_type": "mind", "text": " "}, "text"),
        ("memory_edit", {"action": "add", "content_type": "other", "text": "x"}, "content_type"),
        ("memory_edit", {"action": "add", "content_type": "mind", "text": "x" * 2_001}, "2000"),
        ("memory_edit", {"action": "replace", "text": "x"}, "content_id"),
        ("memory_edit", {"action": "replace", "content_id": "x"}, "text"),
        ("memory_edit", {"action": "remove"}, "content_id"),
        ("memory_edit", {"action": "burn"}, "action"),
        ("memory_edit", {}, "action"),
        ("memory_get", {"conversation_id": "x"}, "x"),
        ("memory_search", {}, "query"),
        ("memory_search", {"query": "x" * 10_001}, "query"),
        ("memory_search", {"query": "x", "where": "nowhere"}, "where"),
        ("memory_search", {"query": "x", "content_types": ["other"]}, "content_types"),
        ("memory_search", {"query": " "}, ""),
        ("memory_get", {"agent_id": "\x00"}, "agent_id"),
        ("memory_forget", {"agent_id": "x" * 201}, "agent_id"),
        ("memory_forget", {"user_id": "a\nb"}, "user_id"),
    ],
)
async def test_what_cannot_be_done_with_a_memory_is_refused_by_name(
    server: PersonaServer, tool: str, given: dict[str, Any], word: str, mode: Mode
) -> None:
    async with Client(server, mode=mode) as client:
        assert word in await refused(client, tool, **{"agent_id": "agent", **given})


# --- budgets


@pytest.mark.parametrize("kind", SOME)
async def test_long_entries_and_their_history_come_in_pages_that_join(services: Services, kind: str) -> None:
    words = " ".join(TEXTS[kind].split()).replace("\x00", "") or "x"
    texts: list[str] = []
    for number in range(8):
        made = await add_entry(
            services, "agent", "player", "mind", f"{number} {words[number * 2_000 :][: MAX_ENTRY - 2]}"
        )
        assert made is not None
        texts.append(made.steps[0].entry.text)
    async with at_the_desk(services) as desk:
        pages = await desk.pages("memory_get", agent_id="agent")
        assert [text for page in pages for text in page["mind_content"]] == texts
        assert len({entry["content_id"] for page in pages for entry in page["entries"]}) == len(texts)
        changes = await desk.pages("memory_get", agent_id="agent", history=True)
        assert sum(len(page["changes"]) for page in changes) == len(texts)
        content_id = pages[0]["entries"][0]["content_id"]
        await desk.call(
            "memory_edit", agent_id="agent", action="replace", content_id=content_id, text=texts[1][2:] + "!"
        )
        await desk.call("memory_search", agent_id="agent", query="0 1 2 3")
        for cursor in ("x", "-1", "99999", "9" * 50):
            assert await desk.refused("memory_get", agent_id="agent", cursor=cursor)


@pytest.mark.parametrize("kind", SOME)
async def test_a_long_conversation_comes_in_pages_that_join(services: Services, kind: str) -> None:
    said = [{"role": "user", "content": TEXTS[kind][:40_000]}, {"role": "assistant", "content": ""}] * 2
    async with at_the_desk(services) as desk:
        saved = await desk.call(SAVE, agent_id="agent", messages=said)
        pages = await desk.pages("memory_get", agent_id="agent", conversation_id=saved["conversation_id"])
        parts = [part for page in pages for part in page["conversation"]["messages"]]
        whole = ["".join(p["content"] for p in parts if p["message_index"] == index) for index in range(4)]
        assert whole == [message["content"] for message in said]
        asked = await desk.pages(SAVE, agent_id="agent", conversation_id=saved["conversation_id"], learn=True)
        assert asked[-1]["status"] == "awaiting_answer"


@pytest.mark.parametrize("kind", SOME)
async def test_long_stories_ask_and_answer_within_the_budget(
    services: Services, instance: str, kind: str
) -> None:
    tell_story(services, 3, TEXTS[kind][:20_000].replace("\n", " "))
    async with at_the_desk(services) as desk:
        for tool in ("persona_summarize", "persona_update_memory"):
            pages = await desk.pages(tool, instance_id=instance)
            assert pages[-1]["status"] == "awaiting_answer"
        _provide(services, _Wordy(TEXTS[kind]))
        shown = await desk.call("persona_summarize", instance_id=instance, preview=True)
        assert shown["points"]
        await desk.raw("persona_update_memory", instance_id=instance)
        await desk.pages("persona_update_memory", instance_id=instance, history=True)
        await desk.call("persona_summarize", instance_id=instance)


class _Wordy(Scribe):
    """Says as much as it may."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self._words = words

    def answer(self, questions: Sequence[str]) -> str:
        found: dict[str, Any] = json.loads(super().answer(questions))
        lists = [cast("list[dict[str, Any]]", rows) for rows in found.values() if isinstance(rows, list)]
        for name, limit in (("plot", 19_000), ("summary", 1_500), ("change", 900), ("text", 1_500)):
            for rows in lists:
                for row in rows:
                    if name in row:
                        row[name] = f"{row[name]} {self._words[:limit]}"
        for name, most in (("points", 40), ("changes", 20), ("operations", 60)):
            if found.get(name):
                found[name] *= most
        for place, row in enumerate(found.get("operations", [])):
            row["text"] = f"{place} {row['text']}"
        if "evolved_persona" in found:
            found["evolved_persona"] += self._words[:7_000]
        return json.dumps(found)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    contents=st.lists(
        st.one_of(st.text(max_size=40), st.text(max_size=4).map(lambda t: t * 4_000)), max_size=8
    )
)
async def test_the_pages_of_any_messages_join_to_them(contents: list[str]) -> None:
    budget = Budget(OfflineCounter("cl100k_base"))
    parts = [{"number": number, "content": content} for number, content in enumerate(contents)]
    found, cursor = page_of(parts, None, budget)
    pages = list(found)
    while cursor is not None:
        found, cursor = page_of(parts, cursor, budget)
        assert found
        pages += found
    joined = ["".join(part["content"] for part in pages if part["number"] == n) for n in range(len(contents))]
    assert joined == contents
    assert {part["number"] for part in pages} == set(range(len(contents)))
