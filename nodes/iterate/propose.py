"""The step that determines the next evaluations from the results so far."""

from __future__ import annotations

from typing import Any

from nodes.iterate.state import IterateState
from personalab.operations.lab.searching import best_fields, resume_search, save_progress
from personalab.services import Services
from personalab.storage.lab.projects import ProjectPlace
from personalab.tasks import run_uncancellable


async def propose(state: IterateState, *, services: Services, place: ProjectPlace) -> dict[str, Any]:
    """Go through the search again, and write down the rounds that have ended."""

    def search() -> dict[str, Any]:
        found = resume_search(place, state.get("lease", ""))
        save_progress(found, services.now())
        return {
            "batch": len(found.trials),
            "round": len(found.engine.rounds),
            "evaluations": found.engine.best.evaluations,
            "best": best_fields(found),
        }

    return await run_uncancellable(search)
