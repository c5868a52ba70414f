"""Huge turns: how long they delay ``/healthz``, and how much memory an import takes.

A chat of 25 turns of two messages of 1 MB is imported by a real server, looked at, and played on, while a process of
its own asks ``/healthz`` every 20 ms.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import httpx

from bench.table import Figure
from tests.support.web.serving import CHECKOUT, Served, serving

_SENTENCE = "The keeper said it was over, and lit the lamp once more. "
_MESSAGE = (_SENTENCE * 20_000)[:1_000_000]
_TURNS = 25
_LONGEST_INPUT = 200_000


def figures() -> list[Figure]:
    """Measure each call on one server."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "PERSONALAB_DATA": str(Path(folder) / "data"),
            "PERSONALAB_MODEL": "rehearsal",
        }
        with serving(environment, Path(folder) / "log") as server:
            return _figures(server)


def _figures(server: Served) -> list[Figure]:
    made = httpx.post(f"{server.url}/api/instances", json={"character_id": "char_maren"}, timeout=300).json()
    short, content = made["instance_id"], _chat()
    _preview(server, short, "Hello.")
    before = _memory(server, "VmRSS")
    rows = [
        _delay("idle", server, lambda: time.sleep(2)),
        _delay(
            "preview of 200,000 characters", server, lambda: _preview(server, short, _input()), at_most=100
        ),
        _delay("import of 50 MB", server, lambda: _import(server, content)),
    ]
    taken = _memory(server, "VmHWM") - before
    rows.append(Figure("memory of the import, against its size", taken / len(content), at_most=5))
    return [
        *rows,
        _delay("preview of the imported story", server, lambda: _preview(server, "inst_002", "Hello.")),
        _delay("turn of the imported story", server, lambda: _turn(server)),
        _delay("first page of the imported story", server, lambda: _page(server)),
    ]


def _delay(name: str, server: Served, work: Callable[[], object], at_most: float | None = None) -> Figure:
    """Measure the longest delay of ``/healthz`` while some work is done."""
    with _probing(server) as found:
        start = time.monotonic()
        work()
        took = time.monotonic() - start
    longest = max((delay for _, delay in found), default=0.0)
    return Figure(
        f"/healthz during: {name}, longest", longest * 1e3, "ms", at_most, note=f"took {took:.2f} s"
    )


@contextmanager
def _probing(server: Served) -> Generator[list[tuple[float, float]]]:
    command = [sys.executable, "-m", "bench.probe", server.url]
    found: list[tuple[float, float]] = []
    with subprocess.Popen(
        command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as probe:
        assert probe.stdout is not None
        probe.stdout.readline()  # it has begun
        yield found
        rows = probe.communicate()[0].splitlines()
        found += [(float(start), float(delay)) for start, delay in (row.split() for row in rows)]


def _chat() -> bytes:
    header: dict[str, object] = {"user_name": "U", "character_name": "Maren", "chat_metadata": {}}
    said = [{"name": "x", "is_user": at % 2 == 0, "mes": _MESSAGE} for at in range(2 * _TURNS)]
    rows: list[object] = [header, *said]
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def _input() -> str:
    return (_SENTENCE * _LONGEST_INPUT)[:_LONGEST_INPUT]


def _import(server: Served, content: bytes) -> None:
    headers = {"content-type": "application/octet-stream"}
    address = f"{server.url}/api/import?name=chat.jsonl&id=inst_002"
    httpx.post(address, content=content, headers=headers, timeout=300).raise_for_status()


def _preview(server: Served, instance_id: str, text: str) -> None:
    address = f"{server.url}/api/instances/{instance_id}/prompt"
    httpx.post(address, json={"text": text}, timeout=300).raise_for_status()


def _turn(server: Served) -> None:
    said = httpx.post(f"{server.url}/api/instances/inst_002/turns", json={"text": "Hello."}, timeout=300)
    httpx.get(f"{server.url}{said.json()['stream']}", timeout=300)


def _page(server: Served) -> None:
    httpx.get(f"{server.url}/api/instances/inst_002/sessions/sess_001/turns", timeout=300).raise_for_status()


def _memory(server: Served, field: str) -> int:
    rows = dict(
        row.split(":", 1) for row in Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    )
    return int(rows[field].split()[0]) * 1024
