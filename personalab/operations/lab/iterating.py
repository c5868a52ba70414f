"""The plan, the bound, the status and the stop request of an iteration, for callers that do not run it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from personalab.errors import Busy, NotFound, UserError
from personalab.lab.case_calls import arm_folder, case_file
from personalab.lab.engine.ledger_engine import screening_size
from personalab.lab.engine.problem import StopCause
from personalab.lab.findings import ExplorationLog, IterationReport, StopReason
from personalab.lab.iterating import IterationParams, IterationPlan, KnownScore, PlannedCase
from personalab.lab.projects import IterationConfig
from personalab.lab.retention import read_retention, rules_text
from personalab.lab.segments import marks_of, pool
from personalab.services import Services
from personalab.storage.lab.iterations import IterationFiles
from personalab.storage.lab.projects import BaselineCopy, ProjectPlace
from personalab.storage.story_lock import running
from personalab.tasks import run_uncancellable

_MAY_GROW = ("max_rounds", "max_evaluations")


def begin(services: Services, place: ProjectPlace, asked: Mapping[str, Any]) -> IterationPlan:
    """Find the plan of a search that goes on, or make one; what stood there before is set aside.

    A search that a person or the budget ended is gone on with as well, and so is one that may have more rounds now. One
    that has come to its end stays so.
    """
    files = IterationFiles(place.folder)
    files.want_stop(False)
    plan = files.plan()
    wishes = {name: value for name, value in asked.items() if value is not None}
    if wishes.get("baseline_id") is not None:
        wishes["baseline_id"] = baseline_in(place, wishes["baseline_id"]).ref.ref_id
    if keep := wishes.pop("keep", ()):
        wishes["retention_rules"] = rules_text(str(wishes.get("retention_rules", "")), keep, ())
    fresh = bool(wishes.pop("fresh", False))
    if plan is not None and not fresh:
        _check_same(plan, wishes)
        if not is_over(plan, wishes):
            grown = _grown(plan, wishes)
            plan = plan.changed(parameters=grown.model_dump(), completed_at=None, stop_cause=None)
            files.save_plan(plan)
        return plan
    made = _plan(services, place, wishes, files.set_aside_before())
    files.set_aside(services.now())
    files.save_plan(made)
    return made


def is_over(plan: IterationPlan, wishes: Mapping[str, Any]) -> bool:
    """Return whether a search has ended and no requested option would let it continue."""
    ended = plan.completed_at is not None and plan.stop_cause not in ("manual", "budget")
    return ended and _grown(plan, wishes) == plan.parameters


def _grown(plan: IterationPlan, wishes: Mapping[str, Any]) -> IterationParams:
    """Return the parameters with more rounds and more evaluations, where more are wanted."""
    more = {name: wishes[name] for name in _MAY_GROW if name in wishes}
    known = plan.parameters
    larger = {
        name: value
        for name, value in more.items()
        if isinstance(value, int) and (getattr(known, name) is not None and value > getattr(known, name))
    }
    return known.changed(**larger) if larger else known


def _check_same(plan: IterationPlan, wishes: Mapping[str, Any]) -> None:
    """Refuse to go on under other terms."""
    known: dict[str, Any] = {
        **plan.parameters.model_dump(),
        "retention_rules": plan.retention_rules,
        "baseline_id": plan.baseline_id,
    }
    grown = _grown(plan, wishes)
    for name, value in wishes.items():
        if value not in (known[name], getattr(grown, name, known[name])):
            code = "lab_iteration_ended" if plan.completed_at else "lab_other_iteration"
            raise UserError(code, field=name, value=known[name])


def _plan(services: Services, place: ProjectPlace, wishes: dict[str, Any], earlier: int) -> IterationPlan:
    rules = str(wishes.pop("retention_rules", ""))
    baseline = baseline_in(place, wishes.pop("baseline_id", None))
    skills = {copy.ref.ref_id: copy for copy in place.skills()}
    contents = {skill_id: copy.content for skill_id, copy in skills.items()}
    analysis = place.analysis()
    segments = analysis.advantage_segments if analysis else ()
    found = pool(contents, marks_of(segments, contents))
    if not found or not baseline.cases.cases:
        raise UserError("lab_nothing_to_iterate", project=place.config.name)
    names = {name: row.segment_id for row in found for name in (row.segment_id, *row.also)}
    retention = read_retention(rules, names)
    if retention.dropped:
        raise UserError("lab_iteration_drops", segments=", ".join(retention.dropped))
    kept = sorted({names[name] for name in retention.kept})
    best = _best(place)
    plan = IterationPlan(
        project_id=place.config.id,
        base_name=skills[best].ref.name if best in skills else place.config.name,
        purpose=skills[best].ref.purpose if best in skills else "",
        provider=skills[best].ref.provider if best in skills else "",
        baseline_id=baseline.ref.ref_id,
        baseline_version=baseline.ref.version,
        parameters=parameters_of(place.config.iteration_config, {"seed": earlier, **wishes}),
        retention_rules=rules,
        kept=tuple(kept),
        segments=tuple(found),
        skills={
            skill_id: tuple(
                row.segment_id for row in found if any(spot.skill_id == skill_id for spot in row.places)
            )
            for skill_id in skills
        },
        names={skill_id: copy.ref.name for skill_id, copy in skills.items()},
        cases=tuple(PlannedCase(id=case.id, category=case.category) for case in baseline.cases.cases),
        earlier=earlier,
        started_at=services.now(),
    )
    return _measured(place, plan)


def _measured(place: ProjectPlace, plan: IterationPlan) -> IterationPlan:
    """Note what is known of the originals; a case that none of them has a score for is left out of the search."""
    known = _known(place, plan)
    scored = {row.case_id for row in known}
    if not scored:
        raise UserError("lab_not_run_yet", project=place.config.name)
    plan = plan.model_copy(
        update={"known": known, "cases": tuple(case for case in plan.cases if case.id in scored)}
    )
    if all({row.case_id for row in known if row.skill_id == name} != scored for name in plan.skills):
        raise UserError("lab_iterate_incomplete", project=place.config.name)
    return plan


def parameters_of(defaults: IterationConfig | None, wishes: Mapping[str, Any]) -> IterationParams:
    """Return the requested parameters, completed by those of the project or the defaults.

    A width is the project's only in mode ``beam``: in ``standard`` the source has none, and ours is the default.
    """
    known = defaults.model_dump() if defaults else {}
    names = set(IterationParams.model_fields) - (set() if known.get("mode") == "beam" else {"beam_width"})
    return IterationParams.read({**{n: v for n, v in known.items() if n in names}, **wishes}, "iterate")


def baseline_in(place: ProjectPlace, baseline_id: object) -> BaselineCopy:
    """Find one of a project's baselines by its id, the beginning of it, or its name; the first where none is named."""
    copies = place.baselines()
    if baseline_id is None:
        return copies[0]
    wanted = str(baseline_id)
    found = [copy for copy in copies if copy.ref.ref_id.startswith(wanted) or copy.ref.name == wanted]
    if len(found) != 1:
        raise NotFound("lab_no_baseline_in_project", baseline=wanted[:80], project=place.config.name)
    return found[0]


def _best(place: ProjectPlace) -> str:
    summary = place.summary()
    if summary is None or not summary.ranking:
        raise UserError("lab_not_run_yet", project=place.config.name)
    return summary.ranking[0].skill_id


def _known(place: ProjectPlace, plan: IterationPlan) -> tuple[KnownScore, ...]:
    """Read what the project's own run found out about the originals."""
    found: list[KnownScore] = []
    several = len(place.config.baselines) > 1
    for ref in place.config.skills:
        folder = place.results / arm_folder(ref.ref_id, ref.version)
        for case in plan.cases:
            name = case_file(case.id, plan.baseline_id if several else None)
            result = place.result(folder / f"{name}.json")
            scores = result.scores.by_dimension() if result and result.status == "completed" else None
            if scores is not None:
                found.append(KnownScore(skill_id=ref.ref_id, case_id=case.id, scores=scores))
    return tuple(found)


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
        rounds = params.max_rounds * (params.beam_width * screening_size(cases) + cases)
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
