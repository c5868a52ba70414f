"""Progress records and final reports of an iteration, and its winner."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from personalab.errors import NotFound
from personalab.lab.assets import SkillMeta
from personalab.lab.engine.problem import Candidate, StopCause, original
from personalab.lab.findings import Provenance, RoundConfig
from personalab.lab.iterating import exploration_log, iteration_report, round_name
from personalab.lab.recomposing import iteration_strategy, language_of, provenance_of
from personalab.operations.lab.searching import FIRST_VERSION, SearchProgress, version_of
from personalab.services import Services
from personalab.storage.lab.iterations import IterationFiles
from personalab.storage.lab.projects import ProjectPlace


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


def conclude(services: Services, search: SearchProgress, ended_by: StopCause | None) -> dict[str, Any]:
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
