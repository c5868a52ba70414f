"""What every ``LearningLock`` guarantees."""

from __future__ import annotations

import asyncio

import pytest

from personalab.errors import Busy, NotFound, UserError
from tests.support.contract.worlds import STORY, StoryWorld

pytestmark = pytest.mark.anyio


async def test_one_process_at_a_time_learns_and_the_story_can_be_played(world: StoryWorld) -> None:
    first, second = world.open_process(), world.open_process()
    async with first.learning.hold(STORY, wait=1):
        for ports in (first, second):
            with pytest.raises(Busy) as caught:
                async with ports.learning.hold(STORY, wait=0.05):
                    pytest.fail("two learn at once")
            assert (caught.value.code, caught.value.params["instance_id"]) == ("learning_busy", STORY)
        await (await second.lock.acquire(STORY, "say", wait=1)).release()
    async with second.learning.hold(STORY, wait=1):
        pass


async def test_learner_waits_until_the_other_has_ended(world: StoryWorld) -> None:
    async def learn() -> None:
        async with world.open_process().learning.hold(STORY, wait=30):
            pass

    async with world.open_process().learning.hold(STORY, wait=1):
        waiting = asyncio.create_task(learn())
        await asyncio.sleep(0.05)
        assert not waiting.done()
    await waiting


async def test_failure_and_cancellation_release_the_lock(world: StoryWorld) -> None:
    learning = world.open_process().learning
    with pytest.raises(ZeroDivisionError):
        async with learning.hold(STORY, wait=1):
            raise ZeroDivisionError

    async def learn() -> None:
        async with learning.hold(STORY, wait=30):
            await asyncio.Event().wait()

    holder, waiting = asyncio.create_task(learn()), asyncio.create_task(learn())
    await asyncio.sleep(0.05)
    for task in (waiting, holder):
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    async with world.open_process().learning.hold(STORY, wait=1):
        pass


async def test_lock_ends_with_its_process(world: StoryWorld) -> None:
    world.learn_and_die()
    async with world.open_process().learning.hold(STORY, wait=1):
        pass


async def test_closing_process_waits_for_no_lock(world: StoryWorld) -> None:
    ending = world.open_process()

    async def learn() -> None:
        async with ending.learning.hold(STORY, wait=30):
            pass

    async with world.open_process().learning.hold(STORY, wait=1):
        waiting = asyncio.create_task(learn())
        await asyncio.sleep(0.05)
        ending.lock.closing = True
        with pytest.raises(Busy) as caught:
            await waiting
        assert caught.value.code == "server_ending"


async def test_unknown_story_is_not_found(world: StoryWorld) -> None:
    learning = world.open_process().learning
    with pytest.raises(NotFound) as caught:
        async with learning.hold("inst_404", wait=1):
            pass
    assert caught.value.code == "no_instance"
    with pytest.raises(UserError):
        async with learning.hold("../x", wait=1):
            pass
