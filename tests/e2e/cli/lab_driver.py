"""``personalab`` run again and again in one process, each time with another command line.

Starting the program takes longer than most commands do. What a command leaves behind is in files; that a process of
its own finds it there is shown by the tests that start one for each.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    words: tuple[str, ...]
    code: int
    printed: str
    said: str

    @property
    def is_a_refusal(self) -> bool:
        """Whether it printed nothing, said one sentence, and blamed the input."""
        one_sentence = len(self.said) > 10 and self.said.count("\n") == 1
        return self.code == 2 and not self.printed and one_sentence

    def json(self) -> Any:
        """Read what was printed."""
        assert self.code == 0, self
        return json.loads(self.printed)


class LabProgram:
    """The program, waiting for command lines of the lab."""

    def __init__(self, **environment: str) -> None:
        world = {
            **os.environ,
            "PYTHONIOENCODING": "utf-8",
            "LANG": "zh_CN.UTF-8",
            "LC_ALL": "",
            **environment,
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.cli.lab_driver"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=world,
            cwd=CHECKOUT,
            encoding="utf-8",
        )

    def __call__(self, *words: str, typed: str = "") -> Ended:
        """Run a command to its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([["lab", *words], typed]) + "\n")
        self._process.stdin.flush()
        return Ended(words, **json.loads(self._process.stdout.readline()))

    def json(self, *words: str, typed: str = "") -> Any:
        """Run a command that has to succeed, and read what it printed."""
        return self(*words, "--json", typed=typed).json()

    def close(self) -> None:
        """End the program."""
        self._process.kill()
        self._process.communicate()


# --- what tests do with it


CASES = [
    {"name": "sum", "input": "Write add(a, b).", "expected_output": "A function add that returns a + b."},
    {
        "name": "nothing",
        "category": "boundary",
        "input": "Add up an empty list.",
        "expected_output": "The sum of an empty list is 0, without an error.",
    },
    {
        "name": "nonsense",
        "category": "exception",
        "input": "Add a text to a number.",
        "expected_output": "It raises a TypeError that names both values.",
    },
]


def project_of_two(lab: LabProgram, tmp_path: Path, *options: str) -> dict[str, Any]:
    """Make a project of two sample skills and three cases."""
    cases = tmp_path / "cases.json"
    cases.write_text(json.dumps({"cases": CASES}), encoding="utf-8")
    tests = lab.json("baseline", "new", "Adding", "--purpose", "coding", "--cases", str(cases))
    assert tests["case_count"] == 3
    return lab.json(
        "project", "new", "Who adds best", "--skill", "2abe", "--skill", "严谨的 Python 工程师",
        "--baseline", "Adding", *options,
    )  # fmt: skip


def calls_of(root: Path, project: str) -> list[dict[str, Any]]:
    """Read the account of a project."""
    path = root / "workspace" / "projects" / project / "calls.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def until(true: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait for something that a process does."""
    while not true():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


# --- in its own process


def main() -> None:
    """Run each command line that comes in, and tell how it ended."""
    from cli.running import run

    lines, answers = sys.stdin, sys.stdout
    for line in lines:
        words, typed = json.loads(line)
        sys.argv = ["personalab", *words]
        sys.stdin = io.StringIO(typed)
        said, printed = _stream(), _stream()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(printed):
            code = run()
        answers.write(json.dumps({"code": code, "said": _text(said), "printed": _text(printed)}) + "\n")
        answers.flush()


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n")


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


if __name__ == "__main__":
    main()
