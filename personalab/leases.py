"""The right to write a story, or a project, for all steps of a run.

A run is many steps, and it can be dropped between two of them. So a lock is held as a lease: a failed step releases it,
and a run that ends, in whichever way, releases what it still holds (``lease_scope``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from weakref import WeakValueDictionary

from personalab.ports import HeldLock, StoryLock
from personalab.tasks import complete

STOP_POLL_SECONDS = 0.2
_log = logging.getLogger("personalab.leases")
MAX_HOLD_SECONDS = 600.0
"""No story is held longer for a client that writes elsewhere."""


@dataclass(slots=True, weakref_slot=True)
class Lease:
    """The right to write one story, held by this process."""

    instance_id: str
    lock: HeldLock
    on_release: Callable[..., Awaitable[None]] | None = None
    """Told, by name, whether the work was ``abandoned`` rather than brought to an end or a pause, and if it was
    abandoned because it was ``cancelled``."""
    stopping: bool = False
    """Whether this process itself wants the work to stop."""
    _steps: int = 0
    _ending: bool = False
    _abandoned: bool = False
    _cancelled: bool = False
    _release: asyncio.Task[None] | None = None
    _freed: bool = False

    @property
    def lease_id(self) -> str:
        """The id by which later steps find the lease."""
        return self.lock.lease_id

    @property
    def released(self) -> bool:
        """Whether the lease is released, or is about to be."""
        return self._release is not None

    def stop_requested(self) -> bool:
        """Return whether someone asked this very lease to stop."""
        return self.stopping or self.lock.stop_requested()

    async def hold_for(self, turn: int, seconds: float) -> None:
        """Hold the story for a client that writes a turn's reply elsewhere, also after the release."""
        await self.lock.hold_for(turn, seconds)

    @asynccontextmanager
    async def step(self) -> AsyncGenerator[None]:
        """Work under the lease; a failed step releases it."""
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
                await self.release()

    async def release(self, *, abandoned: bool = False, cancelled: bool = False) -> None:
        """Release the lock, as soon as the last step that works under it has ended."""
        self._ending = True
        self._abandoned = self._abandoned or abandoned
        self._cancelled = self._cancelled or cancelled
        if self._steps:
            return
        cancellation: asyncio.CancelledError | None = None
        while not self._freed:
            if (
                self._release is None or self._release.cancelled()
            ):  # before it began, by the end of the event loop
                self._release = asyncio.create_task(self._finish())
            try:
                await complete(self._release)
            except asyncio.CancelledError as error:
                cancellation = error
        if cancellation is not None:
            raise cancellation

    async def _finish(self) -> None:
        """Bring the work to its end and release the lock; a failure changes nothing about what the run returned."""
        try:
            if self.on_release is not None:
                await self.on_release(abandoned=self._abandoned, cancelled=self._cancelled)
        except Exception as error:  # noqa: BLE001 (the lock is released whatever the end of the work meets)
            _log.warning("the end of the work on %s failed: %s", self.instance_id, error)
        finally:
            try:
                await self.lock.release()
            except Exception as error:  # noqa: BLE001 (the same)
                _log.warning("the lock of %s could not be released: %s", self.instance_id, error)
            finally:
                self._freed = True


_run: ContextVar[list[Lease] | None] = ContextVar("leases of this run", default=None)


@asynccontextmanager
async def lease_scope() -> AsyncGenerator[list[Lease]]:
    """Collect the leases acquired within the block, also by tasks it starts, and release them at its end."""
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
        await _release_all(held, abandoned=abandoned, cancelled=cancelled)


async def _release_all(held: list[Lease], *, abandoned: bool, cancelled: bool) -> None:
    """Release every lease, also when cancelled meanwhile."""
    cancellation: asyncio.CancelledError | None = None
    for lease in held:
        try:
            await lease.release(abandoned=abandoned, cancelled=cancelled)
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is not None:
        raise cancellation


class Leases:
    """Acquires leases over a lock, and stops whoever has one."""

    def __init__(self, lock: StoryLock) -> None:
        self.lock = lock
        self._held: WeakValueDictionary[str, Lease] = WeakValueDictionary()

    @property
    def closing(self) -> bool:
        """Whether this process is about to end: nobody waits for a lock any more."""
        return self.lock.closing

    def close(self) -> None:
        """Refuse whoever waits for a lock from now on."""
        self.lock.closing = True

    async def acquire(self, instance_id: str, task: str, *, wait: float) -> Lease:
        """Wait for the story's lock, at most so many seconds; ``Busy`` says who holds it."""
        lease = Lease(instance_id, await self.lock.acquire(instance_id, task, wait=wait))
        if (run := _run.get()) is not None:
            run.append(lease)
        self._held[lease.lease_id] = lease
        return lease

    async def reacquire(self, lease_id: str, instance_id: str, task: str, *, wait: float) -> Lease:
        """Find a lease that an earlier step acquired, or acquire another one if it was released meanwhile."""
        found = self._held.get(lease_id)
        if found is not None and not found.released:
            return found
        lease = await self.acquire(instance_id, task, wait=wait)
        self._held[lease_id] = lease
        return lease

    @asynccontextmanager
    async def holding(self, instance_id: str, task: str, *, wait: float) -> AsyncGenerator[Lease]:
        """Hold a story for work that is one step."""
        lease = await self.acquire(instance_id, task, wait=wait)
        try:
            async with lease.step():
                yield lease
        finally:
            await lease.release()

    async def stop(self, instance_id: str, *, wait: float = 5.0) -> str:
        """Ask whoever writes the story to stop, wait until it has, and return what it was doing."""
        return await self.lock.stop(instance_id, wait=wait)

    async def held_turn(self, instance_id: str) -> int | None:
        """Find the turn for whose reply a story is held; ``None`` when it is not, or no longer."""
        return await self.lock.held_turn(instance_id)

    async def release_hold(self, instance_id: str, turn: int) -> None:
        """Let others write a story again, if it is held for a client that writes this turn's reply."""
        await self.lock.release_hold(instance_id, turn)
