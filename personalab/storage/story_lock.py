"""The lock of a story, or of a lab project, over files.

The lock is ``flock`` on ``instances/{id}/.lock``: it ends with its process, however that ends. The file names the
holder, so that a busy error can say who it is and ``stop`` can address it, and keeps the fencing number.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import secrets
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from personalab.data_files import lock_fd, open_regular, replace_file, writing
from personalab.errors import Busy, NotFound, StorageError
from personalab.leases import MAX_HOLD_SECONDS
from personalab.story.records import check_id
from personalab.tasks import run_uncancellable

_RETRY_SECONDS = 0.02
_FENCE = re.compile(rb'\{"fence": ([0-9]{1,18})\b')
_LOCK, _STOP, _AWAITED, _LEARNING = ".lock", ".stop", ".awaited", ".learning"


@dataclass(slots=True)
class HeldFileLock:
    """A lock file that this process holds."""

    lease_id: str
    fence: int
    folder: Path
    fd: int

    def stop_requested(self) -> bool:
        """Return whether someone asked this very holder to stop."""
        return (self.folder / f"{_STOP}-{self.lease_id}").exists()

    async def hold_for(self, turn: int, seconds: float) -> None:
        """Hold the story for a client that writes a turn's reply elsewhere."""
        word = json.dumps({"turn": turn, "until": time.time() + seconds}).encode("ascii")
        with contextlib.suppress(StorageError):  # then others may come first
            await run_uncancellable(replace_file, self.folder / _AWAITED, word, _AWAITED)

    async def release(self) -> None:
        """Release the lock; its number stays in the file."""
        _write_lock(self.fd, {"fence": self.fence})
        os.close(self.fd)


@dataclass(frozen=True, slots=True)
class LockCodes:
    """How errors name what is locked."""

    missing: str = "no_instance"
    busy: str = "busy"
    idle: str = "nothing_running"
    named: str = "instance_id"
    """The parameter that tells which one."""


_INSTANCES = LockCodes()


class FileStoryLock:
    """Implements ``StoryLock`` by files in the folders of stories."""

    def __init__(self, folder: Path, codes: LockCodes = _INSTANCES) -> None:
        self._root = folder
        self._codes = codes
        self.closing = False

    async def acquire(self, instance_id: str, task: str, *, wait: float) -> HeldFileLock:
        """Wait for the lock, at most so many seconds; ``Busy`` says who holds it."""
        folder = self._folder(instance_id)
        deadline = time.monotonic() + wait
        with writing(f"{self._root.name}/{instance_id}/{_LOCK}"):
            fd = open_regular(folder / _LOCK, os.O_RDWR | os.O_CREAT)
        try:
            while not lock_fd(fd, folder / _LOCK):
                if self.closing:
                    raise Busy("server_ending")
                if time.monotonic() >= deadline:
                    raise self._busy(folder, wait)
                await asyncio.sleep(_RETRY_SECONDS)
            if not _same_file(fd, folder / _LOCK):
                raise self._missing(instance_id)
            held = HeldFileLock(secrets.token_hex(8), _read_fence(fd) + 1, folder, fd)
            _write_lock(fd, {"fence": held.fence, "lease": held.lease_id, "pid": os.getpid(), "task": task})
        except BaseException:
            os.close(fd)
            raise
        return held

    async def stop(self, instance_id: str, *, wait: float) -> str:
        """Ask the holder to stop, wait until it has, and return what it was doing."""
        folder = self._folder(instance_id)
        deadline = time.monotonic() + wait
        while (holder := running(folder)) is not None and not holder["lease"]:
            await asyncio.sleep(_RETRY_SECONDS)  # it has the lock and is about to sign
            if time.monotonic() >= deadline:
                raise self._busy(folder, wait)
        if holder is None:
            if held_turn(folder) is None:
                raise NotFound(self._codes.idle, **{self._codes.named: instance_id})
            _free(folder, held_turn(folder))
            return "sampling"
        stop = folder / f"{_STOP}-{holder['lease']}"
        await asyncio.to_thread(replace_file, stop, b"", f"{instance_id}/{_STOP}")
        try:
            while (now := running(folder)) and now["lease"] == holder["lease"]:
                if time.monotonic() >= deadline:
                    raise self._busy(folder, wait)
                await asyncio.sleep(_RETRY_SECONDS)
        finally:
            await run_uncancellable(partial(stop.unlink, missing_ok=True))
        return str(holder.get("task", ""))

    async def held_turn(self, instance_id: str) -> int | None:
        """Find the turn for whose reply a story is held."""
        return held_turn(self._folder(instance_id))

    async def release_hold(self, instance_id: str, turn: int) -> None:
        """Let others write a story again, if it is held for this turn."""
        _free(self._folder(instance_id), turn)

    def _folder(self, instance_id: str) -> Path:
        folder = self._root / check_id(instance_id, self._codes.named)
        if not folder.is_dir():
            raise self._missing(instance_id)
        return folder

    def _missing(self, instance_id: str) -> NotFound:
        return NotFound(self._codes.missing, **{self._codes.named: instance_id})

    def _busy(self, folder: Path, wait: float) -> Busy:
        pid = (running(folder) or {}).get("pid", "?")
        return Busy(self._codes.busy, **{self._codes.named: folder.name}, pid=pid, seconds=f"{wait:g}")


class FileLearningLock:
    """Implements ``LearningLock`` by another file in the folders of stories."""

    def __init__(self, instances: Path, lock: FileStoryLock) -> None:
        self._instances = instances
        self._lock = lock

    @contextlib.asynccontextmanager
    async def hold(self, instance_id: str, *, wait: float) -> AsyncGenerator[None]:
        """Hold the lock for the block."""
        folder = self._instances / check_id(instance_id, "instance_id")
        if not folder.is_dir():
            raise NotFound("no_instance", instance_id=instance_id)
        deadline = time.monotonic() + wait
        with writing(f"instances/{instance_id}/{_LEARNING}"):
            fd = open_regular(folder / _LEARNING, os.O_RDWR | os.O_CREAT)
        try:
            while not lock_fd(fd, folder / _LEARNING):
                if self._lock.closing:
                    raise Busy("server_ending")
                if time.monotonic() >= deadline:
                    raise Busy("learning_busy", instance_id=instance_id)
                await asyncio.sleep(_RETRY_SECONDS)
            yield
        finally:
            os.close(fd)


def _same_file(fd: int, path: Path) -> bool:
    try:
        there = path.stat()
    except OSError:
        return False
    here = os.fstat(fd)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def _read_fence(fd: int) -> int:
    """Read the number of the last holder, also after a torn write; 0 where none is written."""
    try:
        found = _FENCE.match(os.pread(fd, 64, 0))
    except OSError:
        return 0
    return int(found[1]) if found else 0


def _write_lock(fd: int, fields: dict[str, Any]) -> None:
    """Write who holds the lock; a full disk only makes the busy error less precise."""
    word = json.dumps(fields, ensure_ascii=False).encode("utf-8")
    with contextlib.suppress(OSError):
        os.pwrite(fd, word, 0)
        os.ftruncate(fd, len(word))


def running(folder: Path) -> dict[str, Any] | None:
    """Find who holds an instance's lock right now; ``None`` when nobody does."""
    try:
        fd = open_regular(folder / _LOCK)
    except (OSError, StorageError):
        return None
    try:
        if lock_fd(fd, folder / _LOCK, shared=True):
            return None
        found = json.loads(os.pread(fd, 4096, 0) or b"{}")
    except StorageError:
        return None  # nobody can hold a lock on this file system
    except ValueError:
        return {"lease": ""}
    finally:
        os.close(fd)
    return {"lease": "", **cast("dict[str, Any]", found)} if isinstance(found, dict) else {"lease": ""}


def held_turn(folder: Path) -> int | None:
    """Find the turn whose reply a client is writing elsewhere; ``None`` when there is none, or its time is over."""
    try:
        fd = open_regular(folder / _AWAITED)
        try:
            found: Any = json.loads(os.pread(fd, 200, 0))
        finally:
            os.close(fd)
        left = float(found["until"]) - time.time()
        return int(found["turn"]) if 0 < left <= MAX_HOLD_SECONDS else None
    except (OSError, StorageError, ValueError, TypeError, KeyError, OverflowError):
        return None


def _free(folder: Path, turn: int | None) -> None:
    """Empty the mark rather than remove it: quick enough to be done anywhere."""
    if turn is not None and held_turn(folder) == turn:
        with contextlib.suppress(OSError, StorageError):
            os.close(open_regular(folder / _AWAITED, os.O_WRONLY | os.O_TRUNC))
