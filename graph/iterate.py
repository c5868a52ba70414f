"""A search for a better skill.

prepare → propose → evaluate_candidates → propose → … → conclude

Every proposal is made from the results on disk, so a run that was interrupted anywhere resumes where it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from functools import partial

from langgraph.graph import END

from graph.runtime import (
    GraphBuilder,
    RunnableGraph,
    StepContext,
    Update,
    load_graph,
    locked_step,
    stream_graph,
)
from nodes.iterate.conclude import conclude
from nodes.iterate.evaluate_candidates import evaluate_candidates
from nodes.iterate.prepare import prepare
from nodes.iterate.propose import propose
from nodes.iterate.state import IterateInput, IterateOutput, IterateState
from personalab.leases import Lease
from personalab.operations.lab.iterating import TASK
from personalab.operations.lab.projects import durable
from personalab.services import Services
from personalab.storage.lab.projects import ProjectPlace
from personalab.story.events import Event
from personalab.story.records import check_given

Project = tuple[ProjectPlace, Lease]

_FRESH: Update = {
    "status": "running", "error": None, "report": None, "best": None, "skill_id": None, "stop_cause": None,
    "round": 0, "evaluations": 0, "batch": 0, "ended_by": None, "ended_before": False,
}  # fmt: skip


def build_iterate(services: Services) -> GraphBuilder:
    """Join the steps over the given services."""

    @asynccontextmanager
    async def locked(state: IterateState, step: StepContext) -> AsyncGenerator[Project]:
        place = await asyncio.to_thread(_found, services, state.get("project"))
        async with locked_step(services.projects.leases, place.name, TASK, state, step) as lease:
            yield place, lease

    async def begin(state: IterateState, project: Project, step: StepContext) -> Update:
        return await prepare(state, services=services, place=project[0])

    async def ask(state: IterateState, project: Project, step: StepContext) -> Update:
        return await propose(state, services=services, place=project[0])

    async def evaluate(state: IterateState, project: Project, step: StepContext) -> Update:
        place, lease = project
        return await evaluate_candidates(
            state, services=services, place=place, tell=step.emit, stop_asked=lease.stop_requested
        )

    async def end(state: IterateState, project: Project, step: StepContext) -> Update:
        return await conclude(state, services=services, place=project[0])

    builder = GraphBuilder(services, IterateState, input_schema=IterateInput, output_schema=IterateOutput)
    add = partial(builder.add_step, resource=locked)
    add("prepare", begin, "propose", fresh=lambda _: _FRESH)
    add("propose", ask, "evaluate_candidates", "conclude", choose=_asked)
    add("evaluate_candidates", evaluate, "propose", "conclude", choose=_evaluated)
    add("conclude", end)
    return builder


async def make_graph() -> RunnableGraph:
    """Return the graph to a server that loads it by name (``langgraph.json``), and does so for every run."""
    return await load_graph("iterate", build_iterate)


async def stream_iterate(services: Services, call: IterateInput) -> AsyncGenerator[Event | IterateOutput]:
    """Search; yield progress as it happens and, last, the result (the one without a ``type``)."""
    async with aclosing(stream_graph(services, "iterate", build_iterate, call, None)) as stream:
        async for part in stream:
            yield part


def _found(services: Services, project: object) -> ProjectPlace:
    return durable(services, services.projects.project(check_given(project or None, "project")))


def _asked(state: IterateState) -> str:
    if state.get("status") != "running":
        return END
    return "evaluate_candidates" if state.get("batch") else "conclude"


def _evaluated(state: IterateState) -> str:
    if state.get("status") != "running":
        return END
    return "conclude" if state.get("ended_by") else "propose"
