"""What every ``StoryLock`` guarantees."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import anyio
import pytest

from personalab.errors import Busy, NotFound, UserError
from tests.support.contract.worlds import STORY, StoryWorld

pytestmark = pytest.mark.anyio


async def test_lock_has_one_holder_at_a_time(world: StoryWorld) -> None:
    first, second = world.open_process().lock, world.open_process().lock
    held = await first.acquire(STORY, "say", wait=1)
    for lock in (first, second):
        with pytest.raises(Busy) as caught:
            await lock.acquire(STORY, "say", wait=0.05)
        assert (caught.value.code, caught.value.params["instance_id"]) == ("busy", STORY)
    await held.release()
    await (await second.acquire(STORY, "say", wait=1)).release()


async def test_acquire_waits_until_the_lock_is_released(world: StoryWorld) -> None:
    held = await world.open_process().lock.acquire(STORY, "say", wait=1)
    waiting = asyncio.create_task(world.open_process().lock.acquire(STORY, "say", wait=60))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await held.release()
    await (await waiting).release()


async def test_cancelled_acquire_leaves_no_lock(world: StoryWorld) -> None:
    lock = world.open_process().lock
    held = await lock.acquire(STORY, "say", wait=1)
    waiting = asyncio.create_task(world.open_process().lock.acquire(STORY, "say", wait=60))
    await asyncio.sleep(0.05)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await held.release()
    await (await lock.acquire(STORY, "say", wait=1)).release()


async def test_fencing_number_grows_with_every_holder(world: StoryWorld) -> None:
    fences: list[int] = []
    names: set[str] = set()
    for number in range(6):
        held = await world.open_process().lock.acquire(STORY, "say" * number, wait=1)
        fences.append(held.fence)
        names.add(held.lease_id)
        if number % 2:
            world.end_process(held)
        else:
            await held.release()
    assert all(later > earlier for earlier, later in pairwise(fences))
    assert len(names) == len(fences)


async def test_lock_ends_with_its_process(world: StoryWorld) -> None:
    held = await world.open_process().lock.acquire(STORY, "say", wait=1)
    world.end_process(held)
    await (await world.open_process().lock.acquire(STORY, "say", wait=1)).release()


async def test_stop_reaches_the_holder_and_waits_for_its_release(world: StoryWorld) -> None:
    held = await world.open_process().lock.acquire(STORY, "summarize", wait=1)
    assert not held.stop_requested()
    stopping = asyncio.create_task(world.open_process().lock.stop(STORY, wait=60))
    with anyio.fail_after(60):
        while not held.stop_requested():
            await asyncio.sleep(0.01)
    assert not stopping.done()
    await held.release()
    assert await stopping == "summarize"
    following = await world.open_process().lock.acquire(STORY, "say", wait=1)
    assert not following.stop_requested()
    await following.release()


async def test_stop_of_a_holder_that_does_not_stop_is_busy(world: StoryWorld) -> None:
    held = await world.open_process().lock.acquire(STORY, "say", wait=1)
    with pytest.raises(Busy):
        await world.open_process().lock.stop(STORY, wait=0.05)
    await held.release()


async def test_stop_without_a_holder_is_not_found(world: StoryWorld) -> None:
    with pytest.raises(NotFound) as caught:
        await world.open_process().lock.stop(STORY, wait=1)
    assert caught.value.code == "nothing_running"


async def test_unknown_story_is_not_found(world: StoryWorld) -> None:
    lock = world.open_process().lock
    for call in (
        lambda: lock.acquire("inst_404", "say", wait=1),
        lambda: lock.stop("inst_404", wait=1),
        lambda: lock.held_turn("inst_404"),
        lambda: lock.release_hold("inst_404", 1),
    ):
        with pytest.raises(NotFound) as caught:
            await call()
        assert caught.value.code == "no_instance"
    with pytest.raises(UserError):
        await lock.acquire("../x", "say", wait=1)


async def test_hold_outlives_the_release_and_is_seen_by_others(world: StoryWorld) -> None:
    other = world.open_process().lock
    held = await world.open_process().lock.acquire(STORY, "begin", wait=1)
    await held.hold_for(3, 60)
    await held.release()
    assert await other.held_turn(STORY) == 3
    await other.release_hold(STORY, 2)
    assert await other.held_turn(STORY) == 3
    await other.release_hold(STORY, 3)
    assert await other.held_turn(STORY) is None


async def test_hold_ends_with_its_time(world: StoryWorld) -> None:
    lock = world.open_process().lock
    held = await lock.acquire(STORY, "begin", wait=1)
    await held.hold_for(3, 0.02)
    await held.release()
    await asyncio.sleep(0.05)
    assert await lock.held_turn(STORY) is None


async def test_stop_frees_a_story_that_is_held(world: StoryWorld) -> None:
    lock = world.open_process().lock
    held = await lock.acquire(STORY, "begin", wait=1)
    await held.hold_for(3, 60)
    await held.release()
    assert await world.open_process().lock.stop(STORY, wait=1) == "sampling"
    assert await lock.held_turn(STORY) is None


async def test_closing_process_waits_for_no_lock(world: StoryWorld) -> None:
    held = await world.open_process().lock.acquire(STORY, "say", wait=1)
    ending = world.open_process().lock
    waiting = asyncio.create_task(ending.acquire(STORY, "say", wait=60))
    await asyncio.sleep(0.05)
    ending.closing = True
    with pytest.raises(Busy) as caught:
        await waiting
    assert caught.value.code == "server_ending"
    await held.release()
