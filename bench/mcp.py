"""Start time and memory of the MCP server, and the overhead of a turn through it.

The floor is a bare server of the same SDK with one tool; a turn is compared with the same turn called in
Python.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters

from bench.table import Figure, median
from graph.chat_turn import run_turn
from mcp_server.server import build_server
from personalab.operations.instances import new_instance
from personalab.services import open_services
from personalab.settings import read_settings
from personalab.testing.scripted import ScriptedModel

_BARE = '''
from mcp.server import MCPServer
mcp = MCPServer("bare", version="1")
@mcp.tool()
async def hello(name: str) -> str:
    """Say hello."""
    return "hello " + name
mcp.run()
'''
_ROUNDS = 9
_TURNS = 60
_REPLY = "Fine, let us go. The tide is out, and nobody is on the causeway. " * 3


def figures() -> list[Figure]:
    """Measure the start and a turn."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "bare.py").write_text(_BARE, encoding="utf-8")
        return [*_start_figures(root), *asyncio.run(_turn_figures(root))]


# --- start


@dataclass(frozen=True, slots=True)
class _Start:
    initialized: float
    listed: float
    kilobytes: int


def _start_figures(root: Path) -> list[Figure]:
    commands = {"bare": [str(root / "bare.py")], "ours": ["-m", "mcp_server"]}
    starts: dict[str, list[_Start]] = {name: [] for name in commands}
    for number in range(_ROUNDS + 1):
        for name, command in commands.items():
            found = _start(command, root)
            if number:
                starts[name].append(found)

    goals = {
        "start to answered initialize": ("initialized", 1e3, "ms", 1.3),
        "start to answered tools/list": ("listed", 1e3, "ms", 1.4),
        "resident memory after start": ("kilobytes", 1 / 1024, "MB", 1.6),
    }
    rows: list[Figure] = []
    for label, (name, scale, unit, goal) in goals.items():
        ours, floor = (min(float(getattr(start, name)) for start in starts[who]) for who in ("ours", "bare"))
        note = f"{ours * scale:.0f} {unit} / {floor * scale:.0f} {unit}"
        rows.append(Figure(f"MCP: {label} / a bare server's", ours / floor, at_most=goal, note=note))
    return rows


def _start(command: list[str], root: Path) -> _Start:
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PERSONALAB_DATA": str(root / "data"), "PERSONALAB_MODEL": "rehearsal"},
    )
    client = {"name": "bench", "version": "1"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    try:
        request(process, {"id": 1, "method": "initialize", "params": hello})
        initialized = time.perf_counter() - begin
        notify(process, {"method": "notifications/initialized"})
        request(process, {"id": 2, "method": "tools/list"})
        listed = time.perf_counter() - begin
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
        resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return _Start(initialized, listed, int(resident.split()[1]))
    finally:
        process.kill()
        process.communicate()


def notify(process: subprocess.Popen[bytes], message: dict[str, Any]) -> None:
    """Send a message to a server over stdio."""
    assert process.stdin is not None
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    process.stdin.flush()


def request(process: subprocess.Popen[bytes], message: dict[str, Any]) -> dict[str, Any]:
    """Send a request to a server over stdio and wait for its result; notifications before it are skipped."""
    notify(process, message)
    assert process.stdout is not None
    while (answer := json.loads(process.stdout.readline())).get("id") != message["id"]:
        pass
    return answer["result"]


# --- a turn


async def _turn_figures(root: Path) -> list[Figure]:
    """Play the same turns in each way, in alternation, so that the machine's moods hit all alike."""
    script = root / "script.json"
    script.write_text(json.dumps({"replies": [_REPLY], "loop": True}), encoding="utf-8")
    model = f"scripted:{script}"
    environment = {"PERSONALAB_DATA": str(root / "turns"), "PERSONALAB_MODEL": model}
    services = open_services(read_settings(environment))
    services.models[model] = ScriptedModel([_REPLY], loop=True)
    for name in ("python", "modern", "legacy", "stdio"):
        await new_instance(services, "char_maren", "bg_lighthouse", name)
    server = build_server(services)
    process = StdioServerParameters(
        command=sys.executable, args=["-m", "mcp_server"], env={**os.environ, **environment}
    )
    async with (
        Client(server) as modern,
        Client(server, mode="legacy") as legacy,
        Client(process) as stdio,
    ):

        def through(client: Client, name: str) -> Callable[[int], Awaitable[Any]]:
            return lambda n: client.call_tool("persona_chat", {"instance_id": name, "text": f"hello {n}"})

        ways: dict[str, Callable[[int], Awaitable[Any]]] = {
            "python": lambda n: run_turn(services, {"instance_id": "python", "user_input": f"hello {n}"}),
            "modern": through(modern, "modern"),
            "legacy": through(legacy, "legacy"),
            "stdio": through(stdio, "stdio"),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(_TURNS):
            for name, play in ways.items():
                begin = time.perf_counter()
                await play(number)
                times[name].append(time.perf_counter() - begin)
    floor = median(times["python"][10:])
    labels = {
        "modern": "in memory, 2026-07-28",
        "legacy": "in memory, 2025-11-25",
        "stdio": "another process, over stdio",
    }
    return [
        Figure(
            f"MCP: a persona_chat turn ({label}) / the same in Python",
            median(times[name][10:]) / floor,
            at_most=1.5,
            note=f"{median(times[name][10:]) * 1e3:.1f} ms / {floor * 1e3:.1f} ms",
        )
        for name, label in labels.items()
    ]
