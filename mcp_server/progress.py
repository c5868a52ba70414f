"""Progress notifications of a tool call, with a heartbeat, and of the graph it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

from mcp.server.mcpserver import Context
from mcp_types import InputResponseRequestParams

from mcp_server.results import well_formed
from mcp_server.texts import tell
from personalab.tasks import end_tasks
from personalab.texts import Language

HEARTBEAT_SECONDS = 5.0
"""Longest time without a progress notification while a tool runs: clients with idle timeouts keep waiting."""


class ReportingContext(Context[None, Any]):
    """The context of a tool call whose progress always increases, also when several parts of the tool report it.

    Reporting does nothing for a client that asked for no progress. A client that stopped listening does not end the
    tool: nothing is reported from then on.
    """

    _reported: float = 0
    _reported_at: float = 0
    _sending: asyncio.Lock
    _is_listening: bool = True

    def __init__(self, context: Context[None, Any], **more: Any) -> None:
        answers = InputResponseRequestParams(
            input_responses=context.input_responses, request_state=context.request_state
        )
        super().__init__(request_context=context.request_context, input_params=answers, **more)
        self._sending = asyncio.Lock()
        self._reported_at = asyncio.get_running_loop().time()

    async def report_progress(
        self, progress: float = 0, total: float | None = None, message: str | None = None
    ) -> None:
        """Send a notification; its progress is one more than the last where the given one is not greater."""
        async with self._sending:
            if not self._is_listening:
                return
            self._reported = progress if progress > self._reported else self._reported + 1
            try:
                await super().report_progress(self._reported, total, message)
            except Exception:  # noqa: BLE001 (a client that stopped listening must not end the tool)
                self._is_listening = False
            self._reported_at = asyncio.get_running_loop().time()

    @asynccontextmanager
    async def heartbeat(self, seconds: float) -> AsyncGenerator[None]:
        """Send a notification without a message whenever none was sent for so many seconds."""
        beating = asyncio.create_task(self._beat(seconds))
        try:
            yield
        finally:
            await end_tasks([beating])

    async def _beat(self, seconds: float) -> None:
        while self._is_listening:
            silent = asyncio.get_running_loop().time() - self._reported_at
            if silent < seconds:
                await asyncio.sleep(seconds - silent)
            else:
                await self.report_progress()


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
