"""The step that executes every skill on every case."""

from __future__ import annotations

from typing import Any

from nodes.evaluate.run import Run


async def execute(*, run: Run) -> dict[str, Any]:
    """Make the calls that are missing; whoever asks to stop ends it after those that are under way."""
    evaluator = run.evaluator
    tally = await evaluator.execute(await run.tasks())
    return await run.after(evaluator, tally)
