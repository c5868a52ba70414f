"""The step that executes and judges the proposed candidates."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from nodes.iterate.state import IterateState
from personalab.operations.lab.evaluating import Evaluator, Tell
from personalab.operations.lab.searching import failing, mark_redo, resume_search, tasks_of
from personalab.services import Services
from personalab.storage.lab.projects import ProjectPlace
from personalab.tasks import run_uncancellable


async def evaluate_candidates(
    state: IterateState,
    *,
    services: Services,
    place: ProjectPlace,
    tell: Tell,
    stop_asked: Callable[[], bool],
) -> dict[str, Any]:
    """Evaluate the candidates; a person who asks to stop, or the budget, ends the search, and a pause does not."""
    lease = state.get("lease", "")
    options = await asyncio.to_thread(place.options)
    search = await asyncio.to_thread(resume_search, place, lease)
    tasks = await run_uncancellable(tasks_of, search, options.repeats, services.now())

    def told(event: dict[str, Any]) -> None:
        tell({**event, "round": search.number or len(search.engine.rounds)})

    again = search.plan.redo == search.number
    evaluator = Evaluator(services, place, options, told, stop_asked=stop_asked, again=again)
    await evaluator.execute(tasks)
    if not evaluator.stopped:
        await evaluator.judge(tasks)
    if evaluator.stopped:
        wanted = await asyncio.to_thread(search.files.stop_wanted)
        return {"ended_by": "manual"} if wanted else {"status": "interrupted"}
    if evaluator.budget:
        return {"ended_by": "budget"}
    results = await evaluator.results(tasks)
    failure = await asyncio.to_thread(failing, place, tasks, results)
    if failure is not None:
        await run_uncancellable(mark_redo, search, lease, search.number)
        raise failure
    if again:
        await run_uncancellable(mark_redo, search, lease, None)
    return {}
