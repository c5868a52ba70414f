"""Background runs of the lab that belong to the server, so that a client can disconnect and come back."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Literal

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from mcp_server.progress import Steps
from mcp_server.texts import tell
from personalab.errors import Busy
from personalab.texts import Language

Kind = Literal["evaluate", "iterate"]
Event = dict[str, Any]

_LOOK_SECONDS = 0.2
"""Minimum seconds between two progress notifications to a client."""
_CLOSING_SECONDS = 5.0
_KEPT = 64
"""Number of projects whose last run's end is kept."""
_log = logging.getLogger("personalab.mcp")


@dataclass(eq=False)
class LabRun:
    """A run under way, and the last that was heard of it."""

    project: str
    kind: Kind
    event: Event | None = None
    task: asyncio.Task[Event] = field(init=False)


class Runs:
    """The runs of this server, one a project."""

    def __init__(self) -> None:
        self._running: dict[str, LabRun] = {}
        self._ended: OrderedDict[str, Event] = OrderedDict()
        self._closing = False

    def of(self, project: str) -> LabRun | None:
        """Find the run of a project."""
        return self._running.get(project)

    def ended(self, project: str) -> Event | None:
        """Return how the last run of a project in this server ended, unless it was already reported."""
        return self._ended.get(project)

    def begin(self, project: str, kind: Kind, stream: AsyncGenerator[Any]) -> LabRun:
        """Start a run that continues whatever becomes of the call."""
        if self._closing:
            raise Busy("server_ending")
        run = LabRun(project, kind)
        self._ended.pop(project, None)
        self._running[project] = run
        run.task = asyncio.create_task(_consumed(run, stream))
        run.task.add_done_callback(lambda task: self._end(run, task))
        return run

    def _end(self, run: LabRun, task: asyncio.Task[Event]) -> None:
        self._running.pop(run.project, None)
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            _log.error("the run of %s failed", run.project, exc_info=error)
            told: Event = {"status": "error", "error": {"message": type(error).__name__}}
        else:
            told = task.result()
        self._ended[run.project] = {"kind": run.kind, **told}
        while len(self._ended) > _KEPT:
            self._ended.popitem(last=False)

    async def follow(self, ctx: Context[Any], run: LabRun, language: Language) -> Event:
        """Report a run's progress to the client until it ends; leaving early does not end the run."""
        steps, told = Steps(ctx), None
        while not run.task.done():
            if run.event is not None and run.event is not told:
                told = run.event
                steps.tell(step(told, language))
            await asyncio.wait([run.task], timeout=_LOOK_SECONDS)
        if run.event is not None and run.event is not told:
            steps.tell(step(run.event, language))
        await steps.end()
        if run.task.cancelled():
            raise ToolError(tell("run_cancelled", language, project=run.project))
        return run.task.result()

    async def close(self) -> None:
        """End all runs; they are interrupted, and the next call goes on with them."""
        self._closing = True
        tasks = [run.task for run in self._running.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSING_SECONDS)


async def _consumed(run: LabRun, stream: AsyncGenerator[Any]) -> Event:
    """Run to the result, noting how far it is."""
    found: Event = {}
    async with aclosing(stream) as parts:
        async for part in parts:
            if "type" not in part:
                found = dict(part)
            elif part["type"] == "progress":
                run.event = dict(part)
    return found


def step(event: Event, language: Language) -> str:
    """Word how far a run is."""
    stage = tell(f"stage.{event.get('stage', 'execute')}", language) or str(event.get("stage", ""))
    said = tell("run_step", language, stage=stage, done=event.get("done", 0), total=event.get("total", 0))
    if event.get("round"):
        said = tell("run_round", language, number=event["round"], step=said)
    if event.get("failed"):
        said += tell("run_failed", language, count=event["failed"])
    return said
