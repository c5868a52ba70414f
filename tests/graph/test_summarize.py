"""A long session becomes points and another session: whole, or not at all."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from graph.summarize import build_summarize, stream_summary
from nodes.summarize.state import SummaryInput
from personalab.dialogue import Message
from personalab.operations.instances import new_instance
from personalab.operations.reindex import reindex
from personalab.operations.summaries import undo_summary
from personalab.ports import ReplyChunk
from personalab.providers.scripted import ScriptedModel
from personalab.retrieval.in_memory import InMemoryLibrary
from personalab.services import Services
from personalab.story.recall import RecallQuery
from tests.graph.turns import Events, lines, only, say, snapshot
from tests.graph.worked_example import lay_out

pytestmark = pytest.mark.anyio
Answer = Callable[..., ScriptedModel]
STEPS = ("draft_points", "store_summary", "index_summary", "switch_session")


@pytest.fixture(autouse=True)
def _light_library(services: Services) -> None:  # pyright: ignore[reportUnusedFunction] (a fixture)
    services.__dict__["library"] = InMemoryLibrary()


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
def example(services: Services, root: Path) -> Services:
    """The worked example: 41 turns in sess_003."""
    lay_out(root)
    return services


POINTS = (("他们立下约定", 1, 12), ("他们潜入了据点", 13, 38), ("他们发现了 Victor", 39, 41))


@pytest.mark.parametrize("order", ["summary_first", "last_n_first"])
async def test_the_worked_examples_session_leads_to_the_next(
    example: Services, answer_with: Answer, order: str
) -> None:
    example.preferences.change({"summary_order": order, "summary_last_n_turns": 3})
    answer_with(_answer(*POINTS))
    before = lines(example, session_id="sess_003")
    events, result = await _summarize(example)
    assert (result["status"], result["session_id"], result["new_session_id"]) == (
        "done",
        "sess_003",
        "sess_004",
    )
    assert [(event["done"], event["total"]) for event in only(events, "progress")] == [(0, 1), (1, 1)]
    assert example.stories.instance("inst_001").current_session_id == "sess_004"
    assert lines(example, session_id="sess_003") == before
    fresh = lines(example, session_id="sess_004")
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


async def test_the_story_goes_on_and_its_past_is_found(example: Services, answer_with: Answer) -> None:
    answer_with(_answer(*POINTS), "我记得。")
    await _summarize(example)
    _, result = await say(example, "接下来呢")
    assert (result["session_id"], result["turn"], result["reply"]) == ("sess_004", 6, "我记得。")
    model: Any = example.models["rehearsal"]
    assert "他们潜入了据点" in str(model.calls[-1])
    for _ in range(2):
        hits = await example.library.search(RecallQuery("潜入据点", ("summary", "plot"), 5, "inst_001"))
        found = {hit.event.event_id: hit.event for hit in hits}
        summary = found["summary_inst_001_sess_003_2"]
        assert (summary.first_turn, summary.last_turn) == (13, 38)
        assert summary.related_id == "plot_inst_001_sess_003_2"
        assert found["plot_inst_001_sess_003_2"].related_id == "summary_inst_001_sess_003_2"
        await reindex(example)


@pytest.mark.parametrize("step", STEPS)
async def test_a_crash_before_any_step_leaves_the_old_session_and_the_next_try_doubles_nothing(
    example: Services, answer_with: Answer, root: Path, step: str
) -> None:
    answer_with(_answer(*POINTS), _answer(*POINTS[:2]))
    before = snapshot(root / "instances")
    graph = build_summarize(example).compile(interrupt_before=[step])
    await graph.ainvoke({"instance_id": "inst_001"})
    after = snapshot(root / "instances")
    assert {name: after[name] for name in before} == before
    if step == "draft_points":
        answer_with(_answer(*POINTS[:2]))
    _, result = await _summarize(example)
    assert (result["status"], result["new_session_id"]) == ("done", "sess_004")
    told = [line for line in lines(example, session_id="sess_004") if line.get("type") == "summary"]
    assert len(told) == 2
    for _ in range(2):
        hits = await example.library.search(RecallQuery("他们", ("summary",), 10, "inst_001"))
        assert len(hits) == 2
        await reindex(example)


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
async def test_an_answer_that_cannot_be_used_is_asked_for_once_more_and_then_refused(
    example: Services, answer_with: Answer, root: Path, bad: str
) -> None:
    before = snapshot(root / "instances")
    model = answer_with(bad, bad, bad, _answer(*POINTS))
    events, result = await _summarize(example)
    assert result["status"] == "error"
    assert only(events, "error")[0]["code"] == "provider.bad_summary"
    assert len(model.calls) == 2
    assert snapshot(root / "instances") == before
    _, mended = await _summarize(example)
    assert mended["status"] == "done"
    assert "不能用" in model.calls[3][-1]["content"]


async def test_a_preview_shows_the_points_and_writes_nothing(
    example: Services, answer_with: Answer, root: Path
) -> None:
    answer_with(_answer(*POINTS))
    before = snapshot(root)
    _, result = await _summarize(example, dry_run=True)
    assert (result["status"], len(result["points"]), result["new_session_id"]) == ("preview", 3, "sess_004")
    assert snapshot(root) == before


class Teller:
    """Tells whatever piece it is shown in one point."""

    name = "teller"

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        self.asked.append(messages[-1]["content"])
        first, last = map(int, re.findall(r"（第 (\d+)–(\d+) 轮）", self.asked[-1])[0])
        yield ReplyChunk(_answer((f"第{first}到{last}轮的事", first, last)))


async def test_a_long_session_is_told_in_pieces_that_know_what_came_before(
    example: Services, answer_with: Answer
) -> None:
    example.preferences.change({"max_total_tokens": 10_000, "conversation_load_all": False})
    example.preferences.change({"conversation_max_tokens": 1_000})
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


async def test_a_summary_can_be_undone_and_what_was_played_since_is_kept(
    example: Services, answer_with: Answer, root: Path
) -> None:
    answer_with(_answer(*POINTS), "后来的话。", _answer(*POINTS[:1]))
    await _summarize(example)
    await say(example, "接着说")
    state = await undo_summary(example, "inst_001")
    assert state.current_session_id == "sess_003"
    kept = root / "instances" / "inst_001" / "sessions" / "sess_004.jsonl.aside1"
    assert "后来的话。" in kept.read_text(encoding="utf-8")
    assert not await example.library.search(RecallQuery("他们", ("summary", "plot"), 5, "inst_001"))
    assert await example.library.search(RecallQuery("据点", ("turn",), 5, "inst_001"))
    _, again = await _summarize(example)
    assert (again["status"], again["new_session_id"]) == ("done", "sess_004")
    assert kept.exists()


async def test_there_must_be_something_to_summarise_and_to_undo(services: Services) -> None:
    await new_instance(services, "char_alserqi", "bg_wasteland", "inst_001")
    _, result = await _summarize(services)
    assert result["error"]["code"] == "nothing_to_summarize"
    with pytest.raises(Exception, match="none to undo"):
        await undo_summary(services, "inst_001")


async def test_a_library_that_fails_does_not_stop_a_summary(example: Services, answer_with: Answer) -> None:
    class Broken(InMemoryLibrary):
        async def write(self, events: Any) -> None:
            raise RuntimeError("no disk")

    example.__dict__["library"] = Broken()
    answer_with(_answer(*POINTS))
    events, result = await _summarize(example)
    assert result["status"] == "done"
    assert [event["category"] for event in only(events, "warning")] == ["summary_not_indexed"]


@pytest.mark.parametrize(
    ("character", "background"), [("char_alserqi", "bg_wasteland"), ("char_maren", "bg_lighthouse")]
)
async def test_with_no_model_the_rehearsal_quotes_the_session(
    services: Services, character: str, background: str
) -> None:
    await new_instance(services, character, background, "inst_001")
    for number in range(7):
        await say(services, f"hello {number}")
    _, result = await _summarize(services)
    assert result["status"] == "done", result["error"]
    assert [point["turns"] for point in result["points"]] == [[1, 5], [6, 7]]
    assert "hello 0" in result["points"][0]["summary"]
