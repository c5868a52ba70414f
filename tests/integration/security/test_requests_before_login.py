"""Requests and connections without a valid token cost the server little and do not lock others out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.services import Services
from personalab.serving.access import BodyLimits, FailedLogins, LimitedBody, RequestLimits
from personalab.serving.connections import MAX_UNAUTHENTICATED_PER_CLIENT, UnauthenticatedConnections
from tests.integration.security.attacking import (
    CLIENT,
    OTHER_CLIENT,
    RawConnection,
    connect,
    memory_of,
    request,
)
from tests.support.mcp_server.processes import world
from tests.support.web.fixtures import live_app
from tests.support.web.serving import SECONDS, Served, serving
from web.app import Limits

pytestmark = pytest.mark.anyio

TOKEN = "the right token"
BEARER = f"Authorization: Bearer {TOKEN}"
KIB, MIB = 1024, 1024 * 1024
PIECE = b"1" * 64 * KIB
CHUNK = b"10000\r\n" + PIECE + b"\r\n"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server process that asks for a token."""
    folder: Path = tmp_path_factory.mktemp("guarded")
    environment = world(folder, PERSONALAB_MODEL="rehearsal", PERSONALAB_TOKEN=TOKEN)
    with serving(environment, folder / "server.log") as served:
        yield served


async def answers(url: str, client: str = CLIENT) -> None:
    """Check that a client gets both an open and a guarded page."""
    transport = httpx.AsyncHTTPTransport(local_address=client)
    async with httpx.AsyncClient(base_url=url, transport=transport, timeout=SECONDS) as http:
        assert (await http.get("/healthz")).status_code == 200
        info = await http.get("/api/info", headers={"authorization": f"Bearer {TOKEN}"})
        assert info.status_code == 200


# --- memory

HOLDS = {
    "login with a length": (request("/api/login", f"Content-Length: {4 * MIB}"), PIECE),
    "login in chunks": (request("/api/login", "Transfer-Encoding: chunked"), CHUNK),
    "login with two lengths": (
        request("/api/login", f"Content-Length: {4 * MIB}", "Transfer-Encoding: chunked"),
        CHUNK,
    ),
    "login that asks first": (
        request("/api/login", f"Content-Length: {4 * MIB}", "Expect: 100-continue"),
        PIECE,
    ),
    "sign of life with a body": (
        request("/healthz", f"Content-Length: {4 * MIB}", method="GET"),
        PIECE,
    ),
    "MCP with a length": (request("/mcp", f"Content-Length: {4 * MIB}"), PIECE),
    "MCP in chunks": (request("/mcp", "Transfer-Encoding: chunked"), CHUNK),
    "wrong token": (
        request("/api/import", "Authorization: Bearer wrong", f"Content-Length: {64 * MIB}"),
        PIECE,
    ),
    "pipelined requests": (b"", request("/healthz", method="GET") * 900),
    "pipelined requests for a file": (b"", request("/page/texts/zh.json", method="GET") * 900),
    "half a head": (request("/healthz", method="GET")[:-2] + b"X: " + b"a" * 15_000, b""),
}


async def _hold(url: str, begin: bytes, more: bytes) -> RawConnection:
    """Send almost 4 MiB, as far as the server takes it, and keep the connection open."""
    connection = await connect(url)
    taken = await connection.send(begin)
    for _ in range(63):
        if not (taken and more):
            break
        try:
            async with asyncio.timeout(2):
                taken = await connection.send(more)
        except TimeoutError:  # the server has stopped reading
            break
    return connection


@pytest.mark.parametrize("kind", [*HOLDS])
async def test_many_large_requests_without_token_take_little_memory(guarded: Served, kind: str) -> None:
    await answers(guarded.url)
    before = memory_of(guarded.process.pid)
    held = await asyncio.gather(*(_hold(guarded.url, *HOLDS[kind]) for _ in range(250)))
    try:
        await answers(guarded.url)
        await answers(guarded.url, OTHER_CLIENT)
        assert memory_of(guarded.process.pid) - before < 100 * MIB
    finally:
        for connection in held:
            await connection.close()


async def _answer(url: str, data: bytes) -> int:
    async with await connect(url) as connection:
        await connection.send(data)
        return await connection.status()


@pytest.mark.parametrize("path", ["/api/login", "/healthz", "/", "/page/style.css", "/docs"])
@pytest.mark.parametrize("framing", ["length", "chunks"])
async def test_body_over_8_kib_needs_token(guarded: Served, path: str, framing: str) -> None:
    size = 8 * KIB + 1
    if framing == "length":
        small, large = (request(path, f"Content-Length: {count}") for count in (2, size))
        small += b"{}"
    else:
        small = large = request(path, "Transfer-Encoding: chunked")
        small += b"2\r\n{}\r\n0\r\n\r\n"
        large += f"{size:x}\r\n".encode() + b" " * size + b"\r\n"
    expected = 413 if framing == "length" or path == "/api/login" else 405  # other routes read no body
    assert await _answer(guarded.url, large) == expected
    assert await _answer(guarded.url, small) in (405, 422)


@pytest.mark.parametrize("path", ["/mcp", "/api/import", "/api/chat", "/metrics", "/no/such/path"])
async def test_request_without_token_is_refused_before_its_body(guarded: Served, path: str) -> None:
    for headers in ((), ("Authorization: Bearer wrong",), ("Cookie: personalab=wrong",)):
        for framing in ("Content-Length: 100", "Transfer-Encoding: chunked"):
            # Neither the body nor the leave to send it (100) has been sent when the answer comes.
            data = request(path, framing, "Expect: 100-continue", *headers)
            assert await _answer(guarded.url, data) == 401


async def test_expect_continue_is_answered_only_for_bodies_that_are_taken(guarded: Served) -> None:
    expect = "Expect: 100-continue"
    assert await _answer(guarded.url, request("/api/login", "Content-Length: 9000", expect)) == 413
    body = json.dumps({"token": TOKEN}).encode()
    async with await connect(guarded.url) as connection:
        await connection.send(request("/api/login", f"Content-Length: {len(body)}", expect))
        assert await connection.status() == 100
        await connection.send(body)
        assert await connection.status() == 200


async def test_wrong_content_length_is_no_longer_body(guarded: Served) -> None:
    body = json.dumps({"token": TOKEN}).encode()
    async with await connect(guarded.url) as connection:
        longer = request("/api/login", f"Content-Length: {len(body)}", body=body + b"more\r\n\r\n")
        await connection.send(longer)
        assert (await connection.read_to_end()).count(b" 400 Bad Request") == 1
    for lengths in (("1", "2"), ("-1",), ("2, 3",), ("+2",)):
        headers = [f"Content-Length: {length}" for length in lengths]
        assert await _answer(guarded.url, request("/api/login", *headers, body=b"{}")) in (400, 413)


# --- deadlines

SLOW = {
    "nothing of a body": ("Content-Length: 100", b""),
    "half a body": ("Content-Length: 100", b"{"),
    "half a chunk": ("Transfer-Encoding: chunked", b"64\r\n{"),
    "a body without its last chunk": ("Transfer-Encoding: chunked", b"2\r\n{}\r\n"),
}
IMPATIENT = RequestLimits(
    body=BodyLimits(4 * MIB, seconds=0.3), unauthenticated=BodyLimits(8 * KIB, seconds=0.3)
)


@pytest.mark.parametrize("token", [None, TOKEN])
async def test_slow_body_is_cut_off(services: Services, token: str | None) -> None:
    async with live_app(services, token=token, limits=Limits(requests=IMPATIENT)) as live:
        for path in ("/api/login", "/api/instances", "/api/import?name=a", "/mcp"):
            for header, begin in SLOW.values():
                known = [BEARER] if token and path != "/api/login" else []
                data = request(
                    path, header, "Accept: application/json, text/event-stream", *known, body=begin
                )
                if "import" in path:
                    data = data.replace(b"application/json", b"application/octet-stream", 1)
                async with await connect(live.url) as connection:
                    await connection.send(data)
                    answer = await connection.read_to_end()  # the connection is closed, too
                assert answer.startswith(b"HTTP/1.1 408 "), (path, header, answer[:200])
                assert b"body_too_slow" in answer
        await asyncio.wait_for(live.client.get("/healthz"), SECONDS)


async def test_dripping_body_is_cut_off(services: Services) -> None:
    limits = RequestLimits(body=BodyLimits(4 * MIB, seconds=3600, grace_seconds=0.2, bytes_a_second=1e6))
    async with (
        live_app(services, limits=Limits(requests=limits)) as live,
        await connect(live.url) as connection,
    ):
        await connection.send(request("/api/login", "Content-Length: 1000000", body=b"{"))
        while await connection.send(b" "):
            await asyncio.sleep(0.01)


@given(
    st.floats(0.1, 1e4), st.floats(0, 1e3), st.floats(1, 1e6), st.integers(0, 10**9), st.integers(0, 10**9)
)
def test_deadline_grows_with_what_has_arrived_up_to_its_end(
    seconds: float, grace: float, rate: float, received: int, more: int
) -> None:
    limits = BodyLimits(10**9, seconds, grace, rate)
    assert limits.seconds_for(0) == min(seconds, grace)
    assert limits.seconds_for(received) <= limits.seconds_for(received + more) <= seconds
    assert limits.seconds_for(received) in (seconds, grace + received / rate)


async def test_time_the_server_takes_does_not_count_against_the_client(anyio_backend: str) -> None:
    limits = BodyLimits(10, seconds=1, grace_seconds=1)
    parts: list[dict[str, object]] = [
        {"type": "http.request", "body": b"a", "more_body": count < 2} for count in range(3)
    ]

    async def receive() -> dict[str, object]:
        await asyncio.sleep(0)
        return parts.pop(0)

    async def never(_: object) -> None:
        pytest.fail("the body was refused")

    body = LimitedBody(receive, never, limits, never)  # pyright: ignore[reportArgumentType] (never called)
    for _ in range(3):
        assert (await body.receive())["body"] == b"a"
        await asyncio.sleep(0.6)  # the server works on it


async def test_large_import_at_usual_speed_is_read_whole(guarded: Served) -> None:
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/octet-stream"}
    async with guarded.client() as client:
        answer = await client.post("/api/import?name=big.json", content=b" " * 64 * MIB, headers=headers)
    assert answer.status_code == 400, answer.text  # it is read, and is no format that can be imported


# --- connections


async def test_idle_connections_without_token_are_limited_per_client(guarded: Served) -> None:
    working = await connect(guarded.url)
    body = json.dumps({"token": TOKEN}).encode()
    await working.send(request("/api/login", BEARER, f"Content-Length: {len(body)}"))
    await answers(guarded.url)
    idle = [await connect(guarded.url) for _ in range(MAX_UNAUTHENTICATED_PER_CLIENT + 50)]
    elsewhere = await connect(guarded.url, OTHER_CLIENT)
    try:
        ended = await asyncio.gather(*(connection.read_to_end() for connection in idle[:50]))
        assert ended == [b""] * 50  # the oldest, long before their time
        for connection in (idle[-1], elsewhere):
            await connection.send(request("/healthz", method="GET"))
            assert await connection.status() == 200
        await answers(guarded.url)
        await answers(guarded.url, OTHER_CLIENT)
        await working.send(body)
        assert await working.status() == 200  # it carries the token
    finally:
        for connection in (*idle, elsewhere, working):
            await connection.close()


class _Transport(asyncio.Transport):
    """A connection that only knows whether it was closed."""

    is_aborted = False

    def abort(self) -> None:
        """Note that it was closed."""
        self.is_aborted = True


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=80))
def test_no_client_pushes_out_one_with_fewer_connections(steps: list[tuple[int, bool]]) -> None:
    limited = UnauthenticatedConnections(per_client=4, total=9)
    opened: dict[int, list[_Transport]] = {client: [] for client in range(5)}
    for client, is_new in steps:
        alive = {who: [one for one in found if not one.is_aborted] for who, found in opened.items()}
        if is_new or not alive[client]:
            made = _Transport()
            opened[client].append(made)
            limited.add(str(client), made)
            assert not made.is_aborted
        else:
            limited.discard(str(client), alive[client][0])
            opened[client].remove(alive[client][0])
        left = {who: [one for one in found if not one.is_aborted] for who, found in opened.items()}
        assert all(len(found) <= 4 for found in left.values())
        assert sum(len(found) for found in left.values()) <= 9
        for who, found in alive.items():
            lost = [one for one in found if one.is_aborted]
            assert lost == found[: len(lost)]  # the oldest first
            if lost and who != client:
                assert len(found) == max(len(all_of) for all_of in alive.values())


# --- failed logins

LONG_BLOCK = Limits(login_block_seconds=60.0)


async def _login(url: str, token: str, client: str = CLIENT, **headers: str) -> httpx.Response:
    transport = httpx.AsyncHTTPTransport(local_address=client)
    async with httpx.AsyncClient(base_url=url, transport=transport, timeout=SECONDS) as http:
        return await http.post("/api/login", json={"token": token}, headers=headers)


async def test_guessing_client_is_slowed_down_and_others_are_not(services: Services) -> None:
    async with live_app(services, token=TOKEN, limits=LONG_BLOCK) as live:
        for number in range(11):
            answer = await _login(live.url, f"guess {number}")
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "token_wrong")
        for guess in ("guess", TOKEN):  # whether it is right is not said
            answer = await _login(live.url, guess)
            assert (answer.status_code, answer.json()["error"]["code"]) == (429, "too_many_logins")
            assert answer.json()["error"]["retryable"]
            assert 1 <= int(answer.headers["retry-after"]) <= 60
            info = await live.client.get("/api/info", headers={"authorization": f"Bearer {guess}"})
            assert (info.status_code, info.json()["error"]["code"]) == (429, "too_many_logins")
            assert int(info.headers["retry-after"]) >= 1
        assert (await live.client.get("/")).status_code == 200
        assert (await live.client.get("/api/info")).status_code == 401  # no guess
        assert (await _login(live.url, TOKEN, OTHER_CLIENT)).status_code == 200


async def test_guesses_in_headers_count_and_a_repeated_one_does_not(services: Services) -> None:
    async with live_app(services, token=TOKEN, limits=LONG_BLOCK) as live:
        for _ in range(50):  # a program with an outdated token
            for stale in ({"authorization": "Bearer old"}, {"cookie": "personalab=old"}):
                assert (await live.client.get("/api/info", headers=stale)).status_code == 401
        for number in range(9):
            guess = (
                {"authorization": f"Bearer {number}"} if number % 2 else {"cookie": f"personalab={number}"}
            )
            await live.client.get("/healthz" if number % 3 else "/api/info", headers=guess)
        assert (await _login(live.url, TOKEN)).status_code == 429


async def test_clients_behind_a_proxy_are_told_apart(services: Services) -> None:
    async with live_app(services, token=TOKEN, limits=LONG_BLOCK) as live:
        for number in range(11):
            await _login(live.url, f"guess {number}", **{"x-forwarded-for": "192.0.2.1"})
        assert (await _login(live.url, TOKEN, **{"x-forwarded-for": "192.0.2.1"})).status_code == 429
        assert (await _login(live.url, TOKEN, **{"x-forwarded-for": "192.0.2.2"})).status_code == 200
        # An address that is no proxy cannot pose as another client.
        spoofed = await _login(live.url, "guess", OTHER_CLIENT, **{"x-forwarded-for": "192.0.2.1"})
        assert spoofed.status_code == 401


def test_each_wrong_credential_blocks_twice_as_long_up_to_a_minute() -> None:
    now = [1000.0]
    logins = FailedLogins(clock=lambda: now[0])
    waits: list[float] = []
    for number in range(20):
        assert not logins.admit("a", f"wrong {number}", is_right=False)
        waits.append(logins.wait("a"))
        if waits[-1]:
            assert not logins.admit("a", "right", is_right=True)
            assert not logins.admit("a", "not counted", is_right=False)
            assert logins.wait("a") == waits[-1]
        assert logins.wait("b") == 0
        now[0] += waits[-1]
    assert waits == [0.0] * 10 + [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0, 60.0]
    now[0] += 1000
    logins.admit("a", "wrong after a long time", is_right=False)
    assert logins.wait("a") == 0


def test_client_that_has_logged_in_is_not_locked_out_by_its_neighbour() -> None:
    logins = FailedLogins(clock=lambda: 1000.0)
    assert logins.admit("shared", "right", is_right=True)
    for number in range(100):
        assert not logins.admit("shared", f"wrong {number}", is_right=False)
        assert logins.admit("shared", "right", is_right=True)
    assert logins.wait("shared") > 0


def test_login_records_are_bounded() -> None:
    logins = FailedLogins()
    for number in range(5_000):
        logins.admit(str(number), "wrong", is_right=False)
    for number in range(100):
        logins.admit("one", f"wrong {number}", is_right=False)
    records = logins._records  # pyright: ignore[reportPrivateUsage] (memory that strangers could fill)
    assert len(records) <= 4_096
    assert len(records["one"].credentials) <= 32
