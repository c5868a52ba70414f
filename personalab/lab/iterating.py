"""The records of an iteration, which allow reporting it and resuming it after any interruption.

The plan holds everything the search depends on. Together with the results on disk it determines the next
evaluations, so no other state has to be stored.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from personalab.errors import Invalid
from personalab.lab.engine.problem import (
    BestLog,
    Candidate,
    CasePlace,
    EngineSegment,
    Params,
    RoundLog,
    SearchProblem,
    StopCause,
)
from personalab.lab.findings import (
    BestEver,
    ExplorationLog,
    ExplorationParams,
    ExploredCandidate,
    ExploredRound,
    IterationReport,
    PartialBreakdown,
    RoundRow,
    StopReason,
)
from personalab.lab.projects import breakdown_of
from personalab.lab.recomposing import checked_content
from personalab.lab.records import (
    DIMENSIONS,
    CaseId,
    Category,
    Dimension,
    Filled,
    Number,
    Record,
    Time,
    Uuid,
    Version,
)
from personalab.lab.segments import PoolSegment, compose

_STOP_REASONS: dict[StopCause, StopReason] = {
    "threshold": "threshold_reached",
    "max_rounds": "max_rounds",
    "budget": "max_rounds",
    "plateau": "max_rounds",
    "exhausted": "max_rounds",
    "manual": "manual",
}
"""The source knows three reasons; the true cause stands in the plan."""
Averages = Mapping[Dimension, float]
SkillOf = Callable[[Candidate], str]
"""Gives the id of the skill that a candidate is."""


class PlannedCase(Record):
    """A case, as far as the search has to know it."""

    id: CaseId
    category: Category


class KnownScore(Record):
    """A score of an original, as it stood when the search was begun."""

    skill_id: Filled
    case_id: CaseId
    scores: dict[Dimension, Number]


class IterationParams(Record):
    """What was asked for, whole: the values that a run really had."""

    max_rounds: int = Field(default=10, ge=1, le=1_000)
    beam_width: int = Field(default=3, ge=1, le=16)
    plateau_threshold: Number = Field(default=1.0, ge=0)
    plateau_rounds_before_escape: int = Field(default=2, ge=1, le=100)
    stop_threshold: Number | None = Field(default=None, ge=0, le=100)
    max_evaluations: int | None = Field(default=None, ge=1)
    seed: int = 0

    def engine(self) -> Params:
        """Return them as the engine takes them."""
        return Params(
            max_rounds=self.max_rounds,
            beam_width=self.beam_width,
            plateau_threshold=self.plateau_threshold,
            plateau_rounds_before_escape=self.plateau_rounds_before_escape,
            stop_threshold=self.stop_threshold,
            max_evaluations=self.max_evaluations,
            seed=self.seed,
        )


class IterationPlan(Record):
    """``iterations/x_iteration.json``."""

    project_id: Uuid
    base_name: str
    """What the winners are named after."""
    purpose: str
    provider: str
    baseline_id: Filled
    baseline_version: Version
    parameters: IterationParams
    retention_rules: str
    kept: tuple[str, ...]
    segments: tuple[PoolSegment, ...]
    """The pieces that candidates are made of, each with its places in the originals."""
    skills: dict[str, tuple[str, ...]]
    """The segments of each original, by its id."""
    names: dict[str, str] = Field(default_factory=dict[str, str])
    """The originals' names, by their ids."""
    cases: tuple[PlannedCase, ...]
    known: tuple[KnownScore, ...] = ()
    earlier: int = Field(default=0, ge=0)
    """How many searches of this project were set aside before."""
    redo: int | None = None
    """The round whose failed evaluations are made again, because so many of them failed."""
    started_at: Time
    completed_at: Time | None = None
    stop_cause: StopCause | Literal["error"] | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        """Refuse a plan that somebody has taken pieces out of."""
        pieces = {found.segment_id for found in self.segments}
        used = {*self.kept, *(name for ids in self.skills.values() for name in ids)}
        if not used <= pieces:
            raise Invalid("no_such_segment", segment_id=min(used - pieces))
        if not self.skills or not self.cases:
            raise Invalid("nothing_to_test")
        return self

    def problem(self) -> SearchProblem:
        """Return what is searched."""
        return SearchProblem(
            segments=tuple(
                EngineSegment(found.segment_id, found.skill_id, found.dimension) for found in self.segments
            ),
            skills=self.skills,
            cases=tuple(CasePlace(case.id, case.category) for case in self.cases),
            kept=frozenset(self.kept),
        )

    def content(self, candidate: Candidate) -> str:
        """Compose a candidate; refuse one that lost a segment which must be kept."""
        kept = {found.segment_id: found.text for found in self.segments if found.segment_id in self.kept}
        return checked_content(compose(self.segments, candidate.segments), kept)

    def name_of(self, skill_id: str) -> str:
        """Return the name of an original."""
        return self.names.get(skill_id) or self.base_name

    def original(self, candidate: Candidate) -> str | None:
        """Return the original skill that a candidate is, if it is one."""
        return next((name for name, ids in self.skills.items() if set(ids) == set(candidate.segments)), None)


def candidate_skill_id(plan: IterationPlan, candidate: Candidate) -> str:
    """Return a candidate's skill id, the same however often the search is replayed."""
    seed = f"{plan.project_id}\n{plan.started_at}\n{plan.earlier}\n{candidate.candidate_id}".encode()
    return str(uuid.UUID(bytes=hashlib.sha256(seed).digest()[:16], version=4))


def round_name(base: str, number: int) -> str:
    """Name what a round made."""
    return f"{base}-v{number}"


def rounds_table(plan: IterationPlan, rounds: Sequence[RoundLog], skill_of: SkillOf) -> tuple[RoundRow, ...]:
    """List each round with its winner; a round without a candidate on all cases has no row."""
    rows: list[RoundRow] = []
    before: float | None = None
    for found in rounds:
        won = next((candidate for candidate in found.candidates if candidate.won), None)
        if won is None or won.avg is None or won.breakdown is None or won.strategy is None:
            continue
        average = round(won.avg, 1)
        row = RoundRow(
            round=found.round,
            strategy=won.strategy,
            skill_id=skill_of(won.candidate),
            skill_name=round_name(plan.base_name, found.round),
            avg_score=average,
            score_delta=None if before is None else round(average - before, 1),
            score_breakdown=breakdown_of(dict(won.breakdown)),
        )
        rows.append(row)
        before = average
    return tuple(rows)


def iteration_report(
    plan: IterationPlan, rounds: Sequence[RoundLog], best: BestLog, skill_of: SkillOf, now: str
) -> IterationReport:
    """Summarize an iteration as the source does; if no candidate beat the originals, the best of them is named."""
    improved = best.candidate is not None and best.round > 0
    original = (plan.original(best.candidate) if best.candidate else None) or next(iter(plan.skills))
    return IterationReport(
        project_id=plan.project_id,
        generated_at=now,
        total_rounds=len(rounds),
        stop_reason=_STOP_REASONS[best.stop_cause or "manual"],
        stop_threshold=plan.parameters.stop_threshold,
        best_round=best.round,
        best_skill_id=skill_of(best.candidate) if best.candidate and improved else original,
        best_skill_name=round_name(plan.base_name, best.round) if improved else plan.name_of(original),
        best_avg_score=None if best.avg is None else round(best.avg, 1),
        rounds=rounds_table(plan, rounds, skill_of),
    )


def exploration_log(
    plan: IterationPlan, rounds: Sequence[RoundLog], skill_of: SkillOf, completed_at: str | None
) -> ExplorationLog:
    """Return everything that was tried, in the source's shape."""
    asked = plan.parameters
    log = ExplorationLog(
        project_id=plan.project_id,
        started_at=plan.started_at,
        completed_at=completed_at,
        params=ExplorationParams(
            maxRounds=asked.max_rounds,
            beamWidth=asked.beam_width,
            plateauThreshold=asked.plateau_threshold,
            stopThreshold=asked.stop_threshold,
        ),
        original_skill_ids=tuple(plan.skills),
        rounds=tuple(_explored(found, skill_of) for found in rounds),
        best_ever=None,
    )
    best: BestEver | None = log.recomputed_best()
    return log.model_copy(update={"best_ever": best})


def _explored(found: RoundLog, skill_of: SkillOf) -> ExploredRound:
    candidates = tuple(
        ExploredCandidate(
            strategy=row.strategy,
            skill_id=skill_of(row.candidate),
            avg_score=None if row.avg is None else round(row.avg, 1),
            score_breakdown=None if row.breakdown is None else _six(row.breakdown),
            won=row.won,
            error=row.error,
        )
        for row in found.candidates
        if row.strategy is not None
    )
    return ExploredRound(
        round=found.round,
        plateau_level=found.plateau_level,
        strategies_tried=found.strategies_tried,
        candidates=candidates,
        winner_skill_id=skill_of(found.winner) if found.winner else None,
    )


def _six(averages: Averages) -> PartialBreakdown:
    return PartialBreakdown(**{name: round(averages[name], 1) for name in DIMENSIONS})
