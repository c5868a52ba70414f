"""Retry, a reply written by the caller, a busy instance, and leaving early in every way."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import pytest

from graph.chat_turn import build_chat_turn, stream_turn
from nodes.chat_turn.state import TurnInput
from personalab.errors import NotFound
from personalab.leases import lease_scope
from personalab.operations.instances import switch_background
from personalab.services import Services, open_services
from personalab.testing.scripted import ScriptedModel, ScriptedReply
from tests.support.graph.turns import lines, only, play, plot, say, sent_words, snapshot

pytestmark = pytest.mark.anyio
Answer = Callable[..., ScriptedModel]
SLOW = ScriptedReply(("one ", "two ", "three "), hang=True)


# --- retry


async def test_an_unanswered_turn_is_answered_without_a_second_user_line(
    services: Services, instance: str, answer_with: Answer
) -> None:
    model = answer_with(ScriptedReply(error="provider.connection"), "好。")
    await say(services, "在吗")
    _, result = await play(services, {"instance_id": instance, "action": "retry"})
    assert (result["status"], result["turn"], result["reply"]) == ("done", 1, "好。")
    roles = [(line.get("role"), line.get("turn"), line.get("error")) for line in lines(services)[1:]]
    assert roles == [("user", 1, None), ("assistant", 1, True), ("assistant", 1, None)]
    assert sent_words(model.calls[1]) == ["在吗"]


async def test_a_retried_turn_shows_only_its_whole_answer_to_later_turns(
    services: Services, instance: str, answer_with: Answer
) -> None:
    model = answer_with(ScriptedReply(("half ",), error="provider.stall"), "whole", "next")
    await say(services, "a")
    await play(services, {"instance_id": instance, "action": "retry"})
    await say(services, "b")
    assert sent_words(model.calls[2]) == ["a", "whole", "b"]


async def test_a_turn_with_a_whole_reply_is_not_retried(
    services: Services, root: Path, instance: str, answer_with: Answer
) -> None:
    answer_with("好。")
    for setup in (False, True):
        if setup:
            await say(services, "hi")
        before = snapshot(root)
        _, result = await play(services, {"instance_id": instance, "action": "retry"})
        assert result["error"]["code"] == "nothing_to_retry"
        assert snapshot(root) == before


async def test_a_retry_does_not_show_the_model_its_own_half_reply(
    services: Services, instance: str, answer_with: Answer
) -> None:
    model = answer_with(ScriptedReply(("half a ",), error="provider.connection"), "whole")
    await say(services, "a")
    await play(services, {"instance_id": instance, "action": "retry"})
    assert [message["role"] for message in model.calls[1]] == ["system", "user"]


# --- the caller writes


async def test_the_caller_gets_the_prompt_and_brings_the_reply_in_another_process(
    services: Services, instance: str
) -> None:
    events, begun = await play(services, {"instance_id": instance, "user_input": "你好", "action": "begin"})
    assert (begun["status"], begun["turn"]) == ("awaiting_reply", 1)
    assert sent_words(begun["prompt"]["messages"]) == ["你好"]
    assert "角色初始人格" in begun["prompt"]["system"]
    assert [event["type"] for event in events] == ["awaiting_reply"]
    elsewhere = open_services(services.settings)
    elsewhere.__dict__["library"] = services.library
    events, ended = await play(
        elsewhere,
        {"instance_id": instance, "action": "end", "turn": 1, "caller_reply": "嗯。[PROGRESS:1:in_progress]"},
    )
    assert (ended["status"], ended["plot_state"]["current_status"]) == ("done", "in_progress")
    assert [event["type"] for event in events] == ["token", "done"]
    assert lines(services)[-1]["content"] == "嗯。[PROGRESS:1:in_progress]"


async def test_the_same_reply_twice_is_harmless_and_another_one_an_error(
    services: Services, root: Path, instance: str
) -> None:
    await play(services, {"instance_id": instance, "user_input": "你好", "action": "begin"})
    await play(services, {"instance_id": instance, "action": "end", "turn": 1, "caller_reply": "嗯。"})
    before = snapshot(root)
    events, again = await play(
        services, {"instance_id": instance, "action": "end", "turn": 1, "caller_reply": "嗯。"}
    )
    assert (again["status"], again["reply"], events[-1]["type"]) == ("done", "嗯。", "done")
    _, other = await play(
        services, {"instance_id": instance, "action": "end", "turn": 1, "caller_reply": "不。"}
    )
    assert other["error"]["code"] == "already_answered"
    _, ahead = await play(
        services, {"instance_id": instance, "action": "end", "turn": 9, "caller_reply": "嗯。"}
    )
    assert ahead["error"]["code"] == "nothing_pending"
    _, blank = await play(
        services, {"instance_id": instance, "action": "end", "turn": 1, "caller_reply": " "}
    )
    assert blank["error"]["code"] == "blank_reply"
    assert snapshot(root) == before


async def test_a_turn_begun_for_the_caller_can_also_be_answered_by_the_model(
    services: Services, instance: str, answer_with: Answer
) -> None:
    answer_with("好。")
    await play(services, {"instance_id": instance, "user_input": "你好", "action": "begin"})
    _, result = await play(services, {"instance_id": instance, "action": "retry"})
    assert (result["turn"], result["reply"]) == (1, "好。")


async def test_an_unknown_action_is_refused(services: Services, instance: str) -> None:
    _, result = await play(services, {"instance_id": instance, "action": "sing", "user_input": "x"})  # pyright: ignore[reportArgumentType]
    assert result["error"]["code"] == "unknown_action"


# --- one writer


@pytest.mark.usefixtures("hurried")
async def test_a_second_writer_waits_and_then_learns_who_is_busy(
    services: Services, instance: str, answer_with: Answer
) -> None:
    answer_with(SLOW)
    first = asyncio.create_task(say(services, "one"))
    await _until(lambda: "three" in str(services.stories.session(instance, "sess_001").torn))
    _, second = await say(services, "two")
    assert (second["error"]["code"], second["error"]["retryable"]) == ("busy", True)
    assert str(os.getpid()) in second["error"]["message"]
    assert services.stories.session(instance, "sess_001").view().turns[-1].last_reply is not None
    await services.leases.stop(instance)
    await first
    assert [line.get("turn") for line in lines(services)[1:]] == [1, 1]


async def test_turns_of_many_callers_never_interleave(
    services: Services, instance: str, answer_with: Answer
) -> None:
    answer_with(*[f"reply {n} " * 5 for n in range(12)])
    results = await asyncio.gather(*(say(services, f"input {n}") for n in range(12)))
    done = [result for _, result in results if result["status"] == "done"]
    found = lines(services)[1:]
    assert [(line["role"], line["turn"]) for line in found] == [
        (role, n + 1) for n in range(len(done)) for role in ("user", "assistant")
    ]
    assert len(done) == 12


async def test_stop_says_when_nothing_is_running(services: Services, instance: str) -> None:
    with pytest.raises(NotFound) as caught:
        await services.leases.stop(instance)
    assert caught.value.code == "nothing_running"


async def test_a_stop_before_the_first_token_leaves_an_empty_interrupted_line(
    services: Services, instance: str, answer_with: Answer
) -> None:
    answer_with(ScriptedReply(hang=True), "好。")
    running = asyncio.create_task(say(services, "one"))
    await _until(lambda: services.stories.session(instance, "sess_001").transcript.turns)
    await services.leases.stop(instance)
    _, result = await running
    last = lines(services)[-1]
    assert (last["content"], last["interrupted"], last["empty"]) == ("(无回复)", True, True)
    assert result["status"] == "interrupted"
    assert plot(services)["no_update_count"] == 1


# --- leaving early


async def _until(found: Callable[[], object]) -> None:
    with anyio.fail_after(60):
        while not found():
            await asyncio.sleep(0.01)


def _stream(services: Services, instance: str, *, direct: bool) -> AsyncGenerator[Any]:
    """Stream a turn from the graph itself, or as the entrances do."""
    turn: TurnInput = {"instance_id": instance, "user_input": "x"}
    if direct:
        return build_chat_turn(services).compile().astream(turn, stream_mode="custom")
    return stream_turn(services, turn)


def _three_tokens(services: Services, instance: str) -> bool:
    return b"three" in services.stories.session(instance, "sess_001").torn


async def _is_closed_as_interrupted(services: Services, instance: str) -> None:
    last = lines(services)[-1]
    assert (last["content"], last.get("interrupted")) == ("one two three ", True)
    assert plot(services)["no_update_count"] == 1
    await switch_background(services, instance, None)


@pytest.mark.parametrize("direct", [True, False])
async def test_cancelling_the_task_closes_the_line(
    services: Services, instance: str, answer_with: Answer, direct: bool
) -> None:
    answer_with(SLOW)

    async def consume() -> None:
        async for _ in _stream(services, instance, direct=direct):
            pass

    task = asyncio.create_task(consume())
    await _until(lambda: _three_tokens(services, instance))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await _is_closed_as_interrupted(services, instance)


@pytest.mark.parametrize("direct", [True, False])
async def test_closing_the_generator_closes_the_line(
    services: Services, instance: str, answer_with: Answer, direct: bool
) -> None:
    answer_with(SLOW)
    stream = _stream(services, instance, direct=direct)
    async with aclosing(stream) as events:
        async for event in events:
            if "three" in event.get("text", ""):
                break
    await _is_closed_as_interrupted(services, instance)


@pytest.mark.parametrize("direct", [True, False])
async def test_cancelling_an_anyio_scope_closes_the_line(
    services: Services, instance: str, answer_with: Answer, direct: bool
) -> None:
    answer_with(SLOW)
    stream = _stream(services, instance, direct=direct)
    with anyio.CancelScope() as scope:
        async for event in stream:
            if "three" in event.get("text", ""):
                scope.cancel()
    await _is_closed_as_interrupted(services, instance)


async def test_cancelling_twice_still_closes_the_line(
    services: Services, instance: str, answer_with: Answer
) -> None:
    answer_with(SLOW)
    task = asyncio.create_task(say(services, "x"))
    await _until(lambda: _three_tokens(services, instance))
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await _until(lambda: lines(services)[-1].get("interrupted"))
    await _until(lambda: plot(services)["no_update_count"] == 1)
    await _is_closed_as_interrupted(services, instance)


async def test_no_token_reaches_any_stream_mode_before_the_file_has_it(
    services: Services, instance: str, answer_with: Answer
) -> None:
    answer_with("one two three four")
    path = services.stories.session_path(instance, "sess_001")
    seen = ""
    graph = build_chat_turn(services).compile()
    async for part in graph.astream(
        {"instance_id": instance, "user_input": "x"},
        stream_mode=["custom", "messages", "updates"],
        version="v2",
    ):
        assert part["type"] != "messages"
        if part["type"] == "custom" and part["data"]["type"] == "token":
            seen += part["data"]["text"]
            assert seen.encode() in path.read_bytes()
    assert seen == "one two three four"


async def test_in_fsync_mode_the_same_tokens_arrive(
    services: Services, instance: str, answer_with: Answer
) -> None:
    services.preferences.change({"durability": "fsync"})
    answer_with(ScriptedReply(tuple("abcdefghij"), delay=0.01))
    events, result = await say(services, "x")
    assert "".join(event["text"] for event in only(events, "token")) == "abcdefghij"
    assert (result["reply"], result["status"]) == ("abcdefghij", "done")


async def test_usage_is_returned(services: Services, instance: str, answer_with: Answer) -> None:
    usage = {"input_tokens": 10, "output_tokens": 2, "cached_tokens": 8}
    answer_with(ScriptedReply(("hi",), usage=usage))  # pyright: ignore[reportArgumentType]
    events, result = await say(services, "x")
    assert (result["usage"], events[-1]["usage"]) == (usage, usage)


async def test_a_turn_whose_run_ended_is_opened_again_where_it_stands(
    services: Services, instance: str
) -> None:
    async with lease_scope():
        turn = await services.turns.begin(instance, "test", lambda opened: opened.say("x", "t"))
    assert turn.lease.released
    async with services.turns.step(turn.lease.lease_id, instance, 1, closed=False) as again:
        assert again.number == 1
        assert again.data.background.background_id == "bg_wasteland"
    await again.lease.release()
