"""Who may write an instance, across processes, and how is a writer asked to stop?

The lock is ``flock`` on ``instances/{id}/.lock``: it ends with its process, however that ends. A turn is many
graph steps, so its lock is a lease: each step enters and leaves it, and a lease that no step has entered for a
while (its run was dropped between two steps) is given up. The lock file names its holder, so that a busy error
can say who it is and ``stop`` can address it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import secrets
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from personalab.errors import Busy, NotFound
from personalab.storage.files import replace_file, writing
from personalab.storage.sessions import SessionWriter

IDLE_SECONDS = 2.0
STOP_POLL_SECONDS = 0.05
_RETRY_SECONDS = 0.02
_LOCK, _STOP = ".lock", ".stop"


@dataclass(slots=True)
class Lease:
    """The right to write one instance, held by this process."""

    instance_id: str
    lease_id: str
    folder: Path
    fd: int
    writer: SessionWriter | None = None
    released: bool = False
    _steps: int = 0
    _timer: asyncio.TimerHandle | None = field(default=None, repr=False)

    def stop_asked(self) -> bool:
        """Tell whether someone asked this very lease to stop."""
        try:
            asked = (self.folder / _STOP).read_text(encoding="utf-8")
        except OSError:
            return False
        return asked.strip() == self.lease_id

    @contextmanager
    def step(self) -> Generator[None]:
        """Work under the lease; a failed step gives it up."""
        self._steps += 1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            yield
        except BaseException:
            self._steps -= 1
            self.release()
            raise
        self._steps -= 1
        if self._steps == 0 and not self.released:
            self._timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self.release)

    def release(self) -> None:
        """Give the lock back; doing it twice is harmless."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.released or self._steps:
            return
        self.released = True
        if self.writer is not None:
            self.writer.close()
            self.writer = None
        with contextlib.suppress(OSError):
            os.ftruncate(self.fd, 0)
        os.close(self.fd)


class Leases:
    """The leases of this process and the way to get one."""

    def __init__(self, instances: Path) -> None:
        self._instances = instances
        self._held: dict[str, Lease] = {}

    def find(self, lease_id: str) -> Lease | None:
        """Find a lease that is still held."""
        lease = self._held.get(lease_id)
        if lease is not None and lease.released:
            del self._held[lease_id]
            return None
        return lease

    async def acquire(self, instance_id: str, task: str, *, wait: float) -> Lease:
        """Wait for the instance's lock, at most so many seconds, then say who holds it."""
        folder = self._instances / instance_id
        deadline = time.monotonic() + wait
        fd = self._open(folder, instance_id)
        try:
            while not _try_lock(fd):
                if time.monotonic() >= deadline:
                    raise Busy(
                        "busy", instance_id=instance_id, holder=_holder(folder), seconds=round(wait, 1)
                    )
                await asyncio.sleep(_RETRY_SECONDS)
            if not _same_file(fd, folder / _LOCK):
                raise NotFound("no_instance", instance_id=instance_id)
            lease = Lease(instance_id, secrets.token_hex(8), folder, fd)
            _sign(fd, lease, task)
        except BaseException:
            os.close(fd)
            raise
        self._sweep()
        self._held[lease.lease_id] = lease
        return lease

    @contextlib.asynccontextmanager
    async def holding(self, instance_id: str, task: str, *, wait: float):
        """Hold an instance for work that is one step."""
        lease = await self.acquire(instance_id, task, wait=wait)
        try:
            yield lease
        finally:
            lease.release()

    async def stop(self, instance_id: str, *, wait: float = 5.0) -> str:
        """Ask whoever writes the instance to stop, wait until it has, and say what it was doing."""
        folder = self._instances / instance_id
        holder = running(folder)
        if holder is None:
            raise NotFound("nothing_running", instance_id=instance_id)
        stop = folder / _STOP
        await asyncio.to_thread(replace_file, stop, holder["lease"].encode(), f"{instance_id}/{_STOP}")
        deadline = time.monotonic() + wait
        while (now := running(folder)) and now["lease"] == holder["lease"]:
            if time.monotonic() >= deadline:
                raise Busy("busy", instance_id=instance_id, holder=_holder(folder), seconds=round(wait, 1))
            await asyncio.sleep(_RETRY_SECONDS)
        await asyncio.to_thread(stop.unlink, missing_ok=True)
        return str(holder.get("task", ""))

    def _open(self, folder: Path, instance_id: str) -> int:
        if not folder.is_dir():
            raise NotFound("no_instance", instance_id=instance_id)
        with writing(f"instances/{instance_id}/{_LOCK}"):
            return os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def _sweep(self) -> None:
        for lease_id in [lease_id for lease_id, lease in self._held.items() if lease.released]:
            del self._held[lease_id]


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


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
        fd = os.open(folder / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
        found = json.loads(os.pread(fd, 4096, 0) or b"{}")
    except ValueError:
        return {"lease": ""}
    finally:
        os.close(fd)
    return {"lease": "", **cast("dict[str, Any]", found)} if isinstance(found, dict) else {"lease": ""}


def _holder(folder: Path) -> str:
    found = running(folder) or {}
    return f"{found.get('task', '?')}, pid {found.get('pid', '?')}"
