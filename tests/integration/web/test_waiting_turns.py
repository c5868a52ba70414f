"""A turn that waits for a free place can be stopped, and leaves nothing behind."""

from __future__ import annotations

import asyncio

import pytest

from personalab.services import Services
from tests.support.web.fixtures import Live
from tests.support.web.slow_model import HandedModel

pytestmark = pytest.mark.anyio


async def test_turn_that_waits_for_a_place_can_be_stopped(
    services: Services, live: Live, instance: str, handed: HandedModel
) -> None:
    live.desk.places.limit = 0
    sent = asyncio.create_task(live.client.post(f"/api/instances/{instance}/turns", json={"text": "hello"}))
    async with asyncio.timeout(60):
        while not live.desk.turns.count:
            await asyncio.sleep(0.01)
    assert (await live.client.post(f"/api/instances/{instance}/stop")).status_code == 200
    assert (await sent).json()["error"]["code"] == "work_stopped"
    assert not handed.replies
    assert not services.stories.session(instance, "sess_001").view().turns
