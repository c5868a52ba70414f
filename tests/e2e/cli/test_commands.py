"""Tests of commands that create, show and change things, with output for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.cli.conftest import Run

Script = Callable[..., str]


def test_a_new_story_is_begun_and_listed(personalab: Run, root: Path) -> None:
    made = personalab("new", "--character", "char_maren", "--background", "bg_lighthouse", "--id", "rock")
    assert (made.returncode, "personalab chat rock" in made.stdout) == (0, True)
    assert (root / "instances" / "rock" / "instance_state.json").exists()
    listed = json.loads(personalab("library", "--json").stdout)
    assert [entry["id"] for entry in listed["instances"]] == ["rock"]
    assert [entry["id"] for entry in listed["characters"]] == ["char_alserqi", "char_maren"]
    assert "rock" in personalab("library").stdout


def test_new_without_a_character_names_those_there_are(personalab: Run) -> None:
    done = personalab("new")
    assert (done.returncode, done.stdout) == (2, "")
    assert "char_maren" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("new", "--character", "nobody"),
        ("new", "--character", "char_maren", "--id", "inst_001"),
        ("new", "--character", "char_maren", "--id", "../up"),
        ("read", "inst_404"),
        ("read", "inst_001", "--count", "0"),
        ("switch-background", "inst_001"),
        ("switch-background", "inst_001", "bg_lighthouse", "--none"),
        ("switch-background", "inst_001", "bg_404"),
        ("recall", "inst_001", " "),
        ("recall", "inst_001", "x", "--depth", "bottom"),
        ("prompt", "inst_001", "--section", "nothing"),
        ("settings", "set", "max_total_tokens", "5"),
        ("settings", "set", "colour", "red"),
        ("settings", "set", "language"),
        ("nonsense",),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_two(
    personalab: Run, story: str, words: tuple[str, ...]
) -> None:
    done = personalab(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip()
    assert done.stderr.count("\n") == 1


def test_a_story_is_read_back_page_by_page(personalab: Run, story: str, script: Script) -> None:
    model = script("一", "二", "三", loop=True)
    for words in ("第一句", "第二句", "第三句"):
        personalab("say", story, words, "--model", model)
    newest = personalab("read", story, "--count", "1")
    assert "第三句" in newest.stdout
    assert "第二句" not in newest.stdout
    assert "--before 3" in newest.stderr
    page = json.loads(personalab("read", story, "--before", "3", "--count", "1", "--json").stdout)
    assert [entry["content"] for entry in page["entries"]] == ["第二句", "一"]


def test_the_background_is_switched_and_taken_away(personalab: Run, story: str) -> None:
    assert "The Skerry Light" in personalab("switch-background", story, "bg_lighthouse").stdout
    state = json.loads(personalab("switch-background", story, "--none", "--json").stdout)
    assert state["background_id"] is None


def test_the_prompt_is_shown_section_by_section(personalab: Run, story: str) -> None:
    rows = personalab("prompt", story, "你好").stdout
    assert all(name in rows for name in ("base_persona", "story_outline", "conversation", "█", "100,000"))
    section = personalab("prompt", story, "你好", "--section", "base_persona").stdout
    assert section.startswith("=== 角色初始人格 ===")
    whole = personalab("prompt", story, "你好", "--text").stdout
    assert section.strip() in whole
    assert "User: 你好\n\n" in whole
    assert "post_history_instructions" in rows
    assert "扮演指令" in rows
    data = json.loads(personalab("prompt", story, "你好", "--json").stdout)
    assert data["text"] == whole.rstrip("\n")
    assert data["tokens"]["total"] == sum(section["tokens"] for section in data["sections"])
    assert "你好" in personalab("prompt", story, "你好", "--messages").stdout


def test_settings_are_shown_changed_and_reset(personalab: Run) -> None:
    assert "max_total_tokens" in personalab("settings").stdout
    assert personalab("settings", "set", "summary_last_n_turns", "7").returncode == 0
    assert json.loads(personalab("settings", "show", "--json").stdout)["thresholds.summary_last_n_turns"] == 7
    assert json.loads(personalab("settings", "--json").stdout)["thresholds.summary_last_n_turns"] == 7
    assert personalab("settings", "reset").returncode == 0
    assert json.loads(personalab("settings", "--json").stdout)["thresholds.summary_last_n_turns"] == 5


def test_a_reset_tells_what_became_of_the_language(personalab: Run, root: Path) -> None:
    assert "语言保留不变" in personalab("settings", "reset").stdout
    (root / "config.json").write_bytes(b"junk")
    assert "settings reset" in personalab("doctor").stdout
    assert "包括语言" in personalab("settings", "reset").stdout
    assert personalab("doctor").returncode == 0


def test_the_reader_chooses_the_language(personalab: Run) -> None:
    assert "角色" in personalab("library").stdout
    personalab("settings", "set", "language", "en")
    assert "Characters" in personalab("library").stdout
    assert personalab("read", "inst_404").stderr.startswith("There is no instance")


def test_before_a_data_root_is_open_the_terminal_decides_the_language(personalab: Run) -> None:
    assert "用法" in personalab("nonsense", LANG="zh_CN.UTF-8").stderr
    assert "see personalab --help" in personalab("nonsense", LANG="en_GB.UTF-8").stderr
    assert personalab("library", PERSONALAB_BUSY_SECONDS="soon", LANG="en_GB.UTF-8").returncode == 2


def test_reindex_makes_the_past_findable(personalab: Run, story: str, script: Script) -> None:
    personalab("say", story, "那只乌鸦叫什么名字", "--model", script("它叫炭"))
    done = personalab("reindex", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["counts"]["turn"] == 1
    found = json.loads(personalab("recall", story, "乌鸦的名字", "--depth", "turns", "--json").stdout)
    assert found[0]["turns"] == [1, 1]
    assert found[0]["session_id"] == "sess_001"
    assert found[0]["reason"]
    assert "乌鸦" in personalab("recall", story, "乌鸦的名字").stdout


def test_recall_hides_markers_in_texts_but_not_in_json(personalab: Run, story: str, script: Script) -> None:
    reply = "那只乌鸦叫墨点。\n[PROGRESS:1:in_progress]"
    personalab("say", story, "乌鸦叫什么？", "--model", script(reply))
    asked = ("recall", story, "乌鸦的名字", "--depth", "turns")
    assert reply in personalab(*asked).stdout
    personalab("settings", "set", "show_markers", "false")
    shown = personalab(*asked).stdout
    assert "墨点" in shown
    assert "PROGRESS" not in shown
    assert "PROGRESS" in personalab(*asked, "--json").stdout


def test_a_data_root_that_cannot_be_written_is_exit_code_one(personalab: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    done = personalab("library", PERSONALAB_DATA=str(tmp_path / "file" / "data"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1


def test_the_doctor_tells_by_its_exit_code(personalab: Run, story: str, root: Path) -> None:
    assert personalab("doctor").returncode == 0
    path = root / "instances" / story / "sessions" / "sess_001.jsonl"
    path.write_bytes(path.read_bytes() + b"junk\n")
    found = personalab("doctor")
    assert found.returncode == 1
    assert "sess_001.jsonl:2" in found.stdout
    report = json.loads(personalab("doctor", "--json").stdout)
    assert [finding["code"] for finding in report["findings"]] == ["line_broken"]
    assert personalab("doctor", "--fix").returncode == 0
    assert personalab("doctor").returncode == 0
