"""The state of an iteration, rebuilt from its files, the evaluations that are next, and its reports."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from personalab.errors import NotFound, ProviderError, Reason, StorageError
from personalab.lab.assets import SkillMeta
from personalab.lab.calling import CallAnswer
from personalab.lab.case_calls import BUDGET, arm_folder, case_file
from personalab.lab.engine.ledger_engine import LedgerEngine
from personalab.lab.engine.problem import (
    BestLog,
    Candidate,
    Observed,
    SearchProblem,
    StopCause,
    Trial,
    original,
)
from personalab.lab.findings import Provenance, RoundConfig
from personalab.lab.iterating import (
    IterationPlan,
    candidate_skill_id,
    exploration_log,
    iteration_report,
    round_name,
)
from personalab.lab.projects import Result
from personalab.lab.recomposing import iteration_strategy, language_of, provenance_of
from personalab.operations.lab.iterating import baseline_in
from personalab.operations.lab.questions import FailedCallError
from personalab.operations.lab.tasks import Arm, Task
from personalab.services import Services
from personalab.storage.lab.iterations import IterationFiles
from personalab.storage.lab.projects import ProjectPlace

FIRST_VERSION = "v1"
_MOST_OPEN = 8
_open: OrderedDict[str, SearchProgress] = OrderedDict()
"""Searches that someone holds the lease of; whatever is not here is made again from its files."""


@dataclass(frozen=True, slots=True)
class SearchProgress:
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
        """Return the id of the skill that a candidate is."""
        known = self.plan.original(candidate)
        return known or candidate_skill_id(self.plan, candidate)

    def retested(self, candidate: Candidate) -> int:
        """Count the cases on which a candidate was tested once more."""
        skill_id = self.skill_of(candidate)
        folder = self.files.results(0) / arm_folder(skill_id, version_of(self, skill_id))
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


def resume_search(place: ProjectPlace, lease_id: str) -> SearchProgress:
    """Resume a search up to the point where something is left to evaluate.

    Whoever holds the lease goes on from where it was; whoever comes anew goes through it all with the results on disk.
    """
    search = _advanced(_open.pop(lease_id, None) or _first(place))
    _open[lease_id] = search
    while len(_open) > _MOST_OPEN:
        _open.popitem(last=False)
    return search


def _first(place: ProjectPlace) -> SearchProgress:
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
    return _asked(SearchProgress(place, files, plan, engine, (), 0, _averages(plan, problem, known)))


def _advanced(search: SearchProgress) -> SearchProgress:
    """Pass the results on disk to the engine, as long as everything it asked for is there."""
    while search.trials:
        observed = [_observed(search, trial) for trial in search.trials]
        if any(found is None for found in observed):
            break
        search.engine.tell([found for found in observed if found is not None])
        search = _asked(search)
    return search


def _asked(search: SearchProgress) -> SearchProgress:
    number = len(search.engine.rounds) + 1
    trials = tuple(search.engine.ask())
    return replace(search, trials=trials, number=0 if trials and trials[0].repeat > 1 else number)


def _averages(plan: IterationPlan, problem: SearchProblem, known: list[Observed]) -> dict[str, float]:
    """Average the originals that were scored on every case."""
    found: dict[str, float] = {}
    for skill_id in plan.skills:
        name = original(problem, skill_id).candidate_id
        totals = [sum(seen.scores.values()) for seen in known if seen.candidate_id == name and seen.scores]
        if len(totals) == len(plan.cases):
            found[skill_id] = sum(totals) / len(totals)
    return found


def _observed(search: SearchProgress, trial: Trial) -> Observed | None:
    """Read what came of an evaluation, in whichever round it was made; ``None`` where it is still to be made."""
    skill_id = search.skill_of(trial.candidate)
    name = f"{case_file(trial.case_id, None)}.json"
    folder = arm_folder(skill_id, version_of(search, skill_id))
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


def version_of(search: SearchProgress, skill_id: str) -> str:
    """Return the tested version of a skill: an original's own, or a candidate's first."""
    return next((ref.version for ref in search.place.config.skills if ref.ref_id == skill_id), FIRST_VERSION)


def tasks_of(search: SearchProgress, repeats: int, now: str) -> list[Task]:
    """Lay out what is to be evaluated: each candidate as a skill with files of its own.

    What is tested once more is executed anew: it begins after the ``repeats`` of the first time.
    """
    baseline = baseline_in(search.place, search.plan.baseline_id)
    cases = {case.id: case for case in baseline.cases.cases}
    arms: dict[str, Arm] = {}
    tasks: list[Task] = []
    for trial in search.trials:
        if _observed(search, trial) is not None:
            continue
        if trial.case_id not in cases:
            file = f"{search.place.name}/iterations/x_iteration.json"
            raise StorageError("file_broken", file=file, reason=Reason("no_such_case", case_id=trial.case_id))
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


def _arm(search: SearchProgress, candidate: Candidate, now: str) -> Arm:
    """Make a candidate a skill that can be tested; an original is tested as the project has it."""
    skill_id, plan = search.skill_of(candidate), search.plan
    for copy in search.place.skills():
        if copy.ref.ref_id == skill_id:
            return Arm(skill_id, copy.ref.name, copy.ref.version, copy.content, copy.file)
    content, version = plan.content(candidate), FIRST_VERSION
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


# --- a batch that failed


def failing(
    place: ProjectPlace, tasks: Sequence[Task], results: Sequence[Result | None]
) -> ProviderError | None:
    """Return an error if most of a batch failed: no search can rely on it, and the batch is repeated next time."""
    failed = [
        (task, result)
        for task, result in zip(tasks, results, strict=True)
        if result is not None and result.status == "failed"
    ]
    if len(failed) * 2 <= len(results):
        return None
    task, result = failed[0]
    calls = place.calls(task.calls_path)
    rows = [row for row in (calls.calls if calls else ()) if row.status != "ok"]
    why = rows[-1] if rows else CallAnswer("failed", error=result.error)
    return FailedCallError(
        "lab_iteration_failing", why, retryable=True, failed=len(failed), total=len(results)
    )


def mark_redo(search: SearchProgress, lease_id: str, number: int | None) -> None:
    """Note that a round's failed evaluations are to be made again, or no more."""
    plan = search.plan.changed(redo=number)
    search.files.save_plan(plan)
    if lease_id in _open:
        _open[lease_id] = replace(_open[lease_id], plan=plan)


def save_progress(search: SearchProgress, now: str) -> None:
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
    search: SearchProgress,
    number: int,
    candidate: Candidate,
    now: str,
    known: RoundConfig | None,
    *,
    done: bool,
) -> RoundConfig:
    skill_id = search.skill_of(candidate)
    return RoundConfig(
        round=number,
        skill_id=skill_id,
        skill_name=round_name(search.plan.base_name, number),
        skill_version=version_of(search, skill_id),
        baseline_id=search.plan.baseline_id,
        retention_rules=search.plan.retention_rules,
        started_at=known.started_at if known else now,
        completed_at=now if done else None,
        status="completed" if done else "running",
    )


def ledger_fields(search: SearchProgress) -> dict[str, Any]:
    """Return the estimates of each segment, and how the search ended."""
    best = search.best
    return {
        "stop_cause": best.stop_cause,
        "evaluations": best.evaluations,
        "best": best_fields(search),
        "strategy_odds": search.engine.strategy_odds(),
        "segments": search.engine.ledger(),
        "parameters": search.plan.parameters.model_dump(),
    }


def best_fields(search: SearchProgress) -> dict[str, Any] | None:
    """Return the best candidate so far."""
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


def conclude_search(services: Services, search: SearchProgress, ended_by: StopCause | None) -> dict[str, Any]:
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


def _add_winner(services: Services, search: SearchProgress, now: str) -> str | None:
    """Add the winner, once: a repeated conclusion finds it in the library."""
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
        version=FIRST_VERSION,
        status="active",
        created_at=now,
        updated_at=now,
    )
    content = plan.content(best.candidate)
    services.assets.add_skill(meta, content, provenance=_provenance(search, best.candidate, now))
    return skill_id


def _provenance(search: SearchProgress, candidate: Candidate, now: str) -> Provenance:
    """Return the originals that gave segments, and how the search arrived at the candidate."""
    plan, place = search.plan, search.place
    chosen = [row for row in plan.segments if row.segment_id in candidate.segments]
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
    """Return the result of a search that has ended before."""
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
