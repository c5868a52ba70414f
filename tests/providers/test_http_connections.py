"""The transport that keeps connections open: no connection is shared, few are opened, errors are httpx2's."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from personalab.providers.http_connections import ConnectionsTransport

pytestmark = pytest.mark.anyio


class EchoServer:
    """Answers every request with the number of its connection; knows which connections are open."""

    def __init__(self) -> None:
        self.opened = 0
        self.open: dict[int, asyncio.StreamWriter] = {}
        self.cut_off = False
        self.address = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = self.opened
        self.opened += 1
        self.open[number] = writer
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                body = f"connection {number}\n".encode() * 3
                length = len(body) + (1 if self.cut_off else 0)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (length, body))
                if self.cut_off:
                    break
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            del self.open[number]
            writer.close()

    async def until_open(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.open) != count:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def serving(keep: int = 4) -> AsyncGenerator[tuple[EchoServer, httpx2.AsyncClient]]:
    found = EchoServer()
    server = await asyncio.start_server(found.answer, "127.0.0.1", 0)
    found.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    transport = ConnectionsTransport(ssl.create_default_context, keep=keep, keep_seconds=30)
    try:
        async with httpx2.AsyncClient(transport=transport, timeout=10) as client:
            yield found, client
    finally:
        server.close()


async def _begin(client: httpx2.AsyncClient, server: EchoServer) -> httpx2.Response:
    return await client.send(client.build_request("GET", server.address), stream=True)


async def test_requests_one_after_the_other_use_one_connection() -> None:
    async with serving() as (server, client):
        for _ in range(20):
            assert (await client.get(server.address)).text == "connection 0\n" * 3
        assert server.opened == 1


async def test_free_connections_above_the_limit_are_closed() -> None:
    async with serving(keep=4) as (server, client):
        responses = [await _begin(client, server) for _ in range(10)]
        assert len(server.open) == 10
        for response in responses:
            await response.aread()
        await server.until_open(4)
        await asyncio.gather(*(client.get(server.address) for _ in range(4)))
        assert server.opened == 10


async def test_closed_client_leaves_no_connection_open() -> None:
    async with serving() as (server, client):
        await client.get(server.address)
        unread = await _begin(client, server)
        await client.aclose()
        await unread.aread()
        await server.until_open(0)


async def test_connection_that_the_server_closed_is_not_used_again() -> None:
    async with serving() as (server, client):
        await client.get(server.address)
        server.open[0].close()
        await server.until_open(0)
        for _ in range(3):
            assert (await client.get(server.address)).status_code == 200
        assert server.opened == 2


async def test_errors_are_those_of_httpx() -> None:
    async with serving() as (server, client):
        server.cut_off = True
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.get(server.address)
    with pytest.raises(httpx2.ConnectError):
        async with httpx2.AsyncClient(
            transport=ConnectionsTransport(ssl.create_default_context, keep=1, keep_seconds=1)
        ) as other:
            await other.get("http://127.0.0.1:1/")


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.sampled_from(["begin", "read", "close"]), st.integers(0, 5)), max_size=25))
def test_open_responses_never_share_a_connection(steps: list[tuple[str, int]]) -> None:
    async def run() -> None:
        async with serving(keep=2) as (server, client):
            open_responses: list[Any] = []
            for action, at in steps:
                if action == "begin":
                    response = await _begin(client, server)
                    lines = response.aiter_lines()
                    open_responses.append((await anext(lines), lines, response))
                elif open_responses:
                    name, lines, response = open_responses.pop(at % len(open_responses))
                    if action == "read":
                        assert [line async for line in lines] == [name] * 2
                    await response.aclose()
                names = [name for name, *_ in open_responses]
                assert len(set(names)) == len(names)
            for *_, response in open_responses:
                await response.aclose()

    asyncio.run(run())


@pytest.mark.parametrize("address", ["localhost:1/v1", "ftp://127.0.0.1/", "example"])
async def test_address_without_http_is_refused(address: str) -> None:
    async with serving() as (_, client):
        with pytest.raises((httpx2.UnsupportedProtocol, httpx2.InvalidURL)):
            await client.get(address)
