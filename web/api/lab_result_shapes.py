"""Request and response models of the lab's results, analyses, searches and leaderboard."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from personalab.lab.leaderboard import Staleness
from personalab.lab.reports.data import CellStatus
from personalab.lab.reports.texts import LineKind
from web.api.lab_shapes import LabResponse
from web.shapes import Id, RequestModel

# --- results


class RankedSkillResponse(LabResponse):
    """A skill's place; unknown is null. Skills of one tie group cannot be told apart."""

    skill_id: str
    name: str
    version: str
    rank: int | None
    tie_group: int | None
    mean: float | None
    interval: tuple[float, float] | None = Field(description="95 % over the cases")
    behind: float | None = Field(description="The difference to the first, case by case; below 0: behind")
    behind_interval: tuple[float, float] | None
    gain: float | None = Field(description="Over the arm without a skill")
    completed: int
    failed: int
    skipped: int
    incomplete: bool
    by_dimension: dict[str, float]
    is_no_skill: bool
    tied: bool
    notes: list[str] = Field(description="What has to be known about its place, in words")


class ReportNoticeResponse(LabResponse):
    """What a reader must know before believing a figure."""

    code: str
    message: str
    loud: bool


class JudgeView(LabResponse):
    """Who scored, and whether it could tell planted answers apart."""

    model: str
    gap: float | None
    passed: bool | None


class RankingResponse(LabResponse):
    """The skills in order."""

    project: str
    rows: list[RankedSkillResponse]
    detectable: float | None = Field(description="A smaller difference could not have been seen")
    pass_score: float
    judges: list[JudgeView]
    notices: list[ReportNoticeResponse]


class MatrixCell(LabResponse):
    """A skill on a case."""

    status: CellStatus | Literal["open"]
    total: float | None
    text: str = Field(description="The score, or in words why there is none")


class MatrixRow(LabResponse):
    """A case, with a cell per skill in the order of ``skills``."""

    case_id: str
    name: str
    category: str
    category_text: str = Field(description="The same in words")
    baseline_id: str
    baseline: str
    cells: list[MatrixCell]


class MatrixSkill(LabResponse):
    """A column of the matrix."""

    skill_id: str
    name: str
    version: str
    is_no_skill: bool


class Matrix(LabResponse):
    """Skills × cases; the best skill first."""

    project: str
    pass_score: float
    skills: list[MatrixSkill]
    cases: list[MatrixRow]
    total_cases: int
    next_offset: int | None


class DimensionScore(LabResponse):
    """One of the six scores of an answer."""

    dimension: str
    label: str
    score: float
    maximum: int


class CellView(LabResponse):
    """What a skill did with a case."""

    project: str
    skill_id: str
    skill: str
    version: str
    case_id: str
    case: str
    baseline_id: str
    status: CellStatus | Literal["open"]
    text: str
    input: str
    expected: str
    answer: str = Field(description="From ``offset`` on")
    answer_length: int
    next_offset: int | None
    total: float | None
    scores: list[DimensionScore]
    reasoning: str
    error: str | None
    duration_ms: int
    model_version: str
    executor_version: str
    executed_at: str | None


# --- findings


class SegmentResponse(LabResponse):
    """A stretch of a skill that does it good; it stands there letter by letter."""

    id: str
    skill: str
    kind: str
    dimension: str
    dimension_label: str
    content: str
    reason: str


class IssueResponse(LabResponse):
    """What a skill lacks."""

    skill: str
    dimension: str
    dimension_label: str
    description: str


class AnalysisView(LabResponse):
    """Why the better skills are better."""

    project: str
    done: bool
    segments: list[SegmentResponse]
    issues: list[IssueResponse]


class AnalysisRequest(RequestModel):
    """An analysis takes one call."""

    confirm: bool = Field(default=False, description="A person agreed to the call, where it may cost money")


class SearchRequest(RequestModel):
    """How a search for a better skill is begun or gone on with."""

    confirm: bool = Field(default=False, description="A person has seen the plan and agreed to it")
    max_rounds: Annotated[int, Field(ge=1, le=1_000)] | None = None
    max_evaluations: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    stop_threshold: Annotated[float, Field(ge=0, le=100)] | None = None
    keep: list[Id] | None = Field(default=None, max_length=1_000, description="Segments that must stay")
    retention_rules: Annotated[str, Field(max_length=20_000)] | None = None
    baseline_id: Id | None = None
    beam_width: Annotated[int, Field(ge=1, le=16)] | None = None
    fresh: bool = Field(
        default=False, description="Begin another instead of going on with the one that is there"
    )


class SearchPlan(LabResponse):
    """What a search takes at the most; none if it has come to its end."""

    evaluations: int
    calls_each: int
    calls: int
    max_calls: int | None
    max_usd: float | None
    models: list[str]
    is_free: bool
    needs_confirm: bool
    text: list[str] = Field(description="The same in words")


class Dot(LabResponse):
    """A candidate of a round; one without a score was screened out or failed."""

    strategy: str
    score: float | None
    won: bool
    error: str


class Round(LabResponse):
    """One round of a search."""

    round: int
    strategy: str
    winner: str
    score: float | None
    best_so_far: float | None
    candidates: list[Dot]


class DiffLineResponse(LabResponse):
    """One line of a difference; ``skipped`` stands for ``count`` equal ones."""

    kind: LineKind
    text: str
    count: int


class SearchView(LabResponse):
    """How a search for a better skill goes or went."""

    project: str
    started: bool
    completed_at: str | None
    stop_cause: str | None
    text: list[str] = Field(description="How it goes or went, in words")
    start_score: float | None
    best_round: int | None = Field(description="0: one of the originals is the best")
    best_name: str
    best_score: float | None
    corrected: float | None = Field(description="Allows for the best having been chosen for a high score")
    corrected_interval: tuple[float, float] | None
    retested: bool
    evaluations: int | None
    max_rounds: int | None
    winner_skill_id: str | None = Field(description="The winner in the library, if it is a new skill")
    rounds: list[Round]
    parent: str = Field(description="With whom the winner is compared")
    diff: list[DiffLineResponse] = Field(
        description="What the winner has that its parent has not, and the other way round"
    )


class BoardRow(LabResponse):
    """One test of one skill on one baseline."""

    skill_id: str
    skill_name: str
    skill_version_tested: str
    skill_version_current: str
    avg_score: float | None
    project_name: str
    tested_at: str
    case_count: int
    completed_cases: int
    failed_cases: int
    staleness: Staleness
    staleness_text: str


class BoardGroup(LabResponse):
    """All tests on one baseline, the best first."""

    baseline_id: str
    baseline_name: str
    baseline_purpose: str
    baseline_case_count: int
    is_archived: bool
    records: list[BoardRow]


class LeaderboardResponse(LabResponse):
    """How every skill did on every baseline, over all projects."""

    groups: list[BoardGroup]
    warnings: list[str]
