"""Who writes the reply, what a client hears meanwhile, and what a repeated call gives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import CreateMessageRequestParams, CreateMessageResult, Implementation, TextContent

from mcp_server.server import PersonaServer, build_server
from personalab.services import Services, open_services
from personalab.settings import read_settings
from personalab.testing.scripted import ScriptedModel, ScriptedReply
from tests.integration.mcp_server.conftest import Mode
from tests.support.graph.turns import lines, plot, sent_words
from tests.support.mcp_server.calls import Sampler, call, data_of, refused, text_of

pytestmark = pytest.mark.anyio
Provider = Callable[..., ScriptedModel]


def _said(services: Services) -> list[tuple[str, str, int]]:
    return [(line["role"], line["content"], line["turn"]) for line in lines(services) if "role" in line]


def _other(server: PersonaServer) -> Client:
    """Make another client, by its name."""
    return Client(server, client_info=Implementation(name="another", version="1"))


# --- the four writers


async def test_a_configured_provider_writes_and_its_sentences_are_progress(
    server: PersonaServer, services: Services, instance: str, provider: Provider, mode: Mode
) -> None:
    provider(ScriptedReply(("我记得。", "我们走", "吧！[PROGRESS:1:completed]"), delay=0.15))
    heard: list[tuple[float, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        if message is not None:  # no heartbeat
            heard.append((progress, message))

    sampler = Sampler("never asked")
    async with Client(server, mode=mode, sampling_callback=sampler) as client:
        found = await client.call_tool(
            "persona_chat", {"instance_id": instance, "text": "你好"}, progress_callback=hear
        )
    data = data_of(found)
    assert data["status"] == "done"
    assert data["reply"] == "我记得。我们走吧！[PROGRESS:1:completed]"
    assert (
        data["plot_state"]
        == plot(services)
        == {
            "current_plot_index": 1,
            "current_status": "completed",
            "no_update_count": 0,
        }
    )
    assert [message for _, message in heard] == ["我记得。", "我们走吧！", "[PROGRESS:1:completed]"]
    assert [at for at, _ in heard] == sorted({at for at, _ in heard})
    assert not sampler.asked
    assert _said(services) == [("user", "你好", 1), ("assistant", data["reply"], 1)]


async def test_without_a_provider_a_client_that_offers_sampling_writes(
    server: PersonaServer, services: Services, instance: str, mode: Mode
) -> None:
    sampler = Sampler("采样的第一句。[PROGRESS:2:in_progress]", "第二句。")
    async with Client(server, mode=mode, sampling_callback=sampler) as client:
        first = await call(client, "persona_chat", instance_id=instance, text="你好")
        second = await call(client, "persona_chat", instance_id=instance, text="然后呢")
    assert (first["reply"], second["reply"]) == ("采样的第一句。[PROGRESS:2:in_progress]", "第二句。")
    assert (first["turn"], second["turn"], first["warnings"]) == (1, 2, [])
    assert plot(services)["current_plot_index"] == 2
    asked = sampler.asked[1]
    assert "=== 角色初始人格 ===" in (asked.system_prompt or "")
    contents = [message.content_as_list[0] for message in asked.messages]
    assert [getattr(content, "text", "") for content in contents][:2] == ["你好", first["reply"]]
    assert [line["role"] for line in lines(services)[1:]] == ["user", "assistant"] * 2


async def test_without_provider_and_sampling_the_rehearsal_model_says_what_it_is(
    server: PersonaServer, instance: str, mode: Mode
) -> None:
    async with Client(server, mode=mode) as client:
        found = await call(client, "persona_chat", instance_id=instance, text="你好")
    assert [warning["category"] for warning in found["warnings"]] == ["rehearsal"]
    assert "persona_begin_turn" in found["warnings"][0]["message"]


async def test_the_host_writes_between_begin_and_end(
    server: PersonaServer, services: Services, instance: str, mode: Mode
) -> None:
    async with Client(server, mode=mode) as client:
        begun = await call(client, "persona_begin_turn", instance_id=instance, text="你好")
        assert begun["status"] == "awaiting_reply"
        assert begun["prompt"]["messages"][-1]["role"] == "user"
        assert sent_words(begun["prompt"]["messages"])[-1] == "你好"
        assert "=== 故事大纲 ===" in begun["prompt"]["system"]
        assert begun["tokens"]["total"] > 0
        ended = await call(
            client,
            "persona_end_turn",
            instance_id=instance,
            turn=begun["turn"],
            reply="好。[PROGRESS:1:completed]",
        )
        again = await call(
            client,
            "persona_end_turn",
            instance_id=instance,
            turn=begun["turn"],
            reply="好。[PROGRESS:1:completed]",
        )
        other = await refused(client, "persona_end_turn", instance_id=instance, turn=1, reply="别的")
    assert ended == {**again, "warnings": ended["warnings"]}
    assert ended["status"] == "done"
    assert ended["plot_state"]["current_status"] == "completed"
    assert "1" in other
    assert _said(services) == [("user", "你好", 1), ("assistant", "好。[PROGRESS:1:completed]", 1)]


async def test_the_text_of_a_begun_turn_carries_the_whole_prompt(
    server: PersonaServer, instance: str, mode: Mode
) -> None:
    async with Client(server, mode=mode) as client:
        found = await client.call_tool("persona_begin_turn", {"instance_id": instance, "text": "你好"})
    data, text = data_of(found), text_of(found)
    assert data["prompt"]["system"] in text
    assert all(message["content"] in text for message in data["prompt"]["messages"])
    assert 'persona_end_turn(instance_id="inst_001", turn=1' in text


# --- failures of the writer


async def test_a_modern_client_whose_model_gives_nothing_can_try_again(
    server: PersonaServer, services: Services, instance: str
) -> None:
    async with Client(server, mode="auto", sampling_callback=Sampler("  ", "", "好。")) as client:
        assert "persona_retry" in await refused(client, "persona_chat", instance_id=instance, text="你好")
        assert _said(services) == [("user", "你好", 1)]
        found = await call(client, "persona_retry", instance_id=instance)
    assert (found["turn"], found["reply"]) == (1, "好。")
    assert _said(services) == [("user", "你好", 1), ("assistant", "好。", 1)]


async def test_a_clients_model_that_gives_no_words_is_asked_once_more_with_a_reminder(
    server: PersonaServer, services: Services, instance: str, mode: Mode
) -> None:
    sampler = Sampler("[PROGRESS:2:completed]", "好。")
    async with Client(server, mode=mode, sampling_callback=sampler) as client:
        found = await call(client, "persona_chat", instance_id=instance, text="你好", request_id="a")
        again = await call(client, "persona_chat", instance_id=instance, text="你好", request_id="a")
    assert (found["status"], found["reply"], again["reply"]) == ("done", "好。", "好。")
    first, second = (str(asked.messages[-1].content) for asked in sampler.asked)
    assert "没有台词和动作" not in first
    assert "没有台词和动作" in second
    assert plot(services)["current_plot_index"] == 1
    assert _said(services)[-1] == ("assistant", "好。", 1)


async def test_a_story_is_not_kept_for_a_client_whose_model_gave_nothing(
    server: PersonaServer, instance: str
) -> None:
    async with Client(server, mode="auto", sampling_callback=Sampler("  ", "", "好。")) as client:
        await refused(client, "persona_chat", instance_id=instance, text="你好")
        found = await call(client, "persona_chat", instance_id=instance, text="在吗")
    assert (found["turn"], found["reply"]) == (2, "好。")


async def test_a_legacy_client_whose_model_gives_nothing_has_an_empty_reply(
    server: PersonaServer, instance: str
) -> None:
    async with Client(server, mode="legacy", sampling_callback=Sampler("", "")) as client:
        found = await call(client, "persona_chat", instance_id=instance, text="你好")
    assert (found["status"], found["reply"]) == ("empty", "(无回复)")


async def test_a_provider_that_fails_gives_an_error_with_the_partial_text_and_what_to_do(
    server: PersonaServer, services: Services, instance: str, provider: Provider, mode: Mode
) -> None:
    provider(ScriptedReply(("我", "记得"), fail_after=2, error="it broke"), "我记得。")
    async with Client(server, mode=mode) as client:
        found = await client.call_tool(
            "persona_chat", {"instance_id": instance, "text": "你好", "request_id": "r"}
        )
        data, text = data_of(found), text_of(found)
        assert found.is_error
        assert data["status"] == "error"
        assert data["reply"].startswith("我记得\n(系统错误: ")
        assert "persona_retry" in text
        repeated = await client.call_tool(
            "persona_chat", {"instance_id": instance, "text": "你好", "request_id": "r"}
        )
        assert data_of(repeated)["reply"] == data["reply"]
        again = await call(client, "persona_retry", instance_id=instance)
    assert (again["turn"], again["reply"]) == (1, "我记得。")
    assert len(lines(services)) == 4


async def test_a_model_that_cannot_be_opened_refuses_and_leaves_nothing(
    services: Services, instance: str
) -> None:
    services.settings = replace(services.settings, model="nonsense:model")
    async with Client(build_server(services)) as client:
        said = await refused(client, "persona_chat", instance_id=instance, text="你好")
    assert "nonsense" in said
    assert len(lines(services)) == 1


# --- the same call again


async def test_a_request_id_called_three_times_is_one_turn(
    server: PersonaServer, services: Services, instance: str, provider: Provider, mode: Mode
) -> None:
    model = provider("一。", "二。", "三。")
    async with Client(server, mode=mode) as client:
        asked = {"instance_id": instance, "text": "你好", "request_id": "call-1"}
        in_a_row = [await call(client, "persona_chat", **asked) for _ in range(3)]
        other = await call(client, "persona_chat", instance_id=instance, text="你好", request_id="call-2")
        misused = await refused(
            client, "persona_chat", instance_id=instance, text="别的", request_id="call-1"
        )
    assert {(found["turn"], found["reply"], found["status"]) for found in in_a_row} == {(1, "一。", "done")}
    assert (other["turn"], other["reply"]) == (2, "二。")
    assert "call-1" in misused
    assert len(model.calls) == 2
    assert [line.get("request_id") for line in lines(services)[1:]] == ["call-1", None, "call-2", None]


async def test_the_same_request_id_three_times_at_once_is_one_turn(
    server: PersonaServer, services: Services, instance: str, provider: Provider, mode: Mode
) -> None:
    model = provider(ScriptedReply(("一", "。"), delay=0.7), "二。", "三。")
    found: list[dict[str, Any]] = []

    async def ask(client: Client) -> None:
        found.append(await call(client, "persona_chat", instance_id=instance, text="你好", request_id="same"))

    async with Client(server, mode=mode) as client, asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(ask(client))
    assert {(each["turn"], each["reply"]) for each in found} == {(1, "一。")}
    assert len(model.calls) == 1
    assert len(lines(services)) == 3


async def test_a_begun_turn_is_handed_out_again_by_its_request_id(
    server: PersonaServer, services: Services, instance: str, mode: Mode
) -> None:
    asked = {"instance_id": instance, "text": "你好", "request_id": "b"}
    async with Client(server, mode=mode) as client:
        first = await call(client, "persona_begin_turn", **asked)
        again = await call(client, "persona_begin_turn", **asked)
        await call(client, "persona_end_turn", instance_id=instance, turn=1, reply="好。")
        answered = await call(client, "persona_begin_turn", **asked)
    assert first == again
    assert (answered["status"], answered["reply"]) == ("done", "好。")
    assert _said(services) == [("user", "你好", 1), ("assistant", "好。", 1)]


async def test_a_repeated_call_answers_a_turn_that_nobody_answered(
    server: PersonaServer, services: Services, instance: str, provider: Provider
) -> None:
    async with Client(server) as client:
        await call(client, "persona_begin_turn", instance_id=instance, text="你好", request_id="c")
        provider("好。")
        found = await call(client, "persona_chat", instance_id=instance, text="你好", request_id="c")
    assert (found["turn"], found["reply"]) == (1, "好。")
    assert len(lines(services)) == 3


# --- leaving


async def test_a_cancelled_call_closes_its_line_and_its_repetition_returns_it(
    server: PersonaServer, services: Services, instance: str, provider: Provider, mode: Mode
) -> None:
    provider(ScriptedReply(("我", "记得"), hang=True), "再来。")
    asked = {"instance_id": instance, "text": "你好", "request_id": "left"}
    async with Client(server, mode=mode) as client:
        async with anyio.create_task_group() as calls:
            calls.start_soon(client.call_tool, "persona_chat", asked)
            path = services.stories.session_path(instance, "sess_001")
            with anyio.fail_after(60):
                while not (path.exists() and "我记得" in path.read_text(encoding="utf-8")):
                    await anyio.sleep(0.01)
            calls.cancel_scope.cancel()
        found = await call(client, "persona_chat", **asked)
        again = await call(client, "persona_retry", instance_id=instance)
    assert (found["turn"], found["status"], found["reply"]) == (1, "interrupted", "我记得")
    assert found["plot_state"]["no_update_count"] == 1
    assert (again["turn"], again["reply"]) == (1, "再来。")
    assert lines(services)[2]["interrupted"] is True


async def test_stop_ends_a_reply_of_another_client(
    server: PersonaServer, services: Services, instance: str, provider: Provider, mode: Mode
) -> None:
    provider(ScriptedReply(("我",), hang=True))
    async with (
        Client(server, mode=mode) as playing,
        Client(server, mode=mode) as other,
        asyncio.TaskGroup() as group,
    ):
        turn = group.create_task(call(playing, "persona_chat", instance_id=instance, text="你好"))
        while not services.stories.session(instance, "sess_001").torn:
            await asyncio.sleep(0.01)
        stopped = await call(other, "persona_stop", instance_id=instance)
    assert stopped == {"instance_id": instance, "stopped": "say"}
    assert (turn.result()["status"], turn.result()["reply"]) == ("interrupted", "我")


async def test_two_halves_of_a_sampling_call_survive_a_restart(
    services: Services, instance: str, root: Any
) -> None:
    """The question is asked by one server and the answer taken by another one on the same data root."""
    other = build_server(open_services(read_settings({"PERSONALAB_DATA": str(root)})))
    asked = {"instance_id": instance, "text": "你好"}
    async with Client(build_server(services), sampling_callback=Sampler()) as client:
        question: Any = await client.session.call_tool("persona_chat", asked, allow_input_required=True)
    assert json.loads(question.model_dump_json(by_alias=True))["resultType"] == "input_required"
    answer = await Sampler("好。")(None, question.input_requests["reply"].params)
    async with Client(other, sampling_callback=Sampler()) as client:
        replayed = [
            await client.session.call_tool(
                "persona_chat",
                asked,
                input_responses={"reply": answer},
                request_state=question.request_state,
                allow_input_required=True,
            )
            for _ in range(2)
        ]
    assert [data_of(found)["reply"] for found in replayed] == ["好。", "好。"]
    assert _said(services) == [("user", "你好", 1), ("assistant", "好。", 1)]


async def test_a_prompt_over_its_limit_says_what_to_do_and_can_be_retried(
    server: PersonaServer, services: Services, instance: str, provider: Provider, mode: Mode
) -> None:
    provider("好。")
    services.preferences.change({"max_total_tokens": 10_000})
    async with Client(server, mode=mode) as client:
        found = await client.call_tool("persona_chat", {"instance_id": instance, "text": "很长" * 8_000})
        assert found.is_error
        assert "超过限制" in text_of(found)
        assert data_of(found)["status"] == "error"
        services.preferences.change({"max_total_tokens": 100_000})
        again = await call(client, "persona_retry", instance_id=instance)
    assert (again["turn"], again["reply"]) == (1, "好。")


# --- several at once, with the client's own model


async def test_twenty_clients_at_once_whose_own_models_write_lose_no_turn(
    server: PersonaServer, services: Services, instance: str, mode: Mode
) -> None:
    async def echo(context: Any, params: CreateMessageRequestParams) -> CreateMessageResult:
        await asyncio.sleep(0.01)
        asked = params.messages[-1].content_as_list[0]
        words = str(getattr(asked, "text", ""))
        said = sent_words([{"role": "user", "content": words}])[0].rpartition("\n")[2]
        return CreateMessageResult(
            role="assistant", content=TextContent(type="text", text=f"re: {said}"), model="echo"
        )

    services.turns.wait = 60
    async with Client(server, mode=mode, sampling_callback=echo) as client, asyncio.TaskGroup() as group:
        calls = [
            group.create_task(
                call(client, "persona_chat", instance_id=instance, text=f"n{n}", request_id=f"id{n}")
            )
            for n in range(20)
        ]
    assert {found.result()["reply"] for found in calls} == {f"re: n{n}" for n in range(20)}
    said = _said(services)
    assert [turn for _, _, turn in said] == [n for n in range(1, 21) for _ in range(2)]
    for (_, asked, _), (_, replied, _) in zip(said[::2], said[1::2], strict=True):
        assert replied == f"re: {asked}"


async def test_a_repeated_sampling_call_gets_the_answer_that_came_first(
    server: PersonaServer, services: Services, instance: str, mode: Mode
) -> None:
    async with (
        Client(server, mode=mode, sampling_callback=Sampler("一。", "二。", "三。")) as client,
        asyncio.TaskGroup() as group,
    ):
        asked = {"instance_id": instance, "text": "你好", "request_id": "same"}
        calls = [group.create_task(call(client, "persona_chat", **asked)) for _ in range(3)]
    assert len({found.result()["reply"] for found in calls}) == 1
    assert len(lines(services)) == 3


@pytest.mark.usefixtures("hurried")
async def test_a_story_kept_for_a_client_that_never_answers_can_be_freed(
    server: PersonaServer, services: Services, instance: str
) -> None:
    async with Client(server, sampling_callback=Sampler()) as asking, _other(server) as client:
        asked = {"instance_id": instance, "text": "你好"}
        await asking.session.call_tool("persona_chat", asked, allow_input_required=True)
        assert "persona_stop" in await refused(
            client, "persona_begin_turn", instance_id=instance, text="别的"
        )
        assert _said(services) == [("user", "你好", 1)]
        assert (await call(client, "persona_stop", instance_id=instance))["stopped"] == "sampling"
        begun = await call(client, "persona_begin_turn", instance_id=instance, text="别的")
    assert begun["turn"] == 2


async def test_what_is_odd_about_a_turn_is_told_whoever_writes(
    server: PersonaServer, services: Services, instance: str, mode: Mode
) -> None:
    services.preferences.change({"middle_section_warning_tokens": 1_000})
    async with Client(server, mode=mode, sampling_callback=Sampler("好。")) as client:
        found = await call(client, "persona_chat", instance_id=instance, text="很长" * 1_500)
    assert [warning["category"] for warning in found["warnings"]] == ["middle_section_overflow"]


async def test_a_reply_of_the_host_is_never_called_a_rehearsal(
    server: PersonaServer, instance: str, mode: Mode
) -> None:
    async with Client(server, mode=mode) as client:
        asked = {"instance_id": instance, "text": "你好", "request_id": "r"}
        await call(client, "persona_begin_turn", **asked)
        await call(client, "persona_end_turn", instance_id=instance, turn=1, reply="好。")
        found = await call(client, "persona_chat", **asked)
    assert (found["reply"], found["warnings"]) == ("好。", [])


async def test_a_stored_turn_comes_back_though_the_model_has_gone(
    server: PersonaServer, services: Services, instance: str, provider: Provider
) -> None:
    provider("好。")
    asked = {"instance_id": instance, "text": "你好", "request_id": "r"}
    async with Client(server) as client:
        await call(client, "persona_chat", **asked)
        services.settings = replace(services.settings, model="nonsense:gone")
        assert (await call(client, "persona_chat", **asked))["reply"] == "好。"


async def test_an_outline_reaches_a_host_however_long_the_persona_is(
    server: PersonaServer, services: Services, mode: Mode
) -> None:
    async with Client(server, mode=mode) as client:
        await call(
            client, "persona_save_character", character_id="long", base_persona="她记得每一块石头。" * 5_000
        )
        await call(
            client, "persona_new_instance", character_id="long", background_id="bg_wasteland", instance_id="x"
        )
        begun = await call(client, "persona_begin_turn", instance_id="x", text="你好")
    assert "发现背叛者的线索" in begun["prompt"]["system"]
    assert "[PROGRESS:" in begun["prompt"]["system"]
    assert sent_words(begun["prompt"]["messages"])[-1] == "你好"


async def test_an_ending_server_closes_replies_and_begins_no_other(
    services: Services, instance: str, provider: Provider
) -> None:
    provider(ScriptedReply(("我",), hang=True), "never")
    server = build_server(services, max_turns=1)
    async with Client(server) as client, asyncio.TaskGroup() as group:
        turn = group.create_task(call(client, "persona_chat", instance_id=instance, text="一"))
        while not services.stories.session(instance, "sess_001").torn:
            await asyncio.sleep(0.01)
        waiting = group.create_task(refused(client, "persona_chat", instance_id=instance, text="二"))
        await asyncio.sleep(0)
        await server.close()
    assert (turn.result()["status"], turn.result()["reply"]) == ("interrupted", "我")
    assert waiting.result()
    assert [content for _, content, _ in _said(services)] == ["一", "我"]


# --- a story kept for a client


async def _question(client: Client, **asked: Any) -> Any:
    """Make the first half of a sampling call, and leave it."""
    return await client.session.call_tool("persona_chat", asked, allow_input_required=True)


@pytest.mark.usefixtures("hurried")
async def test_what_others_do_with_settled_turns_does_not_free_a_kept_story(
    server: PersonaServer, services: Services, instance: str
) -> None:
    async with Client(server, sampling_callback=Sampler("一。")) as client, _other(server) as other:
        await call(client, "persona_chat", instance_id=instance, text="一", request_id="r1")
        await _question(client, instance_id=instance, text="二", request_id="r2")
        assert await services.leases.held_turn(instance) == 2
        await call(client, "persona_chat", instance_id=instance, text="一", request_id="r1")
        await call(client, "persona_end_turn", instance_id=instance, turn=1, reply="一。")
        assert await services.leases.held_turn(instance) == 2
        await refused(other, "persona_chat", instance_id=instance, text="三")
        await call(client, "persona_end_turn", instance_id=instance, turn=2, reply="二。")
    assert await services.leases.held_turn(instance) is None
    assert [turn for _, _, turn in _said(services)] == [1, 1, 2, 2]


@pytest.mark.usefixtures("hurried")
async def test_a_story_is_kept_for_a_retry_too_and_free_once_anyone_has_answered(
    server: PersonaServer, services: Services, instance: str, provider: Provider
) -> None:
    settings = services.settings
    provider(ScriptedReply(("我",), fail_after=1, error="it broke"), "好。")
    async with Client(server, sampling_callback=Sampler()) as client, _other(server) as other:
        await client.call_tool("persona_chat", {"instance_id": instance, "text": "你好"})
        with_provider, services.settings = services.settings, settings
        await client.session.call_tool("persona_retry", {"instance_id": instance}, allow_input_required=True)
        assert await services.leases.held_turn(instance) == 1
        assert "persona_stop" in await refused(other, "persona_begin_turn", instance_id=instance, text="别的")
        services.settings = with_provider
        assert (await call(client, "persona_retry", instance_id=instance))["reply"] == "好。"
    assert await services.leases.held_turn(instance) is None


@pytest.mark.parametrize(
    "word", [b"", b"[]", b"\xff", b'{"turn":1,"until":9e12}', b'{"turn":1e999,"until":1}', b"{"]
)
async def test_a_strange_mark_keeps_no_story(
    server: PersonaServer, instance: str, root: Path, word: bytes
) -> None:
    (root / "instances" / instance / ".awaited").write_bytes(word)
    async with Client(server) as client:
        assert (await call(client, "persona_begin_turn", instance_id=instance, text="你好"))["turn"] == 1


async def test_a_reply_is_brought_though_every_place_is_taken_by_those_who_wait_for_it(
    services: Services, instance: str
) -> None:
    server = build_server(services, max_turns=1)
    async with (
        Client(server, sampling_callback=Sampler("后来。", "再后来。")) as client,
        asyncio.TaskGroup() as group,
    ):
        await _question(client, instance_id=instance, text="一")
        services.turns.wait = 30
        waiting = [
            group.create_task(client.call_tool("persona_chat", {"instance_id": instance, "text": text}))
            for text in ("二", "三")
        ]
        await asyncio.sleep(0.1)
        ended = await call(client, "persona_end_turn", instance_id=instance, turn=1, reply="好。")
    assert ended["turn"] == 1
    texts = [content for role, content, _ in _said(services) if role == "user"]
    for text, found in zip(("二", "三"), waiting, strict=True):
        assert (text in texts) == (not found.result().is_error), "answered, or refused and not in the file"
    assert _said(services)[1] == ("assistant", "好。", 1)


async def test_an_ending_server_does_not_wait_for_those_who_wait(
    server: PersonaServer, services: Services, instance: str
) -> None:
    services.turns.wait = 60
    async with Client(server, sampling_callback=Sampler()) as client, asyncio.TaskGroup() as group:
        await _question(client, instance_id=instance, text="一")
        waiting = group.create_task(refused(client, "persona_chat", instance_id=instance, text="二"))
        await asyncio.sleep(0.1)
        await server.close()
    assert waiting.result()
    assert [content for _, content, _ in _said(services)] == ["一"]


async def test_what_was_just_said_can_be_looked_up(server: PersonaServer, instance: str, mode: Mode) -> None:
    async with Client(server, mode=mode) as client:
        await call(client, "persona_begin_turn", instance_id=instance, text="我带来了灯油")
        await call(client, "persona_end_turn", instance_id=instance, turn=1, reply="把灯油放在台阶旁边。")
        for depth in ("auto", "turns"):
            found = await call(
                client, "persona_recall", instance_id=instance, query="灯油放在哪里", depth=depth
            )
            assert found["items"], depth
            assert found["items"][0]["turns"] == [1, 1]


async def test_a_marker_with_an_unknown_status_is_told(
    server: PersonaServer, instance: str, mode: Mode
) -> None:
    async with Client(server, mode=mode) as client:
        await call(client, "persona_begin_turn", instance_id=instance, text="走")
        found = await call(
            client, "persona_end_turn", instance_id=instance, turn=1, reply="好。[PROGRESS:2:done]"
        )
    assert [warning["category"] for warning in found["warnings"]] == ["progress_unreadable"]
    assert found["plot_state"]["no_update_count"] == 1


# --- reasoning and length limits

THINKING = "<think>他还不知道。[PROGRESS:3:completed]</think>好，我们走。"
SPEECH, THOUGHT = "好，我们走。", "他还不知道。[PROGRESS:3:completed]"


async def test_results_leave_reasoning_out_unless_asked_and_say_when_a_reply_was_cut_short(
    server: PersonaServer, instance: str, provider: Provider
) -> None:
    thinks = ScriptedReply((SPEECH,), reasoning=(THOUGHT,), truncated=True)
    provider(thinks, thinks, ScriptedReply((), error="provider.failed"), thinks)
    async with Client(server) as client:
        found = await client.call_tool("persona_chat", {"instance_id": instance, "text": "走吗？"})
        data, text = data_of(found), text_of(found)
        assert (data["reply"], data["truncated"], "reasoning" in data) == (SPEECH, True, False)
        assert "长度上限" in text
        assert THOUGHT not in text
        asked = await client.call_tool(
            "persona_chat", {"instance_id": instance, "text": "走？", "reasoning": True}
        )
        assert data_of(asked)["reasoning"] == THOUGHT
        assert THOUGHT in text_of(asked)
        await client.call_tool("persona_chat", {"instance_id": instance, "text": "？"})
        again = await call(client, "persona_retry", instance_id=instance, reasoning=True)
        assert (again["reasoning"], again["truncated"]) == (THOUGHT, True)
        read = await client.call_tool("persona_read", {"instance_id": instance})
        assert THOUGHT not in text_of(read) + json.dumps(data_of(read), ensure_ascii=False)
        assert "truncated" in text_of(read)
        shown = await client.call_tool("persona_read", {"instance_id": instance, "reasoning": True})
        assert [entry["reasoning"] for entry in data_of(shown)["entries"] if "reasoning" in entry] == [
            THOUGHT
        ] * 3
        assert text_of(shown).count(THOUGHT) == 3
        resource = await client.read_resource(f"persona://instances/{instance}/sessions/sess_001")
        assert THOUGHT not in str(resource)


async def test_what_a_clients_model_thinks_aloud_is_no_speech(
    server: PersonaServer, services: Services, instance: str, mode: Mode
) -> None:
    sampler = Sampler(THINKING, "好。")
    async with Client(server, mode=mode, sampling_callback=sampler) as client:
        found = await call(client, "persona_chat", instance_id=instance, text="走吗？", reasoning=True)
        await call(client, "persona_chat", instance_id=instance, text="走")
    assert (found["reply"], found["reasoning"]) == (SPEECH, THOUGHT)
    assert plot(services)["current_plot_index"] == 1
    assert lines(services)[2] | {"content": SPEECH, "reasoning": THOUGHT} == lines(services)[2]
    assert THOUGHT not in str(sampler.asked[1])


async def test_how_a_clients_model_thinks_says_nothing_about_another_clients(
    server: PersonaServer, services: Services, instance: str, mode: Mode
) -> None:
    thinks, speaks = Sampler(f"{THOUGHT}</think>{SPEECH}"), Sampler("（抬头）天黑", stop_reason="maxTokens")
    async with Client(server, mode=mode, sampling_callback=thinks) as client:
        found = await call(client, "persona_chat", instance_id=instance, text="走吗？", reasoning=True)
    async with Client(server, mode=mode, sampling_callback=speaks) as client:
        other = await call(client, "persona_chat", instance_id=instance, text="走")
    assert (found["reply"], found["reasoning"]) == (SPEECH, THOUGHT)
    assert (other["reply"], other["truncated"], len(speaks.asked)) == ("（抬头）天黑", True, 1)


async def test_what_a_host_thinks_aloud_is_no_speech(
    server: PersonaServer, services: Services, instance: str
) -> None:
    async with Client(server) as client:
        await call(client, "persona_begin_turn", instance_id=instance, text="走吗？")
        end = {"instance_id": instance, "turn": 1}
        for blank in ("[PROGRESS:1:completed]", "<think>嗯。</think>", "<think>没有说完", " \n"):
            said = await refused(client, "persona_end_turn", **end, reply=blank)
            assert "[PROGRESS:…]" in said
        ended = await call(client, "persona_end_turn", **end, reply=THINKING, reasoning=True)
        again = await call(client, "persona_end_turn", **end, reply=THINKING)
    assert (ended["reply"], ended["reasoning"]) == (SPEECH, THOUGHT)
    assert (again["reply"], "reasoning" in again) == (SPEECH, False)
    assert plot(services)["current_plot_index"] == 1
    assert [line.get("reasoning") for line in lines(services)[1:]] == [None, THOUGHT]


async def test_a_clients_model_that_gives_no_words_leaves_the_turn_waiting(
    server: PersonaServer, services: Services, instance: str
) -> None:
    sampler = Sampler(*["<think>嗯</think>[PROGRESS:1:completed]"] * 2)
    async with Client(server, mode="auto", sampling_callback=sampler) as client:
        said = await refused(client, "persona_chat", instance_id=instance, text="走吗？")
    assert "persona_retry" in said
    assert _said(services) == [("user", "走吗？", 1)]


async def test_a_sampled_reply_that_hit_its_token_limit_is_marked_truncated(
    server: PersonaServer, services: Services, instance: str, mode: Mode
) -> None:
    cut_off = Sampler("（抬头）我们得在天黑之前", stop_reason="maxTokens")
    async with Client(server, mode=mode, sampling_callback=cut_off) as client:
        assert (await call(client, "persona_chat", instance_id=instance, text="走吗？"))["truncated"]
    whole = Sampler("好。", stop_reason="endTurn")
    async with Client(server, mode=mode, sampling_callback=whole) as client:
        assert not (await call(client, "persona_chat", instance_id=instance, text="走"))["truncated"]
    replies = [line for line in lines(services) if line.get("role") == "assistant"]
    assert [line.get("truncated", False) for line in replies] == [True, False]


async def test_a_sampled_reply_ends_before_lines_for_the_player(
    server: PersonaServer, services: Services, instance: str, mode: Mode
) -> None:
    written = "（点头）走吧。\n玩家：好的。\n（起身）"
    async with Client(server, mode=mode, sampling_callback=Sampler(written)) as client:
        assert (await call(client, "persona_chat", instance_id=instance, text="走吗？"))[
            "reply"
        ] == "（点头）走吧。"
    assert lines(services)[-1]["content"] == "（点头）走吧。"


async def test_what_a_host_brings_stays_whole(
    server: PersonaServer, services: Services, instance: str
) -> None:
    written = "（点头）走吧。\n玩家：好的。"
    async with Client(server) as client:
        await call(client, "persona_begin_turn", instance_id=instance, text="走吗？")
        await call(client, "persona_end_turn", instance_id=instance, turn=1, reply=written)
    assert lines(services)[-1]["content"] == written
