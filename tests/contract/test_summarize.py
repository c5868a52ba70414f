"""A long session becomes points and another session: whole, or not at all, on every adapter."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, cast

import pytest

from graph.summarize import build_summarize, stream_summary
from nodes.summarize import SummaryInput
from personalab.dialogue import Message
from personalab.errors import StorageError, UserError
from personalab.operations.summaries import undo_summary
from personalab.ports import HeldLock, ReplyChunk
from personalab.services import Services
from personalab.story.recall import RecallQuery
from personalab.story.records import InstanceState
from personalab.testing.in_memory import InMemoryLibrary
from personalab.testing.scripted import ScriptedModel, ScriptedReply
from tests.support.contract.worlds import STORY, StoryWorld
from tests.support.graph.turns import Events, only, say

pytestmark = pytest.mark.anyio
Answer = Callable[..., ScriptedModel]
STEPS = ("draft_points", "store_summary", "index_summary", "switch_session")


@pytest.fixture
def services(world: StoryWorld) -> Services:
    """Services of one process."""
    return world.open_services()


def _answer(*points: tuple[str, int, int]) -> str:
    told = [
        {"summary": f"{text}。", "plot": f"{text}的详细经过。", "turns": [first, last]}
        for text, first, last in points
    ]
    return json.dumps({"points": told}, ensure_ascii=False)


async def _summarize(services: Services, **given: Any) -> tuple[Events, dict[str, Any]]:
    events: Events = []
    result: dict[str, Any] = {}
    call = cast("SummaryInput", {"instance_id": "inst_001", **given})
    async for part in stream_summary(services, call):
        if "type" in part:
            events.append(dict(part))
        else:
            result = dict(part)
    return events, result


@pytest.fixture
def example(world: StoryWorld, services: Services) -> Services:
    """The worked example: 41 turns in sess_003."""
    world.lay_out_example()
    return services


async def _state(world: StoryWorld) -> InstanceState:
    """Read the story's state as another process does."""
    return await world.open_process().stories.instance(STORY)


POINTS = (("他们立下约定", 1, 12), ("他们潜入了据点", 13, 38), ("他们发现了 Victor", 39, 41))


@pytest.mark.parametrize("order", ["summary_first", "last_n_first"])
async def test_session_leads_to_the_next(
    world: StoryWorld, example: Services, answer_with: Answer, order: str
) -> None:
    world.change_settings(summary_order=order, summary_last_n_turns=3)
    answer_with(_answer(*POINTS))
    before = world.lines("sess_003")
    events, result = await _summarize(example)
    assert (result["status"], result["session_id"], result["new_session_id"]) == (
        "done",
        "sess_003",
        "sess_004",
    )
    assert [(event["done"], event["total"]) for event in only(events, "progress")] == [(0, 1), (1, 1)]
    assert (await _state(world)).current_session_id == "sess_004"
    assert world.lines("sess_003") == before
    fresh = world.lines("sess_004")
    assert fresh[0] == {
        "type": "metadata",
        "instance_id": "inst_001",
        "session_id": "sess_004",
        "created_at": "2025-10-16T10:30:00Z",
        "continued_from": "sess_003",
    }
    told = [line for line in fresh if line.get("type") == "summary"]
    said = [line for line in fresh if "role" in line]
    assert (fresh[1] == told[0]) == (order == "summary_first")
    assert [(line["content"], line["turns"]) for line in told] == [
        (f"{text}。", [first, last]) for text, first, last in POINTS
    ]
    assert [line["content"] for line in said] == [line["content"] for line in before[-6:]]
    assert [line["turn"] for line in said] == [1, 1, 2, 2, 3, 3]
    points = [(point.summary, point.first_turn, point.last_turn) for point in world.plot_points("sess_004")]
    assert points == [(f"{text}。", first, last) for text, first, last in POINTS]


async def test_story_continues_and_its_past_is_found(example: Services, answer_with: Answer) -> None:
    answer_with(_answer(*POINTS), "我记得。")
    await _summarize(example)
    _, result = await say(example, "接下来呢")
    assert (result["session_id"], result["turn"], result["reply"]) == ("sess_004", 6, "我记得。")
    model: Any = example.models["rehearsal"]
    assert "他们潜入了据点" in str(model.calls[-1])
    hits = await example.library.search(RecallQuery("潜入据点", ("summary", "plot"), 5, STORY))
    found = {hit.event.event_id: hit.event for hit in hits}
    summary = found["summary_inst_001_sess_003_2"]
    assert (summary.first_turn, summary.last_turn) == (13, 38)
    assert summary.related_id == "plot_inst_001_sess_003_2"
    assert found["plot_inst_001_sess_003_2"].related_id == "summary_inst_001_sess_003_2"


@pytest.mark.parametrize("step", STEPS)
async def test_run_abandoned_before_any_step_leaves_the_old_session(
    world: StoryWorld, example: Services, answer_with: Answer, step: str
) -> None:
    answer_with(_answer(*POINTS), _answer(*POINTS[:2]))
    state, before = await _state(world), world.lines("sess_003")
    graph = build_summarize(example).compile(interrupt_before=[step])
    await graph.ainvoke({"instance_id": STORY})
    assert (await _state(world), world.lines("sess_003")) == (state, before)
    if step == "draft_points":
        answer_with(_answer(*POINTS[:2]))
    _, result = await _summarize(example)
    assert (result["status"], result["new_session_id"]) == ("done", "sess_004")
    told = [line for line in world.lines("sess_004") if line.get("type") == "summary"]
    assert len(told) == 2
    assert len(await example.library.search(RecallQuery("他们", ("summary",), 10, STORY))) == 2


@pytest.mark.parametrize(
    "bad",
    [
        "I'm sorry, I cannot do that.",
        '{"points": [{"summary": "一',
        '{"points": []}',
        _answer(("他们出发", 1, 99)),
        _answer(*[("他们出发", 1, 2)] * 200),
        '{"points": [{"summary": "They left.", "plot": "They left at dawn.", "turns": [1, 2]}]}',
        "",
    ],
)
async def test_unusable_answer_is_requested_once_more_and_then_refused(
    world: StoryWorld, example: Services, answer_with: Answer, bad: str
) -> None:
    before = world.dump()
    model = answer_with(bad, bad, bad, _answer(*POINTS))
    events, result = await _summarize(example)
    assert result["status"] == "error"
    assert only(events, "error")[0]["code"] == "provider.bad_summary"
    assert len(model.calls) == 2
    assert world.dump() == before
    _, mended = await _summarize(example)
    assert mended["status"] == "done"
    assert "不能用" in model.calls[3][-1]["content"]


async def test_preview_shows_the_points_and_writes_nothing(
    world: StoryWorld, example: Services, answer_with: Answer
) -> None:
    answer_with(_answer(*POINTS))
    before = world.dump()
    _, result = await _summarize(example, dry_run=True)
    assert (result["status"], len(result["points"]), result["new_session_id"]) == ("preview", 3, "sess_004")
    assert world.dump() == before


class Teller:
    """Tells whatever piece it is shown in one point."""

    name = "teller"

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        self.asked.append(messages[-1]["content"])
        first, last = map(int, re.findall(r"（第 (\d+)–(\d+) 轮）", self.asked[-1])[0])
        yield ReplyChunk(_answer((f"第{first}到{last}轮的事", first, last)))


async def test_long_session_is_summarized_in_pieces_that_know_what_came_before(
    world: StoryWorld, example: Services, answer_with: Answer
) -> None:
    world.change_settings(max_total_tokens=10_000, conversation_load_all=False, conversation_max_tokens=1_000)
    for number in range(42, 48):
        answer_with("好。")
        await say(example, f"第 {number} 句：" + "我们沿着旧铁路往北走。" * 60)
    teller = Teller()
    example.models["rehearsal"] = teller
    events, result = await _summarize(example)
    assert result["status"] == "done"
    total = only(events, "progress")[-1]["total"]
    assert [event["done"] for event in only(events, "progress")] == list(range(total + 1))
    assert total == len(result["points"]) > 1
    covered = [turn for point in result["points"] for turn in range(point["turns"][0], point["turns"][1] + 1)]
    assert covered == list(range(1, 48))
    assert all(result["points"][0]["summary"] in asked for asked in teller.asked[1:])


async def test_summary_can_be_undone_and_what_was_played_since_is_kept(
    world: StoryWorld, example: Services, answer_with: Answer
) -> None:
    answer_with(_answer(*POINTS), "后来的话。", _answer(*POINTS[:1]))
    await _summarize(example)
    await say(example, "接着说")
    undone = await undo_summary(example, STORY)
    assert (undone.current_session_id, undone.turns) == ("sess_003", 1)
    assert "sess_004" in undone.aside
    assert (await _state(world)).current_session_id == "sess_003"
    with pytest.raises(StorageError):
        await world.open_process().sessions.transcript(STORY, "sess_004")
    assert not await example.library.search(RecallQuery("他们", ("summary", "plot"), 5, STORY))
    assert await example.library.search(RecallQuery("据点", ("turn",), 5, STORY))
    _, again = await _summarize(example)
    assert (again["status"], again["new_session_id"]) == ("done", "sess_004")
    assert len(world.plot_points("sess_004")) == 1


async def test_there_must_be_something_to_summarize_and_to_undo(services: Services) -> None:
    _, result = await _summarize(services)
    assert result["error"]["code"] == "nothing_to_summarize"
    with pytest.raises(UserError) as caught:
        await undo_summary(services, STORY)
    assert caught.value.code == "nothing_to_undo"
    _, result = await _summarize(services, instance_id="inst_404")
    assert result["error"]["code"] == "no_instance"


async def test_turns_that_were_taken_over_are_no_news(example: Services, answer_with: Answer) -> None:
    answer_with(_answer(*POINTS), "好。", _answer(("他们继续赶路", 6, 6)))
    await _summarize(example)
    _, result = await _summarize(example)
    assert result["error"]["code"] == "nothing_to_summarize"
    await say(example, "接着说")
    _, result = await _summarize(example)
    assert (result["status"], result["new_session_id"]) == ("done", "sess_005")


@pytest.mark.parametrize("operation", ["transcript", "create", "save_instance", "previous"])
async def test_failed_operation_leaves_the_old_session(
    world: StoryWorld, example: Services, answer_with: Answer, operation: str
) -> None:
    answer_with(_answer(*POINTS), _answer(*POINTS))
    state, before = await _state(world), world.lines("sess_003")
    if world.fail(operation):
        _, result = await _summarize(example)
        assert (result["status"], result["error"]["code"]) == ("error", "disk_full")
        assert (await _state(world), world.lines("sess_003")) == (state, before)
    _, result = await _summarize(example)
    assert result["status"] == "done"


@pytest.mark.parametrize("operation", ["save_instance", "set_aside"])
async def test_failed_undo_can_be_repeated(
    world: StoryWorld, example: Services, answer_with: Answer, operation: str
) -> None:
    answer_with(_answer(*POINTS))
    await _summarize(example)
    if world.fail(operation):
        with pytest.raises(StorageError):
            await undo_summary(example, STORY)
    if (await _state(world)).current_session_id == "sess_004":
        await undo_summary(example, STORY)
    assert (await _state(world)).current_session_id == "sess_003"
    with pytest.raises(UserError):
        await undo_summary(example, STORY)


class LosesLock(ScriptedModel):
    """Answers when the lock of its story has passed to another process."""

    def __init__(self, world: StoryWorld, answer: str) -> None:
        super().__init__([answer])
        self._world = world
        self.held: HeldLock | None = None

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        self._world.end_lock()
        self.held = await self._world.open_process().lock.acquire(STORY, "say", wait=1)
        async for chunk in super().stream(messages):
            yield chunk


async def test_writer_that_lost_its_lock_changes_nothing(world: StoryWorld, example: Services) -> None:
    if not world.can_lose_locks:
        return
    before = world.dump()
    model = example.models["rehearsal"] = LosesLock(world, _answer(*POINTS))
    _, result = await _summarize(example)
    assert (result["status"], result["error"]["code"]) == ("error", "lock_lost")
    assert world.dump() == before
    assert model.held is not None
    await model.held.release()


async def test_cancelled_summary_leaves_the_old_session_and_no_lock(
    world: StoryWorld, example: Services, answer_with: Answer
) -> None:
    model = answer_with(ScriptedReply((_answer(*POINTS)[:9],), hang=True), _answer(*POINTS))
    before = world.dump()
    running = asyncio.create_task(_summarize(example))
    while not model.calls:
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert world.dump() == before
    _, result = await _summarize(example)
    assert result["status"] == "done"


async def test_summary_can_be_stopped_by_another_process(
    world: StoryWorld, example: Services, answer_with: Answer
) -> None:
    model = answer_with(ScriptedReply(("{",) * 9, hang=True))
    before = world.dump()
    running = asyncio.create_task(_summarize(example))
    while not model.calls:
        await asyncio.sleep(0)
    assert await world.open_services().leases.stop(STORY) == "summarize"
    _, result = await running
    assert result["error"]["code"] == "summary_stopped"
    assert world.dump() == before


async def test_library_that_fails_does_not_stop_a_summary(example: Services, answer_with: Answer) -> None:
    class Broken(InMemoryLibrary):
        async def write(self, events: Any) -> None:
            raise RuntimeError("no disk")

    example.__dict__["library"] = Broken()
    answer_with(_answer(*POINTS))
    events, result = await _summarize(example)
    assert result["status"] == "done"
    assert [event["category"] for event in only(events, "warning")] == ["summary_not_indexed"]


async def test_with_no_model_the_rehearsal_quotes_the_session(services: Services) -> None:
    for number in range(7):
        await say(services, f"hello {number}")
    _, result = await _summarize(services)
    assert result["status"] == "done", result["error"]
    assert [point["turns"] for point in result["points"]] == [[1, 5], [6, 7]]
    assert "hello 0" in result["points"][0]["summary"]
