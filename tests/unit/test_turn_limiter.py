"""Turns that begin together are prepared in order, a few at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from personalab.errors import Busy
from personalab.services import Services
from personalab.serving.turn_limiter import TurnLimiter

pytestmark = pytest.mark.anyio


async def _until(is_reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_reached():
            await asyncio.sleep(0.01)


async def test_turns_are_prepared_in_the_order_of_their_calls(services: Services) -> None:
    places, begun, at_once = TurnLimiter(services), list[int](), 0
    preparing = 0

    async def run(number: int) -> None:
        nonlocal preparing, at_once
        async with places.turn() as is_prepared:
            begun.append(number)
            preparing += 1
            at_once = max(at_once, preparing)
            for _ in range(3):
                await asyncio.sleep(0)
            preparing -= 1
            is_prepared()
            is_prepared()  # a second time changes nothing
            await asyncio.sleep(0)

    await asyncio.gather(*(run(number) for number in range(30)))
    assert begun == list(range(30))
    assert at_once == 4
    assert not places.taken


async def test_slow_preparation_holds_up_nobody(services: Services) -> None:
    places, begun, end = TurnLimiter(services), list[int](), asyncio.Event()

    async def run(number: int) -> None:
        async with places.turn():
            begun.append(number)
            await end.wait()

    tasks = [asyncio.create_task(run(number)) for number in range(10)]
    await _until(lambda: len(begun) == 10)
    end.set()
    await asyncio.gather(*tasks)
    assert not places.taken


async def test_no_turn_that_waits_begins_after_the_end(services: Services) -> None:
    places, end = TurnLimiter(services), asyncio.Event()

    async def run() -> None:
        async with places.turn():
            await end.wait()

    first = [asyncio.create_task(run()) for _ in range(4)]
    await _until(lambda: places.taken == 4)
    late = asyncio.create_task(run())
    await _until(lambda: places.taken == 5)
    places.closing = True
    end.set()
    await asyncio.gather(*first)
    with pytest.raises(Busy):
        await late
    assert not places.taken


async def test_cancelled_turn_gives_its_place_to_the_next(services: Services) -> None:
    places, begun = TurnLimiter(services), list[int]()

    async def run(number: int) -> None:
        async with places.turn():
            begun.append(number)
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(run(number)) for number in range(6)]
    await _until(lambda: len(begun) == 4)
    for task in tasks[3:5]:  # one that is being prepared, and one that waits
        task.cancel()
    await _until(lambda: 5 in begun)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert not places.taken
