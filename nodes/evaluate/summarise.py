"""The step that ranks the skills by their results."""

from __future__ import annotations

from typing import Any

from nodes.evaluate.run import EvaluationRun
from nodes.evaluate.state import EvaluateState
from personalab.operations.lab.ranking import write_summary
from personalab.tasks import run_uncancellable


async def summarise(state: EvaluateState, *, run: EvaluationRun) -> dict[str, Any]:
    """Write the summary; the project is completed unless the budget left something out."""
    total, completed, failed = state.get("total", 0), state.get("completed", 0), state.get("failed", 0)
    summary = await run_uncancellable(write_summary, run.place, run.options, run.services.now())
    is_whole = not state.get("budget")
    await run.set_status("completed" if is_whole else "interrupted")
    return {
        "summary": summary.model_dump(mode="json"),
        "skipped": total - completed - failed,
        "status": "done" if is_whole else "interrupted",
    }
