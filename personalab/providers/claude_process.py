"""Processes whose output reaches the disk even if our own process is killed, and their reliable termination.

The output goes into a file that the program keeps locked as long as it, or any process it started, lives. A
later process of ours can therefore detect whether it still works, and read its output. The program leads a
process group, which is terminated as a whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar, cast

from personalab.lab.calling import Call
from personalab.providers.call_spool import CallFiles, write_all

T = TypeVar("T")
End = Literal["ended", "late", "too_much"]

GRACE_SECONDS = 1.0
_KILL_SECONDS = 5.0
_WATCH_SECONDS = 0.2
_POLL_SECONDS = 0.02
_MAX_RUN_BYTES = 512


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What was begun, as the first line of its ``.err`` file tells a later process."""

    started_at: float
    timeout: float
    cli_version: str


def lock_output(files: CallFiles) -> int | None:
    """Open and lock the output file; ``None`` if a program that was started earlier still holds it."""
    while True:
        fd = files.open("out", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(fd).st_ino == _inode(files.path("out")):
                return fd
        except BlockingIOError:
            os.close(fd)
            return None
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


def is_output_locked(files: CallFiles) -> bool:
    """Return whether some program still holds the output file."""
    try:
        fd = files.open("out", os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """What is started, and with what."""

    command: Sequence[str]
    environment: Mapping[str, str]
    stdin: bytes
    timeout: float
    cli_version: str


class Child:
    """A program that this process started."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.begun = time.monotonic()
        self._process = process
        try:
            self._pidfd = os.pidfd_open(process.pid) if hasattr(os, "pidfd_open") else -1
        except OSError:
            self._pidfd = -1

    @property
    def returncode(self) -> int | None:
        """How it ended; ``None`` before ``reap``."""
        return self._process.returncode

    async def wait(self, seconds: float, too_much: Callable[[], bool] = lambda: False) -> End:
        """Wait until it has ended, has had its time, or has written too much."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        if self._pidfd < 0:
            return await self._poll(deadline, too_much)
        end: asyncio.Future[End] = loop.create_future()

        def watch() -> None:
            nonlocal timer
            if too_much():
                _set(end, "too_much")
            elif (left := deadline - loop.time()) <= 0:
                _set(end, "late")
            else:
                timer = loop.call_later(min(left, _WATCH_SECONDS), watch)

        timer = loop.call_later(min(seconds, _WATCH_SECONDS), watch)
        loop.add_reader(self._pidfd, _set, end, "ended")
        try:
            return await end
        finally:
            timer.cancel()
            loop.remove_reader(self._pidfd)

    async def _poll(self, deadline: float, too_much: Callable[[], bool]) -> End:
        """Wait where the system has no handle for a process."""
        loop = asyncio.get_running_loop()
        while self._process.poll() is None:
            if loop.time() >= deadline:
                return "late"
            if too_much():
                return "too_much"
            await asyncio.sleep(_POLL_SECONDS)
        return "ended"

    async def end(self) -> None:
        """End its whole group, and wait until it is gone."""
        _signal_group(self._process.pid, signal.SIGTERM)
        if await self.wait(GRACE_SECONDS) != "ended":
            _signal_group(self._process.pid, signal.SIGKILL)
            await self.wait(_KILL_SECONDS)
        self.reap()
        deadline = time.monotonic() + GRACE_SECONDS
        # No event signals that the last process of a group has ended.
        while _group_exists(self._process.pid) and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_POLL_SECONDS / 2)

    def reap(self) -> None:
        """End what it left behind in its group, then take its exit code: till then, its number is no one else's."""
        if self._process.returncode is None:
            _signal_group(self._process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_KILL_SECONDS)
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


def start(files: CallFiles, out: int, start: LaunchSpec) -> Child:
    """Start a program whose streams are the call's files; ``out`` is the locked one, for the caller to close."""
    os.ftruncate(out, 0)
    run = RunRecord(time.time(), start.timeout, start.cli_version)
    asked = _input(files)
    try:
        write_all(asked, start.stdin)
        os.lseek(asked, 0, os.SEEK_SET)
        err = files.create("err")
        try:
            write_all(err, json.dumps([run.started_at, run.timeout, run.cli_version]).encode("ascii") + b"\n")
            return Child(_spawn(files, start, asked, out, err))
        finally:
            os.close(err)
    finally:
        os.close(asked)


def _input(files: CallFiles) -> int:
    """Open what the program reads: where the system has such, a file without a name, which lives while it is read."""
    if sys.platform == "linux":
        return os.memfd_create("input")
    return files.create("in")


class NotStarted(Exception):  # noqa: N818 (what happened, for the caller to word)
    """The system did not start the program."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error)
        self.error = error


def _spawn(files: CallFiles, start: LaunchSpec, stdin: int, out: int, err: int) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            start.command,
            stdin=stdin,
            stdout=out,
            stderr=err,
            cwd=files.folder,
            env=start.environment,
            start_new_session=True,
        )
    except OSError as error:
        raise NotStarted(error) from error


# --- a program that an earlier process of ours started


def read_run_record(files: CallFiles, call: Call) -> RunRecord:
    """Read what was begun, and when."""
    with contextlib.suppress(ValueError, TypeError):
        began, timeout, version = cast("list[object]", json.loads(files.head("err", _MAX_RUN_BYTES)))
        if isinstance(began, float) and isinstance(timeout, int | float) and isinstance(version, str):
            return RunRecord(began, timeout, version)
    return RunRecord(time.time(), call.timeout_seconds, "")


def read_stderr(files: CallFiles, limit: int) -> str:
    """Read the end of what the program said beside its output."""
    said = files.tail("err", limit + _MAX_RUN_BYTES)
    if len(said) < limit + _MAX_RUN_BYTES:
        said = said.partition(b"\n")[2]
    return said[-limit:].decode("utf-8", "replace")


async def wait_for_earlier(files: CallFiles, run: RunRecord, limit: int) -> End:
    """Wait for a program that an earlier process started, as long as it has time left."""
    deadline = time.monotonic() + min(max(0.0, run.started_at + run.timeout - time.time()), run.timeout)
    look_again = 0.0
    while is_output_locked(files):
        if time.monotonic() >= look_again:
            # What it started may hold the file longer than the program itself lives.
            if (holders := _holders(files)) and not any(_leads(pid) for pid in holders):
                return "ended"
            look_again = time.monotonic() + _WATCH_SECONDS
        if max(files.size("out"), files.size("err")) > limit:
            return "too_much"
        if time.monotonic() >= deadline:
            return "late"
        await asyncio.sleep(_POLL_SECONDS)
    return "ended"


async def terminate_earlier(files: CallFiles) -> None:
    """End the groups of all who still hold the output file.

    The system tells who they are, so that no other process is met that has got an old number. Where it does not tell
    (no ``/proc``), they are left to themselves.
    """
    for number, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, _KILL_SECONDS)):
        for pid in _holders(files):
            if _leads(pid):
                _signal_group(pid, number)
            else:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while is_output_locked(files) and time.monotonic() < deadline:  # noqa: ASYNC110 (there is no event to wait for)
            await asyncio.sleep(_POLL_SECONDS)
        if not is_output_locked(files):
            return


async def finish_despite_cancel(work: Awaitable[T]) -> tuple[T, bool]:
    """Finish work even if cancelled meanwhile; return its result and whether it was cancelled."""
    task, cancelled = asyncio.ensure_future(work), False
    while True:
        try:
            return await asyncio.shield(task), cancelled
        except asyncio.CancelledError:
            if task.cancelled():
                raise
            cancelled = True


def _set(future: asyncio.Future[End], end: End) -> None:
    if not future.done():
        future.set_result(end)


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _group_exists(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _leads(pid: int) -> bool:
    """Return whether a process leads its group, as the processes started here do."""
    try:
        return os.getpgid(pid) == pid
    except ProcessLookupError:
        return False


def _inode(path: str) -> int:
    try:
        return os.lstat(path).st_ino
    except FileNotFoundError:
        return -1


def _holders(files: CallFiles) -> list[int]:
    """Find the processes whose standard output is the call's file, locked as at their start.

    The lock belongs to the open file that a program inherits from us. A process that opened the file by itself, or
    whose output a planted link names, does not lock_output it, and is left alone.
    """
    try:
        wanted = os.lstat(files.path("out"))
        numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    if not stat.S_ISREG(wanted.st_mode) or wanted.st_nlink != 1:
        return []
    found: list[int] = []
    for pid in numbers:
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(f"/proc/{pid}/fd/1"), wanted) and _has_lock(pid):
                found.append(pid)
    return [pid for pid in found if pid != os.getpid()]


def _has_lock(pid: int) -> bool:
    """Return whether the standard output of a process is an open file that is locked."""
    with open(f"/proc/{pid}/fdinfo/1", encoding="ascii") as info:
        return any(row.startswith("lock:") and "FLOCK" in row and "->" not in row for row in info)
