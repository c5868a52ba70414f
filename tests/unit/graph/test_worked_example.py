"""The source's worked example, line by line: turn 42, turns 43 to 46, and the four exception cases."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graph.chat_turn import build_chat_turn
from graph.preview import preview_prompt
from personalab.services import Services
from personalab.story.recall import StoryEvent
from personalab.testing.in_memory import InMemoryLibrary
from personalab.testing.scripted import ScriptedModel, ScriptedReply
from tests.support.graph.worked_example import (
    INPUT_42,
    RECALLED,
    REPLY_42,
    instance_state,
    lay_out,
    recalled_events,
)

pytestmark = pytest.mark.anyio
Answer = Callable[..., ScriptedModel]


@pytest.fixture
async def story(services: Services, library: InMemoryLibrary, root: Path) -> Path:
    lay_out(root)
    await library.write(recalled_events())
    return root / "instances" / "inst_001"


def _lines(story: Path) -> list[str]:
    return (story / "sessions" / "sess_003.jsonl").read_text(encoding="utf-8").split("\n")[:-1]


def _state(story: Path) -> dict[str, Any]:
    return json.loads((story / "instance_state.json").read_text(encoding="utf-8"))


async def _say(services: Services, text: str = INPUT_42) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    graph = build_chat_turn(services).compile()
    events: list[dict[str, Any]] = []
    result: dict[str, Any] = {}
    parts = graph.astream(
        {"instance_id": "inst_001", "user_input": text}, stream_mode=["custom", "values"], version="v2"
    )
    async for part in parts:
        if part["type"] == "custom":
            events.append(part["data"])
        else:
            result = part["data"]
    return events, result


async def test_turn_42_writes_the_sources_two_lines(
    services: Services, story: Path, answer_with: Answer
) -> None:
    before = _lines(story)
    answer_with(REPLY_42)
    await _say(services)
    after = _lines(story)
    assert after[: len(before)] == before
    assert after[len(before) :] == [
        f'{{"role":"user","content":"{INPUT_42}","turn":42,"timestamp":"2025-10-16T10:30:00Z"}}',
        f'{{"role":"assistant","content":"{REPLY_42}","turn":42,"timestamp":"2025-10-16T10:30:00Z"}}',
    ]


async def test_turn_42_leaves_the_sources_state(services: Services, story: Path, answer_with: Answer) -> None:
    answer_with(REPLY_42)
    await _say(services)
    assert _state(story) == instance_state(0)


async def test_turn_42_streams_tokens_with_offsets_then_done(
    services: Services, story: Path, answer_with: Answer
) -> None:
    answer_with(REPLY_42)
    events, result = await _say(services)
    tokens = [event for event in events if event["type"] == "token"]
    said = ""
    for token in tokens:
        assert token["turn"] == 42
        assert token["offset"] == len(said)
        said += token["text"]
    assert said == REPLY_42
    done = events[-1]
    assert done["type"] == "done"
    assert (done["content"], done["interrupted"], done["empty"]) == (REPLY_42, False, False)
    assert done["plot_state"]["no_update_count"] == 0
    assert done["tokens"]["total"] > 0
    assert result["status"] == "done"


EXPECTED_HEAD = """=== 角色初始人格 ===
Alserqi，废土黑帮老大，曾经掌控北区，被心腹背叛...

=== 角色成长人格 ===
经历背叛后变得多疑，不再轻易相信他人...

=== 背景设定 ===
世界观：2087年，核战后50年...

=== 故事大纲 ===
{
  "story_outline": [
    {"index": 1, "content": "发现背叛者的线索", "status": "completed"},
    {"index": 2, "content": "潜入敌人据点", "status": "completed"},
    {"index": 3, "content": "与仇人对峙", "status": "in_progress"},
    {"index": 4, "content": "做出关键选择", "status": "pending"},
    {"index": 5, "content": "应对选择的后果", "status": "pending"}
  ]
}

=== 进度引导指令 ===
如果剧情推进，请在回复中输出标记：[PROGRESS:X:status]

=== 历史事件回忆 ===
- 第12轮：玩家让Alserqi承诺不冲动送死，这是两人的约定
- 第20轮：Alserqi答应会冷静行动，遵守约定

=== 当前会话完整对话 ===
第1轮：
User: 第1个问题
Assistant: 第1个回答

"""
EXPECTED_END = """第41轮：
User: 你打算等到什么时候？
Assistant: 等他们分散。Victor不可能一直和他们在一起。

第42轮：
User: 你还记得我们之前的约定吗？"""


async def test_the_prompt_has_the_sources_sections_in_their_order(services: Services, story: Path) -> None:
    prompt = (await preview_prompt(services, "inst_001", INPUT_42)).prompt
    shown = {section.name: section.text for section in prompt.sections}
    names = list(shown)
    assert (names[0], names[-1]) == ("system_prompt", "post_history_instructions")
    # The marker instruction begins with the source's words, and explains them after that.
    shown["progress_instruction"] = "\n".join(shown["progress_instruction"].split("\n")[:2])
    text = "\n\n".join(shown[name] for name in names[1:-1])
    assert text.startswith(EXPECTED_HEAD)
    assert text.endswith(EXPECTED_END)
    assert "导演提醒" not in prompt.text()


async def test_the_model_gets_a_system_head_the_history_and_the_turns_own_notes_last(
    services: Services, story: Path, answer_with: Answer
) -> None:
    model = answer_with(REPLY_42, "好。")
    await _say(services)
    await _say(services, "走吧。")
    first, second = model.calls
    assert [message["role"] for message in first] == ["system"] + ["user", "assistant"] * 41 + ["user"]
    assert all(text in first[-1]["content"] for text in (INPUT_42, *RECALLED))
    assert second[:-3] == first[:-1], "what was sent before can be taken from the provider's cache"
    assert second[-3]["content"] == INPUT_42


async def test_turns_43_to_46_count_and_then_remind_until_a_marker_comes(
    services: Services, story: Path, library: InMemoryLibrary, answer_with: Answer
) -> None:
    await library.write(
        [
            _event("inst_001", "Alserqi发现Victor的藏身地，准备与仇人对峙"),
            _event("inst_009", "在其他剧情线中，对峙时Victor试图解释背叛原因"),
            _event("inst_008", "别的角色与仇人对峙", character_id="char_other"),
        ]
    )
    model = answer_with(REPLY_42, "一", "二", "三", "四", "五 [PROGRESS:4:pending]", "六")
    counts: list[int] = []
    for number in range(42, 49):
        await _say(services, f"第{number}句")
        counts.append(_state(story)["plot_state"]["no_update_count"])
    assert counts == [0, 1, 2, 3, 4, 0, 1]
    reminded = ["=== 导演提醒 ===" in call[-1]["content"] for call in model.calls]
    assert reminded == [False, False, False, False, True, True, False]
    reminder = model.calls[4][-1]["content"]
    assert "你现在应该推进到故事大纲第3点：与仇人对峙" in reminder
    assert "【当前剧情中已发生的事件】\n- 事件1：Alserqi发现Victor的藏身地" in reminder
    assert "【剧情经验参考】（其他剧情线的类似情节，仅供参考）\n- 参考1：在其他剧情线中" in reminder
    assert "别的角色" not in reminder
    assert _state(story)["plot_state"]["current_plot_index"] == 4
    limits = {(search.others, search.limit) for search in library.searches if search.character_id}
    assert limits == {(False, 15), (True, 5)}


def _event(instance_id: str, text: str, *, character_id: str = "char_alserqi") -> StoryEvent:
    return StoryEvent(
        event_id=f"summary_{instance_id}_sess_001_1",
        kind="summary",
        text=text,
        instance_id=instance_id,
        session_id="sess_001",
        index=1,
        character_id=character_id,
        background_id="bg_wasteland",
    )


async def test_case_1_a_stopped_reply_is_kept_as_far_as_it_went(
    services: Services, story: Path, answer_with: Answer
) -> None:
    answer_with(ScriptedReply(("我当然记得。（沉默片刻）", "我答应过你，不会"), hang=True))
    running = asyncio.create_task(_say(services))
    while "不会" not in _last_bytes(story):
        await asyncio.sleep(0.01)
    await services.leases.stop("inst_001")
    events, result = await running
    assert _lines(story)[-1] == (
        '{"role":"assistant","content":"我当然记得。（沉默片刻）我答应过你，不会","turn":42,'
        '"timestamp":"2025-10-16T10:30:00Z","interrupted":true}'
    )
    assert _state(story)["plot_state"]["no_update_count"] == 3
    assert (events[-1]["type"], events[-1]["interrupted"], result["status"]) == ("done", True, "interrupted")


def _last_bytes(story: Path) -> str:
    return (story / "sessions" / "sess_003.jsonl").read_text(encoding="utf-8")[-200:]


async def test_case_2_a_caller_who_goes_away_leaves_the_same_as_a_stop(
    services: Services, story: Path, answer_with: Answer
) -> None:
    answer_with(ScriptedReply(("我当然记得。",), hang=True))
    running = asyncio.create_task(_say(services))
    while "我当然记得" not in _last_bytes(story):
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    last = json.loads(_lines(story)[-1])
    assert (last["content"], last["interrupted"]) == ("我当然记得。", True)
    assert _state(story)["plot_state"]["no_update_count"] == 3


@pytest.mark.parametrize("reply", ["", "  \n "])
async def test_case_3_an_empty_reply_is_stored_as_such(
    services: Services, story: Path, answer_with: Answer, reply: str
) -> None:
    model = answer_with(ScriptedReply((reply,)), ScriptedReply((reply,)), "好。")
    events, result = await _say(services)
    last = json.loads(_lines(story)[-1])
    assert (last["content"], last["empty"]) == ("(无回复)", True)
    assert _state(story)["plot_state"]["no_update_count"] == 3
    assert (events[-1]["empty"], result["status"]) == (True, "empty")
    await _say(services, "再说一次")
    assert "(无回复)" not in str(model.calls[-1])


@pytest.mark.parametrize(("pieces", "kept"), [((), ""), (("我当然", "记得。"), "我当然记得。\n")])
async def test_case_4_an_error_is_noted_after_what_had_come(
    services: Services, story: Path, answer_with: Answer, pieces: tuple[str, ...], kept: str
) -> None:
    model = answer_with(ScriptedReply(pieces, error="provider.connection"), "好。")
    events, result = await _say(services)
    last = json.loads(_lines(story)[-1])
    assert last["content"].startswith(f"{kept}(系统错误: ")
    assert last["error"] is True
    assert _state(story)["plot_state"]["no_update_count"] == 3
    error = next(event for event in events if event["type"] == "error")
    assert error["retryable"] is True
    assert last["content"] == f"{kept}(系统错误: {error['message']})"
    assert "".join(event["text"] for event in events if event["type"] == "token") == last["content"]
    assert result["status"] == "error"
    await _say(services, "再说一次")
    assert "系统错误" not in str(model.calls[-1])
    assert ("我当然记得。" in str(model.calls[-1])) == bool(kept)
