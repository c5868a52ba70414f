"""Summaries from the terminal: shown first, made, taken back."""

from __future__ import annotations

import json

from tests.e2e.cli.conftest import Run


def test_a_session_is_previewed_summed_up_and_taken_back(personalab: Run) -> None:
    personalab("new", "-c", "char_maren", "-b", "bg_lighthouse", "--id", "tale")
    for number in range(3):
        assert personalab("say", "tale", f"hello {number}").returncode == 0
    preview = json.loads(personalab("summarize", "tale", "--dry-run", "--json").stdout)
    assert (preview["status"], preview["points"][0]["turns"]) == ("preview", [1, 3])
    done = personalab("summarize", "tale")
    assert done.returncode == 0
    assert "sess_002" in done.stderr
    assert "hello 0" in done.stdout
    read = json.loads(personalab("read", "tale", "--json").stdout)
    assert (read["session_id"], read["continued_from"]) == ("sess_002", "sess_001")
    assert personalab("summarize", "tale").returncode == 2, "nothing is new"
    personalab("say", "tale", "said since")
    both = personalab("summarize", "tale", "--undo", "--dry-run")
    assert (both.returncode, "--dry-run" in both.stderr) == (2, True)
    back = json.loads(personalab("summarize", "tale", "--undo", "--json").stdout)
    assert (back["session_id"], back["turns"]) == ("sess_001", 1)
    assert back["aside"].endswith("sess_002.jsonl.aside1")


def test_what_cannot_be_summed_up_or_taken_back_is_bad_input(personalab: Run) -> None:
    personalab("new", "-c", "char_maren", "--id", "tale")
    for command in (["summarize", "tale"], ["summarize", "tale", "--undo"], ["summarize", "nope"]):
        done = personalab(*command)
        assert done.returncode == 2, command
        assert done.stderr.strip()
        assert not done.stdout.strip()
