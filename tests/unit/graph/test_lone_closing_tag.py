"""Thoughts whose beginning the server keeps to itself are neither shown as speech nor lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from personalab.dialogue import Message
from personalab.ports import ReplyChunk
from personalab.reasoning import ThinkingHabit
from personalab.services import Services
from personalab.story.transcript import NO_REPLY
from personalab.testing.scripted import ScriptedModel, ScriptedReply
from tests.support.graph.turns import Events, lines, only, play, plot, say

pytestmark = pytest.mark.anyio
Answer = Callable[..., ScriptedModel]


def text_of(events: Events, kind: str) -> str:
    return "".join(event["text"] for event in only(events, kind))


def kept(services: Services) -> tuple[str, str]:
    last = lines(services)[-1]
    return last["content"], last.get("reasoning", "")


@pytest.mark.parametrize("inside", [None, True])
@pytest.mark.parametrize(
    ("pieces", "thought"),
    [
        (
            ("The user wrote:\n", "User: hello\n", "I answer.\n</think>\n\n", "我在。"),
            "The user wrote:\nUser: hello\nI answer.\n",
        ),
        (
            ("想。\n玩家：你在吗\n我该回答。[PROGRESS:3:completed]</think>我在。",),
            "想。\n玩家：你在吗\n我该回答。[PROGRESS:3:completed]",
        ),
        (("a\n", "b</thi", "nk>", "我在。\nUser: x"), "a\nb"),
        (("想。\n玩家：a</think>我在。\n玩家：好的\n玩家：走</think>",), "想。\n玩家：a"),
    ],
)
async def test_reply_after_thoughts_that_quote_the_player_is_kept(
    services: Services,
    instance: str,
    answer_with: Answer,
    pieces: tuple[str, ...],
    thought: str,
    inside: bool | None,
) -> None:
    ThinkingHabit.of("scripted", "").begins_inside = inside
    answer_with(ScriptedReply(pieces))
    before = plot(services)["current_plot_index"]
    events, result = await say(services, "在吗？")
    assert (result["status"], result["reply"], result["reasoning"]) == ("done", "我在。", thought)
    assert kept(services) == ("我在。", thought)
    assert text_of(events, "reasoning") == thought
    assert plot(services)["current_plot_index"] == before
    assert ThinkingHabit.of("scripted", "").begins_inside is True


async def test_thoughts_are_not_shown_as_speech_from_the_second_reply_on(
    services: Services, instance: str, answer_with: Answer
) -> None:
    pieces = ("想", "一想。\n", "</think>", "\n\n我在。")
    for number, shown in enumerate(["想一想。</think>\n\n我在。", "我在。", "我在。"]):
        answer_with(ScriptedReply(pieces, delay=0.01))
        events, result = await say(services, "在吗？")
        assert text_of(events, "token") == shown, number
        assert (result["reply"], result["reasoning"]) == ("我在。", "想一想。\n")


async def test_reply_without_the_expected_closing_tag_is_speech_after_all(
    services: Services, instance: str, answer_with: Answer
) -> None:
    habit = ThinkingHabit.of("scripted", "")
    for reply, speech, thought in [
        (ScriptedReply(("（点头）", "走吧。\n", "现在。")), "（点头）走吧。\n现在。", ""),
        (ScriptedReply(("走吧。\n玩家：", "好的。")), "走吧。", ""),
        (ScriptedReply(("走<think>想</th", "ink>吧。")), "走吧。", "想"),
        (ScriptedReply(("<think>想</think>走吧。",)), "走吧。", "想"),
        (ScriptedReply(("走吧。",), reasoning=("想",)), "走吧。", "想"),
        (ScriptedReply(("走吧 <thi",)), "走吧 <thi", ""),
    ]:
        habit.begins_inside = True
        answer_with(reply)
        events, result = await say(services, "在吗？")
        assert (result["status"], result["reply"], result["reasoning"]) == ("done", speech, thought)
        assert kept(services) == (speech, thought)
        assert text_of(events, "token") == speech
        assert habit.begins_inside is False


@pytest.mark.parametrize("durability", ["os", "fsync"])
async def test_presumed_thought_that_was_told_is_withdrawn(
    services: Services, instance: str, answer_with: Answer, durability: str
) -> None:
    services.preferences.change({"durability": durability})
    ThinkingHabit.of("scripted", "").begins_inside = True
    answer_with(ScriptedReply(("走", "吧，", "现在。"), delay=0.03))
    events, _ = await say(services, "在吗？")
    told = only(events, "reasoning")
    assert told[-1]["text"] == ""
    assert told[-1]["offset"] == 0
    assert text_of(events, "token") == "走吧，现在。"
    assert kept(services) == ("走吧，现在。", "")


async def test_thoughts_of_a_stopped_or_failed_reply_are_no_speech(
    services: Services, instance: str, answer_with: Answer
) -> None:
    class Thinker:
        name = "scripted"

        async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
            yield ReplyChunk("想了一半")
            await services.leases.stop(instance)
            await asyncio.Event().wait()

    ThinkingHabit.of("scripted", "").begins_inside = True
    services.models["rehearsal"] = Thinker()
    _, result = await say(services, "在吗？")
    assert (result["status"], result["reasoning"]) == ("interrupted", "想了一半")
    assert kept(services) == (NO_REPLY, "想了一半")
    answer_with(ScriptedReply(("想了一半",), error="provider.connection"))
    _, result = await say(services, "在吗？")
    assert (result["status"], result["reasoning"]) == ("error", "想了一半")
    assert result["reply"].startswith("(系统错误: ")


@pytest.mark.parametrize("text", ["我想一想。\n</think>\n\n[PROGRESS:1:completed]", "我想一想。</think>"])
@pytest.mark.parametrize("inside", [None, True])
async def test_reply_of_thoughts_alone_is_asked_for_once_more(
    services: Services, instance: str, answer_with: Answer, text: str, inside: bool | None
) -> None:
    ThinkingHabit.of("scripted", "").begins_inside = inside
    model = answer_with(ScriptedReply((text,)), "想</think>好。")
    _, result = await say(services, "走")
    assert (result["status"], result["reply"], result["attempt"], len(model.calls)) == ("done", "好。", 2, 2)
    assert plot(services)["current_status"] == "pending"
    assert lines(services)[-2]["content"] == NO_REPLY
    assert lines(services)[-2]["reasoning"].startswith("我想一想。")


async def test_reading_on_after_a_players_line_has_an_end(
    services: Services, instance: str, answer_with: Answer
) -> None:
    read: list[int] = []

    class Talker:
        name = "talker"

        async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
            read.append(0)
            for _ in range(2_000):
                read[-1] += 1
                yield ReplyChunk("我在。\n玩家：好的。\n")

    services.models["rehearsal"] = Talker()
    for _ in range(2):
        _, result = await say(services, "在吗？")
        assert (result["status"], result["reply"]) == ("done", "我在。")
    await play(services, {"instance_id": instance, "action": "say", "user_input": "再来"})
    assert 100 < read[0] < 1_000
    assert read[1:] == [1, 1], "a model that is known to say all it thinks is stopped at once"


async def test_failure_after_a_players_line_leaves_the_reply_whole(
    services: Services, instance: str, answer_with: Answer
) -> None:
    answer_with(ScriptedReply(("我在。\n玩家：好的",), error="provider.connection"))
    _, result = await say(services, "在吗？")
    assert (result["status"], result["reply"]) == ("done", "我在。")


async def test_retry_reads_on_again(services: Services, instance: str) -> None:
    ThinkingHabit.of("scripted", "").begins_inside = False
    thought = "想。\n玩家：在吗\n"
    services.models["rehearsal"] = ScriptedModel(
        [
            ScriptedReply(("[PROGRESS",), error="provider.connection"),
            ScriptedReply((thought, "</think>", "我在。")),
        ]
    )
    await say(services, "在吗？")
    _, result = await play(services, {"instance_id": instance, "action": "retry"})
    assert (result["reply"], result["reasoning"]) == ("我在。", thought)


async def test_error_message_that_quotes_a_tag_leaves_the_speech(
    services: Services, instance: str, server: Any
) -> None:
    from personalab.providers.chat_models import open_model
    from personalab.providers.model_settings import ModelSettings
    from tests.support.openai_server import errs_after

    services.models["rehearsal"] = open_model(
        "openai:m", settings=ModelSettings(base_url=server.url, max_tries=1)
    )
    for tag in ("</think>", "<think>", "<THINKING>"):
        server.script(
            errs_after("（点头）走吧。", error={"message": f"Failed to parse at 12: {tag} unexpected"})
        )
        events, result = await say(services, "走")
        assert result["status"] == "error"
        assert result["reply"].startswith("（点头）走吧。\n(系统错误: ")
        assert tag[1:-1] in result["reply"]
        assert text_of(events, "token") == result["reply"] == lines(services)[-1]["content"]
        turn = services.stories.session("inst_001", "sess_001").view().turns[-1]
        assert (turn.last_reply.content if turn.last_reply else "", result["reasoning"]) == (
            result["reply"],
            "",
        )
