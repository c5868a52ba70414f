"""Leases are released whatever the end of a run meets."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from personalab.errors import StorageError
from personalab.leases import Leases, lease_scope


@dataclass
class CountedLock:
    """A lock that counts who has it; releasing some stories fails."""

    failing: tuple[str, ...] = ()
    closing: bool = False
    held: set[str] = field(default_factory=set[str])

    async def acquire(self, instance_id: str, task: str, *, wait: float) -> CountedHold:
        self.held.add(instance_id)
        return CountedHold(self, instance_id)

    async def stop(self, instance_id: str, *, wait: float) -> str:
        return ""

    async def held_turn(self, instance_id: str) -> int | None:
        return None

    async def release_hold(self, instance_id: str, turn: int) -> None:
        return


@dataclass
class CountedHold:
    """One held story."""

    lock: CountedLock
    instance_id: str
    fence: int = 1

    @property
    def lease_id(self) -> str:
        return self.instance_id

    def stop_requested(self) -> bool:
        return False

    async def hold_for(self, turn: int, seconds: float) -> None:
        return

    async def release(self) -> None:
        if self.instance_id in self.lock.failing:
            raise StorageError("disk_full", file=self.instance_id)
        self.lock.held.discard(self.instance_id)


def test_failing_release_neither_keeps_other_locks_nor_hides_an_error() -> None:
    lock = CountedLock(failing=("a",))

    async def run() -> None:
        async with lease_scope():
            leases = Leases(lock)
            for name in ("a", "b"):
                await leases.acquire(name, "say", wait=1)
            raise LookupError("what really happened")

    with pytest.raises(LookupError):
        asyncio.run(run())
    assert lock.held == {"a"}


@pytest.mark.parametrize("steps", range(12))
def test_lock_is_released_when_the_event_loop_ends_at_any_moment(steps: int) -> None:
    lock = CountedLock()

    async def run() -> None:
        async with lease_scope():
            lease = await Leases(lock).acquire("a", "say", wait=1)
            async with lease.step():
                await asyncio.sleep(0)

    async def end_early() -> None:
        kept.append(asyncio.create_task(run()))
        for _ in range(steps):
            await asyncio.sleep(0)

    kept: list[asyncio.Task[None]] = []
    asyncio.run(end_early())
    assert lock.held == set()
