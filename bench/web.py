"""Token latency to a browser's socket, the cost of idle watchers, and losses among many clients.

The floor of the latency is the graph's own event, in the same process and run.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import httpx
import uvicorn

from bench.table import Figure, median
from graph.chat_turn import stream_turn
from personalab.dialogue import Message
from personalab.operations.instances import new_instance
from personalab.ports import ReplyChunk
from personalab.services import Services, open_services
from personalab.serving.connections import PatientProtocol
from personalab.serving.server import listen
from personalab.settings import read_settings
from tests.support.web.soaking import Client, Counting
from web.app import Limits
from web.joining import whole_app

_TOKENS = 400
_ROUNDS = 5
_IDLE = 1_000
_TURNS, _CLIENTS, _SECONDS = 50, 200, 60.0


def figures() -> list[Figure]:
    """Measure the way of a token, silent watchers, and a crowd."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        token = asyncio.run(_token_figures(root / "token"))
        return [*token, *_idle_figures(root / "idle"), *asyncio.run(_crowd_figures(root / "crowd"))]


async def _story(root: Path, *instance_ids: str) -> Services:
    services = open_services(read_settings({"PERSONALAB_DATA": str(root)}))
    (root / "modules" / "recall.json").write_text('{"trigger": "off"}', encoding="utf-8")
    for instance_id in instance_ids:
        await new_instance(services, "char_maren", "bg_lighthouse", instance_id)
    return services


@asynccontextmanager
async def _served(services: Services) -> AsyncGenerator[httpx.AsyncClient]:
    limits = Limits(max_turns=_TURNS, calls_a_second=1e9, calls_at_once=10**9)
    app = whole_app(lambda: services, limits=limits)
    listener = listen("127.0.0.1", 0)
    config = uvicorn.Config(
        app, http=PatientProtocol, log_config=None, lifespan="on", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve([listener]))
    while not server.started:
        await asyncio.sleep(0.01)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            yield client
    finally:
        server.should_exit = True
        await serving


# --- the way of a token


class _Timed:
    """Says a word now and then, and notes when."""

    name = "timed"

    def __init__(self) -> None:
        self.said: list[float] = []

    def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        """Say numbered words, with time between them for everyone to hear."""
        return self._play()

    async def _play(self) -> AsyncIterator[ReplyChunk]:
        for number in range(_TOKENS):
            await asyncio.sleep(0.002)
            self.said.append(time.perf_counter())
            yield ReplyChunk(f"{number:04} ")


async def _token_figures(root: Path) -> list[Figure]:
    services = await _story(root, "inst_001")
    graph, socket = list[float](), list[float]()
    async with _served(services) as client:
        for number in range(_ROUNDS + 1):
            model = services.models["rehearsal"] = _Timed()
            heard = await _graph_times(services)
            direct = _ways(model, heard)
            model = services.models["rehearsal"] = _Timed()
            heard = await _socket_times(client)
            if number:  # the first round warms up
                graph += direct
                socket += _ways(model, heard)
    ours, floor = median(socket), median(graph)
    note = f"{ours * 1e6:.0f} µs / {floor * 1e6:.0f} µs"
    tail = sorted(socket)[int(len(socket) * 0.99)]
    return [
        Figure(
            "model chunk to the browser's socket, p50, against the graph's event",
            ours / floor,
            at_most=3,
            note=note,
        ),
        Figure("the same, p99", tail * 1e3, "ms"),
    ]


def _ways(model: _Timed, heard: dict[int, float]) -> list[float]:
    return [heard[number] - said for number, said in enumerate(model.said)]


async def _graph_times(services: Services) -> dict[int, float]:
    """Run a turn in this process; note when each word's event came."""
    found: dict[int, float] = {}
    call = {"instance_id": "inst_001", "user_input": "hello", "action": "say"}
    async with aclosing(stream_turn(services, call)) as stream:  # pyright: ignore[reportArgumentType]
        async for part in stream:
            if part.get("type") == "token":
                now = time.perf_counter()
                for word in part["text"].split():  # pyright: ignore
                    found[int(word)] = now  # pyright: ignore
    return found


async def _socket_times(client: httpx.AsyncClient) -> dict[int, float]:
    """Run a turn over HTTP; note when each word could be read from a plain socket."""
    turn = (await client.post("/api/instances/inst_001/turns", json={"text": "hello"})).json()
    url = client.base_url
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(f"GET {turn['stream']} HTTP/1.1\r\nHost: {url.host}:{url.port}\r\n\r\n".encode())
    found: dict[int, float] = {}
    data = b""
    while len(found) < _TOKENS:
        data = await reader.read(65_536)
        now = time.perf_counter()
        for text in re.findall(rb'"text": "([^"]*)"', data):
            for word in text.split():
                found[int(word)] = now
        assert data, "the stream ended early"
    while b"event: done" not in data:
        data = await reader.read(65_536)
    writer.close()
    return found


# --- silent watchers


def _idle_figures(root: Path) -> list[Figure]:
    """Measure a server process before and while a thousand watch a turn whose model is silent."""
    asyncio.run(_story(root, "inst_001"))
    script = root / "script.json"
    silent = {"pieces": ["well, "], "hang": True}
    script.write_text(json.dumps({"replies": [silent], "loop": True}), encoding="utf-8")
    environment = {**os.environ, "PERSONALAB_DATA": str(root), "PERSONALAB_MODEL": f"scripted:{script}"}
    process = subprocess.Popen(
        [sys.executable, "-m", "web", "--port", "0"], env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        found = re.search(r"http://([^:]+):(\d+)", process.stderr.readline())
        assert found is not None
        before, after = asyncio.run(_watch_in_silence(found[1], int(found[2]), process.pid))
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    note = f"{(after - before) * 1024 / _IDLE:.1f} kB each; {before:.0f} MB before"
    return [Figure(f"{_IDLE:,} idle streams", after - before, "MB", at_most=60, note=note)]


async def _watch_in_silence(host: str, port: int, pid: int) -> tuple[float, float]:
    async with httpx.AsyncClient(base_url=f"http://{host}:{port}", timeout=60) as client:
        turn = (await client.post("/api/instances/inst_001/turns", json={"text": "hello"})).json()
        await client.get("/api/info")

        async def watch() -> asyncio.StreamWriter:
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(f"GET {turn['stream']} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
            await reader.readuntil(b"well, ")
            return writer

        warm = [await watch() for _ in range(20)]
        before = _megabytes(pid)
        writers = [await watch() for _ in range(_IDLE)]
        after = _megabytes(pid)
        for writer in (*warm, *writers):
            writer.close()
        return before, after


def _megabytes(pid: int | str = "self") -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024


# --- a crowd


async def _crowd_figures(root: Path) -> list[Figure]:
    """Let many clients watch many turns for a minute, break off and come back; compare with the files."""
    ids = [f"tale{number}" for number in range(_TURNS)]
    services = await _story(root, *ids)
    services.models["rehearsal"] = Counting(words=40, delay=0.01)
    wrong = told = turns = 0
    warm = 0.0
    async with _served(services) as client:
        host, port = client.base_url.host, client.base_url.port or 80
        clients = [Client(host, port, random.Random(number)) for number in range(_CLIENTS)]

        async def begin(instance_id: str) -> str:
            answer = await client.post(f"/api/instances/{instance_id}/turns", json={"text": "hi"})
            return answer.json()["stream"]

        end = time.monotonic() + _SECONDS
        while time.monotonic() < end or turns < 3 * _TURNS:
            streams = await asyncio.gather(*map(begin, ids))
            heard = await asyncio.gather(
                *(one.listen(streams[number % _TURNS]) for number, one in enumerate(clients))
            )
            held = {one: _last_reply(root, one) for one in ids}
            wrong += sum(text != held[ids[number % _TURNS]] for number, text in enumerate(heard))
            told += sum(text.count("😀") for text in heard)
            turns += _TURNS
            gc.collect()
            warm = warm or (_megabytes() if turns >= 2 * _TURNS else 0.0)
        grown = _megabytes() - warm
    returns = sum(one.returns for one in clients)
    note = f"{told:,} tokens told in {turns:,} turns to {_CLIENTS} clients that came back {returns:,} times"
    return [
        Figure("replies with a lost or repeated token", wrong, "", at_most=0, note=note),
        Figure(
            "memory at the end against after warming up", (warm + grown) / warm, at_most=1.25,
            note=f"{warm:.0f} MB + {grown:.1f} MB; the stories themselves grow by {turns:,} turns",
        ),
    ]  # fmt: skip


def _last_reply(root: Path, instance_id: str) -> str:
    path = root / "instances" / instance_id / "sessions" / "sess_001.jsonl"
    return json.loads(path.read_bytes().splitlines()[-1])["content"]
