"""A program that dies at a chosen step. The tests start it with ``… MODULE``, then tasks as lines.

It imports everything once and forks for each task, because a start takes seconds. A step is a change of a
file below the data root, seen by an audit hook of Python: nothing of the product is replaced.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, cast

from tests.support.killing import STEP, Cases, Outcome, Scene, Task

TORN_BYTES = 40
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {
    *("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink"),
    *("shutil.rmtree", "shutil.move", "shutil.copyfile", "shutil.copytree"),
    *("fcntl.flock", "fcntl.lockf", "sqlite3.connect"),
}

Traces = frozenset[tuple[str, int, int, int]]


class Fate:
    """Counts the steps of this process, and ends it at one of them."""

    def __init__(self, task: Task, out: int) -> None:
        self._task = task
        self._out = out
        self._reached = 0
        self._seen: Traces = frozenset()

    def notice(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Look at an audit event; this may be the last thing that happens."""
        if not self._is_step(event, arguments) or (found := _traces(self._task.root)) == self._seen:
            return
        self._seen = found
        self._reached += 1
        if self._reached >= self._task.die_at:
            self._die(f"{event} {self._shown(arguments)}".strip())

    def _is_step(self, event: str, arguments: tuple[Any, ...]) -> bool:
        if event == STEP:
            return True
        if event == "open":
            return bool(arguments[2] & _WRITES) and self._is_below(arguments[0])
        if event not in _CHANGES:
            return False
        first, last = arguments[0], arguments[-1]
        by_number = isinstance(first, int) or (isinstance(last, int) and last >= 0)
        return by_number or any(map(self._is_below, arguments))

    def _is_below(self, value: object) -> bool:
        named = isinstance(value, str | bytes | os.PathLike)
        return named and self._task.root in os.fsdecode(cast("str | bytes", value))

    def _shown(self, arguments: tuple[Any, ...]) -> str:
        return " ".join(
            os.path.relpath(os.fsdecode(value), self._task.root)
            for value in arguments
            if self._is_below(value)
        )

    def _die(self, step: str) -> None:
        _tell(self._out, reached=self._reached, step=step)
        if self._task.way == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (TORN_BYTES, resource.RLIM_INFINITY))


def _traces(root: str) -> Traces:
    """Tell a state of the files from another: where nothing changed, dying again would leave the same."""
    return frozenset(
        (path, found.st_ino, found.st_size, found.st_mtime_ns)
        for folder, _, names in os.walk(root)
        for path in (folder, *(os.path.join(folder, name) for name in names))
        if (found := os.lstat(path))
    )


def _tell(out: int, **fields: Any) -> None:
    os.write(out, json.dumps(fields).encode("ascii") + b"\n")


def _work(cases: Cases, task: Task) -> Awaitable[Any]:
    case, root = cases[task.case], Path(task.root)
    scene = Scene(root, Path(task.before), Path(task.after))
    match task.do:
        case "prepare":
            return case.prepare(root)
        case "run":
            return case.run(root)
        case "check_between":
            return case.check_between(scene)
        case "check_done":
            return case.check_done(scene)


def _live(cases: Cases, task: Task, out: int) -> None:
    """Do the task in this process, which ends with it."""

    async def work() -> Any:
        return await _work(cases, task)

    if task.die_at:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it
        sys.addaudithook(Fate(task, out).notice)
    try:
        _tell(out, value=asyncio.run(work()))
    except BaseException:  # noqa: BLE001 (whatever it is, the test shows it)
        _tell(out, error=traceback.format_exc())


def _is_alone() -> bool:
    """Tell whether a fork has all there is of this process: threads are not copied, what they hold is."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) == 1 if tasks.exists() else threading.active_count() == 1


def _forked(cases: Cases, task: Task) -> Outcome:
    assert _is_alone()
    source, target = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(source)
            _live(cases, task, target)
        finally:
            os._exit(0)
    os.close(target)
    told: dict[str, Any] = {}
    with open(source, encoding="ascii") as lines:
        for line in lines:
            told |= json.loads(line)
    _, status = os.waitpid(child, 0)
    return Outcome(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, **told)


def main() -> None:
    """Fork for each task that comes in; end with the input."""
    module: Any = importlib.import_module(sys.argv[1])
    module.warm()
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        outcome = _forked(module.CASES, Task(**json.loads(line)))
        fields = {name: getattr(outcome, name) for name in Outcome.__slots__}
        print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    main()
