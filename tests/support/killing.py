"""Harness that kills an operation at each of its steps and checks that the old or the new state remains.

A case defines the preparation, the operation and the checks. The operation is repeated, each time on a fresh
copy of the same data root, and dies one step later than before, until it completes. Each attempt and each
check is a process of its own (``tests/support/killed_process.py``).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Any, Literal

PROJECT = Path(__file__).parents[2]
WORKERS = 2
STRIDE = 1 if os.environ.get("PERSONALAB_TEST_ALL") else 8
"""A full run dies at every step, others at every eighth and at each of the last ones."""
STEP = "tests.step"
"""What a case's work tells ``sys.audit`` where it may die though it changes no file."""

Way = Literal["killed", "torn"]
"""``killed``: SIGKILL just before the step. ``torn``: from the step on, the first write that goes beyond a few bytes
of its file is cut off there and is the process's last, also if a library's native code does it."""
WAYS: tuple[Way, ...] = ("killed", "torn")


@dataclass(frozen=True, slots=True)
class Scene:
    """The data roots that a check compares."""

    root: Path
    """Where the work died."""
    before: Path
    """As it was prepared."""
    after: Path
    """As the work leaves it that nothing disturbs."""


@dataclass(frozen=True, slots=True)
class Case:
    """Some work on a data root, and what must hold wherever it dies; every part runs in a fresh process."""

    prepare: Callable[[Path], Awaitable[None]]
    run: Callable[[Path], Awaitable[None]]
    """Do the work; it must not fail, neither the first time nor after a death."""
    check_between: Callable[[Scene], Awaitable[bool]]
    """Check what a death left; tell whether the work is done. What is not done is run again."""
    check_done: Callable[[Scene], Awaitable[None]]
    """Check that the work is done, once."""


Cases = dict[str, Case]
"""A module of cases has them as ``CASES``, and ``warm()`` to make once, before any fork, what every try needs."""


@dataclass(frozen=True, slots=True)
class Task:
    """What a forked process does."""

    case: str
    do: Literal["prepare", "run", "check_between", "check_done"]
    root: str
    before: str = ""
    after: str = ""
    die_at: int = 0
    way: Way = "killed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a forked process ended and what it told."""

    signal: int
    reached: int = 0
    """The last step that it came to, if it was to die."""
    step: str = ""
    value: Any = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Death:
    """A point at which the work died, and what was found afterwards."""

    way: Way
    number: int
    step: str
    root: Path
    done: bool = False
    problem: str = ""


class Forks:
    """A process that has imported everything and forks another for each task."""

    def __init__(self, cases: str) -> None:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # a thread would not survive the fork
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.killed_process", cases],
            cwd=PROJECT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def do(self, task: Task) -> Outcome:
        """Let a fresh process do it."""
        source, target = self._process.stdout, self._process.stdin
        assert source is not None
        assert target is not None
        print(json.dumps(asdict(task)), file=target, flush=True)
        told = source.readline()
        assert told, "the process that forks has ended"
        return Outcome(**json.loads(told))

    def must(self, task: Task) -> Any:
        """Let a fresh process do what must succeed; return what it tells."""
        outcome = self.do(task)
        assert not outcome.signal, f"{task.do} died of signal {outcome.signal}"
        assert not outcome.error, f"{task.do}: {outcome.error}"
        return outcome.value

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=60)


@contextmanager
def forking(cases: str) -> Generator[list[Forks]]:
    """Start as many as work at once; ``cases`` names the module of the cases."""
    workers = [Forks(cases) for _ in range(WORKERS)]
    try:
        yield workers
    finally:
        for forks in workers:
            forks.close()


def walk(workers: Sequence[Forks], name: str, folder: Path) -> list[Death]:
    """Let the work of a case die at each of its steps, in both ways."""
    plan = _prepared(workers[0], name, folder)
    with ThreadPoolExecutor(len(workers)) as pool:
        killing = [
            pool.submit(_die_often, forks, name, plan, way)
            for forks, way in zip(cycle(workers), WAYS, strict=False)
        ]
        deaths = [death for some in killing for death in some.result()]
        judging = [
            pool.submit(_judge_some, forks, name, plan, deaths[first :: len(workers)])
            for first, forks in enumerate(workers)
        ]
        judged = [death for some in judging for death in some.result()]
    return sorted(judged, key=lambda death: (death.way, death.number))


def _prepared(forks: Forks, name: str, folder: Path) -> Scene:
    scene = Scene(folder / "after", folder / "before", folder / "after")
    forks.must(Task(name, "prepare", str(scene.before)))
    shutil.copytree(scene.before, scene.after)
    forks.must(Task(name, "run", str(scene.after)))
    forks.must(_check(name, "check_done", scene))
    return scene


def _check(name: str, do: Literal["check_between", "check_done"], scene: Scene) -> Task:
    return Task(name, do, str(scene.root), str(scene.before), str(scene.after))


def _die_often(forks: Forks, name: str, plan: Scene, way: Way) -> list[Death]:
    """Let the work die at each of its steps, until it lives to its end."""
    deaths: list[Death] = []
    number, stride = 1, STRIDE
    while True:
        root = plan.before.with_name(f"{way}-{number}")
        shutil.copytree(plan.before, root)
        outcome = forks.do(Task(name, "run", str(root), die_at=number, way=way))
        assert not outcome.error, f"{way} at {number}: {outcome.error}"
        if outcome.signal:
            deaths.append(Death(way, outcome.reached, outcome.step, root))
            number = outcome.reached + stride  # what is to be torn may live on for some steps
        elif stride == 1:
            return deaths
        else:
            shutil.rmtree(root)
            stride, number = 1, deaths[-1].number + 1


def _judge_some(forks: Forks, name: str, plan: Scene, deaths: Sequence[Death]) -> list[Death]:
    return [_judged(forks, name, Scene(death.root, plan.before, plan.after), death) for death in deaths]


def _judged(forks: Forks, name: str, scene: Scene, death: Death) -> Death:
    """Check what a death left, go on from there, and check again."""
    done = False
    try:
        done = bool(forks.must(_check(name, "check_between", scene)))
        if not done:
            forks.must(Task(name, "run", str(scene.root)))
        forks.must(_check(name, "check_done", scene))
    except AssertionError as error:
        return replace(death, done=done, problem=str(error))
    return replace(death, done=done)
