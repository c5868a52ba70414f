"""Tests of the server over HTTP: access control, and no losses with many clients."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.session import IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ResourceUpdatedNotification

from tests.support.mcp_server.processes import (
    ERAS,
    MODES,
    SECONDS,
    EchoServer,
    Era,
    Json,
    Post,
    Serving,
    Talk,
    begin_stories,
    check_echoes,
    ending_of,
    opening,
    post,
    run,
    serving,
    session_lines,
    silent_replies,
    talking,
    with_provider,
    world,
    written,
)

pytestmark = pytest.mark.anyio
SUBSCRIBING = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
"""Older clients subscribe; the client warns that newer ones do not."""
MANY = 50
Reply = dict[str, Any]


@dataclass
class Stage:
    """A server with a provider behind it, on a data root where other programs work, too."""

    environment: dict[str, str]
    provider: EchoServer
    server: Serving
    _stories: int = 0

    def story(self) -> str:
        """Begin a story of its own for a test."""
        self._stories += 1
        begin_stories(self.environment, f"tale{self._stories}")
        return f"tale{self._stories}"

    def lines(self, instance_id: str) -> list[Json]:
        """Read what the story's file holds."""
        return session_lines(self.environment, instance_id)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Generator[Stage]:
    """One server for all tests that leave it alive."""
    folder = tmp_path_factory.mktemp("stage")
    with EchoServer() as provider:
        environment = with_provider(world(folder), provider)
        with serving(environment, folder / "stderr.txt") as server:
            stage = Stage(environment, provider, server)
            warm_up(server, stage.story())
            yield stage
            server.process.terminate()
            server.wait()
            assert "Traceback" not in server.errors


@pytest.fixture
def stage(running: Stage) -> Generator[Stage]:
    """The server, with a provider that holds what it is asked to hold."""
    running.provider.go_on.clear()
    yield running
    running.provider.go_on.set()


@pytest.fixture(scope="module")
def other(running: Stage, tmp_path_factory: pytest.TempPathFactory) -> Generator[Talk]:
    """A second server, on stdio, on the same data root."""
    with talking(running.environment, tmp_path_factory.mktemp("other") / "stderr.txt") as talk:
        yield talk


@asynccontextmanager
async def raw() -> AsyncGenerator[httpx2.AsyncClient]:
    """Speak HTTP without a client's help."""
    async with httpx2.AsyncClient(timeout=SECONDS) as http:
        yield http


async def send(http: httpx2.AsyncClient, url: str, request: Post, **headers: str) -> httpx2.Response:
    """Send a request with more headers, or others."""
    return await http.post(url, json=request.json, headers={**request.headers, **headers})


async def begin_session(http: httpx2.AsyncClient, url: str) -> str:
    """Open an older client's session, and leave it open."""
    return (await send(http, url, opening())).headers["mcp-session-id"]


async def chat(client: Client, instance_id: str, text: str, **more: str) -> Reply:
    """Play a turn; give its structured content."""
    found = await client.call_tool("persona_chat", {"instance_id": instance_id, "text": text, **more})
    assert not found.is_error, found
    assert found.structured_content is not None
    return found.structured_content


async def eventually(condition: Callable[[], object], what: str = "it never came true") -> None:
    """Wait for a condition, but not for ever."""
    with anyio.move_on_after(SECONDS):
        while not condition():
            await anyio.sleep(0.01)
    assert condition(), what


def warm_up(server: Serving, story: str) -> None:
    """Play a first turn, which loads the graph."""
    said = {"instance_id": story, "text": "call-first"}
    asked = post("modern", "tools/call", name="persona_chat", arguments=said)
    answer = httpx2.post(server.url, json=asked.json, headers=asked.headers, timeout=SECONDS)
    assert "echo of call-first." in answer.text


# --- who may come in


async def test_by_default_other_machines_cannot_reach_it(stage: Stage) -> None:
    assert stage.server.url.startswith("http://127.0.0.1:")
    port = int(stage.server.url.split(":")[2].split("/")[0])
    with pytest.raises(OSError):  # noqa: PT011 (refused on Linux, no such address elsewhere)
        socket.create_connection(("127.0.0.2", port), timeout=5)


@pytest.mark.parametrize("era", ERAS)
async def test_a_page_in_a_browser_cannot_reach_it_through_a_name_of_its_own(stage: Stage, era: Era) -> None:
    url, asked = stage.server.url, opening() if era == "legacy" else post(era, "tools/list")
    port = url.split(":")[2].split("/")[0]
    async with raw() as http:
        for host in (
            "evil.example",
            f"evil.example:{port}",
            f"127.0.0.1.evil.example:{port}",
            "localhost.evil",
        ):
            assert (await send(http, url, asked, Host=host)).status_code in (403, 421), host
        for origin in (
            "http://evil.example",
            "null",
            "https://localhost.evil.example",
            f"http://evil:{port}",
        ):
            assert (await send(http, url, asked, Origin=origin)).status_code == 403, origin
        for host in (f"localhost:{port}", f"[::1]:{port}"):
            assert (await send(http, url, asked, Host=host, Origin=f"http://{host}")).status_code == 200, host


async def test_a_token_is_asked_for_and_enough(tmp_path: Path) -> None:
    environment = world(tmp_path, PERSONALAB_TOKEN="right-token")
    options = ("--host", "0.0.0.0", "--allow-host", "lab.example")
    with serving(environment, tmp_path / "stderr.txt", *options) as server:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        asked = post("modern", "tools/list")
        right = ("Authorization", "Bearer right-token")
        refused: Sequence[Sequence[tuple[str, str]]] = (
            [],
            [("Authorization", "Bearer wrong-token")],
            [("Authorization", "Bearer right-token2")],
            [("Authorization", "Bearer")],
            [("Authorization", "Basic right-token")],
            [("Authorization", "right-token")],
            [right, right],
            [right, ("Authorization", "Bearer wrong-token")],
            [("X-Authorization", "Bearer right-token")],
        )
        async with raw() as http:
            for headers in refused:
                both = [*asked.headers.items(), *headers]
                answer = await http.post(url, json=asked.json, headers=both)
                assert answer.status_code == 401, headers
                assert answer.headers["www-authenticate"].startswith("Bearer")
                assert "right-token" not in answer.text
            assert (await http.get(url.replace("/mcp", "/"))).status_code == 401
            known = dict([right])
            for host, code in (("lab.example", 200), ("lab.example:80", 200), ("lab.example.evil", 421)):
                assert (await send(http, url, asked, **known, Host=host)).status_code == code, host
            for origin, code in (("https://lab.example", 200), ("https://evil.example", 403)):
                assert (await send(http, url, asked, **known, Origin=origin)).status_code == code, origin
        for era in ERAS:
            async with (
                httpx2.AsyncClient(headers=[right], timeout=SECONDS) as http,
                Client(streamable_http_client(url, http_client=http), mode=MODES[era]) as client,
            ):
                assert (await client.list_tools()).tools
        assert "right-token" not in server.errors


async def test_too_large_and_unreadable_bodies_are_refused_and_the_server_lives_on(stage: Stage) -> None:
    url = stage.server.url

    async def pieces() -> AsyncGenerator[bytes]:
        for _ in range(5):
            yield b" " * 1024 * 1024

    async with raw() as http:
        for era in ERAS:
            asked = post(era, "tools/list")
            headers = {**asked.headers, "Content-Type": "application/json"}
            too_large = b" " * (4 * 1024 * 1024 + 1)
            assert (await http.post(url, content=too_large, headers=headers)).status_code == 413
            assert (await http.post(url, content=pieces(), headers=headers)).status_code == 413
            for body in (b"", b"{", b"null", b"[]", b"\xff\xfe", b"[" * 100_000):
                assert (await http.post(url, content=body, headers=headers)).status_code == 400, body[:20]
        unknown = post("legacy", "tools/list", session="no-such-session")
        assert (await send(http, url, unknown)).status_code == 404
        assert (await http.get(url.replace("/mcp", "/etc"))).status_code == 404
        assert (await send(http, url, post("modern", "tools/list"))).status_code == 200


def test_it_does_not_start_where_it_should_not(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for options, code, words in (
            (("--host", "0.0.0.0", "--port", "0"), 2, "PERSONALAB_TOKEN"),
            (("--port", port), 1, port),
        ):
            done = run(world(tmp_path), "--http", *options)
            assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1), done.stderr
            assert words in done.stderr


def test_a_name_that_can_be_no_host_is_one_sentence(tmp_path: Path) -> None:
    done = run(world(tmp_path, PERSONALAB_TOKEN="secret"), "--http", "--host", "bad..name", "--port", "0")
    assert (done.returncode in (1, 2), done.stderr.count("\n")) == (True, 1), done.stderr


# --- many at once


async def _together(stage: Stage, calls: Sequence[tuple[str, str]]) -> list[Reply]:
    """Make calls at once, half of them by an older client and half by a modern one."""
    found: list[Reply] = []
    url = stage.server.url
    async with Client(url, mode=MODES["legacy"]) as older, Client(url, mode=MODES["modern"]) as newer:

        async def one(client: Client, instance_id: str, text: str) -> None:
            reply = await chat(client, instance_id, text)
            assert reply["reply"] == f"echo of {text}."
            found.append(reply)

        async with anyio.create_task_group() as group:
            for number, (instance_id, text) in enumerate(calls):
                group.start_soon(one, (older, newer)[number % 2], instance_id, text)
            if calls[0][1].startswith("hold"):
                await eventually(
                    lambda: stage.provider.asked("hold-together") == len(calls), "they do not run at once"
                )
                stage.provider.go_on.set()
    return found


async def test_calls_that_come_while_the_first_one_loads_the_graph_are_answered(tmp_path: Path) -> None:
    environment = world(tmp_path)
    stories = [f"tale{number}" for number in range(40)]
    begin_stories(environment, *stories)
    results: list[CallToolResult] = []
    answered = anyio.Event()
    with serving(environment, tmp_path / "stderr.txt") as server:
        async with Client(server.url, mode=MODES["modern"]) as client, anyio.create_task_group() as group:

            async def one(story: str) -> None:
                said = {"instance_id": story, "text": "Hello?"}
                results.append(await client.call_tool("persona_chat", said))
                answered.set()

            for story in stories:
                group.start_soon(one, story)
                with anyio.move_on_after(0.05):
                    await answered.wait()
                if answered.is_set():
                    break
    assert [result.content for result in results if result.is_error] == []
    assert "Traceback" not in server.errors


async def test_many_calls_on_one_story_are_turns_in_a_row(stage: Stage) -> None:
    story = stage.story()
    texts = [f"call-{number}" for number in range(MANY)]
    replies = await _together(stage, [(story, text) for text in texts])
    assert sorted(reply["turn"] for reply in replies) == list(range(1, MANY + 1))
    check_echoes(stage.lines(story), *texts)
    assert silent_replies(stage.environment, story) == MANY


async def test_many_stories_are_answered_at_once(stage: Stage) -> None:
    texts = {stage.story(): f"hold-together{number}" for number in range(MANY)}
    await _together(stage, list(texts.items()))
    for story, text in texts.items():
        check_echoes(stage.lines(story), text)


async def test_two_servers_on_one_story_take_turns(stage: Stage, other: Talk) -> None:
    story = stage.story()
    other.call("persona_chat", instance_id=story, text="call-first")
    asked = [
        other.begin_call("persona_chat", instance_id=story, text=f"call-b{number}") for number in range(10)
    ]
    await _together(stage, [(story, f"call-a{number}") for number in range(10)])
    for request in asked:
        answer = await anyio.to_thread.run_sync(other.answer, request)
        assert not answer["result"]["isError"]
    texts = [f"call-{name}{number}" for name in "ab" for number in range(10)]
    check_echoes(stage.lines(story), "call-first", *texts)


# --- the same call again


@pytest.mark.parametrize("era", ERAS)
async def test_a_request_id_is_one_turn_in_a_row_and_in_parallel(stage: Stage, era: Era) -> None:
    story = stage.story()
    replies: list[Reply] = []
    async with Client(stage.server.url, mode=MODES[era]) as client:
        for _ in range(3):
            replies.append(await chat(client, story, "call-row", request_id="row"))

        async def one() -> None:
            replies.append(await chat(client, story, f"hold-{era}par", request_id="par"))

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(one)
            await eventually(lambda: stage.provider.asked(f"hold-{era}par"))
            stage.provider.go_on.set()
        changed = {"instance_id": story, "text": "call-changed", "request_id": "row"}
        assert (await client.call_tool("persona_chat", changed)).is_error
    assert [(reply["turn"], reply["reply"]) for reply in replies] == [
        *[(1, "echo of call-row.")] * 3,
        *[(2, f"echo of hold-{era}par.")] * 3,
    ]
    check_echoes(stage.lines(story), "call-row", f"hold-{era}par")
    assert stage.provider.asked(f"hold-{era}par") == 1


@pytest.mark.parametrize("era", ERAS)
async def test_after_a_time_out_the_same_request_id_gives_the_stored_turn(stage: Stage, era: Era) -> None:
    story = stage.story()
    said = {"instance_id": story, "text": f"hold-{era}late", "request_id": "late"}
    async with Client(stage.server.url, mode=MODES[era]) as client:
        await chat(client, story, "call-warm")
        with pytest.raises(MCPError):
            await client.call_tool("persona_chat", said, read_timeout_seconds=1)
        await eventually(lambda: stage.provider.asked(f"hold-{era}late"))
        stage.provider.go_on.set()
        again = [await chat(client, **said) for _ in range(2)]
    *_, user, reply = stage.lines(story)
    assert (user["content"], len(stage.lines(story))) == (said["text"], 4)
    assert [(found["turn"], found["reply"], found["status"]) for found in again] == [
        (2, reply["content"], ending_of(reply))
    ] * 2
    assert stage.provider.asked(f"hold-{era}late") == 1


# --- clients that go


async def _drop(stage: Stage, era: Era, story: str, text: str) -> None:
    """Begin a call and break its connection off in mid-reply."""
    async with raw() as http, anyio.create_task_group() as group:
        session = await begin_session(http, stage.server.url) if era == "legacy" else None
        said = {"instance_id": story, "text": text, "request_id": "dropped"}
        asked = post(era, "tools/call", session=session, name="persona_chat", arguments=said)
        group.start_soon(send, http, stage.server.url, asked)
        await eventually(lambda: written(stage.environment, story, f"echo of {text}"))
        group.cancel_scope.cancel()


async def test_a_modern_client_that_drops_its_connection_interrupts_the_reply(stage: Stage) -> None:
    story = stage.story()
    await _drop(stage, "modern", story, "hold-newdrop")
    await eventually(lambda: stage.lines(story)[-1].get("interrupted"), "the turn goes on")
    await eventually(lambda: silent_replies(stage.environment, story) == 1)
    async with Client(stage.server.url, mode=MODES["modern"]) as client:
        again = await chat(client, story, "hold-newdrop", request_id="dropped")
        assert (again["turn"], again["status"], again["reply"]) == (1, "interrupted", "echo of hold-newdrop")
        retried = client.call_tool("persona_retry", {"instance_id": story})
        stage.provider.go_on.set()
        found = (await retried).structured_content
        assert found is not None
        assert found["reply"] == "echo of hold-newdrop."
    assert [line["turn"] for line in stage.lines(story)] == [1, 1, 1]


async def test_an_older_client_that_drops_its_connection_finds_its_reply_later(stage: Stage) -> None:
    story = stage.story()
    await _drop(stage, "legacy", story, "hold-olddrop")
    replies: list[Reply] = []
    async with Client(stage.server.url, mode=MODES["legacy"]) as client:

        async def again() -> None:
            replies.append(await chat(client, story, "hold-olddrop", request_id="dropped"))

        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(again)
            stage.provider.go_on.set()
    assert [(reply["turn"], reply["status"]) for reply in replies] == [(1, "done")] * 2
    check_echoes(stage.lines(story), "hold-olddrop")
    assert stage.provider.asked("hold-olddrop") == 1


async def test_many_abandoned_sessions_do_no_harm(stage: Stage) -> None:
    url, story = stage.server.url, stage.story()
    base = f"persona://instances/{story}"
    async with raw() as http:

        async def abandon() -> None:
            for _ in range(20):
                session = await begin_session(http, url)
                await send(http, url, post("legacy", "resources/subscribe", session=session, uri=base))

        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(abandon)
        deaf = await begin_session(http, url)
        await send(http, url, post("legacy", "resources/subscribe", session=deaf, uri=base))
        headers = post("legacy", "ping", session=deaf).headers
        async with http.stream("GET", url, headers=headers) as never_read:
            assert never_read.status_code == 200
            for era in ERAS:
                async with Client(url, mode=MODES[era]) as client:
                    for number in range(3):
                        await chat(client, story, f"call-{era}{number}")
    check_echoes(stage.lines(story), *(f"call-{era}{number}" for era in ERAS for number in range(3)))


# --- ends


@dataclass
class _Streams:
    """Requests whose answers are still coming."""

    http: httpx2.AsyncClient
    url: str
    opened: int = 0
    answers: list[str] = field(default_factory=list[str])

    async def hold(self, request: Post, method: str = "POST") -> None:
        """Open a stream and read it to its end, however that comes."""
        body: Json = {"json": request.json} if method == "POST" else {}
        with suppress(httpx2.TransportError):
            async with self.http.stream(method, self.url, headers=request.headers, **body) as stream:
                self.opened += stream.status_code == 200
                async for line in stream.aiter_lines():
                    self.answers.append(line)

    @property
    def refused(self) -> list[str]:
        """The answers that are tool errors."""
        return [line for line in self.answers if '"isError":true' in line]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
async def test_places_are_limited_and_a_signal_closes_what_is_open(
    tmp_path: Path, number: signal.Signals
) -> None:
    stories = [f"tale{count}" for count in range(10)]
    held: list[str] = []
    with EchoServer() as provider:
        environment = with_provider(world(tmp_path, PERSONALAB_BUSY_SECONDS="0.3"), provider)
        begin_stories(environment, "warm", *stories)
        with serving(environment, tmp_path / "stderr.txt", "--max-turns", "2") as server:
            warm_up(server, "warm")
            async with raw() as http, anyio.create_task_group() as group:
                session = await begin_session(http, server.url)
                streams = _Streams(http, server.url)
                for count, story in enumerate(stories):
                    said = {"instance_id": story, "text": f"hold-{story}"}
                    call: Json = {"name": "persona_chat", "arguments": said, "request_id": 100 + count}
                    group.start_soon(
                        streams.hold, post(ERAS[count % 2], "tools/call", session=session, **call)
                    )
                await eventually(lambda: len(streams.refused) == 8, "too many have found a place, or too few")
                held += [story for story in stories if session_lines(environment, story)]
                assert len(held) == 2
                for story in held:
                    await eventually(lambda story=story: written(environment, story, f"echo of hold-{story}"))
                opened = streams.opened
                news: Json = {"notifications": {"resourcesListChanged": True}}
                group.start_soon(streams.hold, post("modern", "subscriptions/listen", **news))
                group.start_soon(streams.hold, post("legacy", "ping", session=session), "GET")
                await eventually(lambda: streams.opened == opened + 2)
                server.process.send_signal(number)
                await anyio.to_thread.run_sync(server.wait)
            for story in stories:
                lines = session_lines(environment, story)
                if story in held:
                    assert (lines[-1]["content"], ending_of(lines[-1])) == (
                        f"echo of hold-{story}",
                        "interrupted",
                    )
                    assert silent_replies(environment, story) == 1
                else:
                    assert lines == []
            assert "Traceback" not in server.errors
            assert server.process.returncode in (0, 128 + number, -number)


async def test_ctrl_c_ends_an_idle_server_without_a_word(tmp_path: Path) -> None:
    with serving(world(tmp_path), tmp_path / "stderr.txt") as server:
        async with Client(server.url, mode=MODES["legacy"]) as client:
            await client.list_tools()
            server.process.send_signal(signal.SIGINT)
            assert await anyio.to_thread.run_sync(server.wait) in (0, 130, -signal.SIGINT)
        assert "Traceback" not in server.errors


# --- news of what others do


class Ears:
    """An older client's ears."""

    def __init__(self) -> None:
        self.uris: set[str] = set()

    async def __call__(self, message: IncomingMessage) -> None:
        """Note what has changed."""
        if isinstance(message, ResourceUpdatedNotification):
            self.uris.add(str(message.params.uri))


@asynccontextmanager
async def listening(stage: Stage, era: Era, uri: str) -> AsyncGenerator[set[str]]:
    """Listen for changes of an address as an era does; give what is heard."""
    ears = Ears()
    async with Client(stage.server.url, mode=MODES[era], message_handler=ears) as client:
        if era == "legacy":
            await client.subscribe_resource(uri)  # pyright: ignore[reportDeprecated] (older clients do)
            yield ears.uris
            return
        async with client.listen(resource_subscriptions=[uri]) as events, anyio.create_task_group() as group:

            async def hear() -> None:
                async for event in events:
                    if isinstance(event, ResourceUpdated):
                        ears.uris.add(str(event.uri))

            group.start_soon(hear)
            yield ears.uris
            group.cancel_scope.cancel()


@SUBSCRIBING
@pytest.mark.parametrize("era", ERAS)
async def test_a_turn_right_after_a_client_began_to_listen_is_heard(
    stage: Stage, other: Talk, era: Era
) -> None:
    story = stage.story()
    other.call("persona_chat", instance_id=story, text="call-warm")
    async with listening(stage, era, f"persona://instances/{story}/sessions/sess_001") as heard:
        await anyio.to_thread.run_sync(
            lambda: other.call("persona_chat", instance_id=story, text="call-news")
        )
        with anyio.move_on_after(SECONDS):
            await eventually(lambda: heard)
        assert heard == {f"persona://instances/{story}/sessions/sess_001"}, "nothing was heard"


@SUBSCRIBING
async def test_turns_of_the_terminal_and_of_the_server_itself_are_heard(stage: Stage) -> None:
    story = stage.story()
    uri = f"persona://instances/{story}"
    command = (sys.executable, "-m", "cli", "say", story, "call-terminal")
    async with listening(stage, "legacy", uri) as older, listening(stage, "modern", uri) as newer:
        done = await anyio.to_thread.run_sync(lambda: run(stage.environment, command=command))
        assert done.returncode == 0, done.stderr
        await eventually(lambda: older and newer)
        older.clear()
        newer.clear()
        async with Client(stage.server.url, mode=MODES["modern"]) as client:
            await chat(client, story, "call-here")
        await eventually(lambda: older == newer == {uri})
