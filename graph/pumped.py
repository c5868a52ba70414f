"""How does a graph survive a caller who leaves in the middle?

LangGraph orphans a run that is consumed inside an anyio cancel scope (MCP and most web frameworks use them): when
the scope is cancelled, the running step is never told and goes on unseen. Here every run has a task of its own;
leaving, in whichever way, cancels that task and waits until its steps have cleaned up. What the run held is
released with it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, TypeVar

import anyio
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

from personalab.storage.leases import held_by_this_run

T = TypeVar("T")


class PumpedGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph whose runs cannot be orphaned."""

    def astream(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Any]:  # pyright: ignore[reportIncompatibleMethodOverride] (the same arguments, passed on)
        """Stream like any graph, from a task of its own."""
        return pumped(super().astream(*args, **kwargs))


class PumpedBuilder(StateGraph[Any, Any, Any, Any]):
    """A graph builder that compiles to a ``PumpedGraph``."""

    def compile(self, *args: Any, **kwargs: Any) -> PumpedGraph:
        """Compile as usual; the class is changed afterwards, for the builder's own is fixed in LangGraph."""
        graph = super().compile(*args, **kwargs)
        graph.__class__ = PumpedGraph
        return graph  # pyright: ignore[reportReturnType] (it is one now)


async def pumped(stream: AsyncIterator[T]) -> AsyncGenerator[T]:
    """Consume a stream in a task of its own; whoever stops listening waits for its clean-up."""
    waiting: deque[T] = deque()
    news = asyncio.Event()

    async def pump() -> None:
        try:
            with held_by_this_run():
                async for part in stream:
                    if not waiting:
                        news.set()
                    waiting.append(part)
        finally:
            news.set()

    task = asyncio.create_task(pump())
    try:
        while True:
            while waiting:
                yield waiting.popleft()
            if task.done():
                await task
                return
            news.clear()
            if not waiting and not task.done():
                await news.wait()
                await asyncio.sleep(0)
    finally:
        task.cancel()
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError), anyio.CancelScope(shield=True):
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()
