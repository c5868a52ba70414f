"""Tests of greetings, lore and author's texts at the terminal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest

from personalab.services import Services
from personalab.story.records import Character
from tests.e2e.cli.conftest import Run

Terminal = Callable[..., "pexpect.spawn[str]"]


@pytest.fixture(autouse=True)
def ann(services: Services, root: Path) -> Services:
    """A character with two greetings and a lorebook."""
    book = {
        "name": "岛志",
        "entries": [
            {
                "keys": ["灯塔"],
                "content": "灯塔三年没有亮过。",
                "name": "旧灯塔",
                "enabled": True,
                "insertion_order": 1,
                "position": "before_char",
            },
            {"keys": ["海"], "content": "雾" * 4_000, "name": "太长", "enabled": True, "insertion_order": 2},
        ],
    }
    services.stories.save_character(
        Character("char_ann", "安", "你是{{char}}。", "zh", {}, ("{{user}}，你来了。", "谁在那里？")),
        {"lorebook.json": json.dumps(book, ensure_ascii=False).encode("utf-8")},
    )
    return services


def test_a_greeting_opens_the_story_and_is_read_back(personalab: Run) -> None:
    made = personalab("new", "-c", "char_ann", "--id", "one")
    assert made.returncode == 0
    shown = personalab("read", "one").stdout
    assert "玩家，你来了。" in shown
    assert "第 0 轮" not in shown
    personalab("new", "-c", "char_ann", "--id", "two", "--greeting", "2")
    page = json.loads(personalab("read", "two", "--json").stdout)
    assert [(line["turn"], line["content"]) for line in page["entries"]] == [(0, "谁在那里？")]
    personalab("new", "-c", "char_ann", "--id", "three", "--greeting", "0")
    assert json.loads(personalab("read", "three", "--json").stdout)["entries"] == []
    refused = personalab("new", "-c", "char_ann", "--id", "four", "--greeting", "3")
    assert (refused.returncode, "2 个" in refused.stderr) == (2, True)


def test_a_person_is_asked_which_greeting_opens_the_story(terminal: Terminal, personalab: Run) -> None:
    child = terminal("new", "--id", "asked")
    child.expect("2.*安")
    child.sendline("2")
    child.expect("选择背景")
    child.sendline("")
    child.expect("选择开场白")
    child.expect("谁在那里")
    child.sendline("2")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert "谁在那里？" in personalab("read", "asked").stdout


def test_the_prompt_tells_which_lore_is_in_and_why(personalab: Run) -> None:
    personalab("new", "-c", "char_ann", "--id", "one")
    shown = personalab("prompt", "one", "去灯塔看海").stdout
    assert "lorebook_before_char" in shown
    assert "旧灯塔 [岛志]" in shown
    assert "关键词“灯塔”" in shown
    assert "太长" in shown
    assert "没有加入" in shown
    found = json.loads(personalab("prompt", "one", "去灯塔看海", "--json").stdout)
    assert [(hit["name"], hit["shown"]) for hit in found["lore"]] == [("旧灯塔", True), ("太长", False)]
    section = personalab("prompt", "one", "去灯塔看海", "--section", "lorebook_before_char").stdout
    assert "灯塔三年没有亮过。" in section


def test_the_library_shows_names_instead_of_placeholders(personalab: Run) -> None:
    shown = personalab("library").stdout
    assert "你是安。" in shown
    assert "{{" not in shown


def test_what_a_story_opens_with_is_recalled_by_its_turn(personalab: Run) -> None:
    personalab("new", "-c", "char_ann", "--id", "one", "--greeting", "2")
    personalab("say", "one", "是我")
    found = json.loads(personalab("recall", "one", "谁在那里", "--depth", "turns", "--json").stdout)
    assert [0, 0] in [item["turns"] for item in found]


def test_the_players_name_is_a_setting(personalab: Run) -> None:
    assert personalab("settings", "set", "player_name", "小林").returncode == 0
    personalab("new", "-c", "char_ann", "--id", "one")
    assert "小林，你来了。" in personalab("read", "one").stdout
    refused = personalab("settings", "set", "player_name", "x" * 65)
    assert (refused.returncode, refused.stdout) == (2, "")
