"""How does a graph survive a caller who leaves in the middle?

LangGraph orphans a run that is consumed inside an anyio cancel scope (MCP and most web frameworks use them): when
the scope is cancelled, the running step is never told and goes on unseen. Here every run has a task of its own;
leaving, in whichever way, cancels that task and waits until its steps have cleaned up. What the run held is
released with it. A run inside a run of someone else's graph looks now and then whether that one still exists.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import Any, TypeVar

import anyio
from langchain_core.runnables import RunnableConfig
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

from graph.abandonment import find_parents
from graph.context import known_context
from personalab.storage.leases import STOP_POLL_SECONDS, held_by_this_run

T = TypeVar("T")


class PumpedGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph whose runs cannot be orphaned."""

    def astream(  # pyright: ignore[reportIncompatibleMethodOverride] (the same arguments, passed on)
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncGenerator[Any]:
        """Stream like any graph, from a task of its own."""
        if "context" in kwargs:
            kwargs["context"] = known_context(self.context_schema, kwargs["context"])
        return pumped(super().astream(input, config, **kwargs), find_parents(config))


class PumpedBuilder(StateGraph[Any, Any, Any, Any]):
    """A graph builder that compiles to a ``PumpedGraph``."""

    def compile(self, *args: Any, **kwargs: Any) -> PumpedGraph:
        """Compile as usual; the class is changed afterwards, for the builder's own is fixed in LangGraph."""
        graph = super().compile(*args, **kwargs)
        graph.__class__ = PumpedGraph
        return graph  # pyright: ignore[reportReturnType] (it is one now)


async def pumped(stream: AsyncIterator[T], parents: Sequence[Callable[[], bool]] = ()) -> AsyncGenerator[T]:
    """Consume a stream in a task of its own; whoever stops listening waits for its clean-up.

    When one of the ``parents`` no longer exists, the listener is cancelled.
    """
    waiting: deque[T] = deque()
    news = asyncio.Event()
    outer = _OuterRuns(parents)

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
                await outer.wait(news)
                await asyncio.sleep(0)
    finally:
        task.cancel()
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError), anyio.CancelScope(shield=True):
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()


class _OuterRuns:
    """The runs around this one, looked at every now and then."""

    def __init__(self, parents: Sequence[Callable[[], bool]]) -> None:
        self._parents = parents
        self._checked = asyncio.get_running_loop().time()

    async def wait(self, news: asyncio.Event) -> None:
        """Wait for news; raise the cancellation that LangGraph should have sent if an outer run was abandoned."""
        if not self._parents:
            await news.wait()
            return
        loop = asyncio.get_running_loop()
        while True:
            if loop.time() - self._checked >= STOP_POLL_SECONDS:
                self._checked = loop.time()
                if not all(exists() for exists in self._parents):
                    raise asyncio.CancelledError("the run of the parent graph was abandoned")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), STOP_POLL_SECONDS)
                return
