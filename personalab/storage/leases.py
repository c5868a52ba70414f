"""Who may write an instance, across processes, and how is a writer asked to stop?

The lock is ``flock`` on ``instances/{id}/.lock``: it ends with its process, however that ends. A turn is many
graph steps, so its lock is a lease: a failed step gives it up, and a run that ends, in whichever way, gives up
what it held (``lease_scope``). The lock file names its holder, so that a busy error can say who it is and
``stop`` can address it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast
from weakref import WeakValueDictionary

from personalab.data_files import lock_fd, open_regular
from personalab.errors import Busy, NotFound, StorageError
from personalab.storage.files import replace_file, writing
from personalab.story.ids import check_id
from personalab.tasks import run_uncancellable

STOP_POLL_SECONDS = 0.2
_RETRY_SECONDS = 0.02
MAX_HOLD_SECONDS = 600.0
"""No story is kept longer for a client that writes elsewhere."""
_LOCK, _STOP, _AWAITED, _LEARNING = ".lock", ".stop", ".awaited", ".learning"


@dataclass(slots=True, weakref_slot=True)
class Lease:
    """The right to write one instance, held by this process."""

    instance_id: str
    lease_id: str
    folder: Path
    fd: int
    on_release: Callable[..., None] | None = None
    """Told, by name, whether the work was ``abandoned`` rather than brought to an end or a pause, and if it was
    abandoned because it was ``cancelled``."""
    released: bool = False
    stopping: bool = False
    """Whether this process itself wants the work to stop."""
    _steps: int = 0
    _ending: bool = False
    _abandoned: bool = False
    _cancelled: bool = False

    def stop_requested(self) -> bool:
        """Tell whether someone asked this very lease to stop."""
        return self.stopping or (self.folder / f"{_STOP}-{self.lease_id}").exists()

    # --- kept for someone who is not here

    def hold_for(self, turn: int, seconds: float) -> None:
        """Keep the story for a client that is writing a turn's reply, though nobody holds the lock meanwhile."""
        word = json.dumps({"turn": turn, "until": time.time() + seconds})
        with contextlib.suppress(StorageError):  # then others may come first
            replace_file(self.folder / _AWAITED, word.encode("ascii"), _AWAITED)

    def held_turn(self) -> int | None:
        """Tell for which turn's reply the story is kept now."""
        return held_turn(self.folder)

    def release_hold(self, turn: int) -> None:
        """Let others write again, if the story is kept for this turn."""
        _free(self.folder, turn)

    @contextmanager
    def step(self) -> Generator[None]:
        """Work under the lease; a failed step gives it up."""
        self._steps += 1
        try:
            yield
        except BaseException as error:
            self._ending = self._abandoned = True
            self._cancelled = self._cancelled or isinstance(error, asyncio.CancelledError)
            raise
        finally:
            self._steps -= 1
            if self._ending:
                self.release()

    def release(self, *, abandoned: bool = False, cancelled: bool = False) -> None:
        """Give the lock back, as soon as the last step that works under it has ended."""
        self._ending = True
        self._abandoned = self._abandoned or abandoned
        self._cancelled = self._cancelled or cancelled
        if self.released or self._steps:
            return
        self.released = True
        try:
            if self.on_release is not None:
                self.on_release(abandoned=self._abandoned, cancelled=self._cancelled)
        finally:
            with contextlib.suppress(OSError):  # who held it is only a courtesy to the next one
                os.ftruncate(self.fd, 0)
            os.close(self.fd)


_run: ContextVar[list[Lease] | None] = ContextVar("leases of this run", default=None)


@contextmanager
def lease_scope() -> Generator[list[Lease]]:
    """Collect the leases taken within the block, also by tasks it starts, and release them at its end."""
    held: list[Lease] = []
    token = _run.set(held)
    abandoned, cancelled = True, False
    try:
        yield held
        abandoned = False
    except asyncio.CancelledError:
        cancelled = True
        raise
    finally:
        _run.reset(token)
        for lease in held:
            lease.release(abandoned=abandoned, cancelled=cancelled)


@dataclass(frozen=True, slots=True)
class LeaseCodes:
    """How errors name what is leased."""

    missing: str = "no_instance"
    busy: str = "busy"
    idle: str = "nothing_running"
    named: str = "instance_id"
    """The parameter that tells which one."""


_INSTANCES = LeaseCodes()


class Leases:
    """The way to get a lease, and to stop whoever has one."""

    def __init__(self, instances: Path, codes: LeaseCodes = _INSTANCES) -> None:
        self._instances = instances
        self._codes = codes
        self._held: WeakValueDictionary[str, Lease] = WeakValueDictionary()
        self.closing = False
        """Whether this process is about to end: nobody waits for a lock any more."""

    @contextlib.asynccontextmanager
    async def learning(self, instance_id: str, *, wait: float) -> AsyncGenerator[None]:
        """Be the only one who learns from a story; it may be played meanwhile."""
        folder = self._folder(instance_id)
        deadline = time.monotonic() + wait
        with writing(f"instances/{instance_id}/{_LEARNING}"):
            fd = open_regular(folder / _LEARNING, os.O_RDWR | os.O_CREAT)
        try:
            while not lock_fd(fd, folder / _LEARNING):
                if self.closing:
                    raise Busy("server_ending")
                if time.monotonic() >= deadline:
                    raise Busy("learning_busy", instance_id=instance_id)
                await asyncio.sleep(_RETRY_SECONDS)
            yield
        finally:
            os.close(fd)

    async def acquire(self, instance_id: str, task: str, *, wait: float) -> Lease:
        """Wait for the instance's lock, at most so many seconds, then say who holds it."""
        folder = self._folder(instance_id)
        deadline = time.monotonic() + wait
        with writing(f"{self._instances.name}/{instance_id}/{_LOCK}"):
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
            lease = Lease(instance_id, secrets.token_hex(8), folder, fd)
            _sign(fd, lease, task)
        except BaseException:
            os.close(fd)
            raise
        if (run := _run.get()) is not None:
            run.append(lease)
        self._held[lease.lease_id] = lease
        return lease

    async def reacquire(self, lease_id: str, instance_id: str, task: str, *, wait: float) -> Lease:
        """Find a lease that an earlier step took, or take another one if it was given up meanwhile."""
        found = self._held.get(lease_id)
        if found is not None and not found.released:
            return found
        lease = await self.acquire(instance_id, task, wait=wait)
        self._held[lease_id] = lease
        return lease

    @contextlib.asynccontextmanager
    async def holding(self, instance_id: str, task: str, *, wait: float) -> AsyncGenerator[Lease]:
        """Hold an instance for work that is one step."""
        lease = await self.acquire(instance_id, task, wait=wait)
        try:
            with lease.step():
                yield lease
        finally:
            lease.release()

    async def stop(self, instance_id: str, *, wait: float = 5.0) -> str:
        """Ask whoever writes the instance to stop, wait until it has, and say what it was doing."""
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

    def release_hold(self, instance_id: str, turn: int) -> None:
        """Let others write a story, if it is kept for a client that writes this turn's reply."""
        _free(self._folder(instance_id), turn)

    def held_turn(self, instance_id: str) -> int | None:
        """Tell for which turn's reply a story is kept now."""
        return held_turn(self._folder(instance_id))

    def _folder(self, instance_id: str) -> Path:
        folder = self._instances / check_id(instance_id, self._codes.named)
        if not folder.is_dir():
            raise self._missing(instance_id)
        return folder

    def _missing(self, instance_id: str) -> NotFound:
        return NotFound(self._codes.missing, **{self._codes.named: instance_id})

    def _busy(self, folder: Path, wait: float) -> Busy:
        pid = (running(folder) or {}).get("pid", "?")
        return Busy(self._codes.busy, **{self._codes.named: folder.name}, pid=pid, seconds=f"{wait:g}")


def _same_file(fd: int, path: Path) -> bool:
    try:
        there = path.stat()
    except OSError:
        return False
    here = os.fstat(fd)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def _sign(fd: int, lease: Lease, task: str) -> None:
    """Leave word of who holds the lock; a full disk only makes the busy error less precise."""
    word = json.dumps({"lease": lease.lease_id, "pid": os.getpid(), "task": task}, ensure_ascii=False)
    with contextlib.suppress(OSError):
        os.ftruncate(fd, 0)
        os.pwrite(fd, word.encode("utf-8"), 0)


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
