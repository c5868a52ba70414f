"""Turns that begin together begin in order, a few at a time, and none keeps the others waiting for long."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from personalab.operations.instances import new_instance
from personalab.services import Services
from personalab.serving.start_queue import StartQueue
from personalab.storage.leases import Leases
from tests.web.conftest import Live
from tests.web.slow_model import HandedModel

pytestmark = pytest.mark.anyio


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=30))
def test_places_are_taken_in_order_and_given_back_once(pauses: list[int]) -> None:
    async def run() -> None:
        queue, inside, entered = StartQueue(hold_seconds=60), set[int](), list[int]()

        async def begin(number: int, pause: int) -> None:
            leave = await queue.enter()
            inside.add(number)
            entered.append(number)
            assert len(inside) <= queue.at_once
            for _ in range(pause):
                await asyncio.sleep(0)
            inside.remove(number)
            leave()
            leave()

        async with asyncio.timeout(10):
            await asyncio.gather(*(begin(number, pause) for number, pause in enumerate(pauses)))
        assert entered == sorted(entered)

    asyncio.run(run())


async def test_place_is_free_again_after_the_longest_hold() -> None:
    queue = StartQueue(hold_seconds=0.01)
    held: list[Callable[[], None]] = []
    async with asyncio.timeout(10):
        for _ in range(4 * queue.at_once):
            held.append(await queue.enter())
    for leave in held:
        leave()
    places = [await asyncio.wait_for(queue.enter(), 10) for _ in range(queue.at_once)]
    late = asyncio.ensure_future(queue.enter())
    await asyncio.sleep(0)
    assert not late.done()  # leaving late gave no place away twice
    for leave in places:
        leave()
    await asyncio.wait_for(late, 10)


async def test_stories_that_others_write_do_not_keep_turns_from_beginning(
    services: Services, live: Live, handed: HandedModel
) -> None:
    queue_length = StartQueue().at_once
    names = [f"story_{number}" for number in range(queue_length + 1)]
    for name in names:
        await new_instance(services, "char_alserqi", "bg_wasteland", name)
    other = Leases(services.stories.instances)
    held = [await other.acquire(name, "say", wait=1) for name in names[:-1]]
    waiting = [
        asyncio.create_task(live.client.post(f"/api/instances/{name}/turns", json={"text": "hello"}))
        for name in names[:-1]
    ]
    answer = await live.client.post(f"/api/instances/{names[-1]}/turns", json={"text": "hello"})
    assert answer.status_code == 202, answer.text
    await handed.asked(1)
    for lease in held:
        lease.release()
    assert [(await task).status_code for task in waiting] == [202] * queue_length
    await handed.asked(queue_length + 1)


async def test_turn_that_waits_to_begin_can_be_stopped(
    services: Services, live: Live, handed: HandedModel
) -> None:
    await new_instance(services, "char_alserqi", "bg_wasteland", "queued")
    places = live.desk.places
    async with contextlib.AsyncExitStack() as stack:
        queue = StartQueue(hold_seconds=60)
        places.starts = queue
        for _ in range(queue.at_once):
            stack.callback(await queue.enter())
        sent = asyncio.create_task(live.client.post("/api/instances/queued/turns", json={"text": "hello"}))
        async with asyncio.timeout(30):
            while not live.desk.turns.count:
                await asyncio.sleep(0.01)
        assert (await live.client.post("/api/instances/queued/stop")).status_code == 200
        answer = await sent
    assert answer.json()["error"]["code"] == "work_stopped"
    assert not handed.replies
    assert not services.stories.session("queued", "sess_001").view().turns
