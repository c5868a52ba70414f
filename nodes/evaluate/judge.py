"""The step that has every answer judged."""

from __future__ import annotations

from typing import Any

from nodes.evaluate.run import EvaluationRun
from nodes.evaluate.state import EvaluateState


async def judge(state: EvaluateState, *, run: EvaluationRun) -> dict[str, Any]:
    """Score what was answered and is not scored yet; each case gets its result."""
    evaluator = run.evaluator
    tally = await evaluator.judge(await run.tasks())
    found = await run.after(evaluator, tally)
    return {**found, "budget": found["budget"] or state.get("budget", "")}
