"""The files of an analysis, a recomposition and an iteration."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from personalab.errors import Reason
from personalab.lab.engine.problem import Strategy
from personalab.lab.projects import Breakdown, average_doubts
from personalab.lab.records import (
    Count,
    Dimension,
    Doubt,
    Filled,
    Number,
    Record,
    SegmentId,
    Time,
    Uuid,
    Version,
)

SegmentType = Literal["instruction", "constraint", "format", "role", "example"]
StopReason = Literal["threshold_reached", "max_rounds", "manual"]


class DimensionLeaders(Record):
    """Which skill leads in each dimension, by id."""

    functional_correctness: str
    robustness: str
    readability: str
    conciseness: str
    complexity_control: str
    format_compliance: str


class AdvantageSegment(Record):
    """A stretch of a skill that does it good; ``content`` stands in the skill's text exactly so."""

    id: SegmentId
    skill_id: Filled
    skill_name: str
    type: SegmentType
    content: Filled
    reason: str
    dimension: Dimension


class Issue(Record):
    """What a skill lacks."""

    skill_id: Filled
    skill_name: str
    dimension: Dimension
    description: str


class AnalysisReport(Record):
    """``analysis_report.json``."""

    project_id: Uuid
    generated_at: Time
    best_skill_id: Filled
    best_skill_name: str
    dimension_leaders: DimensionLeaders
    advantage_segments: tuple[AdvantageSegment, ...]
    issues: tuple[Issue, ...]


class SourceSkill(Record):
    """A skill that gave segments to another."""

    skill_id: Filled
    skill_name: str
    skill_version: Version
    contributed_segments: tuple[str, ...]


class Provenance(Record):
    """``provenance.json`` of a recomposed skill."""

    type: Literal["recomposed"] = "recomposed"
    source_project_id: Uuid
    source_project_name: str
    recomposition_strategy: str
    user_retention_rules: str
    source_skills: tuple[SourceSkill, ...]
    created_at: Time


class RoundConfig(Record):
    """``iterations/round_{n}/config.json``."""

    round: int = Field(ge=1)
    skill_id: Filled
    skill_name: str
    skill_version: Version
    baseline_id: Filled
    retention_rules: str
    started_at: Time
    completed_at: Time | None = None
    status: Literal["running", "completed", "failed"]


class RoundRow(Record):
    """A round's winner in the report; other programs leave the strategy out."""

    round: int = Field(ge=1)
    strategy: Strategy | None = None
    skill_id: Filled
    skill_name: str
    avg_score: Number | None
    score_delta: Number | None
    score_breakdown: Breakdown | None


class IterationReport(Record):
    """``iterations/iteration_report.json``."""

    project_id: Uuid
    generated_at: Time
    total_rounds: Count
    stop_reason: StopReason
    stop_threshold: Number | None = None
    best_round: Count
    best_skill_id: Filled
    best_skill_name: str
    best_avg_score: Number | None
    rounds: tuple[RoundRow, ...]

    def doubts(self) -> list[Doubt]:
        """List the averages that differ from their parts, and missing strategies."""
        found: list[Doubt] = []
        for at, row in enumerate(self.rounds):
            if row.strategy is None:
                found.append(Doubt(f"rounds[{at}].strategy", Reason("missing")))
            if row.avg_score is not None and row.score_breakdown is not None:
                found += average_doubts(row.avg_score, row.score_breakdown, f"rounds[{at}].avg_score")
        return found


class PartialBreakdown(Record):
    """The six averages of a candidate; other programs leave some out."""

    functional_correctness: Number | None = None
    robustness: Number | None = None
    readability: Number | None = None
    conciseness: Number | None = None
    complexity_control: Number | None = None
    format_compliance: Number | None = None


class ExploredCandidate(Record):
    """One candidate of a round."""

    strategy: Strategy
    skill_id: Filled
    avg_score: Number | None
    score_breakdown: PartialBreakdown | None
    won: bool
    error: str | None


class ExploredRound(Record):
    """One round with all its candidates."""

    round: int = Field(ge=1)
    plateau_level: int = Field(ge=0, le=3)
    strategies_tried: tuple[Strategy, ...]
    candidates: tuple[ExploredCandidate, ...]
    winner_skill_id: str | None


class BestEver(Record):
    """The best candidate of all rounds."""

    round: int = Field(ge=1)
    strategy: Strategy
    skill_id: Filled
    avg_score: Number


class ExplorationParams(Record):
    """What an exploration was asked for, in the source's spelling."""

    max_rounds: int = Field(alias="maxRounds", ge=1)
    beam_width: int = Field(alias="beamWidth", ge=1)
    plateau_threshold: Number = Field(alias="plateauThreshold")
    stop_threshold: Number | None = Field(alias="stopThreshold", default=None)


class ExplorationLog(Record):
    """``iterations/exploration_log.json``."""

    project_id: Uuid
    started_at: Time
    completed_at: Time | None
    params: ExplorationParams
    original_skill_ids: tuple[str, ...]
    rounds: tuple[ExploredRound, ...]
    best_ever: BestEver | None

    def recomputed_best(self) -> BestEver | None:
        """Find the best candidate of the rounds; what the file says of it is not believed."""
        scored = [
            (candidate, found.round)
            for found in self.rounds
            for candidate in found.candidates
            if candidate.avg_score is not None
        ]
        if not scored:
            return None
        best, number = max(scored, key=lambda pair: (pair[0].avg_score or 0.0, -pair[1]))
        return BestEver(
            round=number, strategy=best.strategy, skill_id=best.skill_id, avg_score=best.avg_score or 0.0
        )

    def doubts(self) -> list[Doubt]:
        """Compare the best one with the rounds."""
        best = self.recomputed_best()
        return [] if best == self.best_ever else [Doubt("best_ever", Reason("not_best"))]
