"""A chat turn on every adapter: in memory nothing may touch the disk, for the data root cannot be created."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import anyio
import pytest

from graph.chat_turn import stream_turn
from graph.preview import preview_prompt
from nodes.chat_turn.state import TurnInput
from personalab.dialogue import Message
from personalab.errors import ProviderError
from personalab.ports import ReplyChunk
from personalab.services import Services
from personalab.story.transcript import Turn, UserLine
from personalab.testing.scripted import ScriptedModel, ScriptedReply
from tests.support.contract.worlds import NOW, SESSION, STORY, StoryWorld
from tests.support.graph.turns import only, play, say

pytestmark = pytest.mark.anyio

SLOW = ScriptedReply(("one ", "two ", "three "), hang=True)


@pytest.fixture
def services(world: StoryWorld) -> Services:
    """Services of one process."""
    return world.open_services()


def answer(services: Services, *replies: str | ScriptedReply) -> ScriptedModel:
    """Let a scripted model answer."""
    model = services.models[services.settings.model] = ScriptedModel(list(replies))
    return model


async def turns(world: StoryWorld) -> list[Turn]:
    """Read the session as another process does."""
    found = await world.open_process().sessions.transcript(STORY, SESSION, open_reply=True)
    return found.turns


async def contents(world: StoryWorld) -> list[tuple[str | None, list[str]]]:
    """Read what was said and replied."""
    return [
        (turn.user and turn.user.content, [reply.content for reply in turn.replies])
        for turn in await turns(world)
    ]


async def no_update_count(world: StoryWorld) -> int:
    """Read how many turns the plot has not moved on."""
    return (await world.open_process().stories.instance(STORY)).plot_state.no_update_count


async def until_shown(world: StoryWorld, text: str) -> None:
    """Wait until another process can read a piece of a reply."""
    with anyio.fail_after(60):
        while not any(text in said for _, replies in await contents(world) for said in replies):
            await asyncio.sleep(0.01)


async def test_turn_is_stored_and_its_marker_followed(world: StoryWorld, services: Services) -> None:
    answer(services, "好。[PROGRESS:2:in_progress]", "走吧。")
    events, result = await say(services, "在吗")
    assert (result["status"], result.get("error")) == ("done", None)
    assert "".join(event["text"] for event in only(events, "token")) == "好。[PROGRESS:2:in_progress]"
    assert result["plot_state"]["current_plot_index"] == 2
    state = await world.open_process().stories.instance(STORY)
    assert state.plot_state.fields() == result["plot_state"]
    await say(services, "走")
    assert await contents(world) == [("在吗", ["好。[PROGRESS:2:in_progress]"]), ("走", ["走吧。"])]
    assert await no_update_count(world) == 1


@pytest.mark.parametrize("error", [None, "provider.connection"])
async def test_token_is_durable_before_it_is_shown(
    world: StoryWorld, services: Services, error: str | None
) -> None:
    answer(services, ScriptedReply(tuple("abcdefgh"), delay=0.005, error=error))
    shown = ""
    async for event in stream_turn(services, {"instance_id": STORY, "user_input": "x"}):
        if event.get("type") == "token":
            shown += str(event.get("text"))
            [(_, [stored])] = await contents(world)
            assert stored.startswith(shown)
    assert shown.startswith("abcdefgh")
    assert (len(shown) > 8) is (error is not None)


async def test_retry_answers_the_same_turn(world: StoryWorld, services: Services) -> None:
    answer(services, ScriptedReply(error="provider.connection"), "好。")
    _, failed = await say(services, "在吗")
    assert failed["status"] == "error"
    _, result = await play(services, {"instance_id": STORY, "action": "retry"})
    assert (result["status"], result["turn"], result["attempt"]) == ("done", 1, 2)
    [(said, replies)] = await contents(world)
    assert (said, replies[-1], len(replies)) == ("在吗", "好。", 2)


async def test_caller_writes_the_reply(world: StoryWorld, services: Services) -> None:
    begin: TurnInput = {"instance_id": STORY, "action": "begin", "user_input": "在吗", "hold_seconds": 60}
    _, begun = await play(services, begin)
    assert begun["status"] == "awaiting_reply"
    assert begun["prompt"]["messages"]
    assert await services.leases.held_turn(STORY) == 1
    end: TurnInput = {"instance_id": STORY, "action": "end", "turn": 1, "caller_reply": "在。"}
    for _ in range(2):
        _, result = await play(services, end)
        assert (result["status"], result["reply"]) == ("done", "在。")
    assert await services.leases.held_turn(STORY) is None
    assert await contents(world) == [("在吗", ["在。"])]


async def test_stop_keeps_what_was_shown(world: StoryWorld, services: Services) -> None:
    answer(services, SLOW)
    running = asyncio.create_task(say(services, "x"))
    await until_shown(world, "three")
    assert await world.open_services().leases.stop(STORY) == "say"
    events, result = await running
    assert (result["status"], result["reply"]) == ("interrupted", "one two three ")
    assert "".join(event["text"] for event in only(events, "token")) == "one two three "
    assert await no_update_count(world) == 1
    [turn] = await turns(world)
    assert turn.last_reply is not None
    assert (turn.last_reply.interrupted, turn.last_reply.closed) == (True, True)


@pytest.mark.parametrize("leave", ["cancel", "close", "scope"])
async def test_leaving_closes_the_reply_and_follows_it(
    world: StoryWorld, services: Services, leave: str
) -> None:
    answer(services, SLOW, "好。")
    stream = stream_turn(services, {"instance_id": STORY, "user_input": "x"})
    if leave == "close":
        async with aclosing(stream):
            await _take_token(stream)
    elif leave == "scope":
        with anyio.CancelScope() as scope:
            async with aclosing(stream):
                await _take_token(stream)
                scope.cancel()
                await _take_token(stream)
    else:
        task = asyncio.create_task(say(services, "x"))
        await until_shown(world, "one")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    [turn] = await turns(world)
    assert turn.last_reply is not None
    assert (turn.last_reply.interrupted, turn.last_reply.closed) == (True, True)
    assert await no_update_count(world) == 1
    _, result = await say(services, "y")
    assert result["status"] == "done"


async def _take_token(stream: AsyncIterator[Any]) -> None:
    async for event in stream:
        if event.get("type") == "token":
            return


async def test_empty_reply_is_asked_for_once_more(world: StoryWorld, services: Services) -> None:
    answer(services, " ", "[PROGRESS:1:completed]")
    _, result = await say(services, "x")
    assert result["status"] == "empty"
    assert await contents(world) == [("x", ["(无回复)", "(无回复)"])]


async def test_repeated_request_has_the_same_turn(world: StoryWorld, services: Services) -> None:
    model = answer(services, "好。", "never said")
    call: TurnInput = {"instance_id": STORY, "user_input": "x", "request_id": "r1"}
    results = [(await play(services, call))[1] for _ in range(2)]
    _, elsewhere = await play(world.open_services(), call)
    assert [(found["turn"], found["reply"]) for found in (*results, elsewhere)] == [(1, "好。")] * 3
    assert len(model.calls) == 1
    assert await contents(world) == [("x", ["好。"])]


async def test_second_process_is_busy(world: StoryWorld, services: Services) -> None:
    answer(services, SLOW)
    running = asyncio.create_task(say(services, "x"))
    await until_shown(world, "one")
    other = world.open_services()
    other.turns.wait = 0.05
    answer(other, "y")
    _, result = await say(other, "y")
    assert result["error"]["code"] == "busy"
    await other.leases.stop(STORY)
    await running
    assert [said for said, _ in await contents(world)] == ["x"]


async def test_next_process_repairs_what_a_dead_one_left(world: StoryWorld) -> None:
    ports = world.open_process()
    lock = await ports.lock.acquire(STORY, "say", wait=1)
    log = await ports.sessions.open(STORY, SESSION, lock)
    await log.append(UserLine("x", 1, NOW))
    log.begin_reply(1, NOW).write("half")
    await log.flush()
    world.end_process(lock)
    services = world.open_services()
    answer(services, "好。")
    events, result = await say(services, "y")
    assert result["status"] == "done"
    assert "session_repaired" in [event["category"] for event in only(events, "warning")]
    assert await contents(world) == [("x", ["half"]), ("y", ["好。"])]


@pytest.mark.parametrize("operation", ["flush", "append", "end_reply", "save_instance"])
async def test_failed_write_ends_the_turn_and_keeps_what_was_shown(
    world: StoryWorld, services: Services, operation: str
) -> None:
    answer(services, ScriptedReply(tuple("abcdefgh"), delay=0.01), "好。")
    if not world.fail(operation):
        return
    events, result = await say(services, "x")
    shown = "".join(event["text"] for event in only(events, "token"))
    stored = "".join(said for _, replies in await contents(world) for said in replies)
    assert stored.startswith(shown)
    if result["status"] == "done":  # this adapter never needs the operation
        assert (operation, stored) == ("flush", "abcdefgh")
    else:
        assert result["error"]["code"] == "disk_full"
    _, following = await say(services, "y")
    assert following["status"] == "done"


async def test_note_that_cannot_be_flushed_hides_no_error(world: StoryWorld, services: Services) -> None:
    class NoteFails(ScriptedModel):
        async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
            yield ReplyChunk("said")
            await asyncio.sleep(0.2)  # so that it is flushed
            world.fail("flush")
            raise ProviderError("provider.connection")

    services.models[services.settings.model] = NoteFails([])
    _, result = await say(services, "x")
    assert result["error"]["code"] == "provider.connection"
    [[reply]] = [turn.replies for turn in await turns(world)]
    assert (reply.error, reply.closed) == (True, True)
    assert reply.content.startswith("said")


async def test_second_try_continues_the_offsets(world: StoryWorld, services: Services) -> None:
    answer(services, ScriptedReply(("I think.", "\n</think>\n\n"), delay=0.1), "好。")
    events, result = await say(services, "x")
    assert (result["attempt"], result["reply"]) == (2, "好。")
    shown = 0
    for event in only(events, "token"):
        assert event["offset"] == shown
        shown += len(event["text"])


async def test_turn_opens_again_where_it_stands(world: StoryWorld, services: Services) -> None:
    turn = await services.turns.begin(STORY, "test", lambda opened: opened.say("x", NOW))
    await turn.lease.release()
    async with services.turns.step(turn.lease.lease_id, STORY, 1, closed=False) as found:
        assert found.number == 1
        assert found.data.background.story_outline
    await found.lease.release()


async def test_preview_writes_nothing(world: StoryWorld, services: Services) -> None:
    answer(services, "好。")
    await say(services, "x")
    held = await world.open_process().lock.acquire(STORY, "say", wait=1)
    found = await preview_prompt(services, STORY, "接着说")
    await held.release()
    assert found.turn == 2
    assert found.prompt.messages[-1]["content"].startswith("接着说")
    assert await contents(world) == [("x", ["好。"])]
