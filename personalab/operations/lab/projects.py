"""Operations on projects: creation, status, plan, options, pause and skipped tasks."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from personalab.errors import Busy, NotFound, UserError
from personalab.lab.assets import project_slug
from personalab.lab.calling import estimated_tokens
from personalab.lab.case_calls import (
    RunPlan,
    TaskLeft,
    answer_of,
    arm_folder,
    case_file,
    execute_calls,
    judge_calls,
    plan_of,
    skipped_result,
)
from personalab.lab.controls import choose_controls
from personalab.lab.options import RunOptions, changed_options
from personalab.lab.projects import (
    BaselineRef,
    IterationConfig,
    ProjectConfig,
    ProjectProgress,
    ProjectStatus,
    SkillRef,
)
from personalab.lab.records import asset_folder
from personalab.operations.lab.iterating import TASK, iteration_status
from personalab.operations.lab.questions import check_context
from personalab.operations.lab.ranking import unproven
from personalab.operations.lab.tasks import (
    Pending,
    Review,
    Task,
    arms_of,
    language_of,
    open_sheet,
    review,
    tasks_of,
)
from personalab.services import Services
from personalab.storage.lab.assets import StoredBaseline, StoredSkill
from personalab.storage.lab.project_journal import Account, read_journal
from personalab.storage.lab.projects import ProjectPlace
from personalab.storage.story_lock import running
from personalab.texts import PromptLanguage

PAUSE_SECONDS = 10.0
"""Seconds that a pause waits for calls in progress; they are finished even if it does not wait longer."""


async def create_project(
    services: Services,
    *,
    name: str,
    skill_ids: Sequence[str],
    baseline_ids: Sequence[str],
    options: RunOptions | None = None,
    description: str = "",
) -> dict[str, Any]:
    """Make a project with copies of the newest versions of assets; edits of them change nothing in it."""
    settings = await asyncio.to_thread(services.lab_sessions.settings)
    options = options or RunOptions(
        model=await asyncio.to_thread(services.lab_model),
        timeout_seconds=settings.default_timeout_seconds,
        retry_count=settings.default_retry_count,
    )
    await asyncio.to_thread(check_options, services, options)
    if services.remote and options.extra_flags:
        raise UserError("lab_flags_local")
    if not name.strip():
        raise UserError("lab_project_nameless")
    skills = await asyncio.to_thread(lambda: [services.assets.skill(one) for one in skill_ids])
    baselines = await asyncio.to_thread(lambda: [services.assets.baseline(one) for one in baseline_ids])
    _check_parts(skills, baselines)
    check_context(settings.context, skills)
    now, project_id = services.now(), str(uuid.uuid4())
    config = ProjectConfig(
        id=project_id,
        name=name.strip(),
        description=description,
        status="pending",
        created_at=now,
        updated_at=now,
        skills=tuple(_skill_ref(skill) for skill in skills),
        baselines=tuple(_baseline_ref(baseline) for baseline in baselines),
        cli_config=options.call_config(),
        context_config=settings.context,
        progress=ProjectProgress(
            total_tasks=len(skills) * sum(len(found.cases.cases) for found in baselines),
            completed_tasks=0,
            failed_tasks=0,
            last_checkpoint=None,
        ),
        original_skill_ids=tuple(skill.meta.id for skill in skills),
        iteration_config=IterationConfig(),
    )
    copies = {ref.local_path: one.folder for ref, one in zip(config.skills, skills, strict=True)}
    copies |= {ref.local_path: one.folder for ref, one in zip(config.baselines, baselines, strict=True)}
    slug = project_slug(name, project_id)
    place = await asyncio.to_thread(services.projects.create, config, options, slug, copies)
    return await asyncio.to_thread(_status, services, place)


def check_options(services: Services, options: RunOptions) -> None:
    """Refuse options with a model that may not be used from here, whichever program stored them."""
    services.check_model(options.model, "model")
    for judge in options.judges:
        services.check_model(judge, "judges")


def _check_parts(skills: Sequence[StoredSkill], baselines: Sequence[StoredBaseline]) -> None:
    """Refuse what could not be told apart in the results, or has nothing to measure."""
    if not skills or not baselines:
        raise UserError("lab_project_empty")
    for kind, ids in (
        ("skill", [arm_folder(one.meta.id, one.meta.version) for one in skills]),
        ("baseline", [one.meta.id[:8] for one in baselines]),
    ):
        for one in ids:
            if ids.count(one) > 1:
                raise UserError("lab_project_twice", kind=kind, id=one)
    for found in baselines:
        if not found.cases.cases:
            raise UserError("lab_baseline_empty", baseline=found.meta.name)
        for case in found.cases.cases:
            case_file(case.id, found.meta.id)


def _skill_ref(skill: StoredSkill) -> SkillRef:
    meta = skill.meta
    return SkillRef(
        ref_id=meta.id,
        name=meta.name,
        purpose=meta.purpose,
        provider=meta.provider,
        version=meta.version,
        local_path=f"skills/{asset_folder('skill', meta.id, meta.version)}",
    )


def _baseline_ref(baseline: StoredBaseline) -> BaselineRef:
    meta = baseline.meta
    path = f"baselines/{asset_folder('baseline', meta.id, meta.version)}"
    return BaselineRef(ref_id=meta.id, name=meta.name, version=meta.version, local_path=path)


# --- looking at it


async def list_projects(services: Services) -> list[dict[str, Any]]:
    """List the projects, the newest first."""
    places = await asyncio.to_thread(services.projects.list)
    return await asyncio.to_thread(lambda: [_status(services, place) for place in places])


async def project_status(services: Services, project: str) -> dict[str, Any]:
    """Return a project's status, with the costs of its calls and its ranking if there is one."""

    def read() -> dict[str, Any]:
        place = services.projects.project(project)
        account = Account(read_journal(place.journal, place.shown(place.journal)))
        summary = place.summary()
        return {
            **_status(services, place),
            "options": place.options().model_dump(mode="json"),
            "calls_made": account.calls,
            "spent_usd": account.spent,
            "ranking": [row.derived().model_dump(mode="json") for row in summary.ranking] if summary else [],
        }

    return await asyncio.to_thread(read)


def _status(services: Services, place: ProjectPlace) -> dict[str, Any]:
    config, progress = place.config, place.config.progress
    left = progress.total_tasks - progress.completed_tasks - progress.failed_tasks
    return {
        "project": place.name,
        "id": config.id,
        "name": config.name,
        "description": config.description,
        "status": status_of(services, place),
        "created_at": config.created_at,
        "updated_at": config.updated_at,
        "skills": [{"id": ref.ref_id, "name": ref.name, "version": ref.version} for ref in config.skills],
        "baselines": [
            {"id": ref.ref_id, "name": ref.name, "version": ref.version} for ref in config.baselines
        ],
        "model": config.cli_config.model,
        "progress": {**progress.model_dump(mode="json"), "left": left},
        "has_summary": (place.results / "summary.json").is_file(),
    }


def status_of(services: Services, place: ProjectPlace) -> ProjectStatus:
    """Return a project's status; one marked as running without a holder was interrupted."""
    status = place.config.status
    if status == "running" and not services.projects.is_running(place):
        return "interrupted"
    return status


# --- what it would take


async def plan_project(services: Services, project: str, *, rerun_failed: bool = False) -> RunPlan:
    """Return the calls that are left to make, with estimated tokens and costs."""

    def read() -> RunPlan:
        place = services.projects.project(project)
        options, baselines = place.options(), place.baselines()
        tasks = tasks_of(place, arms_of(place, options), baselines)
        account = Account(read_journal(place.journal, place.shown(place.journal)))
        found = review(place, tasks, again=rerun_failed)
        return make_plan(place, options, found, account, language_of(options, baselines))

    return await asyncio.to_thread(read)


def make_plan(
    place: ProjectPlace, options: RunOptions, found: Review, account: Account, language: PromptLanguage
) -> RunPlan:
    """Plan a run by what is on disk."""
    left = _left(place, options, found.pending)
    judging = any(task.judgements for task in left)
    # Of each planted pair, a judge is asked about both answers.
    planted = 2 * len(choose_controls(language))
    controls = planted * len(unproven(place, options, language)) if judging else 0
    return plan_of(
        left,
        tasks=found.tally.total,
        control_calls=controls,
        known=account.known(),
        max_calls=options.max_calls,
        max_usd=options.max_usd,
    )


def _left(place: ProjectPlace, options: RunOptions, pending: Sequence[Pending]) -> list[TaskLeft]:
    tokens = _remembered(estimated_tokens)
    found: list[TaskLeft] = []
    for one in pending:
        task = one.task
        executions = options.repeats
        judgements = options.repeats * len(options.judging()) * options.judge_repeats
        if one.begun:
            executions, judgements = _not_yet(place, options, one)
        found.append(
            TaskLeft(
                tokens(task.arm.content),
                tokens(task.case.input),
                tokens(task.case.expected_output),
                executions,
                judgements,
            )
        )
    return found


def _not_yet(place: ProjectPlace, options: RunOptions, pending: Pending) -> tuple[int, int]:
    """Count the answers and the judgements that a task lacks."""
    task, calls = pending.task, open_sheet(place, pending).calls
    executions = judgements = 0
    each = len(options.judging()) * options.judge_repeats
    for repeat in range(task.repeat, task.repeat + options.repeats):
        answer = answer_of(calls, execute_calls(task.folder, task.file, repeat))
        executions += answer is None
        judgements += each
        if answer is not None:
            judgements -= sum(
                answer_of(calls, judge_calls(answer.call_id, judge, number)) is not None
                for judge in options.judging()
                for number in range(1, options.judge_repeats + 1)
            )
    return executions, judgements


def _remembered(count: Callable[[str], int]) -> Callable[[str], int]:
    known: dict[str, int] = {}

    def counted(text: str) -> int:
        if text not in known:
            known[text] = count(text)
        return known[text]

    return counted


# --- changing it


async def change_options(services: Services, project: str, changes: Mapping[str, Any]) -> RunOptions:
    """Change a project's run options; those that affect the scores are fixed once there are results."""
    place = await asyncio.to_thread(services.projects.project, project)
    async with services.projects.leases.holding(place.name, "options", wait=services.settings.busy_seconds):
        return await asyncio.to_thread(save_changes, services, place, changes)


def check_changes(services: Services, place: ProjectPlace, changes: Mapping[str, Any]) -> RunOptions:
    """Return a project's options with changes, or refuse those that may not be made; nothing is saved."""
    if services.remote and "extra_flags" in changes:
        raise UserError("lab_flags_local")
    fresh = changed_options(place.options(), changes, begun=place.has_results())
    check_options(services, fresh)
    return fresh


def save_changes(services: Services, place: ProjectPlace, changes: Mapping[str, Any]) -> RunOptions:
    """Save changed options, and the part of them that the source's plan has."""
    fresh, now = check_changes(services, place, changes), services.now()
    place.save_options(fresh)
    if place.config.cli_config != fresh.call_config():
        place.save_config(place.config.changed(cli_config=fresh.call_config().model_dump(), updated_at=now))
    return fresh


async def pause_project(services: Services, project: str, *, wait: float = PAUSE_SECONDS) -> dict[str, Any]:
    """Ask a running project to pause: no call begins any more, and those under way come to their end."""
    place = await asyncio.to_thread(services.projects.project, project)
    try:
        await services.projects.leases.stop(place.name, wait=wait)
    except Busy:
        return {"project": place.name, "status": "stopping"}
    place = await asyncio.to_thread(place.again)
    return {"project": place.name, "status": status_of(services, place)}


async def skip_task(
    services: Services,
    project: str,
    skill_id: str,
    case_id: str,
    *,
    baseline_id: str | None = None,
    undo: bool = False,
) -> dict[str, Any]:
    """Leave a skill's case out of the next runs, or take it in again; what is completed stays."""
    place = await asyncio.to_thread(services.projects.project, project)
    async with services.projects.leases.holding(place.name, "skip", wait=services.settings.busy_seconds):
        return await asyncio.to_thread(_skip, place, skill_id, case_id, baseline_id, services.now(), undo)


def _skip(
    place: ProjectPlace, skill_id: str, case_id: str, baseline_id: str | None, now: str, undo: bool
) -> dict[str, Any]:
    task = _task(place, skill_id, case_id, baseline_id)
    result = place.result(task.result_path)
    if undo:
        if result is None or result.status != "skipped":
            raise UserError("lab_not_skipped", skill=task.arm.name, case=case_id)
        task.result_path.unlink()
    elif result is not None and result.status == "completed":
        raise UserError("lab_task_completed", skill=task.arm.name, case=case_id)
    else:
        place.make_folder(task.result_path.parent)
        place.write(task.result_path, skipped_result(task.tested, now))
    return {
        "project": place.name,
        "skill_id": task.arm.skill_id,
        "case_id": case_id,
        "status": "open" if undo else "skipped",
    }


def _task(place: ProjectPlace, skill_id: str, case_id: str, baseline_id: str | None) -> Task:
    tasks = tasks_of(place, arms_of(place, place.options()), place.baselines())
    found = [
        task
        for task in tasks
        if task.arm.skill_id.startswith(skill_id)
        and task.case.id == case_id
        and task.baseline_id.startswith(baseline_id or "")
    ]
    if len(found) != 1 or not skill_id:
        raise NotFound("lab_no_task", skill=skill_id[:80], case=case_id[:80], project=place.name)
    return found[0]


def durable(services: Services, place: ProjectPlace) -> ProjectPlace:
    """Make writes survive power loss, if a person prefers it so."""
    config = services.preferences.read().config
    return replace(place, sync=config.durability == "fsync")


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


def count_no_skill_tasks(place: ProjectPlace) -> int:
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
