"""What a character knows about its player: in the prompt, learned from the story, and cared for by itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from graph.learning import learn_story
from graph.preview import preview_prompt
from graph.summarize import stream_summary
from graph.update_memory import stream_update
from nodes.update_memory.state import UpdateInput
from personalab.dialogue import Message
from personalab.memory.pipeline import has_succeeded
from personalab.operations.instances import new_instance
from personalab.operations.learning import MOST_TRIES, MOST_TURNS, TOGETHER, unlearned
from personalab.operations.memory import add_entry, forget_memory, get_memory, undo_change
from personalab.operations.summaries import undo_summary
from personalab.ports import ReplyChunk
from personalab.providers.scripted import ScriptedModel, ScriptedReply
from personalab.retrieval.in_memory import InMemoryLibrary
from personalab.services import Services
from tests.graph.turns import only, play, say

pytestmark = pytest.mark.anyio
Answer = Callable[..., ScriptedModel]
AGENT, PLAYER = "char_alserqi", "player"


@pytest.fixture(autouse=True)
def _light_library(services: Services) -> None:  # pyright: ignore[reportUnusedFunction] (a fixture)
    services.__dict__["library"] = InMemoryLibrary()


def _evolved() -> str:
    changes = [{"change": "更信任玩家", "turns": [1]}]
    return json.dumps({"evolved_persona": "学会了信任。", "changes": changes}, ensure_ascii=False)


class Obliging:
    """Answers turns with a word, and every question about them with what it was shown."""

    name = "obliging"

    def __init__(self) -> None:
        self.refuses = "never said"
        self.asked: list[str] = []
        self.system: list[str] = []

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        asked = messages[-1]["content"]
        self.asked.append(asked)
        self.system.append(messages[0]["content"])
        if '"facts"' in messages[1]["content"] and self.refuses in messages[1]["content"]:
            yield ReplyChunk("抱歉，我不能回答。")
        elif '"facts"' in asked:
            first = asked.partition("[0] user: ")[2].partition("\n")[0]
            facts = [{"text": f"用户说过{first}", "type": "event", "messages": [0]}]
            yield ReplyChunk(json.dumps({"facts": facts}))
        elif '"insights"' in asked:
            yield ReplyChunk('{"insights": "用户平静。", "confidence_score": 0.5, "operations": []}')
        elif '"operations"' in asked:
            text = asked.partition("- [event] ")[2].partition(" [0]")[0]
            wish = {"op": "add", "type": "event", "text": text, "reason": "说过", "messages": [0]}
            yield ReplyChunk(json.dumps({"operations": [wish]}))
        elif '"evolved_persona"' in asked:
            grown = "学会了信任。" in asked
            yield ReplyChunk('{"evolved_persona": "学会了信任。", "changes": []}' if grown else _evolved())
        elif '"points"' in asked:
            points = [{"summary": "他们聊了很久。", "plot": "他们聊了很久，很多话。", "turns": [1, 2]}]
            yield ReplyChunk(json.dumps({"points": points}))
        else:
            yield ReplyChunk("好。")

    @property
    def questions(self) -> int:
        """How often it was asked about a conversation."""
        return sum('"facts"' in asked for asked in self.asked)


@pytest.fixture
def obliging(services: Services) -> Obliging:
    """A model that learns whatever it is shown."""
    model = Obliging()
    services.models["rehearsal"] = model  # pyright: ignore[reportArgumentType] (it is one)
    return model


async def _events(services: Services) -> list[str]:
    return (await get_memory(services, AGENT, PLAYER)).texts("event")


# --- in the prompt


async def test_what_is_known_stands_in_the_head_after_the_evolved_persona(
    services: Services, instance: str, answer_with: Answer
) -> None:
    state = services.stories.root / "instances" / instance / "character_state.json"
    state.write_text(json.dumps({"base_persona": "甲", "evolved_persona": "乙"}), encoding="utf-8")
    await add_entry(services, AGENT, PLAYER, "profile", "玩家是一名医生")
    await add_entry(services, AGENT, PLAYER, "mind", "玩家害怕黑暗")
    model = answer_with("好。")
    await say(services, "你好")
    system = model.calls[0][0]["content"]
    assert "=== 对玩家的了解 ===\n- 玩家是一名医生\n- 玩家害怕黑暗\n" in system + "\n"
    assert system.index("=== 角色成长人格 ===") < system.index("=== 对玩家的了解 ===")
    found = await preview_prompt(services, instance)
    names = [section.name for section in found.prompt.sections]
    assert names.index("player_memory") == names.index("evolved_persona") + 1
    assert found.prompt.sections[names.index("player_memory")].zone == "head"


async def test_of_the_events_only_those_that_fit_the_turn_are_told(
    services: Services, instance: str, answer_with: Answer
) -> None:
    for text in ("玩家在灯塔下埋了一只铁盒", "玩家修好了收音机", "玩家学会了游泳", "玩家和老陈吵了一架"):
        await add_entry(services, AGENT, PLAYER, "event", text)
    model = answer_with("好。", "好。")
    await say(services, "我埋在灯塔下的铁盒还在吗？")
    assert "玩家在灯塔下埋了一只铁盒" in model.calls[0][0]["content"]
    assert "收音机" not in model.calls[0][0]["content"]
    await say(services, "嗯。")
    assert "对玩家的了解" not in model.calls[1][0]["content"]


async def test_nothing_known_or_the_switch_off_leaves_the_section_out(
    services: Services, instance: str, answer_with: Answer, root: Path
) -> None:
    model = answer_with("好。", "好。", "好。")
    await say(services, "你好")
    assert not (root / "memory").exists()
    await add_entry(services, AGENT, PLAYER, "profile", "玩家是一名医生")
    (root / "modules" / "memory.json").write_text('{"enabled": false}', encoding="utf-8")
    await say(services, "你好")
    (root / "modules" / "memory.json").write_text("{", encoding="utf-8")
    events, _ = await say(services, "你好")
    assert [warning["category"] for warning in only(events, "warning")] == ["memory_switch"]
    assert all("对玩家的了解" not in call[0]["content"] for call in model.calls)


async def test_the_section_keeps_to_its_room_and_prefers_the_newest(
    services: Services, instance: str, answer_with: Answer, root: Path
) -> None:
    for number in range(60):
        await add_entry(services, AGENT, PLAYER, "profile", f"玩家的第{number}件小事，说来话长")
    (root / "modules" / "memory.json").write_text('{"enabled": true, "max_tokens": 200}', encoding="utf-8")
    answer_with("好。")
    await say(services, "你好")
    found = await preview_prompt(services, instance)
    section = next(part for part in found.prompt.sections if part.name == "player_memory")
    assert section.tokens < 230
    assert "第59件" in section.text
    assert "第0件" not in section.text


async def test_a_store_that_cannot_be_used_is_a_warning_and_the_turn_goes_on(
    services: Services, instance: str, answer_with: Answer, root: Path
) -> None:
    (root / "memory").mkdir()
    (root / "memory" / "memory.db").write_bytes(
        b"this is no database, but it is long enough to look like one" * 20
    )
    answer_with("好。")
    events, result = await say(services, "你好")
    assert (result["status"], result["reply"]) == ("done", "好。")
    assert [warning["category"] for warning in only(events, "warning")] == ["memory_unavailable"]


async def test_a_character_remembers_its_player_in_another_story(
    services: Services, instance: str, obliging: Obliging
) -> None:
    await say(services, "我叫小林")
    await learn_story(services, instance, model=None)
    other = await new_instance(services, AGENT, None, "inst_002")
    await say(services, "我叫小林，记得吗？", other.instance_id)
    assert "用户说过我叫小林" in obliging.system[-1]


# --- learning from the story


async def test_turns_are_learned_from_once_whatever_session_they_stand_in(
    services: Services, instance: str, obliging: Obliging
) -> None:
    services.preferences.change({"summary_last_n_turns": 2})
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


async def test_many_turns_are_learned_from_in_pieces_and_the_oldest_left_out(
    services: Services, instance: str, answer_with: Answer
) -> None:
    writer = services.stories.writer(instance, "sess_001")
    from personalab.story.lines import AssistantLine, UserLine

    for number in range(1, MOST_TURNS + 31):
        writer.append(UserLine(f"第{number}句", number, "2025-10-16T10:30:00Z"))
        writer.append(AssistantLine("好。", number, "2025-10-16T10:30:00Z"))  # pyright: ignore[reportArgumentType] (a whole line, as a file has it)
    services.stories.cache.keep(writer.close())
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
    assert [has_succeeded(talk.pipeline_result) for talk in talks] == [True, False]


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


async def test_updating_the_memory_lets_the_persona_grow_and_learns_about_the_player(
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


async def test_a_persona_grows_even_where_nothing_can_be_learned_about_the_player(
    services: Services, instance: str, answer_with: Answer
) -> None:
    answer_with("好。", _evolved())
    await say(services, "我叫小林")
    events, result = await _grown(services)
    assert (result["status"], result["evolved_persona"]) == ("done", "学会了信任。")
    assert [warning["category"] for warning in only(events, "warning")] == ["memory_not_learned"]
    assert only(events, "error") == []
    assert services.stories.character_state(instance).evolved_persona == "学会了信任。"


# --- by itself


async def test_nothing_is_done_by_itself_unless_it_was_switched_on(
    services: Services, instance: str, obliging: Obliging
) -> None:
    events, result = await say(services, "我叫小林")
    assert only(events, "care") == []
    assert obliging.questions == 0
    assert not result.get("care")


async def test_a_character_learns_by_itself_every_so_many_turns_and_it_can_be_undone(
    services: Services, instance: str, obliging: Obliging
) -> None:
    services.preferences.change({"auto_memorize_turns": 2})
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


async def test_a_long_session_is_summed_up_by_itself_and_it_can_be_undone(
    services: Services, instance: str, obliging: Obliging
) -> None:
    services.preferences.change({"auto_summarize": True, "middle_section_warning_tokens": 1_000})
    await say(services, "你好")
    events, result = await say(services, "沿着旧铁路往北走。" * 200)
    assert [event["status"] for event in only(events, "care")] == ["begun", "done"]
    assert "summarize inst_001 --undo" in result["care"][0]["message"]
    assert services.stories.instance(instance).current_session_id == "sess_002"
    await undo_summary(services, instance)
    assert services.stories.instance(instance).current_session_id == "sess_001"


async def test_care_that_fails_is_told_and_the_turn_is_whole(
    services: Services, instance: str, answer_with: Answer
) -> None:
    services.preferences.change({"auto_memorize_turns": 1})
    answer_with("好。")
    events, result = await say(services, "我叫小林")
    assert (result["status"], result["reply"]) == ("done", "好。")
    assert [event["status"] for event in only(events, "care")] == ["begun", "error"]
    assert only(events, "error") == []
