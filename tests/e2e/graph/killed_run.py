"""A program that runs projects and is killed. The tests start it, and it reads lines of JSON.

It imports everything once and forks for each run, because a start takes seconds. A line names the data root,
the project and after how many seconds the run is killed (``null``: not at all); the answer is how it ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
import traceback

from graph.evaluate import stream_evaluate
from personalab.services import open_services
from personalab.settings import read_settings


async def _run(root: str, project: str) -> str:
    services = open_services(read_settings({"PERSONALAB_DATA": root, "PERSONALAB_BUSY_SECONDS": "30"}))
    status = ""
    async for part in stream_evaluate(services, {"project": project}):
        status = str(part.get("message") or part.get("status") or status)
    return status


def _child(root: str, project: str, out: int) -> None:
    try:
        os.write(out, asyncio.run(_run(root, project)).encode("utf-8"))
    except BaseException:  # noqa: BLE001 (the test is told)
        os.write(out, traceback.format_exc().encode("utf-8"))
    finally:
        os._exit(0)


def _once(root: str, project: str, seconds: float | None) -> str:
    """Run, and kill if it is to be killed; tell how it ended."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _child(root, project, write)
    os.close(write)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
    told = b""
    while piece := os.read(read, 65_536):
        told += piece
    os.close(read)
    _, status = os.waitpid(pid, 0)
    return "killed" if os.WIFSIGNALED(status) else told.decode("utf-8")


def main() -> None:
    """Serve until nobody asks any more."""
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        print(json.dumps(_once(*json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
