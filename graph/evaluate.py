"""One run of a lab project.

plan → execute → judge → summarise

Progress is stored on disk, not in the state: a run that was interrupted in any way resumes where it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any

from graph.runtime import (
    GraphBuilder,
    Resource,
    RunnableGraph,
    StepContext,
    Update,
    Work,
    load_graph,
    locked_step,
    stream_graph,
)
from nodes.evaluate.execute import execute
from nodes.evaluate.judge import judge
from nodes.evaluate.plan import plan
from nodes.evaluate.run import EvaluationRun, find_project, open_run, set_status
from nodes.evaluate.state import EvaluateInput, EvaluateOutput, EvaluateState
from nodes.evaluate.summarise import summarise
from personalab.leases import Lease
from personalab.operations.lab.calls import NoMoreCalls
from personalab.services import Services
from personalab.tasks import run_uncancellable

Step = Callable[[EvaluateState, EvaluationRun], Awaitable[Update]]

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


def build_evaluate(services: Services) -> GraphBuilder:
    """Join the four steps over the given services."""
    steps: dict[str, Step] = {
        "plan": lambda state, run: plan(state, run=run),
        "execute": lambda _, run: execute(run=run),
        "judge": lambda state, run: judge(state, run=run),
        "summarise": lambda state, run: summarise(state, run=run),
    }
    builder = GraphBuilder(services, EvaluateState, input_schema=EvaluateInput, output_schema=EvaluateOutput)
    works = {name: _ends_well(step) for name, step in steps.items()}
    builder.add_chain(works, _FRESH, _project_runs(services))
    return builder


async def make_graph() -> RunnableGraph:
    """Return the graph to a server that loads it by name (``langgraph.json``), and does so for every run."""
    return await load_graph("evaluate", build_evaluate)


async def stream_evaluate(
    services: Services, call: EvaluateInput, *, stop_asked: Callable[[], bool] | None = None
) -> AsyncGenerator[dict[str, Any]]:
    """Run a project; yield the plan and progress as it happens and, last, the result (the one without a ``type``)."""
    async with aclosing(stream_graph(services, "evaluate", build_evaluate, call, None, stop_asked)) as stream:
        async for part in stream:
            yield part


def _project_runs(services: Services) -> Resource[EvaluationRun]:
    """Return the resource of the steps: a run under its project's lock.

    Runs are kept by their leases: what one step has read the next one need not read again.
    """
    runs: dict[str, EvaluationRun] = {}

    @asynccontextmanager
    async def open_project(state: EvaluateState, step: StepContext) -> AsyncGenerator[EvaluationRun]:
        place = await asyncio.to_thread(find_project, services, state)
        again = state.get("rerun_failed") if step.is_first else state.get("again")
        step.update.update(project=place.name, again=bool(again))
        if step.is_first and state.get("dry_run"):
            yield await _opened(state, step, None)
            return
        async with locked_step(services.projects.leases, place.name, "evaluate", state, step) as lease:
            run = runs.get(lease.lease_id) or await _opened(state, step, lease)
            run.tell = step.emit
            runs[lease.lease_id] = run
            lease.on_release = partial(_dropped, runs, lease.lease_id)
            yield run

    return open_project


async def _dropped(runs: dict[str, EvaluationRun], lease_id: str, **_: bool) -> None:
    runs.pop(lease_id, None)


async def _opened(state: EvaluateState, step: StepContext, lease: Lease | None) -> EvaluationRun:
    outer = step.outer_stop_requested

    def stop_asked() -> bool:
        return outer() or (lease is not None and lease.stop_requested())

    return await asyncio.to_thread(open_run, step.services, state, step.emit, stop_asked, first=step.is_first)


def _ends_well(work: Callable[[EvaluateState, EvaluationRun], Awaitable[Update]]) -> Work[EvaluationRun]:
    """Leave the project interrupted, not running, whatever keeps a step from its end."""

    async def run_step(state: EvaluateState, run: EvaluationRun, step: StepContext) -> Update:
        if step.is_first and state.get("dry_run"):
            return await work(state, run)
        try:
            update = await work(state, run)
        except NoMoreCalls as ending:
            update = {"status": "interrupted", "budget": await run.worded(ending.reason)}
        except BaseException:
            await run_uncancellable(set_status, run.place, "interrupted", run.services.now())
            raise
        if update.get("status") == "interrupted":
            await run.set_status("interrupted")
        return update

    return run_step
