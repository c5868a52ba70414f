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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[2]


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
            [sys.executable, "-m", "tests.cli.lab_driver"],
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


def main() -> None:
    """Run each command line that comes in, and tell how it ended."""
    from cli.program import run

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
