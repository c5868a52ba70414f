"""A conversation becomes memory, once, with its source, or nothing at all; on every adapter."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, cast

import pytest

from graph.memorize import STAGES, build_memorize, stream_memorize
from nodes.memorize import MemorizeInput
from personalab.dialogue import Message
from personalab.errors import NotFound
from personalab.operations.memory import get_memory, memory_changes, save_conversation, undo_change
from personalab.ports import ReplyChunk
from personalab.services import Services
from personalab.story.events import Usage
from personalab.testing.scripted import ScriptedModel, ScriptedReply
from personalab.texts import PROMPT_LANGUAGES, PromptLanguage
from personalab.texts.actions import rendering_for
from tests.support.contract.worlds import StoryWorld
from tests.support.graph.turns import Events, only

pytestmark = pytest.mark.anyio
Answer = Callable[..., ScriptedModel]

REQUEST: dict[str, Any] = {
    "agent_id": "agent_001",
    "user_id": "user_001",
    "messages": [
        {"role": "user", "content": "我是一名医生，住在北京"},
        {"role": "assistant", "content": "你好，医生"},
        {"role": "user", "content": "我上周去了海边，真高兴"},
        {"role": "assistant", "content": "海边好吗？"},
    ],
}
LATER: dict[str, Any] = {
    **REQUEST,
    "messages": [
        {"role": "user", "content": "我搬家了，现在住在上海"},
        {"role": "assistant", "content": "上海也好"},
    ],
}


def _facts(*facts: tuple[str, str, list[int]]) -> str:
    rows = [{"text": text, "type": kind, "messages": messages} for text, kind, messages in facts]
    return json.dumps({"facts": rows}, ensure_ascii=False)


def _wishes(*operations: dict[str, Any]) -> str:
    return json.dumps({"operations": operations}, ensure_ascii=False)


def _mind(text: str = "", *, score: float = 0.8) -> str:
    operations = [{"op": "add", "text": text, "reason": "语气", "messages": [2]}] if text else []
    return json.dumps(
        {"insights": "用户心情不错。", "confidence_score": score, "operations": operations},
        ensure_ascii=False,
    )


FOUND = _facts(("用户是医生", "profile", [0]), ("用户去了海边", "event", [2]))
ADDED = _wishes(
    {"op": "add", "type": "profile", "text": "用户是医生，住在北京", "reason": "自我介绍", "messages": [0]},
    {"op": "add", "type": "event", "text": "用户上周去了海边", "reason": "讲述", "messages": [2]},
)
THREE = (FOUND, ADDED, _mind("用户喜欢大海"))


@pytest.fixture
def services(world: StoryWorld) -> Services:
    """Services of one process."""
    return world.open_services()


async def _memorize(services: Services, **call: Any) -> tuple[Events, dict[str, Any]]:
    events: Events = []
    result: dict[str, Any] = {}
    async for part in stream_memorize(services, cast("MemorizeInput", call or {"request": REQUEST})):
        if "type" in part:
            events.append(dict(part))
        else:
            result = dict(part)
    return events, result


async def _known(services: Services) -> dict[str, list[str]]:
    memory = await get_memory(services, "agent_001", "user_001")
    return {kind: memory.texts(kind) for kind in ("profile", "event", "mind")}


async def test_three_questions_make_a_memory(services: Services, answer_with: Answer) -> None:
    model = answer_with(*THREE)
    events, result = await _memorize(services)
    assert result["status"] == "done"
    assert await _known(services) == {
        "profile": ["用户是医生，住在北京"],
        "event": ["用户上周去了海边"],
        "mind": ["用户喜欢大海"],
    }
    assert [event["stage"] for event in only(events, "progress")] == list(STAGES)
    assert len(model.calls) == 3
    assert "[0] user: 我是一名医生" in model.calls[0][-1]["content"]
    assert "- [event] 用户去了海边 [2]" in model.calls[1][-1]["content"]
    assert "用户是医生，住在北京" in model.calls[2][-1]["content"]


async def test_the_result_has_the_sources_shape(services: Services, answer_with: Answer) -> None:
    usage = Usage(input_tokens=1200, output_tokens=300, cached_tokens=0)
    answer_with(FOUND, ScriptedReply((ADDED,), usage=usage), THREE[2])
    _, result = await _memorize(services)
    found = result["pipeline_result"]
    assert found["modification_result"] == "- 用户是医生 [0]\n- 用户去了海边 [2]"
    update, mind, whole = found["update_result"], found["mind_result"], found["pipeline_metadata"]
    assert (update["profile_updated"], update["raw_llm_response"]) == (True, ADDED)
    assert update["metadata"] == {
        "stage": "llm_update",
        "updated_at": "2025-10-16T10:30:00Z",
        "llm_usage": {"prompt_tokens": 1200, "completion_tokens": 300, "total_tokens": 1500},
    }
    assert (mind["insights"], mind["confidence_score"]) == ("用户心情不错。", 0.8)
    assert mind["metadata"]["stage"] == "llm_theory_of_mind"
    assert mind["metadata"]["analyzed_at"] == "2025-10-16T10:30:00Z"
    estimated = mind["metadata"]["llm_usage"]
    assert estimated["estimated"]
    assert estimated["total_tokens"] == estimated["prompt_tokens"] + estimated["completion_tokens"] > 0
    assert whole == {
        "execution_time": "2025-10-16T10:30:00Z",
        "conversation_length": 4,
        "llm_model": "scripted",
        "profile_updated": True,
    }
    saved = await services.memories.conversation(result["conversation_id"])
    assert saved is not None
    assert saved.pipeline_result == found


async def test_the_same_conversation_again_asks_nobody_and_changes_nothing(
    services: Services, answer_with: Answer
) -> None:
    model = answer_with(*THREE, *THREE)
    _, first = await _memorize(services)
    before = await get_memory(services, "agent_001", "user_001")
    _, second = await _memorize(services)
    assert (second["status"], second["conversation_id"]) == ("unchanged", first["conversation_id"])
    assert len(model.calls) == 3
    _, third = await _memorize(services, conversation_id=first["conversation_id"], again=True)
    assert (third["status"], third["steps"]) == ("done", [])
    assert len(model.calls) == 6
    assert await get_memory(services, "agent_001", "user_001") == before


async def test_a_contradicting_fact_replaces_the_old_one_which_stays_in_the_history(
    services: Services, answer_with: Answer
) -> None:
    moved = {
        "op": "replace",
        "target": "p1",
        "text": "用户是医生，住在上海",
        "reason": "搬家",
        "messages": [0],
    }
    model = answer_with(*THREE, _facts(("用户搬到了上海", "profile", [0])), _wishes(moved), _mind())
    await _memorize(services)
    _, result = await _memorize(services, request=LATER)
    assert "p1. 用户是医生，住在北京" in model.calls[4][-1]["content"]
    assert (await _known(services))["profile"] == ["用户是医生，住在上海"]
    (step,) = result["steps"]
    assert (step["before"]["text"], step["after"]["text"]) == ("用户是医生，住在北京", "用户是医生，住在上海")
    newest = (await memory_changes(services, "agent_001", "user_001"))[0]
    assert newest.steps[0].before is not None
    assert newest.steps[0].before.text == "用户是医生，住在北京"
    await undo_change(services, "agent_001", "user_001")
    assert (await _known(services))["profile"] == ["用户是医生，住在北京"]


async def test_a_fact_without_a_source_message_is_dropped_and_told(
    services: Services, answer_with: Answer
) -> None:
    found = _facts(("用户是医生", "profile", [0]), ("用户会飞", "profile", [99]))
    wish = _wishes(
        {"op": "add", "type": "profile", "text": "用户是医生", "messages": [0]},
        {"op": "add", "type": "profile", "text": "用户有龙", "messages": []},
    )
    answer_with(found, wish, _mind())
    _, result = await _memorize(services)
    assert (await _known(services))["profile"] == ["用户是医生"]
    assert [dropped["what"] for dropped in result["dropped"]] == ["用户会飞", "用户有龙"]
    assert result["pipeline_result"]["dropped"] == result["dropped"]
    assert {dropped["reason"] for dropped in result["dropped"]} == {"no source message"}


async def test_where_nothing_is_worth_remembering_the_second_question_is_not_asked(
    services: Services, answer_with: Answer
) -> None:
    model = answer_with('{"facts": []}', _mind())
    _, result = await _memorize(services)
    assert (result["status"], len(model.calls)) == ("done", 2)
    assert result["pipeline_result"]["update_result"]["profile_updated"] is False
    assert await _known(services) == {"profile": [], "event": [], "mind": []}


BAD = [
    "I'm sorry, I cannot do that.",
    '{"facts": [{"text": "用',
    "",
    _facts(("The user is a doctor", "profile", [0])),
    _facts(*[("用户是医生", "profile", [0])] * 200),
]


@pytest.mark.parametrize("bad", BAD)
async def test_an_answer_that_cannot_be_used_is_asked_for_once_more_and_then_recorded(
    services: Services, answer_with: Answer, bad: str
) -> None:
    model = answer_with(bad, bad, *THREE)
    events, result = await _memorize(services)
    assert (result["status"], len(model.calls)) == ("error", 2)
    assert only(events, "error")[0]["code"] == "provider.unusable_answer"
    failure = result["pipeline_result"]["error"]
    assert (failure["stage"], failure["code"]) == ("modify", "provider.unusable_answer")
    assert await _known(services) == {"profile": [], "event": [], "mind": []}
    saved = await services.memories.conversation(result["conversation_id"])
    assert saved is not None
    assert saved.pipeline_result == result["pipeline_result"]
    _, again = await _memorize(services, conversation_id=result["conversation_id"])
    assert again["status"] == "done"
    assert (await _known(services))["mind"] == ["用户喜欢大海"]


@pytest.mark.parametrize("failing", range(3))
async def test_a_stage_that_fails_leaves_the_memory_as_it_was(
    services: Services, answer_with: Answer, failing: int
) -> None:
    replies: list[str | ScriptedReply] = list(THREE)
    replies[failing] = ScriptedReply(error="provider.failed")
    answer_with(*replies[: failing + 1])
    _, result = await _memorize(services)
    assert result["status"] == "error"
    assert result["pipeline_result"]["error"]["stage"] == list(STAGES)[failing]
    assert ("modification_result" in result["pipeline_result"]) == (failing > 0)
    assert await _known(services) == {"profile": [], "event": [], "mind": []}
    assert result["pipeline_result"]["pipeline_metadata"]["profile_updated"] is False


@pytest.mark.parametrize("language", PROMPT_LANGUAGES)
async def test_a_failure_is_kept_in_the_same_words_from_every_entrance(
    world: StoryWorld, services: Services, monkeypatch: pytest.MonkeyPatch, language: PromptLanguage
) -> None:
    error = NotFound("no_background", background_id="b")

    async def fail(*_: object, **__: object) -> dict[str, Any]:
        raise error

    monkeypatch.setitem(STAGES, "modify", fail)
    world.change_settings(language=language)
    with rendering_for("mcp"):
        events, result = await _memorize(services)
        assert only(events, "error")[0]["message"] == result["error"]["message"] == error.message(language)
    assert "persona_library" in result["error"]["message"]
    assert result["pipeline_result"]["error"]["message"] == error.message(language)


@pytest.mark.parametrize("step", [*STAGES, "store_memory"])
async def test_a_crash_before_any_step_keeps_the_conversation_and_the_next_try_doubles_nothing(
    services: Services, answer_with: Answer, step: str
) -> None:
    answer_with(*THREE)
    graph = build_memorize(services).compile(interrupt_before=[step])
    await graph.ainvoke({"request": REQUEST})
    assert await _known(services) == {"profile": [], "event": [], "mind": []}
    answer_with(*THREE)
    _, result = await _memorize(services)
    assert result["status"] == "done"
    assert (await _known(services))["profile"] == ["用户是医生，住在北京"]
    assert len(await services.memories.conversations("agent_001", "user_001")) == 1


class Attentive:
    """Answers by what it is asked, not by the order it is asked in."""

    name = "attentive"

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        asked = messages[-1]["content"]
        moved = "我搬家了" in asked
        fact = ("用户搬家了", "event", [0]) if moved else ("用户去了海边", "event", [2])
        await asyncio.sleep(0)
        if '"facts"' in asked:
            yield ReplyChunk(_facts(fact))
        elif '"insights"' in asked:
            yield ReplyChunk(_mind())
        else:
            yield ReplyChunk(_wishes({"op": "add", "type": fact[1], "text": fact[0], "messages": fact[2]}))


async def test_many_at_once_all_keep_what_they_learned(services: Services) -> None:
    services.models["rehearsal"] = Attentive()
    await asyncio.gather(*(_memorize(services, request=each) for each in [REQUEST, LATER] * 4))
    assert sorted((await _known(services))["event"]) == ["用户去了海边", "用户搬家了"]
    assert len(await services.memories.conversations("agent_001", "user_001")) == 2


@pytest.mark.parametrize("field", ["agent_id", "user_id", "messages"])
async def test_a_request_that_lacks_a_field_is_refused_and_leaves_nothing(
    services: Services, field: str
) -> None:
    request = {name: value for name, value in REQUEST.items() if name != field}
    events, result = await _memorize(services, request=request)
    assert result["status"] == "error"
    assert field in only(events, "error")[0]["message"]
    assert only(events, "error")[0]["kind"] == "user"
    assert await services.memories.memories() == []
    with pytest.raises(ValueError, match=field):
        await save_conversation(services, request)


async def test_an_unknown_conversation_is_said_to_be_unknown(services: Services) -> None:
    events, result = await _memorize(services, conversation_id="nope")
    assert result["status"] == "error"
    assert only(events, "error")[0]["code"] == "no_conversation"


@pytest.mark.parametrize("language", ["zh", "en"])
async def test_the_stand_in_remembers_what_people_say_of_themselves(
    services: Services, language: str
) -> None:
    said = {"zh": "我叫小林，我喜欢猫。", "en": "My name is Lin and I like cats."}[language]
    request = {**REQUEST, "messages": [{"role": "user", "content": said}]}
    _, result = await _memorize(services, request=request)
    assert result["status"] == "done"
    known = await _known(services)
    assert len(known["profile"]) == 1
    assert said in known["profile"][0]
    assert {"zh": "排练替身", "en": "rehearsal stand-in"}[language] in known["profile"][0]
