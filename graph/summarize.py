"""How is a summary joined?

read_session → draft_points → store_summary → index_summary → switch_session

Until the last step the old session is the current one, whatever happens.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from itertools import pairwise
from typing import Any, cast

from langgraph.graph import END, START
from langgraph.runtime import Runtime

from graph.pumped import PumpedBuilder, PumpedGraph
from graph.serving import served
from graph.streaming import stream_graph
from nodes.chat_turn.state import TurnContext
from nodes.summarize.draft_points import draft_points
from nodes.summarize.index_summary import index_summary
from nodes.summarize.read_session import read_session
from nodes.summarize.state import SummaryInput, SummaryOutput, SummaryState
from nodes.summarize.store_summary import store_summary
from nodes.summarize.switch_session import switch_session
from personalab.errors import PersonaLabError
from personalab.services import Services
from personalab.storage.leases import Lease
from personalab.story.events import Event, error_event

Update = dict[str, Any]
Work = Callable[[SummaryState, Lease, Runtime[TurnContext]], Awaitable[Update]]


def build_summarize(services: Services) -> PumpedBuilder:
    """Join the five steps over the given services."""

    async def draft(state: SummaryState, lease: Lease, runtime: Runtime[TurnContext]) -> Update:
        name = (runtime.context or TurnContext()).model

        def tell(done: int, total: int) -> None:
            runtime.stream_writer({"type": "progress", "turn": None, "done": done, "total": total})

        return await draft_points(
            state,
            services=services,
            lease=lease,
            model=await services.model(name),
            counter=await services.counter(name),
            tell=tell,
        )

    steps: dict[str, Work] = {
        "draft_points": draft,
        "store_summary": lambda state, lease, runtime: store_summary(state, services=services),
        "index_summary": lambda state, lease, runtime: index_summary(state, services=services),
        "switch_session": lambda state, lease, runtime: switch_session(state, services=services),
    }
    builder = PumpedBuilder(
        SummaryState, context_schema=TurnContext, input_schema=SummaryInput, output_schema=SummaryOutput
    )
    builder.add_node("read_session", _opening(services))
    for name, step in steps.items():
        builder.add_node(name, _guarded(step, services))
    builder.add_edge(START, "read_session")
    order = ["read_session", *steps]
    for name, following in pairwise(order):
        builder.add_conditional_edges(name, _then(following), [following, END])
    builder.add_edge("switch_session", END)
    return builder


async def make_graph() -> PumpedGraph:
    """Give the graph to a server that loads it by name (``langgraph.json``), and does so for every run."""
    return await served("summarize", build_summarize)


async def stream_summary(
    services: Services, summary: SummaryInput, *, model: str | None = None
) -> AsyncGenerator[Event | SummaryOutput]:
    """Summarise; yield progress and warnings as they happen and, last, the result (the one without a ``type``)."""
    async with aclosing(stream_graph(services, "summarize", build_summarize, summary, model)) as stream:
        async for part in stream:
            yield cast("Event | SummaryOutput", part)


_FRESH: Update = {"status": "running", "error": None, "points": [], "warnings": [], "usage": None}


def _opening(services: Services) -> Callable[..., Awaitable[Update]]:
    async def node(state: SummaryState, runtime: Runtime[TurnContext]) -> Update:
        try:
            return {**_FRESH, **await read_session(state, services=services)}
        except PersonaLabError as error:
            return {**_FRESH, **_failed(error, services, runtime)}

    return node


def _guarded(step: Work, services: Services) -> Callable[..., Awaitable[Update]]:
    """Run a later step under the lease; an error of ours ends the summary with an event."""

    async def node(state: SummaryState, runtime: Runtime[TurnContext]) -> Update:
        try:
            lease = await services.leases.again(
                state.get("lease", ""),
                state.get("instance_id", ""),
                "summarize",
                wait=services.settings.busy_seconds,
            )
            update = await step(state, lease, runtime)
        except PersonaLabError as error:
            return _failed(error, services, runtime)
        for warning in update.get("warnings", []):
            runtime.stream_writer(warning)
        if state.get("preview") and "points" in update:
            update["status"] = "preview"
        return update

    return node


def _failed(error: PersonaLabError, services: Services, runtime: Runtime[TurnContext]) -> Update:
    event = error_event(error, None, services.turns.language())
    runtime.stream_writer(event)
    return {"status": "error", "error": dict(event)}


def _then(following: str) -> Callable[[SummaryState], Awaitable[str]]:
    """Go on while nothing went wrong and more than a preview is wanted."""

    async def choose(state: SummaryState) -> str:
        return following if state.get("status") == "running" else END

    return choose
