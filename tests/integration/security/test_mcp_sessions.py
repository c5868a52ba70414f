"""Sessions of older MCP clients are limited without locking anyone out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, asynccontextmanager

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_server.http import build_app
from mcp_server.server import build_server
from mcp_server.sessions import IDLE_SECONDS, SessionLimits, SessionTable
from personalab.services import Services
from tests.integration.security.attacking import CLIENT, OTHER_CLIENT, running
from tests.support.mcp_server.processes import Post, opening, post, session_lines
from tests.support.web.serving import SECONDS
from tests.support.web.slow_model import HandedModel

pytestmark = pytest.mark.anyio


class McpClient:
    """An older MCP client at a loopback address, in raw HTTP."""

    def __init__(self, url: str, address: str) -> None:
        transport = httpx.AsyncHTTPTransport(local_address=address)
        self.http = httpx.AsyncClient(transport=transport, timeout=SECONDS)
        self.url = f"{url}/mcp"

    async def send(self, request: Post) -> httpx.Response:
        """Send a request."""
        return await self.http.post(self.url, json=request.json, headers=request.headers)

    async def open(self) -> str:
        """Open a session."""
        answer = await self.send(opening())
        assert answer.status_code == 200, answer.text
        return answer.headers["mcp-session-id"]

    async def ping(self, session: str) -> int:
        """Use a session; return the status of the answer."""
        return (await self.send(post("legacy", "ping", session=session))).status_code

    async def play(self, session: str, text: str) -> httpx.Response:
        """Play a turn."""
        said = {"instance_id": "inst_001", "text": text}
        return await self.send(
            post("legacy", "tools/call", session=session, name="persona_chat", arguments=said)
        )

    @asynccontextmanager
    async def stream(self, session: str) -> AsyncGenerator[httpx.Response]:
        """Open the session's stream of notifications."""
        headers = post("legacy", "ping", session=session).headers
        async with self.http.stream("GET", self.url, headers=headers) as answer:
            assert answer.status_code == 200
            yield answer


@asynccontextmanager
async def two_clients(
    services: Services, limits: SessionLimits
) -> AsyncGenerator[tuple[McpClient, McpClient]]:
    """Serve MCP with limits of its own to two clients."""
    server = build_server(services)
    async with running(build_app(server, sessions=limits)) as url:
        one, other = McpClient(url, CLIENT), McpClient(url, OTHER_CLIENT)
        async with one.http, other.http:
            try:
                yield one, other
            finally:
                await server.close()


async def test_flood_of_sessions_closes_its_own_idlest(services: Services) -> None:
    async with two_clients(services, SessionLimits(per_client=5, total=7)) as (flooding, other):
        kept = await other.open()
        flood = [await flooding.open() for _ in range(20)]
        mine = [await other.open() for _ in range(3)]
        assert [await other.ping(session) for session in (kept, *mine)] == [200] * 4
        assert [await flooding.ping(session) for session in flood[:15]] == [404] * 15
        assert await flooding.ping(flood[-1]) == 200


async def test_busy_sessions_outlive_idle_ones(services: Services, instance: str) -> None:
    model = services.models["rehearsal"] = HandedModel()
    async with two_clients(services, SessionLimits(per_client=3, total=3)) as (client, _):
        calling, listening, idle = [await client.open() for _ in range(3)]
        turn = asyncio.create_task(client.play(calling, "hello"))
        await model.asked()
        async with client.stream(listening):
            newest = [await client.open() for _ in range(4)][-1]
            assert await client.ping(idle) == 404
            assert await client.ping(newest) == 200
            model.finish("Yes.")
            assert "Yes." in (await turn).text
            assert await client.ping(listening) == 200


async def test_call_whose_client_has_gone_keeps_its_session(services: Services, instance: str) -> None:
    model = services.models["rehearsal"] = HandedModel()
    async with two_clients(services, SessionLimits(per_client=2, total=2)) as (client, _):
        session = await client.open()
        turn = asyncio.create_task(client.play(session, "hello"))
        await model.asked()
        turn.cancel()
        await asyncio.wait([turn])
        for _ in range(5):
            await client.open()
        assert await client.ping(session) == 200
        model.finish("Yes.")
        async with asyncio.timeout(SECONDS):
            while not (
                found := session_lines({"PERSONALAB_DATA": str(services.settings.data_root)}, instance)
            ) or (found[-1]["content"] != "Yes."):
                await asyncio.sleep(0.01)
        assert not found[-1].get("interrupted")


async def test_streams_make_room_only_when_nothing_is_idle_and_calls_never(
    services: Services, instance: str
) -> None:
    model = services.models["rehearsal"] = HandedModel()
    async with two_clients(services, SessionLimits(per_client=2, total=2)) as (client, other):
        calling, listening = await client.open(), await client.open()
        turn = asyncio.create_task(client.play(calling, "hello"))
        await model.asked()
        async with client.stream(listening) as stream:
            await other.open()
            assert await stream.aread() == b""  # it is closed
        assert await client.ping(listening) == 404
        model.finish("Yes.")
        assert "Yes." in (await turn).text


async def test_new_session_waits_when_every_one_has_a_call(services: Services, instance: str) -> None:
    model = services.models["rehearsal"] = HandedModel()
    async with two_clients(services, SessionLimits(per_client=1, total=1)) as (client, other):
        turn = asyncio.create_task(client.play(await client.open(), "hello"))
        await model.asked()
        refused = await other.send(opening())
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert (
            "call in progress" in refused.json()["error"]["message"]
            or "调用" in refused.json()["error"]["message"]
        )
        model.finish("Yes.")
        await turn
        assert await other.ping(await other.open()) == 200


async def test_opening_sessions_is_paced_per_client(services: Services) -> None:
    limits = SessionLimits(at_once=3, a_second=0.001)
    async with two_clients(services, limits) as (client, other):
        session = [await client.open() for _ in range(3)][-1]
        refused = await client.send(opening())
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["jsonrpc"] == "2.0"
        assert await client.ping(session) == 200
        assert (await client.send(post("modern", "tools/list"))).status_code == 200
        assert await other.ping(await other.open()) == 200


async def test_closed_session_frees_its_place(services: Services) -> None:
    async with two_clients(services, SessionLimits(per_client=2, total=2)) as (client, _):
        kept, ended = await client.open(), await client.open()
        headers = post("legacy", "ping", session=ended).headers
        assert (await client.http.delete(client.url, headers=headers)).status_code == 200
        await client.open()
        assert await client.ping(kept) == 200


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["open", "open", "call", "stream", "end", "close"]),
        st.integers(0, 2),
        st.integers(0, 9),
    ),
    max_size=60,
)


@given(STEPS)
def test_table_stays_within_its_limits_and_spares_busy_sessions(steps: list[tuple[str, int, int]]) -> None:
    table = SessionTable(SessionLimits(per_client=4, total=8), clock=lambda: 0.0)
    owners: dict[str, str] = {}
    uses: dict[str, list[tuple[str, AbstractContextManager[None]]]] = {}
    for number, (step, who, which) in enumerate(steps):
        client, open_now = str(who), [*owners]
        session = open_now[which % len(open_now)] if open_now else None
        if step == "open":
            while not table.has_room(client):
                closed = table.least_used(client)
                mine = [name for name in owners if owners[name] == client]
                among = mine if len(mine) >= 4 else [*owners]
                if closed is None:
                    assert all(any(kind == "call" for kind, _ in uses[name]) for name in among)
                    break
                assert closed in among
                assert not uses[closed] or all(uses[name] for name in among)
                table.closed(closed)
                del owners[closed], uses[closed]
            else:
                table.opened(str(number), client)
                owners[str(number)], uses[str(number)] = client, []
        elif session is not None and step in ("call", "stream"):
            use = table.used(session, is_stream=step == "stream")
            use.__enter__()
            uses[session].append((step, use))
        elif session is not None and step == "end" and uses[session]:
            uses[session].pop()[1].__exit__(None, None, None)
        elif session is not None and step == "close":
            table.closed(session)
            del owners[session], uses[session]
        assert len(owners) <= 8
        assert all([*owners.values()].count(client) <= 4 for client in owners.values())


def test_sessions_that_expired_take_no_place() -> None:
    now = [0.0]
    table = SessionTable(SessionLimits(per_client=1, total=1), clock=lambda: now[0])
    table.opened("a", "client")
    assert not table.has_room("client")
    now[0] = IDLE_SECONDS + 1.0
    assert table.has_room("client")
