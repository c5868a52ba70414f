"""Who is let in, from where, with what, how much and how often."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from personalab.errors import UserError
from personalab.services import Services
from personalab.serving.access import COOKIE, Rate, has_pass, one_client, pass_for
from personalab.serving.server import host_names
from tests.support.mcp_server.processes import run, world
from tests.support.web.serving import SECONDS, Served
from web.app import Limits
from web.joining import whole_app

pytestmark = pytest.mark.anyio

SAFE = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
TURN = "/api/instances/inst_001/turns"


@asynccontextmanager
async def client_of(
    services: Services, base: str = "http://127.0.0.1:8765", **options: Any
) -> AsyncGenerator[httpx.AsyncClient]:
    """Make a client of an application with options of its own."""
    app = whole_app(lambda: services, **options)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=base, timeout=SECONDS) as client,
    ):
        yield client


def check_refused(answer: httpx.Response, status: int, code: str) -> None:
    """Check that an answer is a refusal in our one shape, with every header that keeps a page safe."""
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
    check_headers(answer)


def check_headers(answer: httpx.Response) -> None:
    """Check the headers that keep a page safe."""
    assert {name: answer.headers.get(name) for name in SAFE} == SAFE
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


# --- names and pages


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8765",
        "127.0.0.1.evil.example",
        "localhost.evil",
        "",
        "[::1",
        "0x7f.1",
        "@",
        "evil@127.0.0.1",
        "127.0.0.1/evil.example",
        "127.0.0.1#.evil.example",
        "127.0.0.1:x",
        "evil.example\\@127.0.0.1",
    ],
)
async def test_a_foreign_name_is_refused_everywhere(app_client: httpx.AsyncClient, host: str) -> None:
    for path in (
        "/",
        "/api/info",
        "/healthz",
        "/metrics",
        "/docs",
        "/openapi.json",
        "/page/x",
        "/mcp",
        "/no",
    ):
        check_refused(await app_client.get(path, headers={"host": host}), 421, "foreign_host")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:99", "[::1]:8765", "LOCALHOST"])
async def test_its_own_names_are_taken(app_client: httpx.AsyncClient, host: str) -> None:
    answer = await app_client.get("/api/info", headers={"host": host, "origin": f"http://{host}"})
    assert answer.status_code == 200, answer.text
    check_headers(answer)


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://127.0.0.1:3000", "http://localhost:8765", "file://", "", "http://",
     "javascript://127.0.0.1:8765", "http://127.0.0.1:8765.evil.example", "http://evil@127.0.0.1:8765"],
)  # fmt: skip
async def test_a_foreign_page_is_refused_whatever_it_asks(
    app_client: httpx.AsyncClient, instance: str, root: Path, origin: str
) -> None:
    before = _files(root)
    headers = {"origin": origin}
    check_refused(await app_client.get("/api/info", headers=headers), 403, "foreign_origin")
    check_refused(await app_client.post(TURN, json={"text": "hi"}, headers=headers), 403, "foreign_origin")
    check_refused(await app_client.options(TURN, headers=headers), 403, "foreign_origin")
    assert _files(root) == before


async def test_where_a_browser_says_another_site_asks_only_a_link_is_followed(
    app_client: httpx.AsyncClient, instance: str
) -> None:
    for site in ("cross-site", "same-site"):
        image = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors"}
        check_refused(await app_client.get("/api/info", headers=image), 403, "foreign_origin")
        link = {"sec-fetch-site": site, "sec-fetch-mode": "navigate"}
        assert (await app_client.get("/", headers=link)).status_code == 200
        check_refused(await app_client.post(TURN, json={"text": "hi"}, headers=link), 403, "foreign_origin")
    own = {"sec-fetch-site": "same-origin", "origin": "http://127.0.0.1:8765"}
    assert (await app_client.post(TURN, json={"text": "hi"}, headers=own)).status_code == 202


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/x-www-form-urlencoded", b"text=hi"),
        ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="text"\r\n\r\nhi\r\n--x--'),
        ("text/plain", b'{"text": "hi"}'),
        ("text/plain;application/json", b'{"text": "hi"}'),
        ("Text/Plain", b""),
    ],
)  # fmt: skip
async def test_what_a_form_can_send_changes_nothing(
    app_client: httpx.AsyncClient, instance: str, root: Path, kind: str, body: bytes
) -> None:
    before = _files(root)
    for path in (TURN, "/api/settings/reset", "/api/instances/inst_001/stop", "/api/import", "/mcp"):
        answer = await app_client.post(path, content=body, headers={"content-type": kind})
        check_refused(answer, 415, "form_refused")
    check_refused(await app_client.post(TURN, content=body), 422, "bad_request")
    assert _files(root) == before


def _files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_proxy_may_have_a_name_that_was_allowed() -> None:
    names = host_names("127.0.0.1", None, ["lab.example"])
    assert names.is_our_origin("https://lab.example", "127.0.0.1:8765")
    assert not names.is_our_origin("https://other.example", "127.0.0.1:8765")
    anywhere = host_names("0.0.0.0", "token")
    assert anywhere.is_ours("any.example")
    assert anywhere.is_our_origin("https://any.example", "any.example")
    assert not anywhere.is_our_origin("https://evil.example", "any.example")
    assert not anywhere.is_our_origin("null", "")
    with pytest.raises(UserError, match=r"https://lab\.example"):
        host_names("127.0.0.1", None, ["https://lab.example"])


# --- the token


async def test_without_the_token_nothing_but_the_page_and_the_way_in(
    services: Services, instance: str
) -> None:
    async with client_of(services, token="right token ✓") as client:
        for path in ("/api/info", "/metrics", "/openapi.json", "/mcp", "/api/none", "/else"):
            answer = await client.get(path)
            check_refused(answer, 401, "token_wanted")
            assert answer.headers["www-authenticate"].startswith("Bearer")
        for path in ("/", "/docs", "/healthz", "/page/style.css"):
            assert (await client.get(path)).status_code == 200, path
        for wrong in ("Bearer wrong", "Bearer", "Basic right", "right token ✓", "Bearer right token"):
            headers = {b"authorization": wrong.encode()}
            check_refused(await client.get("/api/info", headers=headers), 401, "token_wanted")
        bearer = {b"authorization": "Bearer right token ✓".encode()}
        assert (await client.get("/api/info", headers=bearer)).status_code == 200


async def test_a_browser_exchanges_the_token_for_a_pass_no_page_can_read(services: Services) -> None:
    async with client_of(services, token="right") as client:
        wrong = await client.post("/api/login", json={"token": "wrong"})
        check_refused(wrong, 401, "token_wrong")
        assert "set-cookie" not in wrong.headers
        right = await client.post("/api/login", json={"token": "right"})
        assert right.json() == {"needed": True}
        given = right.headers["set-cookie"].lower()
        assert "httponly" in given
        assert "samesite=strict" in given
        assert "secure" not in given
        assert "right" not in right.headers["set-cookie"]
        assert (await client.get("/api/info")).status_code == 200  # the client keeps cookies
        await client.post("/api/logout")
        check_refused(await client.get("/api/info"), 401, "token_wanted")
    async with client_of(services, "https://127.0.0.1", token="right") as client:
        right = await client.post("/api/login", json={"token": "right"})
        assert "secure" in right.headers["set-cookie"].lower()


def test_a_pass_is_found_among_the_cookies_of_others() -> None:
    made = pass_for("token")
    assert has_pass(f'theme={{"a": "b; c"}}; {COOKIE}={made}; x', "token")
    for cookies in (
        "",
        f"{COOKIE}=",
        f"{COOKIE}={made}x",
        f"x{COOKIE}={made}",
        f"{COOKIE}={pass_for('other')}",
    ):
        assert not has_pass(cookies, "token")


@given(cookies=st.text(max_size=60), token=st.text(min_size=1, max_size=20))
def test_no_cookie_breaks_the_door(cookies: str, token: str) -> None:
    assert not has_pass(cookies, token)


def test_no_comparison_of_a_secret_stops_at_the_first_wrong_letter() -> None:
    """Read from the source: there is no other way to see it."""
    source = (Path(__file__).parents[3] / "personalab" / "serving" / "access.py").read_text(encoding="utf-8")
    compared = source[source.index("def is_bearer") :]
    assert compared.count("hmac.compare_digest") == 3
    assert "== token" not in compared
    assert "== pass_for" not in compared


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_no_address_but_loopback_without_a_token(tmp_path: Path, host: str) -> None:
    done = run(world(tmp_path), "--host", host, "--port", "0", command=[sys.executable, "-m", "web"])
    assert done.returncode == 2
    assert "PERSONALAB_TOKEN" in done.stderr
    assert "Traceback" not in done.stderr


async def test_it_listens_on_ipv6_and_on_every_address_with_a_token(serve: Callable[..., Served]) -> None:
    six = serve("--host", "::1")
    async with six.client() as client:
        assert six.url.startswith("http://[::1]:")
        assert (await client.get("/api/info")).status_code == 200
    everywhere = serve("--host", "0.0.0.0", PERSONALAB_TOKEN="secret")
    async with httpx.AsyncClient(base_url=everywhere.url.replace("0.0.0.0", "127.0.0.1")) as client:
        check_refused(await client.get("/api/info"), 401, "token_wanted")
        known = {"authorization": "Bearer secret", "host": "my.home.example"}
        assert (await client.get("/api/info", headers=known)).status_code == 200
    assert "secret" not in everywhere.errors


# --- how much, how often


async def test_a_body_that_is_too_large_is_refused_whether_it_says_so_or_not(
    app_client: httpx.AsyncClient, instance: str, root: Path
) -> None:
    async def pieces(count: int) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield b" " * 1024 * 1024

    before = _files(root)
    json_type = {"content-type": "application/json"}
    large = b" " * (4 * 1024 * 1024 + 1)
    check_refused(await app_client.post(TURN, content=large, headers=json_type), 413, "body_too_large")
    check_refused(await app_client.post(TURN, content=pieces(6), headers=json_type), 413, "body_too_large")
    for length in ("-1", "1e3", "²", "9" * 30, "0x10"):
        odd = {b"content-type": b"application/json", b"content-length": length.encode()}
        check_refused(await app_client.post(TURN, content=b"{}", headers=odd), 413, "body_too_large")
    binary = {"content-type": "application/octet-stream"}
    too_much = await app_client.post("/api/import", content=pieces(66), headers=binary)
    check_refused(too_much, 413, "body_too_large")
    assert _files(root) == before


async def test_who_calls_too_often_is_told_when_to_come_back(services: Services) -> None:
    async with client_of(services, limits=Limits(calls_a_second=0.5, calls_at_once=3)) as client:
        answers = [await client.post("/api/logout") for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        check_refused(answers[-1], 429, "too_many_requests")
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 2
        assert (await client.get("/api/info")).status_code == 200
        # What is refused at the door counts against nobody.
        for _ in range(5):
            check_refused(await client.post("/api/logout", headers={"origin": "null"}), 403, "foreign_origin")


def test_a_bucket_fills_again_and_clients_are_told_apart() -> None:
    now = [0.0]
    rate = Rate(2.0, 2, lambda: now[0])
    assert [rate.wait("a"), rate.wait("a")] == [0, 0]
    assert rate.wait("a") == pytest.approx(0.5)
    assert rate.wait("b") == 0
    now[0] = 0.5
    assert rate.wait("a") == 0
    for number in range(5_000):
        rate.wait(str(number))
    assert len(rate._left) <= 4_096  # pyright: ignore[reportPrivateUsage] (memory that strangers could fill)


@given(st.ip_addresses(v=6), st.ip_addresses(v=6), st.ip_addresses(v=4))
def test_who_has_a_network_of_addresses_is_one_client(
    six: IPv6Address, other: IPv6Address, four: IPv4Address
) -> None:
    network = int(six) >> 64
    neighbour = IPv6Address((network << 64) | (int(other) & (2**64 - 1)))
    if network:  # the first network holds the addresses of IPv4
        assert one_client(str(neighbour)) == one_client(str(six))
        assert (one_client(str(other)) == one_client(str(six))) == (int(other) >> 64 == network)
    assert one_client(f"::ffff:{four}") == one_client(str(four)) == str(four)


async def test_only_so_many_may_listen(services: Services, instance: str) -> None:
    async with client_of(services, limits=Limits(max_streams=0)) as client:
        turn = (await client.post(TURN, json={"text": "hi"})).json()
        answer = await client.get(turn["stream"])
        check_refused(answer, 429, "too_many_watchers")
        assert int(answer.headers["retry-after"]) >= 1


# --- nothing of the machine in an answer, and never a 500


async def test_an_error_nobody_expected_says_nothing_of_the_inside(
    app: FastAPI, app_client: httpx.AsyncClient, services: Services
) -> None:
    async def broken() -> None:
        raise RuntimeError(f"secret {services.settings.data_root}")

    app.add_api_route("/api/broken", broken)
    answer = await app_client.get("/api/broken")
    check_refused(answer, 500, "internal_error")
    assert "secret" not in answer.text
    assert str(services.settings.data_root) not in answer.text
    assert "Traceback" not in answer.text


async def test_a_broken_file_is_named_without_its_folder(
    app_client: httpx.AsyncClient, instance: str, root: Path
) -> None:
    (root / "instances" / "inst_001" / "instance_state.json").write_bytes(b"{")
    answer = await app_client.post(TURN, json={"text": "hi"})
    assert answer.status_code == 500
    assert str(root) not in answer.text
    assert answer.json()["error"]["kind"] == "storage"


HEADERS = st.lists(
    st.tuples(
        st.sampled_from(
            [b"host", b"origin", b"cookie", b"authorization", b"content-type", b"content-length", b"last-event-id",
             b"sec-fetch-site", b"range", b"if-none-match", b"accept", b"transfer-encoding", b"x-forwarded-for"]
        ),
        st.one_of(
            st.binary(max_size=30),
            st.sampled_from([b"127.0.0.1", b"application/json", b"bytes=0-1", b"bytes=9-1,", b"0", b"null", b"*"]),
        ),
    ),
    max_size=5,
)  # fmt: skip
PATHS = st.one_of(
    st.sampled_from(["/", "/docs", "/metrics", "/healthz", "/mcp", "/openapi.json", "/api/info", "/api/login",
                     "/page/../app.py", "/page/%2e%2e/app.py", "/page/style.css", "/page/", "/page", TURN,
                     "/api/chat/stream", "/api/jobs", "/api/sessions/x/current_response", "//api/info", "/api//info"]),
    st.text(max_size=20).map(lambda text: f"/api/{text}"),
    st.text(max_size=20).map(lambda text: f"/{text}"),
)  # fmt: skip


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    method=st.one_of(
        st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]),
        st.text(max_size=5),
    ),
    path=PATHS,
    query=st.one_of(st.just(b"instance_id=inst_001&turn=1"), st.binary(max_size=20)),
    headers=HEADERS,
    body=st.one_of(
        st.binary(max_size=40), st.sampled_from([b'{"text": "\\ud800"}', b"[" * 2000, b'{"token": "a"}'])
    ),
)
async def test_no_request_however_odd_is_a_500(
    app_client: httpx.AsyncClient,
    app: FastAPI,
    instance: str,
    method: str,
    path: str,
    query: bytes,
    headers: list[tuple[bytes, bytes]],
    body: bytes,
) -> None:
    app.state.rate = Rate(1e9, 10**9)
    named = headers if any(name == b"host" for name, _ in headers) else [(b"host", b"127.0.0.1"), *headers]
    start = await _raw(app, method, path, query, named, body)
    status = start["status"]
    assert 200 <= status < 500 or status == 503, (status, method, path)
    found = {name.lower() for name, _ in start["headers"]}
    assert {name.encode() for name in SAFE} <= found


async def _raw(
    app: FastAPI, method: str, path: str, query: bytes, headers: list[tuple[bytes, bytes]], body: bytes
) -> dict[str, Any]:
    """Call the application as a server does, with what no client would send."""
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "path": path,
        "raw_path": path.encode("utf-8", "replace"), "query_string": query, "root_path": "", "scheme": "http",
        "headers": headers, "server": ("127.0.0.1", 8765), "client": ("127.0.0.1", 1),
    }  # fmt: skip
    sent: list[dict[str, Any]] = []
    parts = [{"type": "http.request", "body": body, "more_body": False}]
    done = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if parts:
            return parts.pop()
        await done.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    async with asyncio.timeout(SECONDS):
        await app(scope, receive, send)
    done.set()
    assert json.dumps(sent[0]["status"])
    return sent[0]
