"""How does an entrance consume a turn so that leaving early always ends it properly?

A graph consumed directly inside an anyio cancel scope (MCP and most web frameworks use them) is orphaned when the
scope is cancelled: the step is never told and runs on unseen. Here the graph runs in a task of its own;
leaving, in whichever way, cancels that task and waits until the reply's line is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, TypeVar, cast

import anyio

from graph.chat_turn import build_chat_turn
from nodes.chat_turn.state import TurnContext, TurnInput, TurnOutput
from personalab.services import Services
from personalab.story.events import Event

_END = object()
T = TypeVar("T")


async def stream_turn(
    services: Services, turn: TurnInput, *, model: str | None = None
) -> AsyncGenerator[Event | TurnOutput]:
    """Run a turn; yield its events as they happen and, last, its result (the one without a ``type``)."""
    graph = build_chat_turn(services).compile(name="chat_turn")
    parts = graph.astream(
        turn, context=TurnContext(model=model), stream_mode=["custom", "values"], version="v2"
    )
    result: TurnOutput = {}
    async with aclosing(pumped(cast("AsyncIterator[dict[str, Any]]", parts))) as stream:
        async for part in stream:
            if part["type"] == "custom":
                yield cast("Event", part["data"])
            else:
                result = cast("TurnOutput", part["data"])
    yield result


async def run_turn(services: Services, turn: TurnInput, *, model: str | None = None) -> TurnOutput:
    """Run a turn for its result alone."""
    result: TurnOutput = {}
    async with aclosing(stream_turn(services, turn, model=model)) as stream:
        async for part in stream:
            if "type" not in part:
                result = cast("TurnOutput", part)
    return result


async def pumped(stream: AsyncIterator[T]) -> AsyncGenerator[T]:
    """Consume a stream in a task of its own; whoever stops listening waits for its clean-up."""
    queue: asyncio.Queue[Any] = asyncio.Queue()

    async def pump() -> None:
        try:
            async for part in stream:
                queue.put_nowait(part)
        finally:
            queue.put_nowait(_END)

    task = asyncio.create_task(pump())
    try:
        while (part := await queue.get()) is not _END:
            yield part
        await task
    finally:
        if not task.done():
            task.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([task])
