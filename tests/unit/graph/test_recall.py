"""Turns that recall, with the real library: Chroma, word vectors, words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from personalab.operations.reindex import reindex
from personalab.services import Services
from personalab.story.transcript import AssistantLine, Line, Metadata, Summary, UserLine, dump_line
from personalab.testing.scripted import ScriptedModel
from tests.support.graph.turns import only, say, sent_words

pytestmark = pytest.mark.anyio
Answer = Callable[..., ScriptedModel]

EARLIER = [
    ("我们在旧码头碰面吧，别让人看见。", "（点头）旧码头，午夜，我会带上怀表。"),
    ("你的小指是怎么断的？", "Victor 用断线钳剪的，那是他第一次背叛我。"),
    ("今天的雨真大。", "雨声能盖住脚步声。"),
    ("Do you trust the smuggler Ilse?", "Ilse sold us the harbour maps; I trust her maps, not her."),
]


@pytest.fixture
async def story(services: Services, instance: str, root: Path) -> str:
    """An instance whose first session was summarised; its second is current."""
    services.__dict__.pop("library", None)
    folder = root / "instances" / instance / "sessions"
    first: list[Line] = [Metadata(instance, "sess_001", "2025-10-16T10:00:00Z")]
    for number, (said, answered) in enumerate(EARLIER, 1):
        first.append(UserLine(said, number, "2025-10-16T10:01:00Z"))
        first.append(AssistantLine(answered, number, "2025-10-16T10:01:05Z"))
    second: list[Line] = [
        Metadata(instance, "sess_002", "2025-10-17T10:00:00Z", "sess_001"),
        Summary(
            "玩家与Alserqi约定午夜在旧码头碰面",
            {"turns": [1, 1], "plot": "雨夜，两人低声商量，约在旧码头，Alserqi答应带上怀表。"},
        ),
        Summary("Alserqi说出断指的来历：Victor用断线钳剪的", {"turns": [2, 2]}),
    ]
    (folder / "sess_001.jsonl").write_bytes(b"".join(map(dump_line, first)))
    (folder / "sess_002.jsonl").write_bytes(b"".join(map(dump_line, second)))
    state = services.stories.instance(instance)
    services.stories.save_instance(type(state).read({**state.fields(), "current_session_id": "sess_002"}))
    await reindex(services)
    return instance


async def test_a_turn_recalls_what_an_earlier_session_said(
    services: Services, story: str, answer_with: Answer
) -> None:
    model = answer_with("好。", "好。")
    graph_result = await say(services, "你还记得我们约在哪里碰面吗？")
    prompt = model.calls[0][-1]["content"]
    assert "=== 历史事件回忆 ===" in prompt
    assert "旧码头" in prompt
    assert "第1轮（sess_001）" in prompt, "the turn itself is found, with its source"
    assert graph_result[1]["status"] == "done"


async def test_words_that_ask_for_detail_bring_the_plot(
    services: Services, story: str, answer_with: Answer
) -> None:
    model = answer_with("好。")
    await say(services, "你还记得我们是怎么约在旧码头的吗？")
    assert "雨夜，两人低声商量" in model.calls[0][-1]["content"]


async def test_english_is_recalled_in_the_same_story(
    services: Services, story: str, answer_with: Answer
) -> None:
    model = answer_with("好。")
    await say(services, "Do you remember what you said about the smuggler's maps?")
    assert "Ilse sold us the harbour maps" in model.calls[0][-1]["content"]


@pytest.mark.parametrize("text", ["你好", "继续。", "好的", "Go on.", "嗯……"])
async def test_small_talk_recalls_nothing(
    services: Services, story: str, answer_with: Answer, text: str
) -> None:
    model = answer_with("好。")
    await say(services, text)
    assert sent_words(model.calls[0])[-1].endswith(text)
    assert "历史事件回忆" not in model.calls[0][-1]["content"]


async def test_an_item_says_where_it_came_from_and_why(
    services: Services, story: str, answer_with: Answer
) -> None:
    from graph.preview import preview_prompt

    found = (await preview_prompt(services, story, "你还记得断指的来历吗？")).recalled
    best = found[0]
    assert best["session_id"] == "sess_001"
    assert best["turns"] == [2, 2]
    assert best["reason"]


async def test_a_broken_library_warns_and_the_turn_goes_on(
    services: Services, story: str, answer_with: Answer, root: Path
) -> None:
    services.__dict__.pop("library", None)
    for path in (root / "event_library").rglob("*"):
        if path.is_file():
            path.write_bytes(b"junk")
    answer_with("好。")
    events, result = await say(services, "你还记得约定吗？")
    assert result["status"] == "done"
    warnings = only(events, "warning")
    assert [warning["category"] for warning in warnings] == ["recall_unavailable"]
    assert "reindex" in warnings[0]["message"] + warnings[0].get("suggestion", "")


async def test_turns_that_fell_out_of_the_prompt_are_found(
    services: Services, instance: str, answer_with: Answer
) -> None:
    services.__dict__.pop("library", None)
    services.preferences.change({"conversation_load_all": False, "conversation_max_tokens": 1_000})
    model = answer_with(*["好。" + "夜色很深。" * 60 for _ in range(10)])
    await say(services, "我的船叫白鲸号，记住它。")
    for number in range(8):
        await say(services, f"第{number}段路，我们继续往北走。" + "风很大。" * 40)
    await say(services, "你还记得我的船叫什么吗？")
    assert "白鲸号" not in "".join(message["content"] for message in model.calls[-1][:-1])
    assert "白鲸号" in model.calls[-1][-1]["content"]
