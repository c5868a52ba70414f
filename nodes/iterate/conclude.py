"""The step that writes the reports of the search, and saves the winner."""

from __future__ import annotations

from typing import Any

from nodes.iterate.state import IterateState
from personalab.operations.lab.searching import best_fields, conclude_search, resume_search
from personalab.services import Services
from personalab.storage.lab.projects import ProjectPlace
from personalab.tasks import run_uncancellable


async def conclude(state: IterateState, *, services: Services, place: ProjectPlace) -> dict[str, Any]:
    """Write the reports; a search that was ended early is reported as far as it came."""

    def end() -> dict[str, Any]:
        search = resume_search(place, state.get("lease", ""))
        ended_by = state.get("ended_by")
        if ended_by:
            search.engine.stop()
        return {
            **conclude_search(services, search, ended_by),
            "best": best_fields(search),
        }

    return {**await run_uncancellable(end), "status": "done"}
