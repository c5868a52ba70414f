"""Connections that break in every place: what arrived is kept, dead connections count for nothing, keys stay secret."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import socket
import traceback
import warnings

import pytest
import uvicorn

from personalab.dialogue import Message
from personalab.errors import ProviderError
from personalab.providers import connections
from tests.integration.providers.raw_server import (
    CHUNKED,
    DONE,
    HEAD,
    LEAVE,
    PAUSE,
    RawServer,
    chunk,
    event,
    raw_server,
    whole,
)
from tests.support.openai_server import OpenAIServer
from tests.support.providers import asking
from tests.support.providers.asking import HELLO, KEY, listen, model_at

pytestmark = pytest.mark.anyio

BROKEN = b"zz\r\n"
"""No chunk."""


@pytest.fixture(params=["wire", "langchain"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask the servers by our own reader and through LangChain."""
    monkeypatch.setattr(asking, "WAY", request.param)


def _redirect(status: int, target: str) -> bytes:
    return f"HTTP/1.1 {status} Moved\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode()


# --- connections that are dead before an answer begins


@pytest.mark.usefixtures("both_ways")
async def test_connection_closed_at_its_next_request_is_no_try() -> None:
    async with raw_server(whole("first"), LEAVE, whole("second")) as server:
        model = model_at(server.url, max_tries=1)
        assert (await listen(model)).text == "first"
        if asking.WAY == "langchain":  # which opens a connection for each reply
            server.answers.pop(0)
        assert (await listen(model)).text == "second"
        assert server.connections == 2


async def test_many_dead_connections_cost_one_more_request_each() -> None:
    async with raw_server(whole("first")) as server:
        model = model_at(server.url, max_tries=1)
        await asyncio.gather(*(listen(model) for _ in range(6)))
        server.answers = [LEAVE, whole("second")]
        assert (await listen(model)).text == "second"


async def test_request_is_sent_twice_at_the_most() -> None:
    async with raw_server(whole("first"), LEAVE) as server:
        model = model_at(server.url, max_tries=1)
        await listen(model)
        heard = await listen(model)
        assert (heard.text, heard.code) == ("", "provider.connection")
        assert len(server.heads) == 3


async def test_lost_answer_is_not_asked_for_again_at_once() -> None:
    broken = HEAD + b"Connection: close\r\nContent-Length: 1000\r\n\r\n" + event("begun ")
    async with raw_server(whole("first"), broken) as server:
        model = model_at(server.url, max_tries=4)
        await listen(model)
        heard = await listen(model)
        assert (heard.text, heard.code) == ("begun ", "provider.connection")
        assert len(server.heads) == 2


def test_connections_are_kept_for_less_time_than_servers_keep_them() -> None:
    kept_by_server = inspect.signature(uvicorn.Config).parameters["timeout_keep_alive"].default
    assert kept_by_server > connections._KEEP_SECONDS  # pyright: ignore[reportPrivateUsage]


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system has no such limit")
def test_kernel_watches_connections_to_other_machines() -> None:
    def made(host: str) -> socket.socket:
        return connections.watched_socket(
            (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, 443))
        )

    with made("192.0.2.1") as remote, made("127.0.0.1") as local:
        assert remote.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert 0 < remote.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) <= 60_000
        assert not local.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)


# --- answers that break


async def _listen_on(server: RawServer) -> tuple[str, str | None]:
    """Let the server go on when the first piece is here; return the text and how it failed."""
    text = ""
    try:
        async for piece in model_at(server.url).stream(HELLO):
            text += piece.text
            server.may_go_on.set()
    except ProviderError as error:
        return text, error.code
    return text, None


@pytest.mark.usefixtures("both_ways")
async def test_answer_that_was_done_before_the_break_is_whole() -> None:
    rest = chunk(event("two", "stop")) + chunk(DONE) + BROKEN
    async with raw_server(CHUNKED + chunk(event("One ")) + PAUSE + rest) as server:
        assert await _listen_on(server) == ("One two", None)
        assert len(server.heads) == 1


@pytest.mark.usefixtures("both_ways")
async def test_what_arrived_with_the_break_is_not_lost() -> None:
    rest = chunk(event("two")) + BROKEN
    async with raw_server(CHUNKED + chunk(event("One ")) + PAUSE + rest) as server:
        assert await _listen_on(server) == ("One two", "provider.connection")
        assert len(server.heads) == 1


@pytest.mark.usefixtures("both_ways")
async def test_answer_that_arrives_at_once_with_a_break_is_whole() -> None:
    answer = CHUNKED + chunk(event("One ")) + chunk(event("two", "stop")) + chunk(DONE) + BROKEN
    async with raw_server(answer) as server:
        heard = await listen(model_at(server.url))
        assert (heard.text, heard.error) == ("One two", None)
        assert len(server.heads) == 1


@pytest.mark.usefixtures("both_ways")
async def test_answer_cut_within_an_event_has_no_finish() -> None:
    answer = HEAD + b"Connection: close\r\n\r\n" + event("One ") + event("two")[:30]
    async with raw_server(answer, LEAVE) as server:
        heard = await listen(model_at(server.url))
        assert (heard.text, heard.code) == ("One ", "provider.no_finish")


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize(
    "answer",
    [CHUNKED + chunk(event("One ")) + BROKEN, b"HTTP/1.1 abc\r\n\r\n", LEAVE],
    ids=["chunk", "head", "nothing"],
)
async def test_key_is_no_part_of_an_error(answer: bytes) -> None:
    async with raw_server(answer) as server:
        error = (await listen(model_at(server.url, max_tries=1))).error
        assert error is not None
        assert KEY not in "".join(traceback.format_exception(error))
        cause: BaseException | None = error
        while cause is not None:
            assert KEY not in repr(cause)
            cause = cause.__cause__ or cause.__context__


# --- addresses


@pytest.mark.usefixtures("both_ways")
async def test_name_and_password_of_the_address_are_sent_as_basic_authorization() -> None:
    async with raw_server(whole("Hello")) as server:
        heard = await listen(model_at(f"http://user:pa%40ss@127.0.0.1:{server.port}/v1", max_tries=1))
        assert heard.text == "Hello"
        assert b"\r\nauthorization: basic dxnlcjpwyubzcw==\r\n" in server.heads[0].lower()


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize(
    "address", ["http://user:hidden@127.0.0.1:1/v1", "http://user:hidden@127.0.0.1:x/v1"]
)
async def test_password_of_the_address_is_no_part_of_an_error(address: str) -> None:
    error = (await listen(model_at(address, max_tries=1))).error
    assert error is not None
    assert "hidden" not in "".join(traceback.format_exception(error))
    assert "hidden" not in repr(error.__cause__)


@pytest.mark.parametrize("ending", ["/v1#fragment", "/v1/", "/v1"])
async def test_address_ends_at_its_path(ending: str) -> None:
    async with raw_server(whole("Hello")) as server:
        await listen(model_at(f"http://127.0.0.1:{server.port}{ending}", max_tries=1))
        assert server.heads[0].startswith(b"POST /v1/chat/completions ")


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("status", [307, 308])
async def test_redirect_that_keeps_the_request_is_followed(status: int) -> None:
    async with raw_server(_redirect(status, "/v2/chat/completions"), whole("Hello")) as server:
        assert (await listen(model_at(server.url, max_tries=1))).text == "Hello"
        assert server.heads[1].startswith(b"POST /v2/chat/completions ")
        assert KEY.encode() in server.heads[1]


@pytest.mark.usefixtures("both_ways")
async def test_redirect_to_another_server_leaves_the_key_behind() -> None:
    async with raw_server(whole("Hello")) as other, raw_server(_redirect(307, f"{other.url}/x")) as server:
        assert (await listen(model_at(server.url, max_tries=1))).text == "Hello"
        assert KEY.encode() not in other.heads[0]


@pytest.mark.parametrize("status", [301, 302, 303])
async def test_redirect_that_drops_the_request_is_refused(status: int) -> None:
    target = "http://user:hidden@other.test/v1?key=hidden"
    async with raw_server(_redirect(status, target)) as server:
        heard = await listen(model_at(server.url))
        assert heard.code == "provider.redirect"
        assert heard.error is not None
        assert "http://other.test/v1" in heard.error.message("en")
        assert "hidden" not in heard.error.message("en")
        assert len(server.heads) == 1


@pytest.mark.parametrize("target", ["/v1/chat/completions", "/v2", "http://[bad"])
async def test_redirects_without_end_are_refused(target: str) -> None:
    async with raw_server(*(_redirect(307, f"{target}{number}") for number in range(20))) as server:
        assert (await listen(model_at(server.url))).code in ("provider.redirect", "provider.connection")
        assert len(server.heads) <= 6


# --- what aiohttp warns of


@pytest.mark.filterwarnings("error")
def test_long_request_is_sent_without_a_warning(server: OpenAIServer) -> None:
    message = Message(role="user", content="x" * 3_000_000)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert asyncio.run(listen(model_at(server), [message])).text == "Hello"
    assert [str(one.message) for one in caught] == []
    assert server.requests[0].body["messages"][0]["content"] == message["content"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_loop_closed_without_its_generators_is_no_error(
    server: OpenAIServer, caplog: pytest.LogCaptureFixture
) -> None:
    careless = asyncio.new_event_loop()
    careless.run_until_complete(listen(model_at(server)))
    careless.close()
    del careless
    with caplog.at_level(logging.ERROR, "asyncio"):
        asyncio.run(listen(model_at(server)))
        gc.collect()
    assert caplog.records == []
