"""How is the run of a project joined?

plan → execute → judge → summarise

What is done stands on disk, not in the state: a run that was interrupted, in whichever way, goes on where it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from itertools import pairwise
from typing import Any, cast

from langgraph.graph import END, START
from langgraph.runtime import Runtime

from graph.following import stop_asked_of, stream_graph
from graph.leased import Update
from graph.pumped import PumpedBuilder, PumpedGraph
from graph.serving import served
from nodes.chat_turn.state import TurnContext
from nodes.evaluate.execute import execute
from nodes.evaluate.judge import judge
from nodes.evaluate.plan import plan
from nodes.evaluate.run import Run, find_project, open_run, set_status
from nodes.evaluate.state import EvaluateInput, EvaluateOutput, EvaluateState
from nodes.evaluate.summarise import summarise
from personalab.errors import PersonaLabError
from personalab.operations.lab.gathering import NoMoreCalls
from personalab.services import Services
from personalab.storage.leases import Lease, unbroken
from personalab.story.events import error_event

Node = Callable[..., Awaitable[Update]]
Step = Callable[[EvaluateState, Run], Awaitable[Update]]

_FRESH: Update = {
    "status": "running",
    "error": None,
    "plan": None,
    "total": 0,
    "completed": 0,
    "failed": 0,
    "skipped": 0,
    "cost_usd": None,
    "budget": "",
    "summary": None,
}


def build_evaluate(services: Services) -> PumpedBuilder:
    """Join the four steps over the given services."""
    steps: dict[str, Step] = {
        "plan": lambda state, run: plan(state, run=run),
        "execute": lambda _, run: execute(run=run),
        "judge": lambda state, run: judge(state, run=run),
        "summarise": lambda state, run: summarise(state, run=run),
    }
    builder = PumpedBuilder(
        EvaluateState, context_schema=TurnContext, input_schema=EvaluateInput, output_schema=EvaluateOutput
    )
    runs: dict[str, Run] = {}
    for name, step in steps.items():
        builder.add_node(name, _guarded(name, step, services, runs))
    builder.add_edge(START, "plan")
    for name, following in pairwise(steps):
        builder.add_conditional_edges(name, _then(following), [following, END])
    builder.add_edge("summarise", END)
    return builder


async def make_graph() -> PumpedGraph:
    """Give the graph to a server that loads it by name (``langgraph.json``), and does so for every run."""
    return await served("evaluate", build_evaluate)


async def stream_evaluate(
    services: Services, call: EvaluateInput, *, stop_asked: Callable[[], bool] | None = None
) -> AsyncGenerator[dict[str, Any]]:
    """Run a project; yield the plan and progress as it happens and, last, the result (the one without a ``type``)."""
    async with aclosing(stream_graph(services, "evaluate", build_evaluate, call, None, stop_asked)) as stream:
        async for part in stream:
            yield cast("dict[str, Any]", part)


def _guarded(name: str, step: Step, services: Services, runs: dict[str, Run]) -> Node:
    """Run a step under the project's lease; an error of ours ends the run, which is interrupted then.

    ``runs`` are those of this process, by their leases: what one step has read the next one need not read again.
    """
    first = name == "plan"

    async def node(state: EvaluateState, runtime: Runtime[TurnContext]) -> Update:
        fresh = _FRESH if first else {}
        held: Update = {}
        try:
            place = await asyncio.to_thread(find_project, services, state)
            held = {
                "project": place.name,
                "again": bool(state.get("rerun_failed") if first else state.get("again")),
            }
            if first and state.get("dry_run"):
                run = await _opened(services, state, runtime, None, first=first)
                return {**fresh, **held, **await step(state, run)}
            lease = await _leased(services, state.get("lease", ""), place.name, first=first)
            held["lease"] = lease.lease_id
            with lease.step():
                run = runs.get(lease.lease_id) or await _opened(services, state, runtime, lease, first=first)
                run.tell = runtime.stream_writer
                runs[lease.lease_id] = run
                lease.on_release = partial(_dropped, runs, lease.lease_id)
                return {**fresh, **held, **await _ended_well(step, state, run)}
        except PersonaLabError as error:
            language = await asyncio.to_thread(services.turns.language)
            event = error_event(error, None, language)
            runtime.stream_writer(event)
            return {**fresh, **held, "status": "error", "error": dict(event)}

    return node


def _dropped(runs: dict[str, Run], lease_id: str, **_: bool) -> None:
    runs.pop(lease_id, None)


async def _leased(services: Services, lease_id: str, project: str, *, first: bool) -> Lease:
    wait = services.settings.busy_seconds
    if first:
        return await services.projects.leases.acquire(project, "evaluate", wait=wait)
    return await services.projects.leases.again(lease_id, project, "evaluate", wait=wait)


async def _opened(
    services: Services,
    state: EvaluateState,
    runtime: Runtime[TurnContext],
    lease: Lease | None,
    *,
    first: bool,
) -> Run:
    outer = stop_asked_of(runtime)

    def stop_asked() -> bool:
        return outer() or (lease is not None and lease.stop_asked())

    return await asyncio.to_thread(open_run, services, state, runtime.stream_writer, stop_asked, first=first)


async def _ended_well(step: Step, state: EvaluateState, run: Run) -> Update:
    """Do a step; whatever keeps it from going on leaves the project interrupted, not running."""
    try:
        update = await step(state, run)
    except NoMoreCalls as ending:
        update = {"status": "interrupted", "budget": ending.reason}
    except BaseException:
        await unbroken(set_status, run.place, "interrupted", run.services.now())
        raise
    if update.get("status") == "interrupted":
        await run.set_status("interrupted")
    return update


def _then(following: str) -> Callable[[EvaluateState], Awaitable[str]]:
    async def choose(state: EvaluateState) -> str:
        return following if state.get("status") == "running" else END

    return choose
