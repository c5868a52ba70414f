"""The compaction of an archived conversation.

read_entries → draft_summary → store_compaction

Nothing is written before the last step, which writes everything at once. A caller of the graph names an
archive of the data root; only code in this process can name any other file.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path

from graph.runtime import (
    GraphBuilder,
    RunnableGraph,
    StepContext,
    Update,
    Work,
    load_graph,
    stream_graph,
)
from nodes.compact.draft_summary import draft_summary
from nodes.compact.read_entries import read_entries
from nodes.compact.state import CompactInput, CompactOutput, CompactState
from nodes.compact.store_compaction import store_compaction
from personalab.archive.veloca_archive import check_archive_name
from personalab.operations.archives import archive_at
from personalab.ports import ConversationArchive
from personalab.services import Services
from personalab.story.events import Event

_FRESH: Update = {"status": "running", "error": None, "dialogue": None, "entries": 0, "usage": None}


def build_compact(services: Services, file: Path | None = None) -> GraphBuilder:
    """Join the three steps over the given services, for archives of the data root or for one file."""

    def add_archive(
        work: Callable[[CompactState, ConversationArchive, StepContext], Awaitable[Update]],
    ) -> Work[None]:
        async def run(state: CompactState, _: None, step: StepContext) -> Update:
            if file is not None:
                archive = archive_at(services, file)
            else:
                archive = services.story_ports.archive(check_archive_name(state.get("archive")))
            return {"archive": archive.name, **await work(state, archive, step)}

        return run

    async def draft(state: CompactState, archive: ConversationArchive, step: StepContext) -> Update:
        tell = step.report_progress
        return await draft_summary(state, services=services, archive=archive, model=step.model, tell=tell)

    steps = {
        "read_entries": add_archive(lambda state, archive, _: read_entries(state, archive=archive)),
        "draft_summary": add_archive(draft),
        "store_compaction": add_archive(lambda state, archive, _: store_compaction(state, archive=archive)),
    }
    builder = GraphBuilder(services, CompactState, input_schema=CompactInput, output_schema=CompactOutput)
    builder.add_chain(steps, _FRESH)
    return builder


async def make_graph() -> RunnableGraph:
    """Return the graph to a server that loads it by name (``langgraph.json``), and does so for every run."""
    return await load_graph("compact", build_compact)


async def stream_compact(
    services: Services, call: CompactInput, *, model: str | None = None, file: Path | None = None
) -> AsyncGenerator[Event | CompactOutput]:
    """Compact; yield progress as it happens and, last, the result (the one without a ``type``)."""
    name = f"compact {file}" if file else "compact"
    run = stream_graph(services, name, partial(build_compact, file=file), call, model)
    async with aclosing(run) as stream:
        async for part in stream:
            yield part
