"""Routes for the results of a project: ranking, scores by case, answers and reports."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from personalab.errors import NotFound
from personalab.lab.options import NO_SKILL_ID
from personalab.lab.projects import Result
from personalab.lab.records import MAXIMA
from personalab.lab.reports.data import Cell, ReportData, ReportSkill
from personalab.lab.reports.data import ReportNotice as Told
from personalab.lab.reports.texts import word
from personalab.lab.statistics import Interval
from personalab.operations.lab.projects import project_status
from personalab.operations.lab.reporting import ReportFormat, project_report, report_data
from personalab.operations.lab.tasks import Task, arms_of, tasks_of
from personalab.services import Services
from personalab.texts import Language, say
from web.api.lab_result_shapes import (
    CellView,
    DimensionScore,
    JudgeView,
    Matrix,
    MatrixCell,
    MatrixRow,
    MatrixSkill,
    RankedSkillResponse,
    RankingResponse,
    ReportNoticeResponse,
)
from web.api.lab_shapes import ProjectName
from web.api.lab_wording import cell_text, rank_notes, score
from web.desk import ContextDep
from web.shapes import Id

router = APIRouter(prefix="/api/lab/projects", tags=["lab"])

_PIECE = 20_000
"""Maximum characters of an answer sent at once."""
_REPORT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The report, as a file",
        "content": {
            media: {"schema": {"type": "string"}} for media in ("text/html", "application/xml", "text/csv")
        },
    }
}
Offset = Annotated[int, Query(ge=0, le=10**9)]


@router.get("/{project}/ranking")
async def ranking(desk: ContextDep, project: ProjectName) -> RankingResponse:
    """Rank the skills by the results at hand, with intervals; what cannot be told apart is a tie."""
    language = desk.language
    data, name = await _data(desk.services, project, language)
    return RankingResponse(
        project=name,
        rows=[_ranked(row, _is_tied(row, data), language) for row in data.rows],
        detectable=data.detectable,
        pass_score=data.pass_score,
        judges=[JudgeView(**asdict(judge)) for judge in data.judges],
        notices=[*(_notice(notice, language) for notice in data.notices), *_detectable(data, language)],
    )


async def _data(services: Services, project: str, language: Language) -> tuple[ReportData, str]:
    name = (await project_status(services, project))["project"]
    return await report_data(services, name, language), name


def _is_tied(row: ReportSkill, data: ReportData) -> bool:
    groups = [other.tie_group for other in data.rows]
    return row.tie_group is not None and groups.count(row.tie_group) > 1


def _detectable(data: ReportData, language: Language) -> list[ReportNoticeResponse]:
    if data.detectable is None:
        return []
    message = say("web_lab_detectable", language, value=score(data.detectable))
    return [ReportNoticeResponse(code="detectable", message=message, loud=False)]


def _ranked(row: ReportSkill, tied: bool, language: Language) -> RankedSkillResponse:
    found = {name: getattr(row, name) for name in RankedSkillResponse.model_fields if hasattr(row, name)}
    told = {
        "name": _name(row, language),
        "interval": ends_of(row.interval),
        "behind_interval": ends_of(row.behind_interval),
        "by_dimension": dict(row.by_dimension),
        "tied": tied,
        "notes": rank_notes(row, tied=tied, language=language),
    }
    return RankedSkillResponse.model_validate({**found, **told})


def _name(row: ReportSkill, language: Language) -> str:
    return word("no_skill_name", language) if row.is_no_skill else row.name


def ends_of(interval: Interval | None) -> tuple[float, float] | None:
    """Return the two ends of an interval."""
    return None if interval is None else (interval.low, interval.high)


def _notice(notice: Told, language: Language) -> ReportNoticeResponse:
    return ReportNoticeResponse(
        code=notice.code, message=word(notice.code, language, **notice.params), loud=notice.loud
    )


# --- the matrix


@router.get("/{project}/results")
async def results(
    desk: ContextDep,
    project: ProjectName,
    offset: Offset = 0,
    limit: Annotated[int, Query(ge=1, le=500, description="So many cases at once")] = 100,
) -> Matrix:
    """Give the scores of every skill on every case; ``open`` is what was not run yet."""
    language = desk.language
    data, name = await _data(desk.services, project, language)
    shown = range(min(offset, len(data.cases)), min(offset + limit, len(data.cases)))
    return Matrix(
        project=name,
        pass_score=data.pass_score,
        skills=[
            MatrixSkill(
                skill_id=row.skill_id,
                name=_name(row, language),
                version=row.version,
                is_no_skill=row.is_no_skill,
            )
            for row in data.rows
        ],
        cases=[_case(data, at, language) for at in shown],
        total_cases=len(data.cases),
        next_offset=offset + limit if offset + limit < len(data.cases) else None,
    )


def _case(data: ReportData, at: int, language: Language) -> MatrixRow:
    case = data.cases[at]
    return MatrixRow(
        case_id=case.case_id,
        name=case.name,
        category=case.category,
        category_text=word(case.category, language),
        baseline_id=case.baseline_id,
        baseline=case.baseline,
        cells=[_cell(data.cell(skill, at), language) for skill in range(len(data.rows))],
    )


def _cell(cell: Cell | None, language: Language) -> MatrixCell:
    status, total = ("open", None) if cell is None else (cell.status, cell.total)
    return MatrixCell(status=status, total=total, text=cell_text(status, total, language))


@router.get("/{project}/cell")
async def cell(
    desk: ContextDep,
    project: ProjectName,
    skill_id: Annotated[Id, Query()],
    case_id: Annotated[Id, Query()],
    baseline_id: Annotated[
        Id | None, Query(description="Needed where two baselines have such a case")
    ] = None,
    version: Annotated[
        str | None, Query(pattern=r"^v[1-9][0-9]{0,6}$", description="Needed where two versions take part")
    ] = None,
    offset: Offset = 0,
) -> CellView:
    """Give what a skill answered to a case, and how it was judged; a long answer comes in pieces."""

    def read() -> CellView:
        return _read_cell(
            desk.services, project, (skill_id, case_id, baseline_id, version), offset, desk.language
        )

    return await asyncio.to_thread(read)


def _read_cell(
    services: Services,
    project: str,
    wanted: tuple[str, str, str | None, str | None],
    offset: int,
    language: Language,
) -> CellView:
    skill_id, case_id, baseline_id, version = wanted
    place = services.projects.project(project)
    for task in tasks_of(place, arms_of(place, place.options()), place.baselines()):
        same = (task.arm.skill_id, task.case.id) == (skill_id, case_id)
        if same and baseline_id in (None, task.baseline_id) and version in (None, task.arm.version):
            return _cell_view(place.name, task, place.read(task.result_path, Result), offset, language)
    raise NotFound("lab_no_task", skill=skill_id, case=case_id, project=place.name)


def _cell_view(project: str, task: Task, result: Result | None, offset: int, language: Language) -> CellView:
    answer = result.actual_output if result else ""
    status, total = (result.status, result.scores.total) if result else ("open", None)
    end = offset + _PIECE
    idle = task.arm.skill_id == NO_SKILL_ID
    scores = (result.scores.by_dimension() if result else None) or {}
    return CellView(
        project=project,
        skill_id=task.arm.skill_id,
        skill=word("no_skill_name", language) if idle else task.arm.name,
        version=task.arm.version,
        case_id=task.case.id,
        case=task.case.name,
        baseline_id=task.baseline_id,
        status=status,
        text=cell_text(status, total, language),
        input=task.case.input,
        expected=task.case.expected_output,
        answer=answer[offset:end],
        answer_length=len(answer),
        next_offset=end if end < len(answer) else None,
        total=total,
        scores=[
            DimensionScore(dimension=name, label=word(name, language), score=value, maximum=MAXIMA[name])
            for name, value in scores.items()
        ],
        reasoning=result.score_reasoning if result else "",
        error=result.error if result else None,
        duration_ms=result.duration_ms if result else 0,
        model_version=result.model_version if result else "",
        executor_version=result.cli_version if result else "",
        executed_at=result.executed_at if result else None,
    )


# --- reports


@router.get("/{project}/report", response_class=Response, responses=_REPORT)
async def report(desk: ContextDep, project: ProjectName, format: ReportFormat = "html") -> Response:
    """Give a report of a project as a file: one page, JUnit's XML for CI, or a table."""
    made = await project_report(desk.services, project, format, desk.language)
    headers = {"content-disposition": f'attachment; filename="{made.name}"', "cache-control": "no-store"}
    return Response(made.content, media_type=made.media_type, headers=headers)
