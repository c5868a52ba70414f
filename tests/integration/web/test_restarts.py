"""A reply survives the server's end, however it comes, and what other programs write is watched as it is written."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.integration.web.test_streams import begin, retry
from tests.support.mcp_server.processes import session_lines, with_provider, written
from tests.support.web.listening import last_id, listen, listening, take, text_of
from tests.support.web.serving import CHECKOUT, SECONDS, Served, wait_until
from tests.support.web.slow_model import SlowModel

pytestmark = pytest.mark.anyio


async def test_after_a_power_cut_the_partial_text_is_told_as_interrupted_and_can_be_tried_again(
    serve: Callable[..., Served], slow_model: SlowModel
) -> None:
    model = with_provider({}, slow_model)
    first = serve(**model)
    async with first.client() as client:
        turn = await begin(client)
        await asyncio.to_thread(slow_model.asked)
        slow_model.say("half ", "a reply")
        async with listening(client, turn["stream"]) as events:
            heard = await take(events, 1)
            while text_of(heard) != "half a reply":
                heard += await take(events, 1)
        first.kill()

    again = serve(**model, port=int(first.url.rpartition(":")[2]))
    async with again.client() as client:
        rest = await listen(client, turn["stream"], last_id(heard))
        assert text_of(heard) + text_of(rest) == "half a reply"
        assert rest[-1].name == "done"
        assert rest[-1].data["interrupted"]
        whole = await listen(client, turn["stream"])
        assert text_of(whole) == rest[-1].data["content"] == "half a reply"
        tried = await retry(client)
        assert (tried["turn"], tried["attempt"]) == (1, 2)
        await asyncio.to_thread(slow_model.asked, 2)
        slow_model.finish("all of it")
        assert text_of(await listen(client, tried["stream"])) == "all of it"
        assert text_of(await listen(client, turn["stream"])) == "half a reply"


async def test_a_server_that_is_asked_to_end_closes_replies_and_tells_their_watchers(
    slowly_served: Served, slow_model: SlowModel
) -> None:
    async with slowly_served.client() as client:
        turn = await begin(client)
        await asyncio.to_thread(slow_model.asked)
        slow_model.say("so far")
        async with listening(client, turn["stream"]) as one, listening(client, turn["stream"]) as other:
            await take(one, 1)
            ended = asyncio.create_task(asyncio.to_thread(slowly_served.stop))
            ends = [[event async for event in stream] for stream in (one, other)]
        await ended
    assert all((end[-1].name, end[-1].data["interrupted"]) == ("done", True) for end in ends)
    assert text_of(ends[1]) == "so far"
    reply = session_lines(slowly_served.environment, "inst_001")[-1]
    assert (reply["content"], reply["interrupted"]) == ("so far", True)
    assert "Traceback" not in slowly_served.errors


async def test_the_end_does_not_wait_for_what_is_done_by_itself_after_a_reply(
    slowly_served: Served, slow_model: SlowModel
) -> None:
    async with slowly_served.client() as client:
        values = {"preferences.auto_memorize_turns": 1}
        (await client.put("/api/settings", json={"values": values})).raise_for_status()
        turn = await begin(client, "I am Ada, and I live by the sea")
        await asyncio.to_thread(slow_model.asked)
        async with listening(client, turn["stream"]) as events:
            slow_model.finish("hello Ada")
            await asyncio.to_thread(slow_model.asked, 2)
            ended = asyncio.create_task(asyncio.to_thread(slowly_served.stop))
            # The stream is ended in order, and not cut off when the server's patience is over.
            heard = [event async for event in events]
        await ended
    assert [event.name for event in heard] == ["token", "done", "care"]
    assert not heard[1].data["interrupted"]
    assert '"status": "done"' in slowly_served.errors


async def test_what_the_terminal_writes_is_watched_live_and_can_be_stopped(
    slowly_served: Served, slow_model: SlowModel
) -> None:
    said = "说，from a terminal"
    with subprocess.Popen(
        [sys.executable, "-m", "cli", "say", "inst_001", said],
        cwd=CHECKOUT,
        env=slowly_served.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as terminal:
        await asyncio.to_thread(slow_model.asked)
        slow_model.say("灯 ")
        await asyncio.to_thread(
            wait_until, lambda: written(slowly_served.environment, "inst_001", "灯"), "nothing is written"
        )
        url = "/api/chat/stream?instance_id=inst_001&turn=1"
        async with slowly_served.client() as client:
            async with listening(client, url) as events:
                heard = await take(events, 1)
                slow_model.say("光")
                heard += await take(events, 1)
                assert text_of(heard) == "灯 光"
                busy = await client.get(
                    "/api/sessions/sess_001/current_response", params={"instance_id": "inst_001", "turn": 1}
                )
                assert busy.json()["status"] == "writing"
                stopped = await client.post("/api/instances/inst_001/stop")
                assert stopped.json()["stopped"] == "say"
                rest = [event async for event in events]
            assert [event.name for event in rest] == ["done"]
            assert rest[-1].data["interrupted"]
            assert rest[-1].data["content"] == "灯 光"
        terminal.wait(SECONDS)
