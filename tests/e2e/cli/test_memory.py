"""What characters know about people, from the terminal: looked at, searched, mended, taken back, forgotten."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests.e2e.cli.conftest import Run

REQUEST: dict[str, Any] = {
    "agent_id": "agent_001",
    "user_id": "user_001",
    "messages": [
        {"role": "user", "content": "我叫小林，我喜欢猫。"},
        {"role": "assistant", "content": "你好，小林。"},
    ],
}


def _json(run: Run, *words: str, typed: str | None = None) -> Any:
    done = run(*words, "--json", typed=typed)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_conversation_is_saved_learned_from_found_and_forgotten(personalab: Run, tmp_path: Path) -> None:
    file = tmp_path / "talk.json"
    file.write_text(json.dumps(REQUEST, ensure_ascii=False), encoding="utf-8")
    saved = _json(personalab, "memory", "save", str(file))
    assert saved["message"] == "Conversation saved successfully"
    assert (saved["success"], saved["message_count"]) == (True, 2)
    again = _json(personalab, "memory", "save", "-", typed=json.dumps(REQUEST))
    assert again == saved
    learned = personalab("memory", "learn", saved["conversation_id"])
    assert learned.returncode == 0
    assert "+ 资料" in learned.stdout
    about = ("agent_001", "--user", "user_001")
    memory = _json(personalab, "memory", "get", *about)
    assert len(memory["profile_content"]) == 1
    found = _json(personalab, "memory", "search", "agent_001", "猫", "--user", "user_001")
    assert found[0]["conversation_id"] == saved["conversation_id"]
    talks = _json(
        personalab, "memory", "search", "agent_001", "小林", "--user", "user_001", "--conversations"
    )
    assert talks[0]["summary"] == "Conversation with 2 turns: 我叫小林，我喜欢猫。..."
    assert _json(personalab, "memory", "conversations", *about)[0]["learned"] is True
    whole = _json(personalab, "memory", "conversation", saved["conversation_id"])
    assert [message["message_index"] for message in whole["messages"]] == [0, 1]
    assert _json(personalab, "memory", "list")[0]["entries"] == 1
    refused = personalab("memory", "forget", *about)
    assert (refused.returncode, "--yes" in refused.stderr) == (2, True)
    assert _json(personalab, "memory", "forget", *about, "--yes")["forgotten"] is True
    assert personalab("memory", "get", *about).returncode == 2
    assert _json(personalab, "memory", "list") == []


def test_entries_are_written_mended_removed_and_taken_back_by_hand(personalab: Run) -> None:
    made = _json(personalab, "memory", "add", "char_maren", "profile", "The player is a nurse")
    entry = made["steps"][0]["after"]["content_id"]
    assert _json(personalab, "memory", "add", "char_maren", "profile", "the player is a NURSE.") is None
    _json(personalab, "memory", "edit", "char_maren", entry[:8], "The player is a doctor")
    assert _json(personalab, "memory", "get", "char_maren")["profile_content"] == ["The player is a doctor"]
    _json(personalab, "memory", "remove", "char_maren", entry)
    assert _json(personalab, "memory", "get", "char_maren")["profile_content"] == []
    _json(personalab, "memory", "undo", "char_maren")
    assert _json(personalab, "memory", "get", "char_maren")["profile_content"] == ["The player is a doctor"]
    history = _json(personalab, "memory", "history", "char_maren")
    assert [change["origin"] for change in history] == ["undo", "edit", "edit", "edit"]
    shown = personalab("memory", "history", "char_maren")
    assert "The player is a nurse → The player is a doctor" in shown.stdout


def test_ctrl_c_at_the_question_ends_it_and_a_story_cannot_colour_the_screen(
    personalab: Run, terminal: Callable[..., pexpect.spawn[str]]
) -> None:
    personalab("memory", "add", "char_maren", "profile", "x \x1b[31mred")
    shown = terminal("memory", "get", "char_maren")
    shown.expect(pexpect.EOF)
    assert "red" in str(shown.before)
    assert "\x1b[31m" not in str(shown.before)
    asked = terminal("memory", "forget", "char_maren")
    asked.expect("y/N")
    asked.sendintr()
    asked.expect(pexpect.EOF)
    asked.close()
    assert asked.exitstatus == 130
    assert len(_json(personalab, "memory", "get", "char_maren")["entries"]) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("get", "nobody"),
        ("edit", "nobody", "xyz", "text"),
        ("learn", "nope"),
        ("add", "nobody", "wishes", "x"),
        ("save", "no/such/file.json"),
        ("save", "-"),
    ],
)
def test_what_is_not_there_or_not_right_is_bad_input_in_a_sentence(
    personalab: Run, words: tuple[str, ...]
) -> None:
    done = personalab("memory", *words, typed="{")
    assert (done.returncode, done.stdout.strip()) == (2, "")
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("field", ["agent_id", "user_id", "messages", "role", "content"])
def test_a_request_that_lacks_a_field_names_it(personalab: Run, field: str) -> None:
    request: dict[str, Any] = {name: value for name, value in REQUEST.items() if name != field}
    if "messages" in request:
        request["messages"] = [
            {name: value for name, value in message.items() if name != field}
            for message in request["messages"]
        ]
    done = personalab("memory", "save", "-", typed=json.dumps(request))
    assert done.returncode == 2
    assert field in done.stderr


def test_a_database_that_cannot_be_reached_is_said_without_its_password(personalab: Run) -> None:
    done = personalab(
        "memory", "list", PERSONALAB_DATABASE="postgresql://me:sesame@127.0.0.1:1/story?connect_timeout=2"
    )
    assert done.returncode == 1
    assert "sesame" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    other = personalab("memory", "list", PERSONALAB_DATABASE="mysql://me:sesame@host/db")
    assert (other.returncode, "sesame" in other.stderr) == (2, False)
    assert "PERSONALAB_DATABASE" in other.stderr


def test_the_same_commands_work_on_postgresql(personalab: Run, postgres_url: str) -> None:
    from tests.support.postgres import fresh_database

    world = {"PERSONALAB_DATABASE": fresh_database(postgres_url)}
    done = personalab("memory", "add", "char_maren", "event", "The player saw the sea", **world)
    assert done.returncode == 0, done.stderr
    found = personalab("memory", "search", "char_maren", "sea", "--json", **world)
    assert json.loads(found.stdout)[0]["text"] == "The player saw the sea"
    root = Path(os.environ["PERSONALAB_DATA"])
    assert not (root / "memory").exists()
