"""How is a search for a better skill joined?

prepare → propose → evaluate_candidates → propose → … → conclude

Every proposal is made from the results on disk, so a run that was interrupted anywhere goes on where it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import cast

from langgraph.graph import END, START
from langgraph.runtime import Runtime

from graph.following import stream_graph
from graph.leased import Update
from graph.pumped import PumpedBuilder, PumpedGraph
from graph.serving import served
from nodes.chat_turn.state import TurnContext
from nodes.iterate.conclude import conclude
from nodes.iterate.evaluate_candidates import evaluate_candidates
from nodes.iterate.prepare import prepare
from nodes.iterate.propose import propose
from nodes.iterate.state import IterateInput, IterateOutput, IterateState
from personalab.errors import PersonaLabError
from personalab.operations.lab.iterating import TASK
from personalab.operations.lab.projects import durable
from personalab.services import Services
from personalab.storage.lab.projects import ProjectPlace
from personalab.storage.leases import Lease
from personalab.story.events import Event, error_event
from personalab.story.ids import check_given

Node = Callable[..., Awaitable[Update]]
Step = Callable[[IterateState, ProjectPlace, Lease, Runtime[TurnContext]], Awaitable[Update]]

_FRESH: Update = {
    "status": "running", "error": None, "report": None, "best": None, "skill_id": None, "stop_cause": None,
    "round": 0, "evaluations": 0, "batch": 0, "ended_by": None, "ended_before": False,
}  # fmt: skip


def build_iterate(services: Services) -> PumpedBuilder:
    """Join the steps over the given services."""

    async def evaluate(
        state: IterateState, place: ProjectPlace, lease: Lease, runtime: Runtime[TurnContext]
    ) -> Update:
        return await evaluate_candidates(
            state, services=services, place=place, tell=runtime.stream_writer, stop_asked=lease.stop_asked
        )

    steps: dict[str, Step] = {
        "prepare": lambda state, place, lease, _: prepare(state, services=services, place=place),
        "propose": lambda state, place, lease, _: propose(state, services=services, place=place),
        "evaluate_candidates": evaluate,
        "conclude": lambda state, place, lease, _: conclude(state, services=services, place=place),
    }
    builder = PumpedBuilder(
        IterateState, context_schema=TurnContext, input_schema=IterateInput, output_schema=IterateOutput
    )
    for name, step in steps.items():
        builder.add_node(name, _guarded(step, services, _FRESH if name == "prepare" else {}))
    builder.add_edge(START, "prepare")
    builder.add_conditional_edges("prepare", _while_running("propose"), ["propose", END])
    builder.add_conditional_edges("propose", _asked, ["evaluate_candidates", "conclude", END])
    builder.add_conditional_edges("evaluate_candidates", _evaluated, ["propose", "conclude", END])
    builder.add_edge("conclude", END)
    return builder


async def make_graph() -> PumpedGraph:
    """Give the graph to a server that loads it by name (``langgraph.json``), and does so for every run."""
    return await served("iterate", build_iterate)


async def stream_iterate(services: Services, call: IterateInput) -> AsyncGenerator[Event | IterateOutput]:
    """Search; yield progress as it happens and, last, the result (the one without a ``type``)."""
    async with aclosing(stream_graph(services, "iterate", build_iterate, call, None)) as stream:
        async for part in stream:
            yield cast("Event | IterateOutput", part)


def _guarded(step: Step, services: Services, fresh: Update) -> Node:
    """Run a step under the project's lease; an error of ours ends the work, and what is on disk stays."""

    async def node(state: IterateState, runtime: Runtime[TurnContext]) -> Update:
        try:
            leases, wait = services.projects.leases, services.settings.busy_seconds
            place = await asyncio.to_thread(_found, services, state.get("project"))
            if fresh:
                lease = await leases.acquire(place.name, TASK, wait=wait)
            else:
                lease = await leases.again(state.get("lease", ""), place.name, TASK, wait=wait)
            with lease.step():
                return {**fresh, "lease": lease.lease_id, **await step(state, place, lease, runtime)}
        except PersonaLabError as error:
            event = error_event(error, None, await asyncio.to_thread(services.turns.language))
            runtime.stream_writer(event)
            return {**fresh, "status": "error", "error": dict(event)}

    return node


def _found(services: Services, project: object) -> ProjectPlace:
    return durable(services, services.projects.project(check_given(project or None, "project")))


def _while_running(following: str) -> Callable[[IterateState], Awaitable[str]]:
    async def choose(state: IterateState) -> str:
        return following if state.get("status") == "running" else END

    return choose


async def _asked(state: IterateState) -> str:
    if state.get("status") != "running":
        return END
    return "evaluate_candidates" if state.get("batch") else "conclude"


async def _evaluated(state: IterateState) -> str:
    if state.get("status") != "running":
        return END
    return "conclude" if state.get("ended_by") else "propose"
