"""The step that executes every skill on every case."""

from __future__ import annotations

from typing import Any

from nodes.evaluate.run import EvaluationRun


async def execute(*, run: EvaluationRun) -> dict[str, Any]:
    """Make the missing calls; a stop request ends it after the calls in progress."""
    evaluator = run.evaluator
    tally = await evaluator.execute(await run.tasks())
    return await run.after(evaluator, tally)
