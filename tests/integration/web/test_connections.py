"""What a connection may do before it has asked for anything."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from personalab.serving.connections import PatientProtocol
from personalab.serving.server import listen
from tests.support.web.serving import SECONDS, Served

pytestmark = pytest.mark.anyio

MEGABYTE = b"a" * 1024 * 1024
HEADS = {
    "a header": (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ", MEGABYTE),
    "headers": (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"x: y\r\n" * 174_763),
    "an address": (b"GET /", MEGABYTE),
    "a method": (b"", MEGABYTE),
    "a trailer": (
        b"POST /api/login HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
        MEGABYTE,
    ),
    "the size of a piece": (
        b"POST /api/login HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n1;",
        MEGABYTE,
    ),
}
MOST = 32
"""So many megabytes no server may have taken."""


async def test_what_is_no_body_does_not_grow_without_end(served: Served) -> None:
    place = urlsplit(served.url)
    for what, (begin, more) in HEADS.items():
        _, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write(begin)
        async with asyncio.timeout(SECONDS):
            with pytest.raises(ConnectionError):  # noqa: PT012 (whichever piece it is)
                for _ in range(MOST):
                    writer.write(more)
                    await writer.drain()
                pytest.fail(f"{what} had no end")
        writer.close()
    async with served.client() as client:
        assert (await client.get("/healthz")).status_code == 200


class _Impatient(PatientProtocol):
    head_seconds = 0.5


@asynccontextmanager
async def _impatient(app: FastAPI) -> AsyncGenerator[int]:
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on", http=_Impatient))
    # Signals are the test run's own.
    task = asyncio.create_task(server._serve([listener]))  # pyright: ignore[reportPrivateUsage]
    while not server.started:
        assert not task.done(), "the server did not start"
        await asyncio.sleep(0.005)
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        await task


async def test_a_connection_on_which_no_request_comes_is_closed_and_one_that_waits_for_an_answer_is_not(
    app: FastAPI,
) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        asked.set()
        await go_on.wait()
        return "done"

    app.add_api_route("/api/slow", slow)
    request = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    async with _impatient(app) as port, asyncio.timeout(SECONDS):
        client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=SECONDS)
        answer = asyncio.create_task(client.get("/api/slow"))
        await asked.wait()
        for sent in (b"", b"GET / HT", request + b"GET /healthz HTTP/1.1\r\nHo"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            told = await reader.read()  # until it is closed
            assert told.count(b"200 OK") == sent.count(b"\r\n\r\n")
            writer.close()
        go_on.set()
        assert (await answer).json() == "done"
        await client.aclose()


async def test_a_server_may_have_as_many_files_open_as_the_system_allows(
    serve: Callable[..., Served],
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    try:
        served = serve()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    allowed, _ = resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE)
    assert allowed > 256 or hard <= 256
