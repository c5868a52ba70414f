"""What a character knows about its player, in the prompt of its turns."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from graph.memorize import learn_story
from graph.preview import preview_prompt
from personalab.operations.instances import new_instance
from personalab.operations.memory import add_entry
from personalab.services import Services
from personalab.testing.in_memory import InMemoryLibrary
from personalab.testing.scripted import ScriptedModel
from tests.support.graph.obliging import Obliging
from tests.support.graph.turns import only, say

pytestmark = pytest.mark.anyio
Answer = Callable[..., ScriptedModel]
AGENT, PLAYER = "char_alserqi", "player"


@pytest.fixture(autouse=True)
def _light_library(services: Services) -> None:  # pyright: ignore[reportUnusedFunction] (a fixture)
    services.__dict__["library"] = InMemoryLibrary()


@pytest.fixture
def obliging(services: Services) -> Obliging:
    """A model that learns whatever it is shown."""
    model = Obliging()
    services.models["rehearsal"] = model  # pyright: ignore[reportArgumentType] (it is one)
    return model


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
