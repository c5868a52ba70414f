"""Project facts and defaults that all entrances share."""

from __future__ import annotations

import asyncio
from typing import Any

from personalab.operations.lab.iterating import TASK, iteration_status
from personalab.operations.lab.projects import PAUSE_SECONDS, pause_project
from personalab.services import Services
from personalab.storage.lab.project_journal import read_journal
from personalab.storage.lab.projects import ProjectPlace
from personalab.storage.story_lock import running

_STAND_IN = "0.0.0-"
"""The prefix of the versions of stand-ins."""


def usual_options(services: Services) -> dict[str, Any]:
    """Return the options of a run that the workspace's settings decide; this reads files."""
    settings = services.lab_sessions.settings()
    return {
        "model": services.lab_model(),
        "timeout_seconds": settings.default_timeout_seconds,
        "retry_count": settings.default_retry_count,
    }


def stand_ins(place: ProjectPlace) -> list[str]:
    """Name the versions of the stand-ins that answered in a project; its scores are not real if there are any."""
    rows = read_journal(place.journal, place.shown(place.journal))
    return sorted({version for row in rows if (version := str(row.get("cli_version"))).startswith(_STAND_IN)})


def idle_tasks(place: ProjectPlace) -> int:
    """Count the tasks without a skill, which the format's total leaves out; this reads files."""
    total, skills = place.config.progress.total_tasks, len(place.config.skills)
    return total // max(skills, 1) if place.options().no_skill_arm else 0


async def pause(services: Services, project: str, *, wait: float = PAUSE_SECONDS) -> dict[str, Any]:
    """Ask the run or the search of a project to pause; return which of the two it was (``kind``).

    The status is the run's or the search's own: a project that was run stays completed while a search in it is paused.
    """
    place = await asyncio.to_thread(services.projects.project, project)
    holder = await asyncio.to_thread(running, place.folder) or {}
    ended = await pause_project(services, project, wait=wait)
    if holder.get("task") != TASK:
        return {**ended, "kind": "evaluate"}
    if ended["status"] != "stopping":
        found = await iteration_status(services, place.name)
        ended["status"] = "interrupted" if found["completed_at"] is None else "completed"
    return {**ended, "kind": TASK}
