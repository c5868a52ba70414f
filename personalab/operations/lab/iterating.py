"""How is a search for a better skill begun, gone on with, and told?

Nothing is remembered but files: the plan, and the results of what was evaluated. Every step goes through the whole
search again, which takes its answers from the results, and arrives where something is left to evaluate.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from personalab.errors import Busy, NotFound, ProviderError, StorageError, UserError
from personalab.lab.assets import SkillMeta
from personalab.lab.engine.ledger_engine import LedgerEngine, screened
from personalab.lab.engine.problem import BestLog, Candidate, Observed, Problem, StopCause, Trial, original
from personalab.lab.findings import ExplorationLog, IterationReport, Provenance, RoundConfig
from personalab.lab.iterating import (
    IterationParams,
    IterationPlan,
    KnownScore,
    PlannedCase,
    candidate_skill_id,
    exploration_log,
    iteration_report,
    round_name,
)
from personalab.lab.projects import IterationConfig, Result
from personalab.lab.recomposing import iteration_strategy, language_of, provenance_of
from personalab.lab.resuming import BUDGET, arm_folder, case_file
from personalab.lab.retention import read_retention
from personalab.lab.segments import marks_of, pool
from personalab.operations.lab.evaluating import Arm, Task
from personalab.services import Services
from personalab.storage.lab.iterations import IterationFiles
from personalab.storage.lab.projects import BaselineCopy, ProjectPlace
from personalab.storage.leases import unbroken

_VERSION = "v1"
_MAY_GROW = ("max_rounds", "max_evaluations")
_MOST_OPEN = 8
_open: OrderedDict[str, Search] = OrderedDict()
"""Searches that someone holds the lease of; whatever is not here is made again from its files."""


@dataclass(frozen=True, slots=True)
class Search:
    """A search as far as the results on disk carry it."""

    place: ProjectPlace
    files: IterationFiles
    plan: IterationPlan
    engine: LedgerEngine
    trials: tuple[Trial, ...]
    """What is to be evaluated next, all of it, also what is on disk already; nothing when it is over."""
    number: int
    """The round they belong to; 0 for what is tested once more at the end."""

    originals: dict[str, float]
    """The averages of the originals that went through all cases, by skill."""

    def skill_of(self, candidate: Candidate) -> str:
        """Give the id of the skill that a candidate is."""
        known = self.plan.original(candidate)
        return known or candidate_skill_id(self.plan, candidate)

    def retested(self, candidate: Candidate) -> int:
        """Count the cases on which a candidate was tested once more."""
        skill_id = self.skill_of(candidate)
        folder = self.files.results(0) / arm_folder(skill_id, _version_of(self, skill_id))
        found = [self.place.result(folder / f"{case_file(case.id, None)}.json") for case in self.plan.cases]
        return sum(result is not None and result.status == "completed" for result in found)

    @property
    def best(self) -> BestLog:
        """The best so far: a candidate only if its average is above that of every original."""
        found = self.engine.best
        if found.candidate is None or found.round == 0:
            return found
        before = max(self.originals, key=lambda skill_id: (self.originals[skill_id], skill_id))
        if found.avg is not None and round(found.avg, 1) > round(self.originals[before], 1):
            return found
        candidate = original(self.plan.problem(), before)
        average = self.originals[before]
        return replace(found, candidate=candidate, round=0, avg=average, breakdown=None, corrected=None)


# --- beginning


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
        wishes["baseline_id"] = _baseline(place, wishes["baseline_id"]).ref.ref_id
    fresh = bool(wishes.pop("fresh", False))
    if plan is not None and not fresh:
        _check_same(plan, wishes)
        grown = _grown(plan, wishes)
        if plan.completed_at is None or plan.stop_cause in ("manual", "budget") or grown != plan.parameters:
            plan = plan.changed(parameters=grown.model_dump(), completed_at=None, stop_cause=None)
            files.save_plan(plan)
        return plan
    made = _plan(services, place, wishes, files.set_aside_before())
    files.set_aside(services.now())
    files.save_plan(made)
    return made


def _grown(plan: IterationPlan, wishes: Mapping[str, Any]) -> IterationParams:
    """Give the parameters with more rounds and more evaluations, where more are wanted."""
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
    baseline = _baseline(place, wishes.pop("baseline_id", None))
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
        parameters=_parameters(place.config.iteration_config, {"seed": earlier, **wishes}),
        retention_rules=rules,
        kept=tuple(kept),
        segments=tuple(row.fields() for row in found),
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


def _parameters(defaults: IterationConfig | None, wishes: Mapping[str, Any]) -> IterationParams:
    known = defaults.model_dump(exclude={"mode"}) if defaults and defaults.mode == "beam" else {}
    names = IterationParams.model_fields
    return IterationParams.read({**{n: v for n, v in known.items() if n in names}, **wishes}, "iterate")


def _baseline(place: ProjectPlace, baseline_id: object) -> BaselineCopy:
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


# --- going on


def resumed(place: ProjectPlace, lease_id: str) -> Search:
    """Go on with a search up to where something is left to evaluate.

    Whoever holds the lease goes on from where it was; whoever comes anew goes through it all with the results on disk.
    """
    search = _advanced(_open.pop(lease_id, None) or _first(place))
    _open[lease_id] = search
    while len(_open) > _MOST_OPEN:
        _open.popitem(last=False)
    return search


def _first(place: ProjectPlace) -> Search:
    files = IterationFiles(place.folder)
    plan = files.plan()
    if plan is None:
        raise NotFound("lab_no_iteration", project=place.config.name)
    problem = plan.problem()
    known = [
        Observed(original(problem, row.skill_id).candidate_id, row.case_id, 1, row.scores)
        for row in plan.known
        if row.skill_id in plan.skills
    ]
    engine = LedgerEngine(problem, plan.parameters.engine(), known)
    return _asked(Search(place, files, plan, engine, (), 0, _averages(plan, problem, known)))


def _advanced(search: Search) -> Search:
    """Tell the engine what is on disk, as long as all that it asked for is."""
    while search.trials:
        observed = [_observed(search, trial) for trial in search.trials]
        if any(found is None for found in observed):
            break
        search.engine.tell([found for found in observed if found is not None])
        search = _asked(search)
    return search


def _asked(search: Search) -> Search:
    number = len(search.engine.rounds) + 1
    trials = tuple(search.engine.ask())
    return replace(search, trials=trials, number=0 if trials and trials[0].repeat > 1 else number)


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


def _averages(plan: IterationPlan, problem: Problem, known: list[Observed]) -> dict[str, float]:
    """Average the originals that were scored on every case."""
    found: dict[str, float] = {}
    for skill_id in plan.skills:
        name = original(problem, skill_id).candidate_id
        totals = [sum(seen.scores.values()) for seen in known if seen.candidate_id == name and seen.scores]
        if len(totals) == len(plan.cases):
            found[skill_id] = sum(totals) / len(totals)
    return found


def _observed(search: Search, trial: Trial) -> Observed | None:
    """Read what came of an evaluation, in whichever round it was made; ``None`` where it is still to be made."""
    skill_id = search.skill_of(trial.candidate)
    name = f"{case_file(trial.case_id, None)}.json"
    folder = arm_folder(skill_id, _version_of(search, skill_id))
    for results in search.files.all_results(search.number):
        result = search.place.result(results / folder / name)
        if result is None or _was_left_out(result):
            continue
        if result.status != "completed" and search.number == search.plan.redo:
            return None
        scores = result.scores.by_dimension() if result.status == "completed" else None
        return Observed(trial.candidate.candidate_id, trial.case_id, trial.repeat, scores)
    return None


def _was_left_out(result: Result) -> bool:
    return result.status == "skipped" and (result.error or "").startswith(BUDGET)


def _version_of(search: Search, skill_id: str) -> str:
    return next((ref.version for ref in search.place.config.skills if ref.ref_id == skill_id), _VERSION)


def tasks_of(search: Search, repeats: int, now: str) -> list[Task]:
    """Lay out what is to be evaluated: each candidate as a skill with files of its own.

    What is tested once more is executed anew: it begins after the ``repeats`` of the first time.
    """
    baseline = _baseline(search.place, search.plan.baseline_id)
    cases = {case.id: case for case in baseline.cases.cases}
    arms: dict[str, Arm] = {}
    tasks: list[Task] = []
    for trial in search.trials:
        if _observed(search, trial) is not None:
            continue
        if trial.case_id not in cases:
            file = f"{search.place.name}/iterations/x_iteration.json"
            raise StorageError("file_broken", file=file, reason=f"the baseline has no {trial.case_id}")
        known = arms.get(trial.candidate.candidate_id)
        arm = arms[trial.candidate.candidate_id] = known or _arm(search, trial.candidate, now)
        tasks.append(
            Task(
                arm=arm,
                baseline_id=search.plan.baseline_id,
                baseline_version=search.plan.baseline_version,
                case=cases[trial.case_id],
                repeat=1 + repeats * (trial.repeat - 1 + (search.plan.earlier if trial.repeat > 1 else 0)),
                results=search.files.results(search.number),
            )
        )
    return tasks


def _arm(search: Search, candidate: Candidate, now: str) -> Arm:
    """Make a candidate a skill that can be tested; an original is tested as the project has it."""
    skill_id, plan = search.skill_of(candidate), search.plan
    for copy in search.place.skills():
        if copy.ref.ref_id == skill_id:
            return Arm(skill_id, copy.ref.name, copy.ref.version, copy.content, copy.file)
    content, version = plan.content(candidate), _VERSION
    meta = SkillMeta(
        id=skill_id,
        name=round_name(plan.base_name, search.number) if search.number else plan.base_name,
        purpose=plan.purpose or "iteration",
        provider=plan.provider or "personalab",
        version=version,
        status="active",
        created_at=now,
        updated_at=now,
    )
    file = search.files.save_candidate(search.number, meta, content)
    return Arm(skill_id=skill_id, name=meta.name, version=version, content=content, system_file=file)


# --- telling


def save_progress(search: Search, now: str) -> None:
    """Write down the rounds that have ended, and that the next one has begun."""
    plan, files = search.plan, search.files
    for found in search.engine.rounds:
        known = files.round_config(found.round)
        if known is None or known.status == "running":
            winner = found.winner or (found.candidates[0].candidate if found.candidates else None)
            if winner is not None:
                files.save_round(_round(search, found.round, winner, now, known, done=True))
    if search.number and search.trials and files.round_config(search.number) is None:
        files.save_round(_round(search, search.number, search.trials[0].candidate, now, None, done=False))
    files.save_log(exploration_log(plan, search.engine.rounds, search.skill_of, plan.completed_at))


def _round(
    search: Search, number: int, candidate: Candidate, now: str, known: RoundConfig | None, *, done: bool
) -> RoundConfig:
    skill_id = search.skill_of(candidate)
    return RoundConfig(
        round=number,
        skill_id=skill_id,
        skill_name=round_name(search.plan.base_name, number),
        skill_version=_version_of(search, skill_id),
        baseline_id=search.plan.baseline_id,
        retention_rules=search.plan.retention_rules,
        started_at=known.started_at if known else now,
        completed_at=now if done else None,
        status="completed" if done else "running",
    )


def ledger_fields(search: Search) -> dict[str, Any]:
    """Tell what is known of each segment, and how the search came to its end."""
    best = search.best
    return {
        "stop_cause": best.stop_cause,
        "evaluations": best.evaluations,
        "best": best_fields(search),
        "strategy_odds": search.engine.strategy_odds(),
        "segments": search.engine.ledger(),
        "parameters": search.plan.parameters.model_dump(),
    }


def best_fields(search: Search) -> dict[str, Any] | None:
    """Tell the best so far."""
    best = search.best
    if best.candidate is None:
        return None
    corrected = best.corrected
    return {
        "skill_id": search.skill_of(best.candidate),
        "name": round_name(search.plan.base_name, best.round)
        if best.round
        else search.plan.name_of(search.skill_of(best.candidate)),
        "round": best.round,
        "strategy": best.candidate.strategy,
        "segments": list(best.candidate.segments),
        "avg_score": None if best.avg is None else round(best.avg, 1),
        "retested": search.retested(best.candidate),
        "corrected": None
        if corrected is None
        else {name: round(getattr(corrected, name), 2) for name in ("score", "low", "high")},
    }


def conclude(services: Services, search: Search, ended_by: StopCause | None) -> dict[str, Any]:
    """Write the reports, and put the winner into the library if it is a new skill.

    ``ended_by`` says what ended the search where that was not its own decision.
    """
    now = services.now()
    best = search.best
    best = replace(best, stop_cause=ended_by or best.stop_cause or "manual")
    plan = search.plan.changed(completed_at=now, stop_cause=best.stop_cause)
    report = iteration_report(plan, search.engine.rounds, best, search.skill_of, now)
    winner = _add_winner(services, search, now)
    search.files.save_log(exploration_log(plan, search.engine.rounds, search.skill_of, now))
    search.files.save_ledger({**ledger_fields(search), "stop_cause": best.stop_cause})
    search.files.save_report(report)
    search.files.save_plan(plan)
    search.files.want_stop(False)
    return {"report": report.fields(), "skill_id": winner, "stop_cause": plan.stop_cause}


def _add_winner(services: Services, search: Search, now: str) -> str | None:
    """Add the winner, once: whoever concludes again finds it there."""
    best, plan = search.best, search.plan
    if best.candidate is None or best.round == 0 or plan.original(best.candidate):
        return None
    skill_id = search.skill_of(best.candidate)
    try:
        return services.assets.skill(skill_id).meta.id
    except NotFound:
        pass
    meta = SkillMeta(
        id=skill_id,
        name=round_name(plan.base_name, best.round),
        source=search.place.config.name,
        purpose=plan.purpose or "iteration",
        provider=plan.provider or "personalab",
        version=_VERSION,
        status="active",
        created_at=now,
        updated_at=now,
    )
    content = plan.content(best.candidate)
    services.assets.add_skill(meta, content, provenance=_provenance(search, best.candidate, now))
    return skill_id


def _provenance(search: Search, candidate: Candidate, now: str) -> Provenance:
    """Tell which originals gave which segments, and by which way the search came to it."""
    plan, place = search.plan, search.place
    chosen = [row for row in plan.pool() if row.segment_id in candidate.segments]
    parents = [row.candidate for found in search.engine.rounds for row in found.candidates]
    known = {parent.candidate_id: search.skill_of(parent) for parent in parents}
    known |= {original(plan.problem(), skill_id).candidate_id: skill_id for skill_id in plan.skills}
    parent = ", ".join(known.get(found, found) for found in candidate.parents) or "–"
    return provenance_of(
        project_id=plan.project_id,
        project_name=place.config.name,
        strategy=iteration_strategy(
            search.best.round,
            candidate.strategy or "GREEDY",
            parent,
            [row.segment_id for row in chosen],
            language_of(row.text for row in chosen),
        ),
        rules=plan.retention_rules,
        skills={ref.ref_id: (ref.name, ref.version) for ref in place.config.skills},
        segments=[(row.skill_id, row.segment_id) for row in chosen],
        now=now,
    )


def ended_before(place: ProjectPlace) -> dict[str, Any]:
    """Tell how a search ended that has come to its end before."""
    files = IterationFiles(place.folder)
    plan, report, ledger = files.plan(), files.report(), files.ledger() or {}
    best: Any = ledger.get("best") or {}
    return {
        "ended_before": True,
        "round": report.total_rounds if report else 0,
        "evaluations": ledger.get("evaluations") or 0,
        "best": best or None,
        "stop_cause": plan.stop_cause if plan else None,
        "report": report.model_dump(mode="json") if report else None,
        "skill_id": best.get("skill_id") if best.get("round") else None,
    }


# --- what entrances ask for


async def iteration_bound(services: Services, project: str, wishes: Mapping[str, Any]) -> dict[str, int]:
    """Tell how many evaluations a search makes at the most, and how many calls that are."""

    def read() -> dict[str, int]:
        place = services.projects.project(project)
        options, files = place.options(), IterationFiles(place.folder)
        plan = files.plan()
        known = plan.parameters if plan and not wishes.get("fresh") else None
        given = {name: value for name, value in wishes.items() if name in IterationParams.model_fields}
        defaults = known.model_dump() if known else {}
        params = _parameters(place.config.iteration_config, {**defaults, **given})
        cases = len(_baseline(place, wishes.get("baseline_id")).cases.cases)
        rounds = params.max_rounds * (params.beam_width * screened(cases) + cases)
        evaluations = min(rounds + 2 * cases, params.max_evaluations or rounds + 2 * cases)
        each = options.repeats * (1 + len(options.judging()) * options.judge_repeats)
        return {"evaluations": evaluations, "calls_each": each, "calls": evaluations * each}

    return await asyncio.to_thread(read)


async def iteration_status(services: Services, project: str) -> dict[str, Any]:
    """Tell how far an iteration is, from its files."""

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
    """Tell what another program wrote of its iteration."""
    return {
        "parameters": log.params.model_dump() if log else {},
        "retention_rules": "",
        "retention": {"kept": [], "dropped": []},
        "started_at": log.started_at if log else None,
        "completed_at": report.generated_at if report else log.completed_at if log else None,
        "stop_cause": report.stop_reason if report else None,
    }


async def stop_iteration(services: Services, project: str) -> dict[str, Any]:
    """Ask whoever iterates to come to an end with its report; tell whether it has, or is about to."""
    place = await asyncio.to_thread(services.projects.project, project)
    files = IterationFiles(place.folder)
    if not await asyncio.to_thread(services.projects.is_running, place):
        raise NotFound("lab_project_idle", project=place.name)
    await unbroken(files.want_stop, True)
    try:
        await services.projects.leases.stop(place.name, wait=services.settings.busy_seconds)
    except Busy:
        return {"project": place.name, "status": "stopping"}
    except NotFound:
        await unbroken(files.want_stop, False)
        raise
    return {"project": place.name, "status": "stopped"}


# --- a batch that failed


def failing(search: Search, results: Sequence[Result | None]) -> ProviderError | None:
    """Tell that most of a batch failed: no search can be built on that, and it is made again the next time."""
    failed = [result for result in results if result is not None and result.status == "failed"]
    if len(failed) * 2 <= len(results):
        return None
    reason = failed[0].error or "–"
    return ProviderError(
        "lab_iteration_failing", retryable=True, failed=len(failed), total=len(results), reason=reason
    )


def mark_redo(search: Search, lease_id: str, number: int | None) -> None:
    """Note that a round's failed evaluations are to be made again, or no more."""
    plan = search.plan.changed(redo=number)
    search.files.save_plan(plan)
    if lease_id in _open:
        _open[lease_id] = replace(_open[lease_id], plan=plan)
