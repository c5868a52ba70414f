"""What the terminal's tests have: the real program in a process of its own, on a data root of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pexpect
import pytest

from personalab.services import Services
from tests.e2e.cli.lab_driver import LabProgram
from tests.support.forked import run_personalab
from tests.support.providers.fake_cli import FakeCli, install

CHECKOUT = Path(__file__).parents[3]
SECONDS = 60


class Run(Protocol):
    """Runs one command to its end."""

    def __call__(
        self, *words: str, typed: str | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The world the program is started in: nothing of the person who runs the tests."""
    return {
        **os.environ,
        "HOME": str(tmp_path / "home"),
        "TERM": "xterm-256color",
        "PROMPT_TOOLKIT_NO_CPR": "1",
        "PYTHONIOENCODING": "utf-8",
        "LANG": "zh_CN.UTF-8",
        "LC_ALL": "",
        "PERSONALAB_BUSY_SECONDS": "30",
    }


@pytest.fixture
def personalab(environment: dict[str, str]) -> Run:
    """Run a command of ``personalab`` and wait for its end."""

    def run(*words: str, typed: str | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        return run_personalab(words, {**environment, **more}, typed=typed or "", seconds=SECONDS)

    return run


@pytest.fixture
def start(environment: dict[str, str]) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a command that goes on while the test does."""
    begun: list[subprocess.Popen[str]] = []

    def run(*words: str, **more: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "cli", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**environment, **more},
            cwd=CHECKOUT,
            encoding="utf-8",
        )
        begun.append(process)
        return process

    yield run
    for process in begun:
        process.kill()
        process.communicate(timeout=SECONDS)


@pytest.fixture
def terminal(environment: dict[str, str]) -> Iterator[Callable[..., pexpect.spawn[str]]]:
    """Sit down at a terminal in which ``personalab`` runs."""
    opened: list[pexpect.spawn[str]] = []

    def run(*words: str, **more: str) -> pexpect.spawn[str]:
        child: pexpect.spawn[str] = pexpect.spawn(  # pyright: ignore[reportUnknownVariableType] (its stub)
            sys.executable,
            ["-m", "cli", *words],
            env={**environment, **more},  # pyright: ignore[reportArgumentType] (its stub wants os._Environ)
            cwd=str(CHECKOUT),
            dimensions=(40, 100),
            encoding="utf-8",
            timeout=SECONDS,
        )
        opened.append(child)
        return child

    yield run
    for child in opened:
        child.close(force=True)


@pytest.fixture
def story(services: Services, instance: str, root: Path) -> str:
    """A story whose turns look nothing up."""
    (root / "modules" / "recall.json").write_text('{"trigger": "off"}', encoding="utf-8")
    return instance


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., str]:
    """Write a script and give the name of the model that follows it."""

    def write(*replies: str | dict[str, Any], loop: bool = False) -> str:
        path = tmp_path / "script.json"
        path.write_text(json.dumps({"replies": replies, "loop": loop}), encoding="utf-8")
        return f"scripted:{path}"

    return write


def slow(*pieces: str, delay: float = 0.1) -> dict[str, Any]:
    """Script a reply whose pieces take their time and whose end never comes."""
    return {"pieces": list(pieces), "delay": delay, "hang": True}


@pytest.fixture
def lines(root: Path) -> Callable[[str], list[dict[str, Any]]]:
    """Read an instance's first session, line by line."""

    def read(instance_id: str) -> list[dict[str, Any]]:
        path = root / "instances" / instance_id / "sessions" / "sess_001.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    return read


# --- the skill lab


@pytest.fixture
def lab() -> Iterator[LabProgram]:
    """The program, in a process for all commands of a test."""
    program = LabProgram()
    yield program
    program.close()


@pytest.fixture
def fake(tmp_path: Path) -> FakeCli:
    """A ``claude`` that costs nothing, though the program cannot know."""
    return install(tmp_path / "fake")


@pytest.fixture
def outside(fake: FakeCli) -> dict[str, str]:
    """What the fake needs around it."""
    wanted = ("FAKE_CLAUDE_RULES", "FAKE_CLAUDE_LOG")
    return {name: fake.environment[name] for name in wanted}


@pytest.fixture
def paid(fake: FakeCli, outside: dict[str, str]) -> Iterator[LabProgram]:
    """The program, calling the fake."""
    program = LabProgram(**outside)
    assert program.json("cli", "set", "cli_path", str(fake.path))["cli_path"] == str(fake.path)
    yield program
    program.close()


@pytest.fixture
def hold(tmp_path: Path, fake: FakeCli) -> Path:
    """While this file is there, calls of the fake go on; ``held`` beside it tells that one does."""
    hold, held = tmp_path / "hold", tmp_path / "held"
    hold.touch()
    waiting = (
        f'case $1 in --version) ;; *) while [ -e "{hold}" ]; do touch "{held}"; sleep 0.02; done ;; esac'
    )
    fake.path.write_text(fake.path.read_text("utf-8").replace("\n", f"\n{waiting}\n", 1), encoding="utf-8")
    return hold
