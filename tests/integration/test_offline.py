"""Nothing is fetched: a turn, its recall and its count run where every connection is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]

_ALONE = """
import socket
def refuse(self, address):
    if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "::1", "localhost"):
        raise AssertionError(f"a connection to {address} was tried")
    return real(self, address)
real = socket.socket.connect
socket.socket.connect = refuse
def lookup(host, *rest, **more):
    raise AssertionError(f"{host} was looked up")
socket.getaddrinfo = lookup
import asyncio
from graph.chat_turn import run_turn
from personalab.operations.instances import new_instance
from personalab.operations.reindex import reindex
from personalab.services import open_services
async def main():
    services = open_services()
    await new_instance(services, "char_alserqi", "bg_wasteland", "a")
    await new_instance(services, "char_alserqi", "bg_wasteland", "b")
    for text in ("你好", "我们约定在灯塔见面", "你还记得约定吗？"):
        result = await run_turn(services, {"instance_id": "a", "user_input": text})
        assert result["status"] == "done", result
    rebuilt = await reindex(services)
    assert rebuilt.counts["turn"] == 3, rebuilt
    from personalab.operations.recall import look_up
    found = await look_up(services, "a", "约定")
    assert found, "nothing was recalled"
    print("done")
asyncio.run(main())
"""


def test_a_turn_and_its_recall_connect_to_nothing_but_loopback() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ALONE],
        cwd=PROJECT,
        env={**os.environ},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["done"]
