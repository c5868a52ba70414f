"""Routes for the lab's analyses, searches and leaderboard."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncGenerator, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query

from personalab.errors import NotFound
from personalab.lab.calling import is_free, warning_text
from personalab.lab.reports.data import ContentPair, Iteration, ReportData, RoundMark
from personalab.lab.reports.texts import difference, word
from personalab.operations.lab.findings import run_analysis
from personalab.operations.lab.iterating import iteration_bound, iteration_status, stop_iteration
from personalab.operations.lab.leaderboard import leaderboard
from personalab.operations.lab.projects import project_status
from personalab.operations.lab.reporting import report_data
from personalab.texts import Language, say
from web.api.jobs import started
from web.api.lab import check_confirmed
from web.api.lab_projects import models_of, running, subject_of
from web.api.lab_result_shapes import (
    AnalysisRequest,
    AnalysisView,
    BoardGroup,
    DiffLineResponse,
    Dot,
    IssueResponse,
    LeaderboardResponse,
    Round,
    SearchPlan,
    SearchRequest,
    SearchView,
    SegmentResponse,
)
from web.api.lab_results import ends_of
from web.api.lab_shapes import Paused, ProjectName
from web.api.lab_wording import search_plan_text, search_text
from web.desk import AppContext, ContextDep
from web.shapes import Id, JobStarted

router = APIRouter(prefix="/api/lab", tags=["lab"])

_DIFF_LINES = 1_000
_SEARCHED = ("project", "status", "round", "evaluations", "stop_cause", "skill_id", "ended_before")

# --- analysis


@router.get("/projects/{project}/analysis")
async def analysis(desk: ContextDep, project: ProjectName) -> AnalysisView:
    """Give the segments that make skills better, and what they lack, if that was found out."""
    language = desk.language
    data = await report_data(desk.services, project, language)
    found = data.analysis
    return AnalysisView(
        project=project,
        done=found is not None,
        segments=[
            SegmentResponse(
                id=row.segment_id,
                skill=row.skill,
                kind=row.kind,
                dimension=row.dimension,
                dimension_label=word(row.dimension, language),
                content=row.content,
                reason=row.reason,
            )
            for row in (found.segments if found else ())
        ],
        issues=[
            IssueResponse(
                skill=row.skill,
                dimension=row.dimension,
                dimension_label=word(row.dimension, language),
                description=row.description,
            )
            for row in (found.issues if found else ())
        ],
    )


@router.post("/projects/{project}/analysis", status_code=202)
async def analyse(desk: ContextDep, project: ProjectName, asked: AnalysisRequest) -> JobStarted:
    """Find out, with one call of a model, what makes the better skills of a project better."""
    status = await project_status(desk.services, project)
    name = status["project"]
    check_confirmed([status["options"]["model"]], 1, confirm=asked.confirm)

    async def work() -> AsyncGenerator[dict[str, Any]]:
        yield {"type": "progress", "stage": "analyse"}
        report = await run_analysis(desk.services, name)
        yield {"project": name, "segments": len(report.advantage_segments), "issues": len(report.issues)}

    return started(desk.jobs.begin("lab_analysis", subject_of(name), work()))


# --- searching


@router.post("/projects/{project}/iteration/plan")
async def search_plan(desk: ContextDep, project: ProjectName, asked: SearchRequest) -> SearchPlan:
    """Tell what a search takes at the most, before anything is spent; nothing is changed."""
    return (await _bound(desk, project, asked))[1]


async def _bound(desk: AppContext, project: str, asked: SearchRequest) -> tuple[str, SearchPlan]:
    status = await project_status(desk.services, project)
    options: Mapping[str, Any] = status["options"]
    bound = await iteration_bound(desk.services, status["project"], _wishes(asked))
    models = models_of(options)
    free = all(map(is_free, models))
    plan = SearchPlan(
        evaluations=bound["evaluations"],
        calls_each=bound["calls_each"],
        calls=bound["calls"],
        max_calls=options["max_calls"],
        max_usd=options["max_usd"],
        models=models,
        is_free=free,
        needs_confirm=bool(bound["calls"]) and not free,
        text=search_plan_text(bound, models, desk.language, free=free),
    )
    return status["project"], plan


def _wishes(asked: SearchRequest) -> dict[str, Any]:
    return asked.model_dump(exclude_none=True, exclude={"confirm"})


@router.post("/projects/{project}/iteration", status_code=202)
async def search(desk: ContextDep, project: ProjectName, asked: SearchRequest) -> JobStarted:
    """Search for a better skill, or go on with a search; where it may cost money it has to be confirmed."""
    name, plan = await _bound(desk, project, asked)
    check_confirmed(plan.models, plan.calls, confirm=asked.confirm)
    graph = await asyncio.to_thread(importlib.import_module, "graph.iterate")
    stream: AsyncGenerator[Any] = graph.stream_iterate(desk.services, {"project": name, **_wishes(asked)})

    async def stop() -> None:
        await stop_iteration(desk.services, name)

    return started(desk.jobs.begin("lab_iteration", subject_of(name), stream, stop=stop, told=_searched))


def _searched(result: dict[str, Any]) -> dict[str, Any]:
    return {name: result.get(name) for name in _SEARCHED}


@router.post("/projects/{project}/iteration/stop")
async def stop_search(desk: ContextDep, project: ProjectName) -> Paused:
    """End a search with its report, whoever began it; pausing it instead lets it be gone on with."""
    return Paused(**await stop_iteration(desk.services, project))


@router.get("/projects/{project}/iteration")
async def search_state(desk: ContextDep, project: ProjectName) -> SearchView:
    """Tell how a search goes or went, round by round."""
    name = (await project_status(desk.services, project))["project"]
    try:
        status = await iteration_status(desk.services, name)
    except NotFound as error:
        if error.code != "lab_no_iteration":
            raise
        status = None
    language = desk.language
    data = await report_data(desk.services, name, language)
    job = running(desk, name)
    is_running = job is not None and job.kind == "lab_iteration"
    return _search_view(name, status, data, is_running, language)


def _search_view(
    project: str,
    status: Mapping[str, Any] | None,
    data: ReportData,
    running: bool,
    language: Language,
) -> SearchView:
    status, started = status or {}, status is not None
    found = data.iteration or Iteration()
    pair = data.pair if started else None
    report: Mapping[str, Any] = status.get("report") or {}
    parameters: Mapping[str, Any] = status.get("parameters") or {}
    cause = status.get("stop_cause")
    return SearchView(
        project=project,
        started=started,
        completed_at=status.get("completed_at"),
        stop_cause=cause,
        text=search_text(found, cause=cause, running=running, language=language) if started else [],
        start_score=found.start_score,
        best_round=found.best_round,
        best_name=found.best_name,
        best_score=found.best_score,
        corrected=found.corrected,
        corrected_interval=ends_of(found.corrected_interval),
        retested=found.retested,
        evaluations=found.evaluations,
        max_rounds=parameters.get("max_rounds"),
        winner_skill_id=report.get("best_skill_id") if report.get("best_round") else None,
        rounds=rounds_of(found),
        parent=pair.parent if pair else "",
        diff=_diff(pair) if pair else [],
    )


def rounds_of(found: Iteration) -> list[Round]:
    """Return the rounds, each with the best score up to it."""
    best, rows = found.start_score, list[Round]()
    for mark in found.rounds:
        scores = [score for score in (best, mark.score) if score is not None]
        best = max(scores, default=None)
        rows.append(_round(mark, best))
    return rows


def _round(mark: RoundMark, best: float | None) -> Round:
    dots = [
        Dot(strategy=dot.strategy, score=dot.score, won=dot.won, error=dot.error) for dot in mark.candidates
    ]
    return Round(
        round=mark.round,
        strategy=mark.strategy,
        winner=mark.winner,
        score=mark.score,
        best_so_far=best,
        candidates=dots,
    )


def _diff(pair: ContentPair) -> list[DiffLineResponse]:
    lines = difference(pair.before, pair.after).lines
    return [
        DiffLineResponse(kind=line.kind, text=line.text, count=line.count) for line in lines[:_DIFF_LINES]
    ]


# --- all projects


@router.get("/leaderboard")
async def board(
    desk: ContextDep,
    baseline_id: Annotated[Id | None, Query()] = None,
    purpose: Annotated[str | None, Query(max_length=200)] = None,
) -> LeaderboardResponse:
    """Tell how every skill did on every baseline, over all projects, and whether that still holds."""
    found = await leaderboard(desk.services, baseline_id=baseline_id, purpose=purpose)
    archived, language = set(found["archived_baselines"]), desk.language
    return LeaderboardResponse(
        groups=[_group(group, archived, language) for group in found["groups"]],
        warnings=[warning_text(row, language) for row in found["warnings"]],
    )


def _group(group: Mapping[str, Any], archived: set[str], language: Language) -> BoardGroup:
    rows = [
        {**row, "staleness_text": say(f"web_lab_{row['staleness']}", language)} for row in group["records"]
    ]
    told = {"is_archived": group["baseline_id"] in archived, "records": rows}
    return BoardGroup.model_validate({**group, **told})
