"""What a model thinks is stored and shown apart from what it says; replies without words are asked for again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from personalab.dialogue import Message
from personalab.ports import ReplyChunk
from personalab.providers.chat_models import open_model
from personalab.providers.model_settings import ModelSettings
from personalab.reasoning import ThinkingHabit
from personalab.services import Services
from personalab.story.director import has_speech
from personalab.story.transcript import NO_REPLY, without_error_note
from personalab.testing.scripted import ScriptedModel, ScriptedReply
from tests.support.graph.turns import lines, only, play, plot, say
from tests.support.openai_server import Event, OpenAIServer, delta, says

pytestmark = pytest.mark.anyio
Answer = Callable[..., ScriptedModel]
Kind = Literal["speech", "think", "field", "noise", "lone", "failure"]


@dataclass(frozen=True)
class Part:
    """A piece of what a server sends: speech, tagged thoughts, a reasoning field, or something to ignore.

    ``lone`` is a thought without its opening tag, which comes first, and ``failure`` an error event, which comes last.
    """

    kind: Kind
    text: str


thoughts = st.text("XYZ \n", max_size=6).flatmap(
    lambda text: st.sampled_from(
        [
            text,
            f"{text}[PROGRESS:3:completed]",
            f"<think>{text}</think>Q",
            f"<{text}",
            f"Z\nUser: {text}",
            f"Z\n玩家：{text}\n",
        ]
    )
)
lone_thoughts = thoughts.filter(lambda text: "<think>" not in text)
failures = st.sampled_from(["out of memory", "Failed to parse </think> here", "no <think> tag"])
middle = st.lists(
    st.one_of(
        st.builds(Part, st.just("speech"), st.text("甲乙ab。 \n<", max_size=5)),
        st.builds(Part, st.just("think"), thoughts),
        st.builds(Part, st.just("field"), thoughts),
        st.just(Part("noise", "")),
    ),
    max_size=7,
)
parts = st.tuples(
    st.lists(st.builds(Part, st.just("lone"), lone_thoughts), max_size=1),
    middle,
    st.lists(st.builds(Part, st.just("failure"), failures), max_size=1),
).map(lambda lists: [*lists[0], *lists[1], *lists[2]])


def events_of(sent: Sequence[Part], size: int, field: str, *, is_open: bool) -> list[Event]:
    """Write what a server sends, its text in pieces of one size; the last thought may never be closed."""
    last = max((at for at, part in enumerate(sent) if part.kind == "think"), default=-1)
    found: list[Event] = []
    for at, part in enumerate(sent):
        match part.kind:
            case "field":
                found.append(delta(None, **{field: part.text}))
            case "noise":
                call = {
                    "index": 0,
                    "id": "c",
                    "function": {"name": "f", "arguments": "{}"},
                    "type": "function",
                }
                found.append(delta(None, tool_calls=[call]))
            case "failure":
                found.append(Event(json.dumps({"error": {"message": part.text}})))
            case "lone":
                text = f"{part.text}</think>"
                found += [delta(text[start : start + size]) for start in range(0, len(text), size)]
            case _:
                tagged = f"<think>{part.text}" + ("" if is_open and at == last else "</think>")
                text = part.text if part.kind == "speech" else tagged
                found += [delta(text[start : start + size]) for start in range(0, len(text), size)]
    return found


def expected_of(sent: Sequence[Part], *, is_open: bool) -> tuple[str, str]:
    """Work out the reasoning and the speech by hand."""
    reasoning = speech = ""
    last = max((at for at, part in enumerate(sent) if part.kind == "think"), default=-1)
    for at, part in enumerate(sent):
        if part.kind in ("think", "field", "lone"):
            reasoning += part.text
        elif part.kind == "speech":
            if is_open and 0 <= last < at:
                reasoning += part.text
            else:
                speech += part.text
    return reasoning, speech


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sent=parts,
    size=st.integers(1, 9),
    field=st.sampled_from(["reasoning_content", "reasoning"]),
    is_open=st.booleans(),
    finish=st.sampled_from(["stop", "length"]),
    inside=st.sampled_from([None, True]),
)
@example(
    sent=[Part("think", "X1"), Part("field", "Y2"), Part("speech", "甲")],
    size=9,
    field="reasoning",
    is_open=False,
    finish="stop",
    inside=None,
)
@example(
    sent=[Part("think", "<"), Part("field", "Y2")],
    size=9,
    field="reasoning",
    is_open=True,
    finish="stop",
    inside=None,
)
@example(
    sent=[Part("lone", "Z\nUser: X"), Part("speech", "甲"), Part("failure", "</think>")],
    size=4,
    field="reasoning",
    is_open=False,
    finish="stop",
    inside=None,
)
def test_misbehaving_server_leaks_and_loses_nothing(
    services: Services,
    instance: str,
    server: OpenAIServer,
    sent: list[Part],
    size: int,
    field: str,
    is_open: bool,
    finish: str,
    inside: bool | None,
) -> None:
    events = events_of(sent, size, field, is_open=is_open)
    ending = [delta(None, finish=finish), Event("[DONE]")]
    server.script([*events, *ending], says("好。"))
    connected = ModelSettings(base_url=server.url, max_tries=1)
    services.models["rehearsal"] = open_model("openai:some-model", settings=connected)
    before = plot(services)
    is_whole = finish == "stop" and not any(part.kind == "failure" for part in sent)
    ThinkingHabit.of("openai:some-model", server.url).begins_inside = inside if is_whole else None
    told, result = asyncio.run(say(services, "在吗？"))
    reasoning, speech = expected_of(sent, is_open=is_open)
    turn = [line for line in lines(services) if line.get("turn") == result["turn"]][1:]
    first = turn[0]
    shown = "".join(event["text"] for event in only(told, "token")).split("</think>\n\n")[-1]
    assert squeezed(first.get("reasoning", "")) == squeezed(reasoning)
    if any(part.kind == "failure" for part in sent):
        assert result["status"] == "error"
        assert squeezed(without_error_note(first["content"])) == squeezed(
            speech if has_speech(speech) else ""
        )
        assert shown == first["content"]
    elif has_speech(speech):
        assert squeezed(first["content"]) == squeezed(speech)
        assert result["status"] == "done"
        assert first.get("truncated", False) is (finish == "length")
        assert shown == first["content"]
        assert len(turn) == 1
    else:
        assert (first["content"], first["empty"], turn[1]["content"]) == (NO_REPLY, True, "好。")
        assert shown.endswith("好。")
        assert (result["attempt"], len(turn)) == (2, 2)
    assert squeezed(told_thought(told)) == squeezed(first.get("reasoning", "") if len(turn) == 1 else "")
    assert plot(services) == {**before, "no_update_count": before["no_update_count"] + 1}


def told_thought(told: Sequence[dict[str, Any]]) -> str:
    """Join the reasoning that was told since it was last withdrawn."""
    thought = ""
    for event in only(list(told), "reasoning"):
        thought = event["text"] if event["offset"] == 0 else thought + event["text"]
    return thought


def squeezed(text: str) -> str:
    """Drop blanks: those between thoughts and speech belong to neither."""
    return "".join(text.split())


@pytest.mark.parametrize(
    "silent",
    [
        "",
        " \n",
        "[PROGRESS:2:completed]",
        "**[progress:2:completed]**\n",
        "<think>想</think>[PROGRESS:2:pending]",
    ],
)
async def test_reply_without_words_is_asked_for_once_more_with_a_reminder(
    services: Services, instance: str, answer_with: Answer, silent: str
) -> None:
    model = answer_with(silent, "我在。")
    events, result = await say(services, "在吗？")
    assert (result["status"], result["reply"], result["attempt"]) == ("done", "我在。", 2)
    assert [line["content"] for line in lines(services)[1:]] == ["在吗？", NO_REPLY, "我在。"]
    assert lines(services)[2]["empty"] is True
    assert plot(services)["current_plot_index"] == 1
    assert [event["text"] for event in only(events, "token")] == ["我在。"]
    first, second = model.calls
    assert second[:-1] == first[:-1]
    assert second[-1]["content"].startswith(first[-1]["content"])
    assert "不要只写标记" in second[-1]["content"]
    model = answer_with("好。")
    await say(services, "那走吧。")
    assert NO_REPLY not in str(model.calls)
    assert "[PROGRESS:2" not in str(model.calls[0][1:])


async def test_second_reply_without_words_is_stored_as_empty(
    services: Services, instance: str, answer_with: Answer
) -> None:
    answer_with("[PROGRESS:1:completed]", "[PROGRESS:1:completed]")
    _, result = await say(services, "在吗？")
    assert (result["status"], result["reply"]) == ("empty", NO_REPLY)
    assert plot(services) == {"current_plot_index": 1, "current_status": "pending", "no_update_count": 1}
    answer_with("好。[PROGRESS:1:completed]")
    _, again = await play(services, {"instance_id": instance, "action": "retry"})
    assert (again["status"], again["attempt"], plot(services)["current_status"]) == ("done", 3, "completed")


async def test_second_try_starts_the_reasoning_over(
    services: Services, instance: str, answer_with: Answer
) -> None:
    for second, told in ((("再想",), [(0, "想"), (0, ""), (0, "再想")]), ((), [(0, "想"), (0, "")])):
        answer_with(ScriptedReply((" ",), reasoning=("想",)), ScriptedReply(("好。",), reasoning=second))
        events, result = await say(services, "在吗？")
        assert [(event["offset"], event["text"]) for event in only(events, "reasoning")] == told
        [done] = only(events, "done")
        assert done["attempt"] == result["attempt"] == 2


async def test_usage_of_both_tries_is_added(services: Services, instance: str, answer_with: Answer) -> None:
    used = {"input_tokens": 10, "output_tokens": 2, "cached_tokens": 1}
    answer_with(ScriptedReply((" ",), usage=used), ScriptedReply(("好。",), usage=used))  # pyright: ignore[reportArgumentType]
    _, result = await say(services, "在吗？")
    assert result["usage"] == {"input_tokens": 20, "output_tokens": 4, "cached_tokens": 2}


@pytest.mark.parametrize(
    "reply",
    [
        ScriptedReply(("<think>", "\n", "\n</think>", "\n\n", "我在。")),
        ScriptedReply(("\n\n", "我在。"), reasoning=("\n", " ")),
    ],
)
async def test_blank_thought_is_no_reasoning(
    services: Services, instance: str, answer_with: Answer, reply: ScriptedReply
) -> None:
    answer_with(reply)
    events, result = await say(services, "在吗？")
    assert only(events, "reasoning") == []
    assert (result["reply"], result["reasoning"]) == ("我在。", "")
    assert lines(services)[-1]["content"] == "我在。"
    assert "reasoning" not in lines(services)[-1]


async def test_stop_while_the_model_thinks_keeps_what_it_thought(services: Services, instance: str) -> None:
    class Thinker:
        name = "thinker"

        async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
            yield ReplyChunk(reasoning="想了一半")
            await services.leases.stop(instance)
            yield ReplyChunk(reasoning="，")
            await asyncio.Event().wait()

    services.models["rehearsal"] = Thinker()
    _, result = await say(services, "在吗？")
    last = lines(services)[-1]
    assert (last["content"], last["interrupted"], last["empty"]) == (NO_REPLY, True, True)
    assert last["reasoning"].startswith("想了一半")
    assert (result["status"], result["reasoning"]) == ("interrupted", last["reasoning"])
    assert len(lines(services)) == 3, "a stopped reply is not asked for again"


async def test_failure_after_thoughts_is_noted_as_ever(
    services: Services, instance: str, answer_with: Answer
) -> None:
    answer_with(ScriptedReply(("<think>想",), error="provider.connection"), "好。")
    _, result = await say(services, "在吗？")
    last = lines(services)[-1]
    assert (last["error"], last["reasoning"], result["status"]) == (True, "想", "error")
    assert last["content"].startswith("(系统错误: ")


async def test_reply_brought_by_the_caller_is_split_too(services: Services, instance: str) -> None:
    await play(services, {"instance_id": instance, "user_input": "你好", "action": "begin"})
    for blank in ("<think>只有想法</think>", "[PROGRESS:1:completed]"):
        _, refused = await play(
            services, {"instance_id": instance, "action": "end", "turn": 1, "caller_reply": blank}
        )
        assert refused["error"]["code"] == "blank_reply"
    reply = "<think>想</think>嗯。"
    for _ in range(2):
        _, result = await play(
            services, {"instance_id": instance, "action": "end", "turn": 1, "caller_reply": reply}
        )
        assert (result["status"], result["reply"], result["reasoning"]) == ("done", "嗯。", "想")
    assert lines(services)[-1]["content"] == "嗯。"


async def test_thoughts_without_opening_tag_are_moved_at_the_end(
    services: Services, instance: str, answer_with: Answer
) -> None:
    answer_with("玩家在问我。</think>\n\n我在。")
    events, result = await say(services, "在吗？")
    assert [(event["offset"], event["text"]) for event in only(events, "reasoning")] == [(0, "玩家在问我。")]
    last = lines(services)[-1]
    assert (last["content"], last["reasoning"], result["reply"]) == ("我在。", "玩家在问我。", "我在。")


async def test_effort_and_off_are_sent_to_the_server(services: Services, server: OpenAIServer) -> None:
    sent: dict[str, Any] = {}
    for effort in (None, "off", "high"):
        server.script(says("好。"))
        chosen = replace(ModelSettings(base_url=server.url), reasoning=effort)
        async for _ in open_model("openai:m", settings=chosen).stream([{"role": "user", "content": "hi"}]):
            pass
        sent[str(effort)] = server.requests[-1].body.get("reasoning_effort")
    assert sent == {"None": None, "off": "none", "high": "high"}
