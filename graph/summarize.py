"""The summary of a session.

read_session → draft_points → store_summary → index_summary → switch_session

Until the last step the old session is the current one, whatever happens. While the model writes its points,
the turns are indexed, because they are final already.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from graph.runtime import (
    GraphBuilder,
    RunnableGraph,
    StepContext,
    Update,
    Work,
    instance_lock,
    load_graph,
    stream_graph,
)
from nodes.summarize import (
    SummaryInput,
    SummaryOutput,
    SummaryState,
    draft_points,
    index_summary,
    index_turns,
    read_session,
    store_summary,
    switch_session,
)
from personalab.leases import Lease
from personalab.services import Services
from personalab.story.events import Event
from personalab.tasks import end_tasks

_FRESH: Update = {"status": "running", "error": None, "points": [], "warnings": [], "usage": None}


def build_summarize(services: Services) -> GraphBuilder:
    """Join the five steps over the given services."""

    async def draft(state: SummaryState, lease: Lease, step: StepContext) -> Update:
        indexing: list[asyncio.Task[bool]] = []

        def report_progress(done: int, total: int) -> None:
            step.report_progress(done, total)
            if not indexing and not state.get("preview"):  # the first question goes out before it
                indexing.append(asyncio.create_task(index_turns(state, services=services)))

        try:
            update = await draft_points(
                state,
                services=services,
                lease=lease,
                model=await services.model(step.model),
                counter=await services.counter(step.model),
                report_progress=report_progress,
            )
            return {**update, "turns_indexed": bool(indexing) and await indexing[0]}
        finally:
            await end_tasks(indexing, 0.5)

    async def index(state: SummaryState, _: Lease, step: StepContext) -> Update:
        return step.emit_warnings(await index_summary(state, services=services))

    steps: dict[str, Work[Lease]] = {
        "read_session": lambda state, lease, step: read_session(state, services=services),
        "draft_points": draft,
        "store_summary": lambda state, lease, step: store_summary(state, services=services, lease=lease),
        "index_summary": index,
        "switch_session": lambda state, lease, step: switch_session(
            state, stories=services.story_ports.stories, lease=lease
        ),
    }
    builder = GraphBuilder(services, SummaryState, input_schema=SummaryInput, output_schema=SummaryOutput)
    builder.add_chain(steps, _FRESH, instance_lock("summarize"))
    return builder


async def make_graph() -> RunnableGraph:
    """Return the graph to a server that loads it by name (``langgraph.json``), and does so for every run."""
    return await load_graph("summarize", build_summarize)


async def stream_summary(
    services: Services, summary: SummaryInput, *, model: str | None = None
) -> AsyncGenerator[Event | SummaryOutput]:
    """Summarise; yield progress and warnings as they happen and, last, the result (the one without a ``type``)."""
    async with aclosing(stream_graph(services, "summarize", build_summarize, summary, model)) as stream:
        async for part in stream:
            yield part
