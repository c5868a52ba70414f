"""A character learns from its story about its player, once, on every adapter; in the end by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from graph.memorize import learn_story
from graph.summarize import stream_summary
from graph.update_memory import stream_update
from nodes.update_memory import UpdateInput
from personalab.errors import StorageError
from personalab.operations.learning import MOST_TRIES, MOST_TURNS, TOGETHER, unlearned
from personalab.operations.memory import forget_memory, get_memory, undo_change
from personalab.operations.summaries import undo_summary
from personalab.services import Services
from personalab.story.transcript import AssistantLine, UserLine
from personalab.testing.scripted import ScriptedModel, ScriptedReply
from tests.support.contract.worlds import NOW, SESSION, STORY, StoryWorld
from tests.support.graph.obliging import EVOLVED, Obliging
from tests.support.graph.turns import only, play, say

pytestmark = pytest.mark.anyio
Answer = Callable[..., ScriptedModel]
AGENT, PLAYER = "char_alserqi", "player"


@pytest.fixture
def services(world: StoryWorld) -> Services:
    """Services of one process; characters remember their player."""
    world.change_settings(remembers=True)
    return world.open_services()


@pytest.fixture
def instance(services: Services) -> str:
    """The story of this world."""
    return STORY


@pytest.fixture
def obliging(services: Services) -> Obliging:
    """A model that learns whatever it is shown."""
    model = Obliging()
    services.models["rehearsal"] = model  # pyright: ignore[reportArgumentType] (it is one)
    return model


async def _events(services: Services) -> list[str]:
    return (await get_memory(services, AGENT, PLAYER)).texts("event")


async def test_turns_are_learned_from_once_whatever_their_session(
    world: StoryWorld, services: Services, instance: str, obliging: Obliging
) -> None:
    world.change_settings(summary_last_n_turns=2)
    for number in range(1, 4):
        await say(services, f"第{number}句")
    assert (await learn_story(services, instance, model=None)).turns == 3
    assert (await learn_story(services, instance, model=None)).turns == 0
    await say(services, "第4句")
    async for _ in stream_summary(services, {"instance_id": instance}):
        pass
    await say(services, "第5句")
    found = await unlearned(services, instance, PLAYER)
    said = [message.content for talk in found.conversations for message in talk.messages[::2]]
    assert said == ["第4句", "第5句"]
    assert [talk.story.session_id for talk in found.conversations if talk.story] == ["sess_001", "sess_002"]
    assert (await learn_story(services, instance, model=None)).turns == 2
    await undo_summary(services, instance)
    assert (await learn_story(services, instance, model=None)).turns == 0
    assert await _events(services) == ["用户说过第1句", "用户说过第4句", "用户说过第5句"]


async def test_many_turns_are_learned_in_pieces_without_the_oldest(
    world: StoryWorld, services: Services, instance: str, answer_with: Answer
) -> None:
    for number in range(1, MOST_TURNS + 31):
        world.append(SESSION, UserLine(f"第{number}句", number, NOW), AssistantLine("好。", number, NOW))
    found = await unlearned(services, instance, PLAYER)
    assert (found.turns, found.left_out) == (MOST_TURNS, 30)
    assert max(len(talk.messages) for talk in found.conversations) == 2 * TOGETHER


async def test_what_failed_is_tried_again_next_time(
    services: Services, instance: str, answer_with: Answer, obliging: Obliging
) -> None:
    await say(services, "我叫小林")
    answer_with()
    learned = await learn_story(services, instance, model=None)
    assert learned.error is not None
    assert await _events(services) == []
    services.models["rehearsal"] = obliging  # pyright: ignore[reportArgumentType] (it is one)
    await say(services, "我是医生")
    learned = await learn_story(services, instance, model=None)
    assert (learned.error, learned.turns) == (None, 2)
    assert await _events(services) == ["用户说过我叫小林", "用户说过我是医生"]


async def test_what_was_forgotten_is_not_learned_from_the_same_turns_again(
    services: Services, instance: str, obliging: Obliging
) -> None:
    await say(services, "我叫小林")
    await learn_story(services, instance, model=None)
    await forget_memory(services, AGENT, PLAYER)
    await say(services, "我是医生")
    await learn_story(services, instance, model=None)
    assert await _events(services) == ["用户说过我是医生"]


async def test_a_session_that_takes_the_name_of_an_undone_one_is_learned_from(
    services: Services, instance: str, obliging: Obliging
) -> None:
    clock = iter(range(60))
    services.now = lambda: f"2025-10-16T10:30:{next(clock):02}Z"
    await say(services, "第0句")
    await say(services, "第1句")
    async for _ in stream_summary(services, {"instance_id": instance}):
        pass
    await say(services, "第2句")
    await learn_story(services, instance, model=None)
    await undo_summary(services, instance)
    await say(services, "第3句")
    async for _ in stream_summary(services, {"instance_id": instance}):
        pass
    await say(services, "第4句")
    found = await unlearned(services, instance, PLAYER)
    said = [message.content for talk in found.conversations for message in talk.messages[::2]]
    assert said == ["第3句", "第4句"]


async def test_a_turn_answered_after_the_summary_is_learned_and_failed_ones_mislead_nobody(
    services: Services, instance: str, obliging: Obliging, answer_with: Answer
) -> None:
    for number in range(1, 4):
        await say(services, f"第{number}句")
    answer_with(ScriptedReply(error="provider.failed"))
    await say(services, "失败的一句")
    services.models["rehearsal"] = obliging  # pyright: ignore[reportArgumentType] (it is one)
    await say(services, "第5句")
    answer_with(ScriptedReply(error="provider.failed"))
    await say(services, "我叫林小雨")
    services.models["rehearsal"] = obliging  # pyright: ignore[reportArgumentType] (it is one)
    assert (await unlearned(services, instance, PLAYER)).turns == 4
    await learn_story(services, instance, model=None)
    async for _ in stream_summary(services, {"instance_id": instance}):
        pass
    assert (await unlearned(services, instance, PLAYER)).turns == 0
    await play(services, {"instance_id": instance, "action": "retry"})
    found = await unlearned(services, instance, PLAYER)
    assert [talk.messages[0].content for talk in found.conversations] == ["我叫林小雨"]


async def test_a_reply_that_is_not_whole_yet_is_left_for_later(
    services: Services, instance: str, answer_with: Answer, obliging: Obliging
) -> None:
    answer_with(ScriptedReply(("半句",), error="provider.failed"))
    await say(services, "我叫小林")
    assert (await unlearned(services, instance, PLAYER)).turns == 0
    services.models["rehearsal"] = obliging  # pyright: ignore[reportArgumentType] (it is one)
    await play(services, {"instance_id": instance, "action": "retry"})
    assert (await unlearned(services, instance, PLAYER)).turns == 1


async def test_two_who_learn_at_once_learn_once(
    services: Services, instance: str, obliging: Obliging
) -> None:
    for number in range(1, 4):
        await say(services, f"第{number}句")
    learned = await asyncio.gather(*(learn_story(services, instance, model=None) for _ in range(3)))
    assert sorted(each.turns for each in learned) == [0, 0, 3]
    assert obliging.questions == 1
    assert await _events(services) == ["用户说过第1句"]


async def test_two_processes_that_learn_at_once_learn_once(
    world: StoryWorld, services: Services, instance: str, obliging: Obliging
) -> None:
    for number in range(1, 4):
        await say(services, f"第{number}句")
    others = [services, world.open_services(), world.open_services()]
    for other in others:
        other.models["rehearsal"] = obliging  # pyright: ignore[reportArgumentType] (it is one)
    learned = await asyncio.gather(*(learn_story(other, instance, model=None) for other in others))
    assert sorted(each.turns for each in learned) == [0, 0, 3]
    assert obliging.questions == 1
    for other in others:
        await other.close()


async def test_failed_operation_ends_learning_and_the_next_try_learns_once(
    world: StoryWorld, services: Services, instance: str, obliging: Obliging
) -> None:
    await say(services, "我叫小林")
    for operation in ("transcript", "preferences", "instance"):
        if world.fail(operation):
            with pytest.raises(StorageError):
                await learn_story(services, instance, model=None)
    assert (await learn_story(services, instance, model=None)).turns == 1
    assert await _events(services) == ["用户说过我叫小林"]


async def test_a_conversation_no_answer_fits_holds_up_no_other_and_is_given_up(
    services: Services, instance: str, obliging: Obliging
) -> None:
    obliging.refuses = "难懂的话"
    await say(services, "难懂的话")
    for _ in range(MOST_TRIES):
        assert (await learn_story(services, instance, model=None)).error is not None
    assert (await unlearned(services, instance, PLAYER)).turns == 0
    await say(services, "我是医生")
    assert (await learn_story(services, instance, model=None)).error is None
    assert await _events(services) == ["用户说过我是医生"]
    talks = await services.memories.conversations(AGENT, PLAYER)
    assert [talk.is_learned for talk in talks] == [True, False]


# --- with the persona


async def _grown(services: Services, **call: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    events: list[dict[str, Any]] = []
    result: dict[str, Any] = {}
    async for part in stream_update(services, cast("UpdateInput", {"instance_id": "inst_001", **call})):
        if "type" in part:
            events.append(dict(part))
        else:
            result = dict(part)
    return events, result


async def test_update_grows_the_persona_and_learns_about_the_player(
    services: Services, instance: str, obliging: Obliging
) -> None:
    await say(services, "我叫小林")
    _, shown = await _grown(services, dry_run=True)
    assert (shown["status"], shown["memory"]["turns"]) == ("preview", 1)
    assert obliging.questions == 0
    _, result = await _grown(services)
    assert (result["status"], result["evolved_persona"]) == ("done", "学会了信任。")
    assert result["memory"]["turns"] == 1
    assert [step["verb"] for step in result["memory"]["steps"]] == ["add"]
    assert await _events(services) == ["用户说过我叫小林"]
    _, again = await _grown(services)
    assert (again["status"], again["memory"]["turns"]) == ("unchanged", 0)
    assert await _events(services) == ["用户说过我叫小林"]


async def test_persona_grows_where_nothing_can_be_learned(
    world: StoryWorld, services: Services, instance: str, answer_with: Answer
) -> None:
    answer_with("好。", EVOLVED)
    await say(services, "我叫小林")
    events, result = await _grown(services)
    assert (result["status"], result["evolved_persona"]) == ("done", "学会了信任。")
    assert [warning["category"] for warning in only(events, "warning")] == ["memory_not_learned"]
    assert only(events, "error") == []
    character = await world.open_process().stories.character_state(STORY)
    assert character.evolved_persona == "学会了信任。"


# --- by itself


async def test_nothing_is_done_by_itself_unless_it_was_switched_on(
    services: Services, instance: str, obliging: Obliging
) -> None:
    events, result = await say(services, "我叫小林")
    assert only(events, "care") == []
    assert obliging.questions == 0
    assert not result.get("care")


async def test_character_learns_by_itself_and_it_can_be_undone(
    world: StoryWorld, services: Services, instance: str, obliging: Obliging
) -> None:
    world.change_settings(auto_memorize_turns=2)
    events, _ = await say(services, "我叫小林")
    assert only(events, "care") == []
    events, result = await say(services, "我是医生")
    assert [event["status"] for event in only(events, "care")] == ["begun", "done"]
    assert result["care"][0]["task"] == "memorize"
    assert "memory undo char_alserqi" in result["care"][0]["message"]
    assert (result["status"], result["reply"]) == ("done", "好。")
    assert await _events(services) == ["用户说过我叫小林"]
    await undo_change(services, AGENT, PLAYER)
    assert await _events(services) == []
    events, _ = await say(services, "再说一句")
    assert only(events, "care") == []


async def test_long_session_is_summarized_by_itself_and_it_can_be_undone(
    world: StoryWorld, services: Services, instance: str, obliging: Obliging
) -> None:
    world.change_settings(auto_summarize=True, middle_section_warning_tokens=1_000)
    await say(services, "你好")
    events, result = await say(services, "沿着旧铁路往北走。" * 200)
    assert [event["status"] for event in only(events, "care")] == ["begun", "done"]
    assert "summarize inst_001 --undo" in result["care"][0]["message"]
    assert (await world.open_process().stories.instance(STORY)).current_session_id == "sess_002"
    await undo_summary(services, instance)
    assert (await world.open_process().stories.instance(STORY)).current_session_id == "sess_001"


async def test_care_that_fails_is_reported_and_the_turn_is_whole(
    world: StoryWorld, services: Services, instance: str, answer_with: Answer
) -> None:
    world.change_settings(auto_memorize_turns=1)
    answer_with("好。")
    events, result = await say(services, "我叫小林")
    assert (result["status"], result["reply"]) == ("done", "好。")
    assert [event["status"] for event in only(events, "care")] == ["begun", "error"]
    assert only(events, "error") == []
