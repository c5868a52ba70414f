"""Turns that begin together begin in order, a few at a time, and none keeps the others waiting for long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from personalab.serving.start_queue import StartQueue

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
