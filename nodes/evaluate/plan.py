"""The step that plans the run, states its cost and checks its judges."""

from __future__ import annotations

import asyncio
from typing import Any

from nodes.evaluate.run import EvaluationRun
from nodes.evaluate.state import EvaluateState
from personalab.operations.lab.projects import make_plan
from personalab.operations.lab.ranking import prove_judges
from personalab.operations.lab.tasks import write_no_skill


async def plan(state: EvaluateState, *, run: EvaluationRun) -> dict[str, Any]:
    """Count the calls that are left; unless that is all that is wanted, test the judges before anything is measured."""
    evaluator = run.evaluator
    reviewed, language = await evaluator.review(await run.tasks()), await evaluator.language()
    account = (await asyncio.to_thread(lambda: evaluator.runner.journal)).account
    found = await asyncio.to_thread(make_plan, run.place, run.options, reviewed, account, language)
    run.tell({"type": "plan", "turn": None, **found.fields()})
    planned = {"plan": found.fields(), "project_id": run.place.config.id, "total": found.tasks}
    if state.get("dry_run"):
        return {**planned, "status": "plan"}
    await asyncio.to_thread(run.place.sweep)
    await run.set_status("running")
    if run.options.no_skill_arm:
        await asyncio.to_thread(write_no_skill, run.place)
    if found.judge_calls:
        count = found.control_calls
        event = {
            "type": "progress",
            "turn": None,
            "stage": "controls",
            "failed": 0,
            "cost_usd": found.spent_usd,
        }
        run.tell({**event, "done": 0, "total": count})
        async with evaluator.runner.open():
            await prove_judges(run.place, run.options, evaluator.runner, language, again=run.again)
            run.tell({**event, "done": count, "total": count, "cost_usd": evaluator.runner.spent})
    return planned
