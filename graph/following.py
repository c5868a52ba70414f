"""How is any graph run and followed?"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import cache
from typing import cast, get_type_hints

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime

from graph.pumped import PumpedGraph
from graph.serving import Build
from nodes.asking import never
from nodes.chat_turn.state import NestedContext, TurnContext
from personalab.errors import UserError
from personalab.services import Services

_EPOCH = "1970"
"""LangGraph names every run by the time since then, and fails with no error of Python's where there is none."""


async def stream_graph(
    services: Services,
    name: str,
    build: Build,
    call: object,
    model: str | None,
    stop_asked: Callable[[], bool] | None = None,
    on_state: Callable[[dict[str, object]], None] | None = None,
    config: RunnableConfig | None = None,
) -> AsyncGenerator[object]:
    """Run a graph, compiled once a set of services; yield its events and, last, its result.

    ``stop_asked`` is for a run inside another one, which alone can be asked to stop. ``on_state`` is called with the
    state after each step but the last.
    """
    if (now := services.now()) < _EPOCH:
        raise UserError("clock_too_early", now=now)
    graph = cast("PumpedGraph | None", services.graphs.get(name))
    if graph is None:
        graph = services.graphs[name] = build(services).compile(name=name)
    context = NestedContext(model=model, stop_asked=stop_asked) if stop_asked else TurnContext(model=model)
    parts = graph.astream(call, config, context=context, stream_mode=["custom", "values"], version="v2")
    result: dict[str, object] = {}
    async with aclosing(parts) as stream:
        async for part in stream:
            if part["type"] == "custom":
                yield part["data"]
            else:
                result = part["data"]
                if on_state is not None and result.get("status") == "running":
                    on_state(result)
    told = _fields(graph.builder.output_schema)
    yield {field: value for field, value in result.items() if field in told}


@cache
def _fields(schema: type) -> frozenset[str]:
    """Name what a graph tells its caller; the rest is between its steps."""
    return frozenset(get_type_hints(schema))


def stop_asked_of(runtime: Runtime[TurnContext]) -> Callable[[], bool]:
    """Find what tells a run inside another one that it is asked to stop."""
    context = runtime.context
    return context.stop_asked if isinstance(context, NestedContext) else never
