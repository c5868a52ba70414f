"""The files of a project: its configuration, results and summary."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from personalab.errors import Invalid, Reason
from personalab.lab.records import (
    DIMENSIONS,
    MAXIMA,
    CaseId,
    Count,
    Dimension,
    Doubt,
    Filled,
    Number,
    Record,
    Time,
    Uuid,
    Version,
)

ProjectStatus = Literal["pending", "running", "completed", "interrupted"]
ResultStatus = Literal["completed", "failed", "skipped"]
Mode = Literal["standard", "beam"]
_NEAR = 0.051
"""Averages are rounded to one decimal."""


class SkillRef(Record):
    """A skill's copy in a project."""

    ref_id: Filled
    name: str = ""
    purpose: str = ""
    provider: str = ""
    version: Version
    local_path: Filled


class BaselineRef(Record):
    """A baseline's copy in a project."""

    ref_id: Filled
    name: str = ""
    version: Version
    local_path: Filled


class CallConfig(Record):
    """How one call is made."""

    model: str
    timeout_seconds: Number = Field(gt=0, le=86_400)
    retry_count: int = Field(ge=0, le=20)
    extra_flags: tuple[str, ...] = ()


class ContextConfig(Record):
    """When a conversation with the model is too long."""

    token_threshold: int = Field(ge=1)
    auto_compress: bool = True
    auto_export: bool = True


class ProjectProgress(Record):
    """How far a project is; the results themselves decide what is left to do."""

    total_tasks: Count
    completed_tasks: Count
    failed_tasks: Count
    last_checkpoint: Count | None


class IterationConfig(Record):
    """What an iteration begins with unless it is told otherwise."""

    mode: Mode = "standard"
    beam_width: int = Field(default=1, ge=1, le=16)
    plateau_threshold: Number = Field(default=1.0, ge=0)
    plateau_rounds_before_escape: int = Field(default=2, ge=1)


class ProjectConfig(Record):
    """``config.json`` of a project."""

    id: Uuid
    name: Filled
    description: str = ""
    status: ProjectStatus
    created_at: Time
    updated_at: Time
    skills: tuple[SkillRef, ...] = Field(min_length=1)
    baselines: tuple[BaselineRef, ...] = Field(min_length=1)
    cli_config: CallConfig
    context_config: ContextConfig
    progress: ProjectProgress
    original_skill_ids: tuple[str, ...] | None = None
    iteration_config: IterationConfig | None = None


class Scores(Record):
    """The six scores of an answer and their sum; all are ``null`` where there is none."""

    functional_correctness: Number | None
    robustness: Number | None
    readability: Number | None
    conciseness: Number | None
    complexity_control: Number | None
    format_compliance: Number | None
    total: Number | None

    @model_validator(mode="after")
    def _in_range(self) -> Self:
        for name in DIMENSIONS:
            value = self.of(name)
            if value is not None and not 0 <= value <= MAXIMA[name]:
                raise Invalid("field_value_not_between", field=name, value=f"{value:g}", limit=MAXIMA[name])
        return self

    def of(self, dimension: Dimension) -> float | None:
        """Return one score."""
        return getattr(self, dimension)

    def by_dimension(self) -> dict[Dimension, float] | None:
        """Return the six scores; ``None`` where one is missing."""
        found: dict[Dimension, float] = {}
        for name in DIMENSIONS:
            if (value := self.of(name)) is not None:
                found[name] = value
        return found if len(found) == len(DIMENSIONS) else None


NO_SCORES = Scores(**dict.fromkeys((*DIMENSIONS, "total")))


def scores_of(by_dimension: dict[Dimension, float]) -> Scores:
    """Make the scores of an answer; the sum is derived."""
    rounded = {name: _plain(by_dimension[name]) for name in DIMENSIONS}
    return Scores(**rounded, total=_plain(sum(rounded.values())))


def _plain(value: float) -> float:
    rounded = round(value, 2)
    return int(rounded) if rounded == int(rounded) else rounded


class Result(Record):
    """``results/{skill}/{case}.json``."""

    case_id: CaseId
    skill_id: Filled
    skill_version: Version
    baseline_id: Filled
    baseline_version: Version
    executed_at: Time
    status: ResultStatus
    input: str
    expected_output: str
    actual_output: str = ""
    duration_ms: Count = 0
    cli_version: str = ""
    model_version: str = ""
    error: str | None = None
    scores: Scores
    score_reasoning: str = ""
    score_evaluated_at: Time | None = None

    @model_validator(mode="after")
    def _scored(self) -> Self:
        """Only what was completed has scores."""
        missing = self.scores.by_dimension() is None or self.scores.total is None
        if self.status == "completed" and missing:
            raise Invalid("completed_without_scores")
        if self.status != "completed" and self.scores != NO_SCORES:
            raise Invalid("scores_without_completion", status=self.status)
        return self

    def doubts(self) -> list[Doubt]:
        """Compare the total with its parts."""
        parts, total = self.scores.by_dimension(), self.scores.total
        if parts is None or total is None or abs(sum(parts.values()) - total) <= _NEAR:
            return []
        return [
            Doubt("scores.total", Reason("other_sum", value=f"{total:g}", total=f"{sum(parts.values()):g}"))
        ]


class Breakdown(Record):
    """An average of each of the six scores."""

    functional_correctness: Number
    robustness: Number
    readability: Number
    conciseness: Number
    complexity_control: Number
    format_compliance: Number

    def by_dimension(self) -> dict[Dimension, float]:
        """Return the six."""
        return {name: getattr(self, name) for name in DIMENSIONS}


class RankRow(Record):
    """One skill's place in a project."""

    rank: int = Field(ge=1)
    skill_id: Filled
    skill_name: str
    skill_version: Version
    completed_cases: Count
    failed_cases: Count
    avg_score: Number | None
    score_breakdown: Breakdown | None

    def doubts(self) -> list[Doubt]:
        """Compare the average with its parts."""
        if self.avg_score is None or self.score_breakdown is None:
            return []
        return average_doubts(self.avg_score, self.score_breakdown, f"ranking[{self.rank - 1}].avg_score")

    def derived(self) -> Self:
        """Return the row with the average of its parts, where another program wrote one that is not."""
        if self.score_breakdown is None or not self.doubts():
            return self
        total = sum(self.score_breakdown.by_dimension().values())
        return self.model_copy(update={"avg_score": round(total, 1)})


def average_doubts(average: float, breakdown: Breakdown, field: str) -> list[Doubt]:
    """Compare an average with the sum of its parts, each rounded to one decimal."""
    total = sum(breakdown.by_dimension().values())
    if abs(total - average) <= _NEAR * (1 + len(DIMENSIONS)):
        return []
    return [Doubt(field, Reason("other_parts", value=f"{average:g}", total=f"{total:g}"))]


class RunSummary(Record):
    """``results/summary.json``."""

    project_id: Uuid
    generated_at: Time
    total_cases: Count
    ranking: tuple[RankRow, ...]

    def doubts(self) -> list[Doubt]:
        """Compare the averages with their parts."""
        return [doubt for row in self.ranking for doubt in row.doubts()]


def breakdown_of(averages: dict[Dimension, float]) -> Breakdown:
    """Round averages as in files: to one decimal."""
    return Breakdown(**{name: round(averages[name], 1) for name in DIMENSIONS})


def rounded_average(averages: dict[Dimension, float]) -> float:
    """Return the average score: the sum of the unrounded parts, to one decimal."""
    return round(sum(averages[name] for name in DIMENSIONS), 1)
