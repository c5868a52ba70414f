"""Many streams at once over HTTP, ours beside a minimal LangGraph and FastAPI app, on the same model server.

Every client sends a line and reads the events of the reply over a plain socket. The first token's time is the median
over the clients; the total is the time until the last of them has its whole reply. Both servers take all clients at
once. Ours as it ships runs 64 turns at once: of 200 the others wait for a place, and after 10 s are refused.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.table import Figure, median
from bench.wire import BareReader
from bench.wire_server import serving
from personalab.dialogue import Message
from personalab.operations.instances import new_instance
from personalab.services import open_services
from personalab.settings import read_settings

_CROWDS = (1, 50, 200)
_PACED, _BURST = "words-100-20", "words-500-0"
_WORDS = 5_000
_ROUNDS = {1: 5, 50: 3, 200: 2}

Run = Callable[["_Client", int], Awaitable[None]]
"""Lets the client of this number have a reply."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """What a number of clients that begin together see."""

    first: float
    """Median time until a client has its first token."""
    total: float
    memory: float
    """Growth of the server's peak memory for each client, in kB."""


def figures() -> list[Figure]:
    """Measure paced and burst replies."""
    found: list[Figure] = []
    with serving() as model_url:
        for name, model in (("paced", _PACED), ("burst", _BURST)):
            for clients in _CROWDS:
                ours, peer = (measure(app, model, model_url, clients) for app in ("ours", "peer"))
                found += _rows(name, clients, ours, peer)
        found.append(_token(model_url))
    return found


def _token(model_url: str) -> Figure:
    """Compare one long reply, with its file and its events, to a bare reader of the same bytes."""
    model = f"words-{_WORDS}-0"
    ours = measure("ours", model, model_url, 1).total

    async def read() -> float:
        reader, times = BareReader(model_url), list[float]()
        for _ in range(_ROUNDS[1]):
            start = time.perf_counter()
            await reader.read(model, [Message(role="user", content="go")])
            times.append(time.perf_counter() - start)
        await reader.close()
        return min(times)

    bare = asyncio.run(read())
    note = f"{ours / _WORDS * 1e6:.1f} µs / {bare / _WORDS * 1e6:.1f} µs, {_WORDS} words at once"
    return Figure("a token with file and SSE / bare reader", ours / bare, at_most=3, note=note)


def _rows(name: str, clients: int, ours: Crowd, peer: Crowd) -> list[Figure]:
    what = f"{clients} {name} stream{'s' if clients > 1 else ''}"
    goal = clients > 1
    first = f"{ours.first * 1e3:.0f} ms / {peer.first * 1e3:.0f} ms"
    total = f"{ours.total:.2f} s / {peer.total:.2f} s"
    found = [
        Figure(
            f"{what}: first token / LangGraph app's",
            ours.first / peer.first,
            at_most=1.0 if goal and name == "paced" else None,
            note=first,
        ),
        Figure(
            f"{what}: total / LangGraph app's",
            ours.total / peer.total,
            at_most=0.8 if goal else None,
            note=total,
        ),
    ]
    if goal and name == "burst":
        found.append(Figure(f"{what}: first token / total", ours.first / ours.total, at_most=0.15))
    if goal:
        note = f"LangGraph app {peer.memory:.0f} kB"
        found.append(Figure(f"{what}: memory each", ours.memory, "kB", at_most=200, note=note))
    return found


def measure(app: str, model: str, model_url: str, clients: int) -> Crowd:
    """Start a server and let a crowd of clients use it."""
    with tempfile.TemporaryDirectory() as folder, _app(app, Path(folder), model, model_url) as (url, pid):
        host, port = url.removeprefix("http://").split(":")
        run = _ours if app == "ours" else _peer
        if app == "ours":
            asyncio.run(_stories(Path(folder), clients))
        asyncio.run(_crowd(run, host, int(port), min(clients, 8)))
        before = _megabytes(pid)
        rounds = [asyncio.run(_crowd(run, host, int(port), clients))]
        grown = (_megabytes(pid) - before) * 1024 / clients  # later rounds add what the stories gained
        rounds += [asyncio.run(_crowd(run, host, int(port), clients)) for _ in range(_ROUNDS[clients] - 1)]
        return Crowd(min(first for first, _ in rounds), min(total for _, total in rounds), grown)


@contextmanager
def _app(app: str, root: Path, model: str, model_url: str) -> Generator[tuple[str, int]]:
    environment = {
        **os.environ,
        "PERSONALAB_DATA": str(root),
        "PERSONALAB_MODEL": f"openai:{model}",
        "OPENAI_BASE_URL": model_url,
    }
    command = [sys.executable, "-m", "bench.wire_apps", app]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            yield process.stderr.readline().strip(), process.pid
        finally:
            process.kill()


async def _stories(root: Path, count: int) -> None:
    services = open_services(read_settings({"PERSONALAB_DATA": str(root)}))
    for number in range(count):
        await new_instance(services, "char_maren", "bg_lighthouse", f"story{number}")
    await services.close()


async def _crowd(run: Run, host: str, port: int, count: int) -> tuple[float, float]:
    """Let clients begin together; return the median of their first tokens, and the time until all are done."""
    clients = [_Client(host, port) for _ in range(count)]
    start = time.perf_counter()
    await asyncio.gather(*(run(client, number) for number, client in enumerate(clients)))
    end = time.perf_counter()
    return median([client.first - start for client in clients]), end - start


class _Client:
    def __init__(self, host: str, port: int) -> None:
        self.first = 0.0
        self._host, self._port = host, port

    async def post(self, path: str, text: str) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        body = json.dumps({"text": text}).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nContent-Type: application/json\r\n"
        )
        self._writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)

    async def read_json(self) -> dict[str, str]:
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        assert length is not None
        return json.loads(await self._reader.readexactly(int(length[1])))

    def get(self, path: str) -> None:
        self._writer.write(f"GET {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\n\r\n".encode())

    async def read_events(self) -> None:
        tail = b""
        while True:
            data = await self._reader.read(65_536)
            assert data, "the stream ended early"
            tail = tail[-32:] + data
            if not self.first and b"event: token" in tail:
                self.first = time.perf_counter()
            if b"event: done" in tail:
                break
        self._writer.close()


async def _ours(client: _Client, number: int) -> None:
    await client.post(f"/api/instances/story{number}/turns", "Hello there.")
    client.get((await client.read_json())["stream"])
    await client.read_events()


async def _peer(client: _Client, number: int) -> None:
    await client.post(f"/threads/{number}", "Hello there.")
    await client.read_events()


def _megabytes(pid: int) -> float:
    """Return a process's peak memory."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="ascii"))
    assert found is not None
    return int(found[1]) / 1024
