"""Tests of how the program ends on signals and when its output has no reader."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cli.conftest import CHECKOUT, SECONDS, Run, slow

Lines = Callable[[str], list[dict[str, Any]]]
Script = Callable[..., str]
Start = Callable[..., subprocess.Popen[str]]


@pytest.mark.parametrize(
    "words", [["-m", "cli"], ["-c", "from cli.main import main; main()"]], ids=["module", "script"]
)
def test_ctrl_c_while_the_program_is_loaded_is_no_traceback(
    environment: dict[str, str], tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, *words, "library"],
        env={**environment, "PYTHONPATH": str(tmp_path)},
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_to_end_closes_the_reply_as_interrupted(
    start: Start, story: str, script: Script, lines: Lines, number: signal.Signals, code: int
) -> None:
    process = start("say", story, "你好", "--json", "--model", script(slow("我", "在")))
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["text"] == "我"
    process.send_signal(number)
    _, errors = process.communicate(timeout=SECONDS)
    assert (process.returncode, errors) == (code, "")
    assert lines(story)[-1]["interrupted"] is True


def printed_to(environment: dict[str, str], where: str, *words: str) -> tuple[int, str]:
    """Run a command whose stdout leads somewhere else; give its exit code and what it says of it."""
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {where}', "sh", sys.executable, "-m", "cli", *words],
        env=environment,
        cwd=CHECKOUT,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("words", [("library",), ("--help",), ("settings", "--json")])
@pytest.mark.parametrize("where", [">/dev/full", ">&-"])
def test_an_output_that_takes_nothing_is_one_sentence(
    environment: dict[str, str], where: str, words: tuple[str, ...]
) -> None:
    code, said = printed_to(environment, where, *words)
    assert (code, said.count("\n")) == (1, 1)
    assert "标准输出" in said


def test_a_turn_whose_reply_nobody_can_read_is_interrupted(
    environment: dict[str, str], story: str, script: Script, lines: Lines
) -> None:
    model = script(slow("我", "在"))
    code, said = printed_to(environment, ">/dev/full", "say", story, "你好", "--model", model)
    assert (code, said.count("\n")) == (1, 1)
    assert lines(story)[-1]["interrupted"] is True


def test_closed_input_and_errors_do_no_harm(environment: dict[str, str], story: str, lines: Lines) -> None:
    code, said = printed_to(environment, ">/dev/null 2>&- <&-", "say", story, "你好")
    assert (code, said) == (0, "")
    assert lines(story)[-1]["role"] == "assistant"


@pytest.mark.parametrize("command", ["say", "retry"])
def test_json_failures_are_a_sentence_on_stderr_too(personalab: Run, command: str) -> None:
    words = ("say", "inst_404", "x") if command == "say" else ("retry", "inst_404")
    done = personalab(*words, "--json")
    event = json.loads(done.stdout)
    assert (done.returncode, event["type"]) == (2, "error")
    assert done.stderr == event["message"] + "\n"


def test_an_id_of_two_lines_makes_a_one_line_error(personalab: Run) -> None:
    for words in (("say", "a\nb", "x"), ("read", "a\nb"), ("new", "--character", "a\u2028b\nc")):
        done = personalab(*words)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
