"""A character grows by the last turns, whole or not at all, on every adapter."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, cast

import pytest

from graph.update_memory import build_update_memory, stream_update
from nodes.update_memory import UpdateInput
from personalab.dialogue import Message
from personalab.errors import UserError
from personalab.operations.personas import persona_history, undo_persona
from personalab.ports import HeldLock, ReplyChunk
from personalab.services import Services
from personalab.story.records import CharacterState
from personalab.story.transcript import UserLine
from personalab.testing.scripted import ScriptedModel, ScriptedReply
from tests.conftest import NOW
from tests.support.contract.worlds import EXAMPLE_SESSION, STORY, StoryWorld
from tests.support.graph.turns import Events, only, say

pytestmark = pytest.mark.anyio
Answer = Callable[..., ScriptedModel]
STEPS = ("evolve_persona", "memorize_turns", "save_persona")
BEFORE = "经历背叛后变得多疑，不再轻易相信他人..."
BASE = "Alserqi，废土黑帮老大，曾经掌控北区，被心腹背叛..."
FIRST = "经历背叛后变得多疑。但愿意为玩家等待时机。"
SECOND = "经历背叛后变得多疑。把玩家当作唯一的同伴。"


def _answer(text: str = FIRST, *turns: int, change: str = "学会了等待") -> str:
    changes = [{"change": change, "turns": list(turns or (40, 41))}]
    return json.dumps({"evolved_persona": text, "changes": changes}, ensure_ascii=False)


async def _update(services: Services, **given: Any) -> tuple[Events, dict[str, Any]]:
    events: Events = []
    result: dict[str, Any] = {}
    async for part in stream_update(services, cast("UpdateInput", {"instance_id": STORY, **given})):
        if "type" in part:
            events.append(dict(part))
        else:
            result = dict(part)
    return events, result


@pytest.fixture
def services(world: StoryWorld) -> Services:
    """Services of one process; what is learned about the player has tests of its own."""
    world.change_settings(remembers=False)
    return world.open_services()


@pytest.fixture
def example(world: StoryWorld, services: Services) -> Services:
    """The worked example: 41 turns in sess_003, and a persona that has grown already."""
    world.lay_out_example()
    return services


async def _character(world: StoryWorld) -> CharacterState:
    """Read who the character is as another process does."""
    return await world.open_process().stories.character_state(STORY)


async def test_last_turns_change_who_the_character_is(
    world: StoryWorld, example: Services, answer_with: Answer
) -> None:
    before = await _character(world)
    model = answer_with(_answer())
    events, result = await _update(example)
    assert (result["status"], result["revision"], result["turns"]) == ("done", 1, [22, 41])
    assert (result["before"], result["evolved_persona"]) == (BEFORE, FIRST)
    assert result["changes"] == [{"change": "学会了等待", "turns": [40, 41]}]
    assert [part["op"] for part in result["diff"]] == ["remove", "add", "add"]
    assert [(event["done"], event["total"]) for event in only(events, "progress")] == [(0, 1), (1, 1)]
    asked = model.calls[0][-1]["content"]
    assert "第21个问题" not in asked
    for text in (BASE, BEFORE, "第22个问题"):
        assert text in asked
    after = await _character(world)
    assert (before.base_persona, after.base_persona, after.evolved_persona) == (BASE, BASE, FIRST)
    history = await persona_history(world.open_services(), STORY)
    [revision] = history["revisions"]
    assert (revision["before"], revision["after"], revision["session_id"]) == (BEFORE, FIRST, EXAMPLE_SESSION)
    assert (revision["turns"], revision["model"], revision["time"]) == ([22, 41], "scripted", NOW)


async def test_next_turn_is_played_by_who_the_character_has_become(
    example: Services, answer_with: Answer
) -> None:
    model = answer_with(_answer(), "好。")
    await _update(example)
    await say(example, "走吧")
    assert FIRST in model.calls[-1][0]["content"]
    assert BEFORE not in model.calls[-1][0]["content"]


@pytest.mark.parametrize("step", STEPS)
async def test_run_abandoned_before_any_step_leaves_the_old_persona(
    world: StoryWorld, example: Services, answer_with: Answer, step: str
) -> None:
    answer_with(_answer(), _answer(SECOND))
    before = world.dump()
    graph = build_update_memory(example).compile(interrupt_before=[step])
    await graph.ainvoke({"instance_id": STORY})
    assert world.dump() == before
    if step == "evolve_persona":
        answer_with(_answer(SECOND))
    _, result = await _update(example)
    assert (result["status"], result["revision"]) == ("done", 1)
    found = await persona_history(example, STORY)
    assert [row["after"] for row in found["revisions"]] == [SECOND]
    assert (found["evolved_persona"], found["withdrawn"]) == (SECOND, [])


@pytest.mark.parametrize(
    "bad",
    [
        "I'm sorry, I cannot do that.",
        '{"evolved_persona": "一',
        "",
        _answer(""),
        _answer(FIRST, 99),
        _answer(FIRST, 21),
        json.dumps({"evolved_persona": FIRST, "changes": []}),
        json.dumps({"evolved_persona": FIRST, "changes": [{"change": "变了", "turns": [41]}] * 200}),
        _answer("He has learned to wait."),
        _answer("很抱歉，我不能继续这个故事。"),
        _answer("多疑。对玩家的信任度从 20 升到 80。"),
        _answer("多疑，信任 80%。"),
        _answer(FIRST, change="好感 +5"),
        _answer(BASE),
    ],
)
async def test_unusable_answer_is_requested_once_more_and_then_refused(
    world: StoryWorld, example: Services, answer_with: Answer, bad: str
) -> None:
    before = world.dump()
    model = answer_with(bad, bad, bad, _answer())
    events, result = await _update(example)
    assert result["status"] == "error"
    assert only(events, "error")[0]["code"] == "provider.bad_persona"
    assert len(model.calls) == 2
    assert world.dump() == before
    _, mended = await _update(example)
    assert mended["status"] == "done"
    assert "不能用" in model.calls[3][-1]["content"]


async def test_preview_shows_the_change_and_writes_nothing(
    world: StoryWorld, example: Services, answer_with: Answer
) -> None:
    answer_with(_answer())
    before = world.dump()
    _, result = await _update(example, dry_run=True)
    assert (result["status"], result["evolved_persona"], result["revision"]) == ("preview", FIRST, 0)
    assert result["changes"]
    assert result["diff"]
    assert world.dump() == before


async def test_nothing_is_written_where_nothing_has_changed(
    world: StoryWorld, example: Services, answer_with: Answer
) -> None:
    answer_with(json.dumps({"evolved_persona": BEFORE, "changes": []}, ensure_ascii=False))
    before = world.dump()
    _, result = await _update(example)
    assert (result["status"], result["evolved_persona"], result["revision"]) == ("unchanged", BEFORE, 0)
    assert [part["op"] for part in result["diff"]] == ["same"] * len(result["diff"])
    assert world.dump() == before


async def test_changes_can_be_undone_one_by_one(
    world: StoryWorld, example: Services, answer_with: Answer
) -> None:
    answer_with(_answer(), _answer(SECOND), _answer(SECOND))
    await _update(example)
    await _update(example)
    assert (await undo_persona(example, STORY)).evolved_persona == FIRST
    assert (await undo_persona(example, STORY)).evolved_persona == BEFORE
    with pytest.raises(UserError) as caught:
        await undo_persona(example, STORY)
    assert caught.value.code == "no_growth_to_undo"
    _, result = await _update(example)
    assert (result["before"], result["revision"]) == (BEFORE, 1)
    found = await persona_history(example, STORY)
    assert [row["after"] for row in found["withdrawn"]] == [FIRST, SECOND]
    assert (await _character(world)).base_persona == BASE


class Meddling(ScriptedModel):
    """Answers after something else has happened."""

    def __init__(self, happens: Callable[[], Any], answer: str) -> None:
        super().__init__([answer])
        self._happens = happens

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        await self._happens()
        async for chunk in super().stream(messages):
            yield chunk


async def test_story_that_continued_meanwhile_is_not_judged_by_its_past(
    world: StoryWorld, example: Services
) -> None:
    async def play() -> None:
        world.append(EXAMPLE_SESSION, UserLine("还有一件事", 42, NOW))

    example.models["rehearsal"] = Meddling(play, _answer())
    _, result = await _update(example)
    assert result["error"]["code"] == "session_went_on"
    assert (await _character(world)).evolved_persona == BEFORE


async def test_turn_and_update_take_turns(example: Services, answer_with: Answer) -> None:
    model = answer_with(ScriptedReply(tuple(_answer()), delay=0.005), "好。")
    update = asyncio.create_task(_update(example))
    while not model.calls:
        await asyncio.sleep(0)
    _, turn = await say(example, "还在吗")
    _, result = await update
    assert (result["status"], turn["status"], turn["turn"]) == ("done", "done", 42)


async def test_update_can_be_stopped_by_another_process(
    world: StoryWorld, example: Services, answer_with: Answer
) -> None:
    before = world.dump()
    model = answer_with(ScriptedReply(("{",) * 9, hang=True))
    update = asyncio.create_task(_update(example))
    while not model.calls:
        await asyncio.sleep(0)
    assert await world.open_services().leases.stop(STORY) == "update-memory"
    _, result = await update
    assert result["error"]["code"] == "work_stopped"
    assert world.dump() == before


async def test_cancelled_update_changes_nothing_and_leaves_no_lock(
    world: StoryWorld, example: Services, answer_with: Answer
) -> None:
    before = world.dump()
    model = answer_with(ScriptedReply(("{",) * 9, hang=True), _answer())
    update = asyncio.create_task(_update(example))
    while not model.calls:
        await asyncio.sleep(0)
    update.cancel()
    await asyncio.gather(update, return_exceptions=True)
    assert world.dump() == before
    _, result = await _update(example)
    assert result["status"] == "done"


async def test_writer_that_lost_its_lock_changes_nothing(world: StoryWorld, example: Services) -> None:
    if not world.can_lose_locks:
        return
    before = world.dump()
    following: list[HeldLock] = []

    async def lose_lock() -> None:
        world.end_lock()
        following.append(await world.open_process().lock.acquire(STORY, "say", wait=1))

    example.models["rehearsal"] = Meddling(lose_lock, _answer())
    _, result = await _update(example)
    assert (result["status"], result["error"]["code"]) == ("error", "lock_lost")
    assert world.dump() == before
    await following[0].release()


@pytest.mark.parametrize("operation", ["transcript", "persona", "save_persona", "preferences"])
async def test_failed_operation_leaves_the_old_persona(
    world: StoryWorld, example: Services, answer_with: Answer, operation: str
) -> None:
    answer_with(_answer(), _answer())
    before = world.dump()
    if world.fail(operation):
        _, result = await _update(example)
        assert (result["status"], result["error"]["code"]) == ("error", "disk_full")
        assert world.dump() == before
    _, result = await _update(example)
    assert result["status"] == "done"


async def test_there_must_be_something_to_learn_from(services: Services) -> None:
    _, result = await _update(services)
    assert result["error"]["code"] == "nothing_to_learn"
    _, result = await _update(services, instance_id="nope")
    assert result["error"]["code"] == "no_instance"
    _, result = await _update(services, instance_id="../x")
    assert result["error"]["code"] == "bad_id"


async def test_very_long_conversation_still_fits(
    world: StoryWorld, example: Services, answer_with: Answer
) -> None:
    world.change_settings(
        remembers=False,
        max_total_tokens=10_000,
        conversation_load_all=False,
        conversation_max_tokens=1_000,
    )
    for number in range(42, 45):
        answer_with("他点了点头，慢慢地走向废墟。" * 100)
        await say(example, f"第 {number} 句：" + "我们沿着旧铁路往北走。" * 100)
    model = answer_with(_answer(FIRST, 44))
    _, result = await _update(example)
    assert result["status"] == "done"
    counter = await example.counter()
    assert sum(counter.count(message["content"]) for message in model.calls[0]) <= 5_000
    assert "第44轮" in model.calls[0][-1]["content"]


async def test_with_no_model_the_rehearsal_notes_what_was_said(services: Services) -> None:
    for text in ("hello there", "I trust you 80%, +5, Level 3", "信任度 80%，好感 7/10"):
        await say(services, text)
    _, result = await _update(services)
    assert result["status"] == "done", result["error"]
    assert [change["turns"] for change in result["changes"]] == [[1], [3]]
    assert "hello there" in result["evolved_persona"]
    _, again = await _update(services)
    assert again["status"] == "unchanged"
    await say(services, "one more thing")
    _, more = await _update(services)
    assert (more["status"], more["revision"]) == ("done", 2)
    assert "one more thing" in more["evolved_persona"]
    assert more["evolved_persona"].count("hello there") == 1
