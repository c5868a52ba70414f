"""How is any graph run and followed?"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import cast

from graph.pumped import PumpedGraph
from graph.serving import Build
from nodes.chat_turn.state import TurnContext
from personalab.services import Services


async def stream_graph(
    services: Services, name: str, build: Build, call: object, model: str | None
) -> AsyncGenerator[object]:
    """Run a graph, compiled once a set of services; yield its events and, last, its result."""
    graph = cast("PumpedGraph | None", services.graphs.get(name))
    if graph is None:
        graph = services.graphs[name] = build(services).compile(name=name)
    parts = graph.astream(
        call, context=TurnContext(model=model), stream_mode=["custom", "values"], version="v2"
    )
    result: object = {}
    async with aclosing(parts) as stream:
        async for part in stream:
            if part["type"] == "custom":
                yield part["data"]
            else:
                result = part["data"]
    yield result
