"""How does a graph survive a caller who leaves in the middle?

LangGraph orphans a run that is consumed inside an anyio cancel scope (MCP and most web frameworks use them): when
the scope is cancelled, the running step is never told and goes on unseen. Here every run has a task of its own;
leaving, in whichever way, cancels that task and waits until its steps have cleaned up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, TypeVar

import anyio
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

T = TypeVar("T")
_END = object()


class PumpedGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph whose runs cannot be orphaned."""

    async def astream(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Any]:  # pyright: ignore[reportIncompatibleMethodOverride] (the same arguments, passed on)
        """Stream like any graph, from a task of its own."""
        async with aclosing(pumped(super().astream(*args, **kwargs))) as parts:
            async for part in parts:
                yield part


class PumpedBuilder(StateGraph[Any, Any, Any, Any]):
    """A graph builder that compiles to a ``PumpedGraph``."""

    def compile(self, *args: Any, **kwargs: Any) -> PumpedGraph:
        """Compile as usual; the class is changed afterwards, for the builder's own is fixed in LangGraph."""
        graph = super().compile(*args, **kwargs)
        graph.__class__ = PumpedGraph
        return graph  # pyright: ignore[reportReturnType] (it is one now)


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
