"""Many clients on many turns at once: nothing is lost, nothing comes twice, and nothing piles up."""

from __future__ import annotations

import asyncio
import json
import random
import socket
from pathlib import Path

import pytest

from personalab.services import Services
from personalab.serving.server import cut_off_unread, listen
from tests.conftest import NOW
from tests.support.web.fixtures import live_app
from tests.support.web.soaking import Client, Counting
from web.app import Limits

pytestmark = pytest.mark.anyio
TURNS, CLIENTS, WORDS = 50, 200, 20


@pytest.mark.full
async def test_two_hundred_clients_on_fifty_turns_hear_what_the_files_hold(
    services: Services, root: Path
) -> None:
    services.models["rehearsal"] = Counting(WORDS)
    (root / "modules" / "recall.json").write_text('{"trigger": "off"}', encoding="utf-8")
    stories = services.stories
    character, background = stories.character("char_maren"), stories.background("bg_lighthouse")
    ids = [f"tale{number}" for number in range(TURNS)]
    for instance_id in ids:
        stories.create_instance(character, background, instance_id, NOW)
    limits = Limits(max_turns=TURNS, calls_a_second=1e9, calls_at_once=10**9)
    async with live_app(services, limits=limits) as live:
        host, port = live.url.removeprefix("http://").split(":")

        async def begin(instance_id: str) -> str:
            answer = await live.client.post(f"/api/instances/{instance_id}/turns", json={"text": "hi"})
            return answer.json()["stream"]

        streams = await asyncio.gather(*map(begin, ids))
        clients = [Client(host, int(port), random.Random(number), longest=3) for number in range(CLIENTS)]
        heard = await asyncio.gather(
            *(client.listen(streams[number % TURNS]) for number, client in enumerate(clients))
        )
        assert sum(client.returns for client in clients) > CLIENTS / 10
        for number, text in enumerate(heard):
            path = root / "instances" / ids[number % TURNS] / "sessions" / "sess_001.jsonl"
            assert text == json.loads(path.read_bytes().splitlines()[-1])["content"]
            assert text.count("😀") == WORDS
        # Nobody is left over: no stream, no turn.
        async with asyncio.timeout(60):
            while live.desk.seats.taken or live.desk.turns.count:
                await asyncio.sleep(0.01)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this kernel has no such limit")
async def test_a_client_that_takes_nothing_is_cut_off_with_what_waits_for_it() -> None:
    lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    class Sending(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            transport.write(bytes(32 * 1024 * 1024))
            transport.close()  # as after an answer; it waits until everything is sent

        def connection_lost(self, exc: Exception | None) -> None:
            lost.set_result(exc)

    listener = listen("127.0.0.1", 0)
    cut_off_unread(listener, 0.5)
    server = await asyncio.get_running_loop().create_server(Sending, sock=listener)
    with socket.create_connection(listener.getsockname()):
        async with asyncio.timeout(60):
            assert isinstance(await lost, TimeoutError)
    server.close()
