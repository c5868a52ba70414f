"""How is the compaction of an archived conversation joined?

read_entries → draft_summary → store_compaction

Nothing is written before the last step, which writes all of it at once. A caller of the graph names an archive of the
data root; only code in this process can name any other file.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import cast

from langgraph.graph import END, START
from langgraph.runtime import Runtime

from graph.following import stream_graph
from graph.leased import Update, model_of, told_by
from graph.pumped import PumpedBuilder, PumpedGraph
from graph.serving import served
from nodes.chat_turn.state import TurnContext
from nodes.compact.draft_summary import draft_summary
from nodes.compact.read_entries import read_entries
from nodes.compact.state import CompactInput, CompactOutput, CompactState
from nodes.compact.store_compaction import store_compaction
from personalab.errors import PersonaLabError
from personalab.operations.archives import ArchivePlace, archive_of
from personalab.services import Services
from personalab.story.events import Event, error_event

Node = Callable[..., Awaitable[Update]]
Step = Callable[[CompactState, ArchivePlace, Runtime[TurnContext]], Awaitable[Update]]

_FRESH: Update = {"status": "running", "error": None, "dialogue": None, "entries": 0, "usage": None}


def build_compact(services: Services, file: Path | None = None) -> PumpedBuilder:
    """Join the three steps over the given services, for archives of the data root or for one file."""

    async def draft(state: CompactState, place: ArchivePlace, runtime: Runtime[TurnContext]) -> Update:
        model, tell = model_of(runtime), told_by(runtime)
        return await draft_summary(state, services=services, place=place, model=model, tell=tell)

    steps: dict[str, Step] = {
        "read_entries": lambda state, place, _: read_entries(state, place=place),
        "draft_summary": draft,
        "store_compaction": lambda state, place, _: store_compaction(state, place=place),
    }
    builder = PumpedBuilder(
        CompactState, context_schema=TurnContext, input_schema=CompactInput, output_schema=CompactOutput
    )
    for name, step in steps.items():
        fresh = _FRESH if name == "read_entries" else {}
        builder.add_node(name, _guarded(step, services, file, fresh))
    builder.add_edge(START, "read_entries")
    for name, following in pairwise(steps):
        builder.add_conditional_edges(name, _then(following), [following, END])
    builder.add_edge("store_compaction", END)
    return builder


async def make_graph() -> PumpedGraph:
    """Give the graph to a server that loads it by name (``langgraph.json``), and does so for every run."""
    return await served("compact", build_compact)


async def stream_compact(
    services: Services, call: CompactInput, *, model: str | None = None, file: Path | None = None
) -> AsyncGenerator[Event | CompactOutput]:
    """Compact; yield progress as it happens and, last, the result (the one without a ``type``)."""
    name = f"compact {file}" if file else "compact"
    run = stream_graph(services, name, partial(build_compact, file=file), call, model)
    async with aclosing(run) as stream:
        async for part in stream:
            yield cast("Event | CompactOutput", part)


def _guarded(step: Step, services: Services, file: Path | None, fresh: Update) -> Node:
    """Run a step on its archive; an error of ours ends the work."""

    async def node(state: CompactState, runtime: Runtime[TurnContext]) -> Update:
        try:
            place = archive_of(services, name=state.get("archive"), file=file)
            return {**fresh, "archive": place.path.name, **await step(state, place, runtime)}
        except PersonaLabError as error:
            language = await asyncio.to_thread(services.turns.language)
            event = error_event(error, None, language)
            runtime.stream_writer(event)
            return {**fresh, "status": "error", "error": dict(event)}

    return node


def _then(following: str) -> Callable[[CompactState], Awaitable[str]]:
    async def choose(state: CompactState) -> str:
        return following if state.get("status") == "running" else END

    return choose
