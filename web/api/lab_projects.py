"""Routes that create, run, pause and show the lab's projects."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncGenerator, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query

from personalab.lab.calling import is_free
from personalab.lab.options import RunOptions
from personalab.operations.lab import projects
from personalab.operations.lab.projects import pause, usual_options
from personalab.texts import say
from web.api.jobs import started
from web.api.lab import check_confirmed
from web.api.lab_shapes import (
    NewProject,
    Paused,
    PlanResponse,
    ProgressResponse,
    ProjectJobResponse,
    ProjectList,
    ProjectName,
    ProjectResponse,
    ProjectRow,
    RunRequest,
    SkippedResponse,
    Skipping,
)
from web.api.lab_wording import plan_text, spent_text, status_text, unread_text
from web.desk import AppContext, ContextDep
from web.replies import TurnRejected
from web.shapes import JobStarted

router = APIRouter(prefix="/api/lab/projects", tags=["lab"])

_RESULT = ("project", "status", "total", "completed", "failed", "skipped", "cost_usd", "budget")
Again = Annotated[bool, Query(description="Whether what failed is done anew")]


@router.get("")
async def project_list(desk: ContextDep) -> ProjectList:
    """List the projects, the newest first."""
    found = await projects.list_projects(desk.services)
    problems = await asyncio.to_thread(desk.services.projects.problems)
    return ProjectList(
        projects=[ProjectRow(**_row(desk, row)) for row in found],
        unread=[unread_text(one.name, one.error, desk.language) for one in problems],
    )


@router.post("", status_code=201)
async def create(desk: ContextDep, asked: NewProject) -> ProjectResponse:
    """Make a project with copies of the newest versions of skills and baselines; nothing is run yet."""
    options = await asyncio.to_thread(_options, desk, asked.options.model_dump(exclude_none=True))
    made = await projects.create_project(
        desk.services,
        name=asked.name,
        skill_ids=asked.skill_ids,
        baseline_ids=asked.baseline_ids,
        options=options,
        description=asked.description,
    )
    return await view(desk, made["project"])


def _options(desk: AppContext, given: Mapping[str, Any]) -> RunOptions:
    return RunOptions.read({**usual_options(desk.services), **given}, "options")


@router.get("/{project}")
async def project_get(desk: ContextDep, project: ProjectName) -> ProjectResponse:
    """Tell how a project stands, and what its calls have cost."""
    return await view(desk, project)


async def view(desk: AppContext, project: str) -> ProjectResponse:
    """Return a project's status."""
    status = await projects.project_status(desk.services, project)
    free, spent = all(map(is_free, models_of(status["options"]))), status["spent_usd"]
    more = {
        "is_free": free,
        "cost_text": spent_text(status["calls_made"], spent, desk.language, free=free),
        "has_results": bool(status["ranking"])
        or status["progress"]["left"] < status["progress"]["total_tasks"],
    }
    return ProjectResponse.model_validate({**status, **_row(desk, status), **more})


def _row(desk: AppContext, row: Mapping[str, Any]) -> dict[str, Any]:
    counts = row["progress"]
    progress = ProgressResponse(
        total=counts["total_tasks"],
        completed=counts["completed_tasks"],
        failed=counts["failed_tasks"],
        left=counts["left"],
        text=say("web_lab_progress", desk.language, **counts),
    )
    job = running(desk, row["project"])
    text = status_text("running" if job else row["status"], desk.language)
    return {**row, "progress": progress, "running": job, "status_text": text}


def subject_of(project: str) -> str:
    """Name a project as the jobs do."""
    return f"lab:{project}"


def running(desk: AppContext, project: str) -> ProjectJobResponse | None:
    """Find the job that works on a project."""
    for job in desk.jobs.of(subject_of(project)):
        if job.status == "running":
            return ProjectJobResponse(job_id=job.job_id, kind=job.kind)
    return None


def models_of(options: Mapping[str, Any]) -> list[str]:
    """Name the models that a project calls, each once."""
    return list(dict.fromkeys([options["model"], *options["judges"]]))


# --- running


@router.get("/{project}/plan")
async def plan(desk: ContextDep, project: ProjectName, rerun_failed: Again = False) -> PlanResponse:
    """Tell how many calls a run would make, and about how many tokens and how much money they take."""
    return await _planned(desk, {"project": project, "rerun_failed": rerun_failed})


@router.post("/{project}/plan")
async def plan_with(desk: ContextDep, project: ProjectName, asked: RunRequest) -> PlanResponse:
    """Tell the same for a run with other limits; nothing is changed."""
    return await _planned(desk, _call(project, asked))


@router.post("/{project}/run", status_code=202)
async def run(desk: ContextDep, project: ProjectName, asked: RunRequest) -> JobStarted:
    """Run a project, or go on with it; what is done is not done, or paid for, again.

    Where it may cost money it has to be confirmed by someone who has seen the plan.
    """
    name = (await projects.project_status(desk.services, project))["project"]
    call = _call(name, asked)
    planned = await _planned(desk, call)
    check_confirmed(planned.models, planned.calls, confirm=asked.confirm)
    graph = await asyncio.to_thread(importlib.import_module, "graph.evaluate")
    stream: AsyncGenerator[Any] = graph.stream_evaluate(desk.services, call)

    async def stop() -> None:
        await pause(desk.services, name)

    return started(desk.jobs.begin("lab_run", subject_of(name), stream, stop=stop, told=_ran))


def _call(project: str, asked: RunRequest) -> dict[str, Any]:
    limits = asked.model_dump(include={"max_calls", "max_usd"}, exclude_unset=True)
    return {"project": project, "rerun_failed": asked.rerun_failed, "changes": limits}


def _ran(result: dict[str, Any]) -> dict[str, Any]:
    return {name: result.get(name) for name in _RESULT}


async def _planned(desk: AppContext, call: Mapping[str, Any]) -> PlanResponse:
    status = await projects.project_status(desk.services, call["project"])
    graph = await asyncio.to_thread(importlib.import_module, "graph.evaluate")
    found: dict[str, Any] = {}
    async for part in graph.stream_evaluate(desk.services, {**call, "dry_run": True}):
        if "type" not in part:
            found = part
    if error := found.get("error"):
        raise TurnRejected(dict(error))
    models = models_of(status["options"])
    free = all(map(is_free, models))
    planned: dict[str, Any] = found["plan"]
    return PlanResponse(
        **planned,
        models=models,
        is_free=free,
        needs_confirm=bool(planned["calls"]) and not free,
        text=plan_text(planned, models, desk.language, free=free),
    )


@router.post("/{project}/pause")
async def pause_run(desk: ContextDep, project: ProjectName) -> Paused:
    """Pause a run or a search, whoever began it: no call begins any more, and those under way come to their end."""
    return Paused(**await pause(desk.services, project))


@router.post("/{project}/skip")
async def skip(desk: ContextDep, project: ProjectName, asked: Skipping) -> SkippedResponse:
    """Leave a skill's case out of the next runs, or take it in again; what is completed stays."""
    told = await projects.skip_task(
        desk.services,
        project,
        asked.skill_id,
        asked.case_id,
        baseline_id=asked.baseline_id,
        undo=asked.undo,
    )
    return SkippedResponse(**told)
