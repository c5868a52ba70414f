"""What the next turn sends, section by section, and why each is in or left out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from personalab.services import Services
from personalab.testing.in_memory import InMemoryLibrary
from personalab.texts import TEXTS, say
from tests.support.graph.turns import snapshot
from tests.support.graph.worked_example import INPUT_42, RECALLED, instance_state, lay_out, recalled_events
from web.api.prompt import SHOWN_CHARACTERS

pytestmark = pytest.mark.anyio
STORY = "/api/instances/inst_001"
Sections = dict[str, dict[str, Any]]


@pytest.fixture(autouse=True)
async def example(services: Services, root: Path, anyio_backend: str) -> Services:
    """The worked example: 41 turns in sess_003, and a library with two events that it recalls."""
    library = services.__dict__["library"] = InMemoryLibrary()
    lay_out(root)
    await library.write(recalled_events())
    return services


async def _prompt(client: httpx.AsyncClient, text: str = "") -> tuple[dict[str, Any], Sections]:
    answer = await client.get(f"{STORY}/prompt", params={"text": text})
    assert answer.status_code == 200, answer.text
    told = answer.json()
    return told, {section["name"]: section for section in told["sections"]}


def _write(root: Path, name: str, value: object) -> None:
    (root / name).write_text(json.dumps(value), encoding="utf-8")


async def test_the_worked_examples_prompt_is_told_in_its_order(
    app_client: httpx.AsyncClient, root: Path
) -> None:
    before = snapshot(root / "instances")
    told, sections = await _prompt(app_client, INPUT_42)
    assert [name for name, section in sections.items() if section["included"]] == [
        "system_prompt", "base_persona", "evolved_persona", "background", "story_outline",
        "progress_instruction", "recalled_events", "conversation", "post_history_instructions",
    ]  # fmt: skip
    assert (told["turn"], sections["conversation"]["why"]) == (42, "第 1–42 轮，整个会话")
    assert sections["recalled_events"]["why"] == "这句话问起了过去：还记得, 之前, 记得, 约定"
    assert sorted(event["text"] for event in told["recalled"]) == sorted(RECALLED)
    assert sections["story_outline"]["why"] == "导演已开启；故事在第 3 点，共 5 点"
    assert sections["director_reminder"]["why"] == "只有 2 轮没有推进，未达到阈值 3"
    assert snapshot(root / "instances") == before


async def test_the_tokens_add_up_and_stand_against_their_limits(
    app_client: httpx.AsyncClient, services: Services
) -> None:
    services.preferences.change({"limits.middle_section_warning_tokens": 1_000})
    told, sections = await _prompt(app_client, "好" * 2_000)
    tokens = told["tokens"]
    for zone in ("head", "middle"):
        assert tokens[zone] == sum(one["tokens"] for one in sections.values() if one["zone"] == zone) > 0
    assert tokens["total"] == tokens["head"] + tokens["middle"]
    assert (tokens["max_total"], tokens["middle_warning"], tokens["head_warning"]) == (100_000, 1_000, 4_096)
    overflow = next(one for one in told["warnings"] if one["category"] == "middle_section_overflow")
    assert (overflow["current_value"], overflow["threshold"]) == (tokens["middle"], 1_000)
    assert told["too_long"] is None


async def test_a_prompt_over_its_limit_is_shown_with_what_would_be_said(
    app_client: httpx.AsyncClient, services: Services
) -> None:
    services.preferences.change({"limits.max_total_tokens": 10_000})
    answer = await app_client.post(f"{STORY}/prompt", json={"text": "长短句，" * 12_000})
    told = answer.json()
    assert told["too_long"].startswith("Prompt总长度超过限制")
    conversation = next(one for one in told["sections"] if one["name"] == "conversation")
    assert conversation["cut"]
    assert len(conversation["text"]) == SHOWN_CHARACTERS < conversation["characters"]


async def test_what_is_switched_off_says_so(app_client: httpx.AsyncClient, root: Path) -> None:
    for module in ("director", "memory", "lorebook"):
        _write(root, f"modules/{module}.json", {"enabled": False})
    _write(root, "modules/recall.json", {"trigger": "off"})
    _, sections = await _prompt(app_client, INPUT_42)
    assert {name: section["why"] for name, section in sections.items() if not section["included"]} == {
        "lorebook_before_char": "世界书已关闭",
        "lorebook_after_char": "世界书已关闭",
        "player_memory": "对玩家的记忆已关闭",
        "story_outline": "导演已关闭",
        "progress_instruction": "导演已关闭",
        "director_reminder": "导演已关闭",
        "recalled_events": "回忆已关闭",
        "example_dialogue": "角色没有对话示例",
    }
    assert (sections["system_prompt"]["title"], sections["system_prompt"]["why"]) == (
        "扮演指令",
        "来自模板 system_prompt.txt",
    )
    assert sections["post_history_instructions"]["why"] == "来自模板 post_history_instructions.txt"


async def test_own_instructions_and_examples_are_told_apart_from_templates(
    app_client: httpx.AsyncClient, services: Services, root: Path
) -> None:
    state = {
        "base_persona": "Ann",
        "system_prompt": "Be Ann.",
        "post_history_instructions": "Be brief.",
        "example_dialogue": "{{char}}: Hello.",
    }
    _write(root, "instances/inst_001/character_state.json", state)
    services.preferences.change({"preferences.language": "en"})
    _, sections = await _prompt(app_client)
    assert {name: (sections[name]["title"], sections[name]["why"]) for name in list(state)[1:]} == {
        "system_prompt": ("Role instruction", "The character's own instruction; always first"),
        "post_history_instructions": ("Closing reminder", "The character's own reminder; always last"),
        "example_dialogue": (
            "Example dialogue",
            "Shows how the character speaks; sent as messages before the conversation",
        ),
    }
    assert sections["example_dialogue"]["zone"] == "head"
    services.preferences.change({"limits.max_total_tokens": 10_000})
    answer = await app_client.post(f"{STORY}/prompt", json={"text": "one " * 12_000})
    dropped = next(one for one in answer.json()["sections"] if one["name"] == "example_dialogue")
    assert dropped["why"] == "Left out of this turn: the prompt would exceed 10000 tokens"


async def test_a_reminder_says_how_long_nothing_went_on(app_client: httpx.AsyncClient, root: Path) -> None:
    _write(root, "instances/inst_001/instance_state.json", instance_state(4))
    _, sections = await _prompt(app_client)
    assert sections["director_reminder"]["included"]
    assert sections["director_reminder"]["why"] == "已有 4 轮没有推进（阈值 3）"


@pytest.mark.parametrize(
    ("trigger", "text", "why"),
    [
        ("keywords", "走吧", "这句话没有问起过去"),
        ("auto", "走吧", "没有问起过去，也没有足够确定的事件"),
        ("keywords", "还记得xyzzy吗", "问起了过去，但没有找到事件"),
        ("always", "约定", "设置为每轮都回忆"),
    ],
)
async def test_recall_says_why_it_is_in_or_left_out(
    app_client: httpx.AsyncClient, root: Path, trigger: str, text: str, why: str
) -> None:
    _write(root, "modules/recall.json", {"trigger": trigger})
    _, sections = await _prompt(app_client, text)
    assert sections["recalled_events"]["why"] == why


async def test_an_entry_of_a_lorebook_says_what_called_it_up(
    app_client: httpx.AsyncClient, root: Path
) -> None:
    def entry(key: str, content: str, number: int, **more: Any) -> dict[str, Any]:
        known = {"keys": [key], "content": content, "enabled": True, "insertion_order": number, "id": number}
        return {**known, "extensions": {}, "use_regex": False, **more}

    entries = [entry("约定", "约定是不冲动。", 1, name="约定"), entry("门", "长" * 90_000, 2, name="门")]
    _write(root, "backgrounds/bg_wasteland/lorebook.json", {"entries": entries, "extensions": {}})
    _write(root, "modules/lorebook.json", {"enabled": True})
    told, sections = await _prompt(app_client, "约定在门后。")
    assert [(one["name"], one["included"], one["why"]) for one in told["lore"]] == [
        ("约定", True, "关键词“约定”（最新的一条消息）"),
        ("门", False, "关键词“门”（最新的一条消息）；没有加入：世界书的空间不够"),
    ]
    section = sections[told["lore"][0]["section"]]
    assert (section["included"], section["why"]) == (True, "触发了 1 个条目")


async def test_the_reader_is_told_in_their_language(
    app_client: httpx.AsyncClient, services: Services
) -> None:
    services.preferences.change({"preferences.language": "en"})
    _, sections = await _prompt(app_client)
    assert (sections["base_persona"]["title"], sections["base_persona"]["why"]) == (
        "Base persona",
        "Always included; never changes",
    )


def _words(told: dict[str, Any]) -> Iterator[str]:
    for section in told["sections"]:
        yield from (section["title"], section["why"])


async def test_every_section_has_a_name_and_a_reason(app_client: httpx.AsyncClient) -> None:
    told, _ = await _prompt(app_client)
    assert all(_words(told))
    assert {f"section.{one['name']}" for one in told["sections"]} == {
        code for code in TEXTS if code.startswith("section.")
    }


async def test_the_past_is_searched_on_purpose(app_client: httpx.AsyncClient) -> None:
    answer = await app_client.get(f"{STORY}/recall", params={"query": "约定", "n": 1, "depth": "summaries"})
    events = answer.json()["events"]
    assert [(event["kind"], event["text"] in RECALLED) for event in events] == [("summary", True)]
    assert events[0]["reason"]
    newest = (await app_client.get(f"{STORY}/recall", params={"query": "Victor", "depth": "turns"})).json()
    assert {event["turns"][0] for event in newest["events"]} & {39, 41}


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("inst_001/recall?query=%20", 400, "blank_input"),
        ("inst_001/recall?query=", 422, "bad_request"),
        ("inst_001/recall?query=a&n=0", 422, "bad_request"),
        ("inst_001/recall?query=a&depth=deep", 422, "bad_request"),
        ("nope/recall?query=a", 404, "no_instance"),
        ("nope/prompt", 404, "no_instance"),
        ("con/prompt", 400, "bad_id"),
    ],
)
async def test_what_cannot_be_asked_is_refused(
    app_client: httpx.AsyncClient, path: str, status: int, code: str
) -> None:
    answer = await app_client.get(f"/api/instances/{path}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


async def test_texts_that_are_not_well_formed_are_shown(app_client: httpx.AsyncClient, root: Path) -> None:
    _write(
        root, "instances/inst_001/character_state.json", {"base_persona": "a\ud800b", "evolved_persona": ""}
    )
    _, sections = await _prompt(app_client)
    assert "a\ufffdb" in sections["base_persona"]["text"]
    assert sections["evolved_persona"]["why"] == say("why.no_evolved_persona", "zh")


async def test_what_could_not_be_read_is_not_said_to_be_empty(
    app_client: httpx.AsyncClient, services: Services, root: Path
) -> None:
    services.settings = replace(services.settings, database="postgresql://127.0.0.1:1/nowhere")
    background = next((root / "backgrounds").glob("*/background.json"))
    background.write_text('{"broken":', encoding="utf-8")
    told, sections = await _prompt(app_client)
    assert {warning["category"] for warning in told["warnings"]} == {
        "background_unreadable",
        "memory_unavailable",
    }
    for name in ("player_memory", "background", "story_outline", "progress_instruction"):
        assert sections[name]["why"] == say("why.unread", "zh"), name
    _write(root, "modules/director.json", {"enabled": False})
    _, sections = await _prompt(app_client)
    assert sections["story_outline"]["why"] == say("why.director_off", "zh")
