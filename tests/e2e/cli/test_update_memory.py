"""A character's growth from the terminal: shown first, made, looked back on, taken back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cli.conftest import Run


@pytest.mark.parametrize(
    ("character", "mark", "language"),
    [("char_maren", "rehearsal stand-in", "en"), ("char_alserqi", "排练替身", "zh")],
)
def test_a_character_grows_is_looked_at_and_is_taken_back(
    personalab: Run, root: Path, character: str, mark: str, language: str
) -> None:
    personalab("new", "-c", character, "--id", "tale")
    personalab("settings", "set", "language", language)
    for text in ("hello there", "I trust you 80%"):
        assert personalab("say", "tale", text).returncode == 0
    preview = json.loads(personalab("update-memory", "tale", "--dry-run", "--json").stdout)
    assert (preview["status"], preview["revision"], preview["turns"]) == ("preview", 0, [1, 2])
    assert mark in preview["evolved_persona"]
    assert not (root / "instances/tale/persona_history.json").exists()
    done = personalab("update-memory", "tale")
    assert done.returncode == 0
    assert f"+ {'（' if language == 'zh' else '('}" in done.stdout
    assert "[1]" in done.stdout
    assert "[2]" in done.stdout
    assert "--undo" in done.stderr
    again = personalab("update-memory", "tale")
    assert (again.returncode, again.stdout) == (0, "")
    shown = personalab("update-memory", "tale", "--history")
    assert mark in shown.stdout
    assert "rehearsal" in shown.stdout
    found = json.loads(personalab("update-memory", "tale", "--history", "--json").stdout)
    assert [row["revision"] for row in found["revisions"]] == [1]
    assert found["revisions"][0]["changes"][0]["turns"] == [1]
    back = json.loads(personalab("update-memory", "tale", "--undo", "--json").stdout)
    assert (back["revision"], back["evolved_persona"]) == (0, "")
    found = json.loads(personalab("update-memory", "tale", "--history", "--json").stdout)
    assert (found["revision"], found["revisions"], len(found["withdrawn"])) == (0, [], 1)


def test_what_cannot_grow_or_be_taken_back_is_bad_input(personalab: Run) -> None:
    personalab("new", "-c", "char_maren", "--id", "tale")
    for words in (["tale"], ["tale", "--undo"], ["nope"], ["nope", "--history"], ["../x", "--undo"]):
        done = personalab("update-memory", *words)
        assert done.returncode == 2, words
        assert done.stderr.strip()
        assert not done.stdout.strip()
    assert personalab("update-memory", "tale", "--history").stdout.strip()


def test_a_model_that_answers_nonsense_changes_nothing(
    personalab: Run, story: str, root: Path, script: Callable[..., str]
) -> None:
    personalab("say", story, "你好")
    state = root / "instances" / story / "character_state.json"
    before = state.read_bytes()
    model: Any = script("I'm sorry, I cannot do that.", loop=True)
    done = personalab("update-memory", story, "--model", model)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.strip().splitlines()) == 1
    assert state.read_bytes() == before
