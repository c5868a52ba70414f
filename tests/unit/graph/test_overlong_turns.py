"""A turn that is too long for the prompt does not block its story: a summary leaves it behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from graph.summarize import stream_summary
from personalab.operations.summaries import undo_summary
from personalab.services import Services
from personalab.testing.scripted import ScriptedModel
from tests.support.graph.turns import Events, lines, play, say

pytestmark = pytest.mark.anyio
Answer = Callable[..., ScriptedModel]
OVERLONG = "很长的话。" * 6_000


def _points(turn: int) -> str:
    point = {"summary": "他们见面了。", "plot": "他们见面了。", "turns": [turn, turn]}
    return json.dumps({"points": [point]}, ensure_ascii=False)


POINTS = _points(1)


@pytest.fixture
def story(services: Services, instance: str) -> Services:
    """A story with the smallest prompt limit."""
    services.preferences.change({"max_total_tokens": 10_000})
    return services


async def _summarize(services: Services) -> dict[str, Any]:
    parts = [dict(part) async for part in stream_summary(services, {"instance_id": "inst_001"})]
    return parts[-1]


async def _refused(services: Services, text: str = OVERLONG) -> None:
    _, result = await say(services, text)
    assert "Prompt总长度超过限制" in result["error"]["message"]


def _said(rows: Events) -> list[tuple[int, str]]:
    return [(row["turn"], row["content"]) for row in rows if row.get("role") == "user"]


async def test_the_next_turn_works_after_summarizing_an_overlong_turn(
    story: Services, answer_with: Answer
) -> None:
    answer_with("你好。", POINTS, "出发。")
    await say(story, "早上好")
    await _refused(story)
    summary = await _summarize(story)
    assert summary["status"] == "done"
    assert [warning["category"] for warning in summary["warnings"]] == ["turns_left_behind"]
    _, result = await say(story, "我们出发吧")
    assert (result["status"], result["reply"], result["turn"]) == ("done", "出发。", 2)
    assert _said(lines(story)) == [(1, "早上好"), (2, OVERLONG)], "it is kept where it was said"
    assert _said(lines(story, session_id="sess_002")) == [(1, "早上好"), (2, "我们出发吧")]


async def test_an_overlong_first_turn_can_be_left_behind(story: Services, answer_with: Answer) -> None:
    model = answer_with("好。")
    await _refused(story)
    await _refused(story, "短一点")
    summary = await _summarize(story)
    assert (summary["status"], summary["points"], summary["kept_turns"]) == ("done", [], 1)
    _, result = await play(story, {"instance_id": "inst_001", "action": "retry"})
    assert result["reply"] == "好。"
    assert len(model.calls) == 1, "no model was asked for points of nothing"


async def test_an_overlong_turn_after_a_summary_keeps_the_summary(
    story: Services, answer_with: Answer
) -> None:
    answer_with("你好。", POINTS, "好。")
    await say(story, "早上好")
    await _summarize(story)
    await _refused(story)
    assert (await _summarize(story))["points"] == []
    rows = lines(story, session_id="sess_003")
    assert [row["content"] for row in rows[1:]] == ["他们见面了。", "早上好", "你好。"]
    _, result = await say(story, "走吧")
    assert result["status"] == "done"


async def test_retrying_a_turn_left_behind_says_where_it_is(story: Services, answer_with: Answer) -> None:
    answer_with("你好。", POINTS, "好。", "嗯。")
    await say(story, "早上好")
    await _refused(story)
    await _summarize(story)
    _, result = await play(story, {"instance_id": "inst_001", "action": "retry"})
    assert result["error"]["code"] == "turn_left_behind"
    assert "第 2 轮" in result["error"]["message"]
    assert "sess_001" in result["error"]["message"]
    await say(story, "走吧")
    _, result = await play(story, {"instance_id": "inst_001", "action": "retry"})
    assert result["error"]["code"] == "nothing_to_retry"


async def test_a_short_turn_refused_in_a_long_session_is_carried_over_and_retried(
    story: Services, answer_with: Answer
) -> None:
    answer_with(*["很长的回复。" * 400] * 5, *map(_points, range(1, 6)), "好。")
    for number in range(5):
        await say(story, f"第{number}句")
    _, result = await say(story, "我们出发吧")
    assert result["error"]["code"] == "prompt_too_long"
    summary = await _summarize(story)
    assert summary["status"] == "done"
    assert summary["warnings"] == []
    _, result = await play(story, {"instance_id": "inst_001", "action": "retry"})
    assert result["reply"] == "好。"


async def test_undoing_the_summary_brings_the_overlong_turn_back(
    story: Services, answer_with: Answer
) -> None:
    answer_with("你好。", POINTS, "好。")
    await say(story, "早上好")
    await _refused(story)
    await _summarize(story)
    assert (await undo_summary(story, "inst_001")).turns == 0
    story.preferences.change({"max_total_tokens": 200_000})
    _, result = await play(story, {"instance_id": "inst_001", "action": "retry"})
    assert (result["turn"], result["reply"]) == (2, "好。")
