"""The bound, the status and the stop request of an iteration, for callers that do not run it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from personalab.errors import Busy, NotFound
from personalab.lab.engine.ledger_engine import screened
from personalab.lab.engine.problem import StopCause
from personalab.lab.findings import ExplorationLog, IterationReport, StopReason
from personalab.lab.iterating import IterationParams, IterationPlan
from personalab.operations.lab.iteration_plans import baseline_in, is_over, parameters_of
from personalab.services import Services
from personalab.storage.lab.iterations import IterationFiles
from personalab.storage.story_lock import running
from personalab.tasks import run_uncancellable

TASK = "iterate"
"""What the lock of a project says that someone searches."""
_CAUSES: dict[StopReason, StopCause] = {
    "threshold_reached": "threshold",
    "max_rounds": "max_rounds",
    "manual": "manual",
}
"""What the source's reasons mean in our words."""


async def iteration_bound(services: Services, project: str, wishes: Mapping[str, Any]) -> dict[str, int]:
    """Return the maximum evaluations of a search and the calls they take; none if it has ended."""

    def read() -> dict[str, int]:
        place = services.projects.project(project)
        options, files = place.options(), IterationFiles(place.folder)
        plan = None if wishes.get("fresh") else files.plan()
        known = plan.parameters if plan else None
        given = {name: value for name, value in wishes.items() if name in IterationParams.model_fields}
        defaults = known.model_dump() if known else {}
        params = parameters_of(place.config.iteration_config, {**defaults, **given})
        cases = len(baseline_in(place, wishes.get("baseline_id")).cases.cases)
        rounds = params.max_rounds * (params.beam_width * screened(cases) + cases)
        evaluations = min(rounds + 2 * cases, params.max_evaluations or rounds + 2 * cases)
        if plan is not None and is_over(plan, wishes):
            evaluations = 0
        each = options.repeats * (1 + len(options.judging()) * options.judge_repeats)
        return {"evaluations": evaluations, "calls_each": each, "calls": evaluations * each}

    return await asyncio.to_thread(read)


async def iteration_status(services: Services, project: str) -> dict[str, Any]:
    """Return an iteration's status, from its files."""

    def read() -> dict[str, Any]:
        place = services.projects.project(project)
        files = IterationFiles(place.folder)
        plan, report, log, ledger = files.plan(), files.report(), files.log(), files.ledger()
        if plan is None and report is None and log is None:
            raise NotFound("lab_no_iteration", project=place.config.name)
        return {
            "project": place.name,
            "running": services.projects.is_running(place),
            **(_planned(plan) if plan else _told_by_others(report, log)),
            "rounds": [found.model_dump(mode="json") for found in log.rounds] if log else [],
            "best_ever": log.best_ever.model_dump() if log and log.best_ever else None,
            "report": report.model_dump(mode="json") if report else None,
            "ledger": ledger,
        }

    return await asyncio.to_thread(read)


def _planned(plan: IterationPlan) -> dict[str, Any]:
    return {
        "parameters": plan.parameters.model_dump(),
        "retention_rules": plan.retention_rules,
        "retention": {"kept": list(plan.kept), "dropped": []},
        "started_at": plan.started_at,
        "completed_at": plan.completed_at,
        "stop_cause": plan.stop_cause,
    }


def _told_by_others(report: IterationReport | None, log: ExplorationLog | None) -> dict[str, Any]:
    """Return what another program wrote about its iteration."""
    return {
        "parameters": log.params.model_dump() if log else {},
        "retention_rules": "",
        "retention": {"kept": [], "dropped": []},
        "started_at": log.started_at if log else None,
        "completed_at": report.generated_at if report else log.completed_at if log else None,
        "stop_cause": _CAUSES[report.stop_reason] if report else None,
    }


async def stop_iteration(services: Services, project: str) -> dict[str, Any]:
    """Ask a running iteration to end with its report; return whether it has ended, or is about to."""
    place = await asyncio.to_thread(services.projects.project, project)
    files = IterationFiles(place.folder)
    holder = await asyncio.to_thread(running, place.folder)
    if holder is None or holder.get("task") != TASK:
        raise NotFound("lab_not_iterating", project=place.name)
    status = "stopped"
    await run_uncancellable(files.want_stop, True)
    try:
        await services.projects.leases.stop(place.name, wait=services.settings.busy_seconds)
    except Busy:
        status = "stopping"  # the running search removes the request with its report
    finally:
        if status == "stopped":
            await run_uncancellable(files.want_stop, False)
    return {"project": place.name, "status": status}
