"""Print which files of ours a turn passes on its way from each entrance to its first step.

``python -m tools.trace_turn`` plays one turn through the terminal, the page's API, MCP and Python in a temporary data
root. A path holds the files of the functions that are on the stack when ``append_input`` begins, outermost first,
with the stacks that created the tasks in between. docs/architecture.md shows the output.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from weakref import WeakKeyDictionary

from graph.chat_turn import run_turn
from nodes.chat_turn.append_input import append_input
from personalab.operations.instances import new_instance
from personalab.services import Services, open_services

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("cli", "graph", "mcp_server", "nodes", "personalab", "web")
_CREATE_TASK = asyncio.BaseEventLoop.create_task.__code__
STORY = "traced"


class Trace:
    """The path to the first call of a function."""

    def __init__(self, target: CodeType) -> None:
        self._target = target
        self._origins: WeakKeyDictionary[asyncio.Task[Any], list[str]] = WeakKeyDictionary()
        self.path: list[str] = []

    def __call__(self, frame: FrameType, event: str, result: Any) -> None:
        """Follow calls (see ``sys.setprofile``)."""
        if event == "return" and frame.f_code is _CREATE_TASK and isinstance(result, asyncio.Task):
            self._origins[result] = self._files(frame)
        elif event == "call" and frame.f_code is self._target and not self.path:
            self.path = self._files(frame)

    def _files(self, frame: FrameType) -> list[str]:
        """List our files on the stack, after those that led to the running task."""
        stack: list[str] = []
        at: FrameType | None = frame
        while at is not None:
            stack.append(at.f_code.co_filename)
            at = at.f_back
        files = [name for name in map(_our_file, reversed(stack)) if name]
        try:
            task = asyncio.current_task()
        except RuntimeError:
            task = None
        before = self._origins.get(task, []) if task is not None else []
        return list(dict.fromkeys([*before, *files]))


def _our_file(filename: str) -> str | None:
    path = Path(filename)
    if not path.is_relative_to(ROOT):
        return None
    name = path.relative_to(ROOT).as_posix()
    return name if name.startswith(tuple(f"{folder}/" for folder in FOLDERS)) else None


@contextmanager
def tracing() -> Generator[Trace]:
    """Follow all calls of this thread."""
    trace = Trace(append_input.__code__)
    sys.setprofile(trace)
    try:
        yield trace
    finally:
        sys.setprofile(None)


def from_python(services: Services) -> list[str]:
    """Trace a turn of a Python program."""

    async def play() -> None:
        await run_turn(services, {"instance_id": STORY, "user_input": "Hello."})

    with tracing() as trace:
        asyncio.run(play())
    return trace.path


def from_terminal(services: Services) -> list[str]:
    """Trace ``personalab say``."""
    from cli.running import run

    before = sys.argv
    sys.argv = ["personalab", "say", STORY, "Hello."]
    try:
        with tracing() as trace, contextlib.redirect_stdout(io.StringIO()):
            run()
    finally:
        sys.argv = before
    return trace.path


def from_page(services: Services) -> list[str]:
    """Trace the request that the page sends for a turn."""
    import httpx2

    from web.joining import whole_app

    async def play() -> None:
        app = whole_app(lambda: services)
        transport = httpx2.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765") as client,
        ):
            answer = await client.post(f"/api/instances/{STORY}/turns", json={"text": "Hello."})
            answer.raise_for_status()
            await asyncio.sleep(0.2)

    with tracing() as trace:
        asyncio.run(play())
    return trace.path


def from_mcp(services: Services) -> list[str]:
    """Trace the MCP tool ``persona_chat``."""
    from mcp import Client

    from mcp_server.server import build_server

    async def play() -> None:
        async with Client(build_server(services)) as client:
            await client.call_tool("persona_chat", {"instance_id": STORY, "text": "Hello."})

    with tracing() as trace:
        asyncio.run(play())
    return trace.path


ENTRANCES: dict[str, Callable[[Services], list[str]]] = {
    "Python": from_python,
    "terminal": from_terminal,
    "page": from_page,
    "MCP": from_mcp,
}


def trace_all() -> dict[str, list[str]]:
    """Trace a turn from each entrance, each in a data root of its own."""
    found: dict[str, list[str]] = {}
    for name, entrance in ENTRANCES.items():
        with tempfile.TemporaryDirectory() as folder:
            os.environ |= {"PERSONALAB_DATA": folder, "PERSONALAB_MODEL": "rehearsal"}
            services = open_services()
            asyncio.run(new_instance(services, "char_maren", "bg_lighthouse", instance_id=STORY))
            found[name] = entrance(services)
    return found


if __name__ == "__main__":
    for name, files in trace_all().items():
        sys.stdout.write(f"{name}: {' → '.join(files)}\n")
