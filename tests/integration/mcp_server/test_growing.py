"""Long sessions become points and characters grow, whoever answers: a provider, a client's model, the host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from mcp_server.asking import MAX_STATE, digest
from mcp_server.server import PersonaServer, build_server
from personalab.services import Services, open_services
from personalab.settings import read_settings
from personalab.testing.in_memory import InMemoryLibrary
from tests.integration.mcp_server.conftest import Mode
from tests.support.graph.turns import snapshot
from tests.support.mcp_server.calls import call, data_of, refused, text_of
from tests.support.mcp_server.scribes import Scribe, answer_to, as_host, kind_of, tell_story

pytestmark = pytest.mark.anyio
LONG = "我们沿着旧铁路往北走，一路上没有人说话。" * 40
SUMMARIZE, UPDATE = "persona_summarize", "persona_update_memory"


@pytest.fixture(autouse=True)
async def _light(services: Services) -> AsyncGenerator[None]:  # pyright: ignore[reportUnusedFunction] (a fixture)
    services.__dict__["library"] = InMemoryLibrary()
    yield
    await services.memories.close()


@pytest.fixture
def story(services: Services, instance: str) -> str:
    """A story of eight long turns, and room for two or three of them in a prompt."""
    tell_story(services, 8, LONG)
    services.preferences.change({"max_total_tokens": 10_000})
    return instance


def _provide(services: Services, model: Any) -> None:
    services.settings = replace(services.settings, model="scripted:test")
    services.models["scripted:test"] = model


def _session(services: Services) -> str:
    return services.stories.instance("inst_001").current_session_id


def _files(root: Path) -> dict[str, bytes]:
    return snapshot(root / "instances")


# --- summaries


async def test_a_provider_sums_a_story_up_and_tells_its_steps(
    server: PersonaServer, services: Services, story: str, mode: Mode
) -> None:
    scribe, heard = Scribe(), list[str | None]()
    _provide(services, scribe)

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        if message is not None:  # no heartbeat
            heard.append(message)

    async with Client(server, mode=mode, sampling_callback=Scribe()) as client:
        found = await client.call_tool(SUMMARIZE, {"instance_id": story}, progress_callback=hear)
        data, text = data_of(found), text_of(found)
        pieces = len(scribe.asked)
        assert pieces > 1
        assert heard == [f"{done}/{pieces}" for done in range(pieces + 1)]
        assert (data["status"], data["session_id"], data["new_session_id"]) == (
            "done",
            "sess_001",
            "sess_002",
        )
        assert len(data["points"]) == pieces
        assert all(point["summary"] in text and point["plot"] in text for point in data["points"])
        assert 'persona_summarize(instance_id="inst_001", undo=true)' in text
        assert _session(services) == "sess_002"
        undone = await call(client, SUMMARIZE, instance_id=story, undo=True)
    assert (undone["status"], undone["session_id"]) == ("undone", "sess_001")
    assert _session(services) == "sess_001"


async def test_a_clients_model_sums_up_piece_by_piece_and_mends_a_bad_answer(
    server: PersonaServer, services: Services, story: str, mode: Mode
) -> None:
    scribe = Scribe(bad=1)
    async with Client(server, mode=mode, sampling_callback=scribe) as client:
        found = await call(client, SUMMARIZE, instance_id=story)
    assert found["status"] == "done"
    assert len(scribe.asked) == len(found["points"]) + 1 > 3
    assert "JSON" in scribe.asked[1]
    assert _session(services) == "sess_002"


async def test_the_host_sums_up_in_several_rounds_and_nothing_is_written_before_the_last(
    server: PersonaServer, services: Services, story: str, root: Path, mode: Mode
) -> None:
    scribe, before = Scribe(bad=1), _files(root)
    async with Client(server, mode=mode) as client:
        first = await call(client, SUMMARIZE, instance_id=story)
        assert (first["status"], first["cursor"]) == ("awaiting_answer", None)
        assert _files(root) == before
        found, rounds = await as_host(client, SUMMARIZE, scribe, instance_id=story)
        assert (found["status"], len(rounds)) == ("done", len(found["points"]) + 1)
        again = await refused(client, SUMMARIZE, instance_id=story, answer="{}")
    assert "answer" in again
    assert {point["turns"][0] for point in found["points"]} >= {1}
    assert found["points"][-1]["turns"][1] == 8


async def test_a_mended_question_shows_only_what_is_new_and_the_whole_on_demand(
    server: PersonaServer, story: str
) -> None:
    async with Client(server) as client:
        first = await call(client, SUMMARIZE, instance_id=story)
        mended = await call(client, SUMMARIZE, instance_id=story, answer="no JSON at all")
        whole = await call(client, SUMMARIZE, instance_id=story, cursor="0:0")
    assert len(mended["prompt"]["messages"]) == 1
    assert mended["prompt"]["messages"][0]["content"] not in str(first)
    assert whole["prompt"]["system"] == first["prompt"]["system"]
    assert whole["prompt"]["messages"][0] == first["prompt"]["messages"][0]
    assert whole["prompt"]["messages"][-1] == mended["prompt"]["messages"][-1]


async def test_a_long_prompt_comes_in_pages_that_join_to_the_whole(
    server: PersonaServer, services: Services, instance: str, mode: Mode
) -> None:
    tell_story(services, 60, LONG)
    async with Client(server, mode=mode) as client:
        pages = [await call(client, SUMMARIZE, instance_id=instance)]
        while cursor := pages[-1]["cursor"]:
            pages.append(await call(client, SUMMARIZE, instance_id=instance, cursor=cursor))
        assert len(pages) > 2
        asked = "".join(message["content"] for page in pages for message in page["prompt"]["messages"])
        system = "".join(page["prompt"]["system"] for page in pages)
        assert kind_of(asked) == "points"
        last = int(answer_to(asked).split("[")[-1].split(",")[1].strip(" ]}"))
        assert all(f"第{turn}句：{LONG}" in asked for turn in range(1, last + 1))
        scribe = Scribe()
        _provide(services, scribe)
        await call(client, SUMMARIZE, instance_id=instance, preview=True)
    assert scribe.calls[0] == [system, asked]


async def test_a_preview_writes_nothing(
    server: PersonaServer, services: Services, story: str, root: Path
) -> None:
    _provide(services, Scribe())
    before = snapshot(root)
    async with Client(server) as client:
        for tool in (SUMMARIZE, UPDATE):
            found = await call(client, tool, instance_id=story, preview=True)
            assert found["status"] == "preview"
        assert found["learned"] == {"turns": 8, "steps": []}
    assert snapshot(root) == before


async def test_a_work_that_cannot_be_done_says_why_and_a_better_answer_goes_on(
    server: PersonaServer, services: Services, story: str
) -> None:
    tell_story(services, 3, LONG)
    services.preferences.change({"max_total_tokens": 200_000})
    async with Client(server) as client:
        first = await call(client, SUMMARIZE, instance_id=story)
        await call(client, SUMMARIZE, instance_id=story, answer="one")
        said = await refused(client, SUMMARIZE, instance_id=story, answer="two")
        assert "JSON" in said
        good = answer_to(first["prompt"]["messages"][0]["content"])
        assert (await call(client, SUMMARIZE, instance_id=story, answer=good))["status"] == "done"


@pytest.mark.parametrize("tool", [SUMMARIZE, UPDATE])
async def test_what_cannot_be_done_is_refused_in_words(
    server: PersonaServer, services: Services, instance: str, tool: str, mode: Mode
) -> None:
    async with Client(server, mode=mode) as client:
        for given in ({"answer": "{}"}, {"cursor": "0:0"}, {"undo": True}, {}):
            assert await refused(client, tool, instance_id=instance, **given)
        assert "undo" in await refused(client, tool, instance_id=instance, preview=True, undo=True)
        assert "answer" in await refused(client, tool, instance_id=instance, undo=True, answer="x")
        for instance_id in ("nobody", "../inst_001", "", "x" * 500, "a\x00b"):
            for given in ({}, {"undo": True}):
                assert await refused(client, tool, instance_id=instance_id, **given)
    tell_story(services, 2)
    async with Client(server, mode=mode) as client:
        await call(client, tool, instance_id=instance)
        for cursor in ("9:0", "0:999999", "x", "-1:0", "٣:0"):
            assert cursor in await refused(client, tool, instance_id=instance, cursor=cursor)


async def test_whoever_listens_hears_of_a_new_session(
    server: PersonaServer, services: Services, story: str
) -> None:
    _provide(services, Scribe())
    address = f"persona://instances/{story}"
    async with Client(server) as client, client.listen(resource_subscriptions=[address]) as heard:
        await call(client, SUMMARIZE, instance_id=story)
        async with asyncio.timeout(60):
            async for event in heard:
                assert address in str(event)
                break


# --- growth


async def _check_grown(client: Client, found: dict[str, Any], services: Services) -> None:
    assert (found["status"], found["revision"]) == ("done", 1)
    assert found["evolved_persona"] == "他如今信任同伴。"
    learned = found["learned"]
    assert (learned["turns"], learned["left"]) == (8, 0)
    assert [(step["verb"], step["after"]) for step in learned["steps"]][:1] == [("add", "用户要往北走。")]
    assert services.stories.character_state("inst_001").evolved_persona == "他如今信任同伴。"
    memory = await call(client, "memory_get", agent_id="char_alserqi")
    assert memory["event_content"] == ["用户要往北走。"]
    history = await call(client, UPDATE, instance_id="inst_001", history=True)
    assert [revision["after"] for revision in history["revisions"]] == ["他如今信任同伴。"]
    undone = await call(client, UPDATE, instance_id="inst_001", undo=True)
    assert (undone["status"], undone["evolved_persona"]) == ("undone", "")
    assert services.stories.character_state("inst_001").evolved_persona == ""


async def test_a_provider_lets_a_character_grow_and_learn(
    server: PersonaServer, services: Services, story: str, mode: Mode
) -> None:
    scribe = Scribe()
    _provide(services, scribe)
    async with Client(server, mode=mode) as client:
        await _check_grown(client, await call(client, UPDATE, instance_id=story), services)


async def test_a_clients_model_lets_a_character_grow_and_learn(
    server: PersonaServer, services: Services, story: str, mode: Mode
) -> None:
    scribe = Scribe(bad=1)
    async with Client(server, mode=mode, sampling_callback=scribe) as client:
        await _check_grown(client, await call(client, UPDATE, instance_id=story), services)
    assert [kind_of(asked) for asked in scribe.asked[2:]] == ["facts", "operations", "insights"]


async def test_the_host_lets_a_character_grow_and_learn(
    server: PersonaServer, services: Services, story: str, mode: Mode
) -> None:
    async with Client(server, mode=mode) as client:
        found, _ = await as_host(client, UPDATE, Scribe(), instance_id=story)
        await _check_grown(client, found, services)


async def test_a_long_story_is_learned_from_in_several_calls_of_a_few_rounds(
    server: PersonaServer, services: Services, instance: str
) -> None:
    tell_story(services, 85)
    async with Client(server, sampling_callback=Scribe()) as client:
        calls = [await call(client, UPDATE, instance_id=instance)]
        assert calls[0]["status"] == "unfinished"
        assert calls[0]["learned"]["turns"] >= 20
        while calls[-1]["status"] == "unfinished":
            assert len(calls) < 6
            calls.append(await call(client, UPDATE, instance_id=instance))
    assert calls[-1]["status"] == "done"
    assert calls[-1]["learned"]["left"] == 0
    assert sum(found["learned"]["turns"] for found in calls) == 85


async def test_a_host_is_asked_until_a_long_story_is_learned_from(
    server: PersonaServer, services: Services, instance: str
) -> None:
    tell_story(services, 85)
    async with Client(server) as client:
        found, rounds = await as_host(client, UPDATE, Scribe(), instance_id=instance)
    assert (found["status"], found["learned"]["turns"], len(rounds)) == ("done", 85, 16)


async def test_a_work_goes_on_after_a_restart_with_the_answers_the_client_carries(
    services: Services, story: str, root: Path
) -> None:
    other = open_services(read_settings({"PERSONALAB_DATA": str(root)}))
    other.__dict__["library"] = InMemoryLibrary()
    scribe, given = Scribe(), {"instance_id": story}
    found: Any = None
    rounds = 0
    while found is None or rounds:
        services, other = other, services
        async with Client(build_server(services), sampling_callback=scribe) as client:
            brought: dict[str, Any] = {}
            if found is not None:
                answer = await scribe(None, found.input_requests["answer"].params)
                brought = {"request_state": found.request_state, "input_responses": {"answer": answer}}
            found = await client.session.call_tool(SUMMARIZE, given, allow_input_required=True, **brought)
        rounds = rounds + 1 if hasattr(found, "input_requests") else 0
    assert data_of(found)["status"] == "done"
    assert len(data_of(found)["points"]) == len(scribe.asked) > 2


async def test_what_cannot_be_learned_is_told_and_the_character_grows(
    server: PersonaServer, services: Services, story: str
) -> None:
    class Forgetful(Scribe):
        def answer(self, questions: Any) -> str:
            return super().answer(questions) if '"evolved_persona"' in questions[-1] else "no"

    _provide(services, Forgetful())
    async with Client(server) as client:
        found = await call(client, UPDATE, instance_id=story)
    assert found["status"] == "done"
    assert [warning["category"] for warning in found["warnings"]] == ["memory_not_learned"]
    assert (found["learned"]["turns"], found["learned"]["left"]) == (0, 8)


async def test_a_character_that_has_not_changed_stays_as_it_is(
    server: PersonaServer, services: Services, story: str
) -> None:
    unchanged = '{"evolved_persona": "", "changes": []}'
    asked = Scribe()

    class Content(Scribe):
        def answer(self, questions: Any) -> str:
            return unchanged if '"evolved_persona"' in questions[-1] else asked.answer(questions)

    _provide(services, Content())
    async with Client(server) as client:
        found = await call(client, UPDATE, instance_id=story)
    assert (found["status"], found["changes"]) == ("unchanged", [])


# --- what happens by itself


async def test_what_a_turn_took_care_of_is_told_with_the_call_that_takes_it_back(
    server: PersonaServer, services: Services, story: str, mode: Mode
) -> None:
    services.preferences.change(
        {"auto_summarize": True, "middle_section_warning_tokens": 1_000, "max_total_tokens": 50_000}
    )

    class Both(Scribe):
        def answer(self, questions: Any) -> str:
            return super().answer(questions) if '"points"' in questions[-1] else "好。"

    _provide(services, Both())
    async with Client(server, mode=mode) as client:
        found = await client.call_tool("persona_chat", {"instance_id": story, "text": "走吧"})
    data, text = data_of(found), text_of(found)
    assert [(care["task"], care["status"]) for care in data["care"]] == [("summarize", "done")]
    assert 'persona_summarize(instance_id="inst_001", undo=true)' in data["care"][0]["message"]
    assert data["care"][0]["message"] in text


async def test_a_client_carries_no_more_than_a_bounded_state(
    server: PersonaServer, services: Services, story: str
) -> None:
    class Wordy(Scribe):
        def answer(self, questions: Any) -> str:
            return " " * 399_000 + super().answer(questions)

    async with Client(server, sampling_callback=Wordy()) as client:
        said = await refused(client, SUMMARIZE, instance_id=story)
    assert "OPENAI_API_KEY" in said
    assert MAX_STATE < 4 * 1024 * 1024 // 3
    assert _session(services) == "sess_001"


async def test_questions_are_told_apart() -> None:
    one = digest([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])
    assert one != digest([{"role": "user", "content": "ab"}])
    assert one == digest([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])
    assert digest([{"role": "user", "content": "\ud800"}])
