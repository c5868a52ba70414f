"""Connections to OpenAI-compatible servers: kept open, never mixed up, closed with a reply that is left."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.errors import ProviderError
from personalab.ports import ReplyChunk, ReplyModel
from personalab.providers.chat_models import open_model
from personalab.providers.model_settings import ModelSettings

pytestmark = pytest.mark.anyio

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_PIECES = 3


def _chunk(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return _http_chunk(f"data: {json.dumps({'choices': [choice]})}\n\n")


def _http_chunk(text: str) -> bytes:
    data = text.encode()
    return b"%x\r\n%s\r\n" % (len(data), data)


class CountingServer:
    """Answers every request with the number of its connection, piece by piece; knows which connections are open."""

    def __init__(self) -> None:
        self.opened = 0
        self.open: dict[int, asyncio.StreamWriter] = {}
        self.address = ""
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = self.opened
        self.opened += 1
        self.open[number] = writer
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length))
                writer.write(_HEAD + _chunk(f"{number} "))
                await self.may_end.wait()
                for _ in range(_PIECES - 1):
                    writer.write(_chunk(f"{number} "))
                writer.write(_chunk("", finish="stop") + _http_chunk("data: [DONE]\n\n") + b"0\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            pass
        finally:
            del self.open[number]
            writer.close()

    async def until_open(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.open) != count:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def serving() -> AsyncGenerator[tuple[CountingServer, ReplyModel]]:
    found = CountingServer()
    server = await asyncio.start_server(found.answer, "127.0.0.1", 0)
    found.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    settings = ModelSettings(api_key="key", base_url=found.address)
    try:
        yield found, open_model("openai:any", settings=settings)
    finally:
        server.close()


def _stream(model: ReplyModel) -> AsyncGenerator[ReplyChunk]:
    return cast("AsyncGenerator[ReplyChunk]", model.stream([{"role": "user", "content": "Hi"}]))


async def _read(pieces: AsyncGenerator[ReplyChunk]) -> str:
    return "".join([chunk.text async for chunk in pieces])


async def _ask(model: ReplyModel) -> str:
    return await _read(_stream(model))


async def test_replies_one_after_the_other_use_one_connection() -> None:
    async with serving() as (server, model):
        for _ in range(20):
            assert await _ask(model) == "0 " * _PIECES
        assert server.opened == 1


async def test_replies_at_once_use_connections_of_their_own_and_keep_them() -> None:
    async with serving() as (server, model):
        server.may_end.clear()
        replies = [asyncio.create_task(_ask(model)) for _ in range(10)]
        await server.until_open(10)
        server.may_end.set()
        assert sorted([await reply for reply in replies]) == [f"{n} " * _PIECES for n in range(10)]
        await asyncio.gather(*(_ask(model) for _ in range(4)))
        assert server.opened == 10


async def test_connection_that_the_server_closed_is_not_used_again() -> None:
    async with serving() as (server, model):
        await _ask(model)
        server.open[0].close()
        await server.until_open(0)
        for _ in range(3):
            assert await _ask(model) == "1 " * _PIECES


async def test_reply_that_is_left_closes_its_connection() -> None:
    async with serving() as (server, model):
        server.may_end.clear()
        async with aclosing(_stream(model)) as pieces:
            assert (await anext(pieces)).text == "0 "
        server.may_end.set()
        await server.until_open(0)


def test_loop_that_ends_closes_its_connections() -> None:
    async def run() -> None:
        async with serving() as (server, model):
            await _ask(model)
            assert len(server.open) == 1

    for _ in range(3):
        asyncio.run(run())


@given(st.lists(st.tuples(st.sampled_from(["begin", "read", "leave"]), st.integers(0, 5)), max_size=15))
def test_replies_are_never_mixed_up(steps: list[tuple[str, int]]) -> None:
    async def run() -> None:
        async with serving() as (server, model):
            server.may_end.clear()
            begun: list[tuple[str, AsyncGenerator[ReplyChunk]]] = []
            for action, at in steps:
                if action == "begin":
                    pieces = _stream(model)
                    begun.append(((await anext(pieces)).text, pieces))
                elif begun:
                    name, pieces = begun.pop(at % len(begun))
                    if action == "read":
                        server.may_end.set()
                        assert name + await _read(pieces) == name * _PIECES
                        server.may_end.clear()
                    await pieces.aclose()
            server.may_end.set()
            for name, pieces in begun:
                assert name + await _read(pieces) == name * _PIECES

    asyncio.run(run())


@pytest.mark.parametrize("address", ["localhost:1/v1", "ftp://127.0.0.1/", "example", "http://127.0.0.1:1/"])
async def test_address_that_cannot_be_reached_is_a_connection_error(address: str) -> None:
    settings = ModelSettings(api_key="key", base_url=address, max_tries=1)
    with pytest.raises(ProviderError) as failure:
        await _ask(open_model("openai:any", settings=settings))
    assert failure.value.code == "provider.connection"
