"""The step that finds the project, and finds or makes the plan of its iteration."""

from __future__ import annotations

import asyncio
from typing import Any

from nodes.iterate.state import IterateState
from personalab.operations.lab.iterating import begin
from personalab.operations.lab.searching import ended_before
from personalab.services import Services
from personalab.storage.lab.projects import ProjectPlace
from personalab.tasks import run_uncancellable

_ASKED = (
    *("max_rounds", "beam_width", "plateau_threshold", "plateau_rounds_before_escape", "stop_threshold"),
    *("max_evaluations", "keep", "retention_rules", "baseline_id", "seed", "fresh"),
)


async def prepare(state: IterateState, *, services: Services, place: ProjectPlace) -> dict[str, Any]:
    """Resume the current iteration, or start one; an ended one returns its result."""
    asked = {name: state.get(name) for name in _ASKED}
    plan = await run_uncancellable(begin, services, place, asked)
    if plan.completed_at is None:
        return {"project": place.name}
    return {"project": place.name, "status": "done", **await asyncio.to_thread(ended_before, place)}
