"""Progress notifications to the client during long work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

from mcp.server.mcpserver import Context

from mcp_server.results import well_formed
from mcp_server.texts import tell
from personalab.texts import Language


class Steps:
    """Sends progress to a client without waiting for delivery."""

    def __init__(self, ctx: Context[Any]) -> None:
        self._ctx = ctx
        self._told = 0
        self._telling: set[asyncio.Task[None]] = set()

    def tell(self, message: str) -> None:
        """Send the next step to the client."""
        self._told += 1
        task = asyncio.create_task(self._send(self._told, message))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _send(self, number: int, message: str) -> None:
        await self._ctx.report_progress(number, None, well_formed(message))

    async def end(self) -> None:
        """Wait until everything was sent."""
        if self._telling:
            await asyncio.wait(self._telling)


async def follow(ctx: Context[Any], stream: AsyncGenerator[Any], language: Language) -> dict[str, Any]:
    """Run a graph to its result, telling its progress."""
    found: dict[str, Any] = {}
    steps = Steps(ctx)
    async with aclosing(stream) as parts:
        async for part in parts:
            event = cast("dict[str, Any]", part)
            if "type" not in event:
                found = dict(event)
            elif event["type"] == "progress":
                steps.tell(tell("step", language, done=event["done"], total=event["total"]))
    await steps.end()
    return found
