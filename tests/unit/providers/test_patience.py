"""Waiting for a server: what takes too long has stalled, and cancellation from outside stays what it is."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from personalab.errors import ProviderError
from personalab.providers.openai_source import Patience

pytestmark = pytest.mark.anyio


async def _forever() -> None:
    await asyncio.Event().wait()


async def test_stall_leaves_no_cancellation_behind() -> None:
    patience = Patience(0.01)
    with pytest.raises(ProviderError) as caught:
        await patience.wait_for(_forever())
    assert caught.value.code == "provider.stall"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0.02)


async def test_cancellation_from_outside_is_no_stall() -> None:
    patience = Patience(60)

    async def wait() -> None:
        await patience.wait_for(_forever())

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    patience.close()


async def test_time_between_waits_does_not_count() -> None:
    patience = Patience(0.05)
    for _ in range(4):
        await patience.wait_for(asyncio.sleep(0))
        await asyncio.sleep(0.03)
    patience.close()


async def test_shorter_limit_takes_effect_at_once() -> None:
    patience = Patience(60)
    await patience.wait_for(asyncio.sleep(0))
    patience.renew(0.01)
    async with asyncio.timeout(30):
        with pytest.raises(ProviderError):
            await patience.wait_for(_forever())


@pytest.mark.parametrize("swallows", [True, False])
async def test_work_that_answers_the_cancellation_leaves_the_task_uncancelled(swallows: bool) -> None:
    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not swallows:
                raise ConnectionError("closed") from None
        return "late"

    patience = Patience(0.01)
    if swallows:
        assert await patience.wait_for(stubborn()) == "late"
    else:
        with pytest.raises(ConnectionError):
            await patience.wait_for(stubborn())
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    patience.close()


@settings(deadline=None, max_examples=20)
@given(
    st.lists(st.floats(0, 0.004), max_size=8),
    st.sampled_from([0.0, 0.0003, 0.001, 0.005]),
    st.sampled_from([asyncio.new_event_loop, uvloop.new_event_loop]),
)
def test_waits_end_or_stall_on_any_loop(pauses: list[float], limit: float, new_loop: object) -> None:
    async def run() -> None:
        patience = Patience(limit)
        with contextlib.suppress(ProviderError):
            for pause in pauses:
                await patience.wait_for(asyncio.sleep(pause))
        patience.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:  # pyright: ignore[reportArgumentType] (one of the two)
        runner.run(run())
