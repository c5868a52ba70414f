"""Ranking of skills, with confidence intervals and ties.

``summary.json`` is the source's: plain averages, plain ranks. What it has no fields for is in
``x_summary.json``: how far an average can be trusted, which ranks are ties, how much a skill gains over no
skill, and what was measured, by whom and at what cost.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from personalab.lab.assets import Cases
from personalab.lab.projects import RankRow, Result, ResultStatus, RunSummary, breakdown_of, rounded_average
from personalab.lab.records import CATEGORIES, DIMENSIONS, Category, Dimension
from personalab.lab.segments import text_hash
from personalab.lab.statistics import (
    Interval,
    PairedDifference,
    detectable_of,
    difference_of,
    interval_of,
    mean_of,
    pooled_spread,
    spread_of,
)

MOST = 100.0
CaseKey = tuple[str, str]
"""A baseline's id and a case's."""


@dataclass(frozen=True, slots=True)
class RankedArm:
    """A skill that took part; the arm without a skill is measured and not ranked."""

    skill_id: str
    name: str
    version: str
    content: str
    is_no_skill: bool = False


@dataclass(frozen=True, slots=True)
class RankedBaseline:
    """What the arms were tested on."""

    baseline_id: str
    name: str
    version: str
    cases: Cases


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What came of a case; ``repeat_totals`` are the totals of its repeats, where it was repeated."""

    baseline_id: str
    case_id: str
    status: ResultStatus
    scores: Mapping[Dimension, float] | None
    repeat_totals: tuple[float, ...] = ()

    @property
    def key(self) -> CaseKey:
        """Which case it is."""
        return self.baseline_id, self.case_id


@dataclass(frozen=True, slots=True)
class JudgeFacts:
    """The judges, and how far each separated the planted answers."""

    identity: str
    model: str
    control_gap: float | None = None
    controls_passed: bool | None = None


@dataclass(frozen=True, slots=True)
class CostFacts:
    """The use of all calls; money is ``None`` if unknown."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = None


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts about a run besides its scores."""

    pass_score: float = 60.0
    repeats: int = 1
    judges: tuple[JudgeFacts, ...] = ()
    costs: CostFacts = field(default_factory=CostFacts)


@dataclass(frozen=True, slots=True)
class ArmScores:
    """An arm with its scores, by case."""

    arm: RankedArm
    completed: Mapping[CaseKey, Mapping[Dimension, float]]
    failed: int
    skipped: int
    repeat_totals: tuple[tuple[float, ...], ...]
    is_complete: bool

    @property
    def totals(self) -> dict[CaseKey, float]:
        """The total of each completed case."""
        return {key: math.fsum(scores.values()) for key, scores in self.completed.items()}

    @property
    def averages(self) -> dict[Dimension, float] | None:
        """The unrounded average of each dimension."""
        if not self.completed:
            return None
        rows = list(self.completed.values())
        return {name: mean_of([row[name] for row in rows]) for name in DIMENSIONS}


def case_result(result: Result, repeat_totals: Sequence[float] = ()) -> CaseResult:
    """Take from a result what the ranking needs."""
    scores = result.scores.by_dimension() if result.status == "completed" else None
    return CaseResult(result.baseline_id, result.case_id, result.status, scores, tuple(repeat_totals))


def cases_hash(cases: Cases) -> str:
    """Hash what is measured by cases; their names and times are not."""
    told = [[case.id, case.category, case.input, case.expected_output] for case in cases.cases]
    return hashlib.sha256(json.dumps(told).encode("ascii")).hexdigest()


def summarise(
    project_id: str,
    now: str,
    arms: Sequence[RankedArm],
    results: Mapping[str, Sequence[CaseResult]],
    *,
    baselines: Sequence[RankedBaseline],
    facts: RunFacts | None = None,
) -> tuple[RunSummary, dict[str, Any]]:
    """Rank arms by the results of each, given by skill id; results of cases that are in no baseline do not count."""
    facts = facts or RunFacts()
    categories: dict[CaseKey, Category] = {
        (found.baseline_id, case.id): case.category for found in baselines for case in found.cases.cases
    }
    ranked, idle = standings(arms, results, set(categories))
    summary = RunSummary(
        project_id=project_id,
        generated_at=now,
        total_cases=len(categories),
        ranking=ranking_rows(ranked),
    )
    told = {
        "project_id": project_id,
        "generated_at": now,
        "total_cases": len(categories),
        "pass_score": facts.pass_score,
        "repeats": facts.repeats,
        "repeat_sd": _rounded(pooled_spread([group for row in ranked for group in row.repeat_totals])),
        "minimum_detectable_difference": _rounded(_detectable(ranked)),
        **_arm_rows(ranked, idle, categories, facts),
        "baselines": [_baseline_row(found, arms, results) for found in baselines],
        "judges": [_judge_row(judge) for judge in facts.judges],
        "costs": {name: getattr(facts.costs, name) for name in CostFacts.__slots__},
        "warnings": _warnings(ranked, idle),
    }
    return summary, told


# --- order


def standings(
    arms: Sequence[RankedArm], results: Mapping[str, Sequence[CaseResult]], known: set[CaseKey]
) -> tuple[list[ArmScores], ArmScores | None]:
    """Order the arms, the best first; the arm without a skill is given apart.

    Averages are comparable where the same cases were completed, so who lacks one that another skill completed comes
    after all who lack none.
    """
    found: list[tuple[RankedArm, dict[CaseKey, CaseResult]]] = []
    for arm in arms:
        rows = {row.key: row for row in results.get(arm.skill_id, ()) if row.key in known}
        found.append((arm, rows))
    wanted = {
        key
        for arm, rows in found
        if not arm.is_no_skill
        for key, row in rows.items()
        if row.scores is not None
    }
    every = [_standing(arm, rows, wanted) for arm, rows in found]
    ranked = sorted((row for row in every if not row.arm.is_no_skill), key=_order)
    return ranked, next((row for row in every if row.arm.is_no_skill), None)


def _standing(arm: RankedArm, rows: Mapping[CaseKey, CaseResult], wanted: set[CaseKey]) -> ArmScores:
    completed = {key: row.scores for key, row in sorted(rows.items()) if row.scores is not None}
    return ArmScores(
        arm=arm,
        completed=completed,
        failed=sum(row.status == "failed" for row in rows.values()),
        skipped=sum(row.status == "skipped" for row in rows.values()),
        repeat_totals=tuple(rows[key].repeat_totals for key in completed),
        is_complete=bool(completed) and wanted <= completed.keys(),
    )


def _order(row: ArmScores) -> tuple[bool, bool, float, str]:
    averages = row.averages
    # Rounded, so that the order of adding up decides nothing.
    average = round(math.fsum(averages.values()), 9) if averages else 0.0
    return averages is None, not row.is_complete, -average, row.arm.skill_id


def ranking_rows(ranked: Sequence[ArmScores]) -> tuple[RankRow, ...]:
    """Write an order down as the source does."""
    return tuple(_rank_row(rank, row) for rank, row in enumerate(ranked, start=1))


def _rank_row(rank: int, row: ArmScores) -> RankRow:
    averages = row.averages
    return RankRow(
        rank=rank,
        skill_id=row.arm.skill_id,
        skill_name=row.arm.name,
        skill_version=row.arm.version,
        completed_cases=len(row.completed),
        failed_cases=row.failed,
        avg_score=rounded_average(averages) if averages else None,
        score_breakdown=breakdown_of(averages) if averages else None,
    )


def tie_groups(ranked: Sequence[ArmScores]) -> list[int | None]:
    """Number the groups of ties, in order: who cannot be told from a group's first is in it.

    An average of one case has no interval, so it cannot be told from any.
    """
    found: list[int | None] = []
    number, first = 0, None
    for row in ranked:
        if not row.completed:
            found.append(None)
            continue
        span = _span(row)
        apart = first is not None and span is not None and not span.overlaps(first)
        if number == 0 or apart:
            number, first = number + 1, span
        found.append(number)
    return found


def _span(row: ArmScores) -> Interval | None:
    span = interval_of(list(row.totals.values()))
    return None if span is None else span.within(0.0, MOST)


# --- figures besides the ranks


def _arm_rows(
    ranked: Sequence[ArmScores],
    idle: ArmScores | None,
    categories: Mapping[CaseKey, Category],
    facts: RunFacts,
) -> dict[str, Any]:
    groups = tie_groups(ranked)
    first = ranked[0] if ranked and ranked[0].completed else None
    rows = [
        {
            **_arm_row(row, categories, facts),
            "rank": rank,
            "tie_group": group,
            "difference_to_first": _told(_difference(first, row)) if row is not first else None,
            "gain_over_no_skill": _told(_difference(row, idle)),
        }
        for rank, (row, group) in enumerate(zip(ranked, groups, strict=True), start=1)
    ]
    return {
        "skills": rows,
        "no_skill": _arm_row(idle, categories, facts) if idle else None,
        "tie_groups": [
            [row["skill_id"] for row in rows if row["tie_group"] == number]
            for number in sorted({group for group in groups if group is not None})
        ],
    }


def _arm_row(row: ArmScores, categories: Mapping[CaseKey, Category], facts: RunFacts) -> dict[str, Any]:
    totals, averages = row.totals, row.averages
    values = list(totals.values())
    by_category: dict[str, Any] = {}
    for category in CATEGORIES:
        found = [total for key, total in totals.items() if categories[key] == category]
        by_category[category] = {"mean": _rounded(mean_of(found)), "n": len(found)} if found else None
    return {
        "skill_id": row.arm.skill_id,
        "skill_name": row.arm.name,
        "skill_version": row.arm.version,
        "content_sha256": text_hash(row.arm.content),
        "is_complete": row.is_complete,
        "completed": len(row.completed),
        "failed": row.failed,
        "skipped": row.skipped,
        "n": len(values),
        "mean": _rounded(mean_of(values)) if values else None,
        "sd": _rounded(spread_of(values)),
        "interval": _ends(_span(row)),
        "passed": sum(total >= facts.pass_score for total in values),
        "by_dimension": {name: _rounded(value) for name, value in averages.items()} if averages else None,
        "by_category": by_category,
        "repeat_sd": _rounded(pooled_spread(row.repeat_totals)),
    }


def _difference(one: ArmScores | None, other: ArmScores | None) -> PairedDifference | None:
    """Compare two arms on the cases both completed."""
    if one is None or other is None:
        return None
    ours, theirs = one.totals, other.totals
    return difference_of([(total, theirs[key]) for key, total in ours.items() if key in theirs])


def _detectable(ranked: Sequence[ArmScores]) -> float | None:
    """Return the smallest difference to the first that so many cases could show, over all skills."""
    found = [gap for row in ranked[1:] if (gap := _difference(ranked[0], row)) is not None]
    known = [(gap.sd, gap.n) for gap in found if gap.sd is not None]
    if not known:
        return None
    spread = math.sqrt(mean_of([sd * sd for sd, _ in known]))
    return detectable_of(spread, min(n for _, n in known))


def _told(gap: PairedDifference | None) -> dict[str, Any] | None:
    if gap is None:
        return None
    return {
        "mean": _rounded(gap.mean),
        "n": gap.n,
        "interval": _ends(gap.interval),
        "minimum_detectable": _rounded(gap.detectable),
    }


def _baseline_row(
    found: RankedBaseline, arms: Sequence[RankedArm], results: Mapping[str, Sequence[CaseResult]]
) -> dict[str, Any]:
    known = {(found.baseline_id, case.id) for case in found.cases.cases}
    ranked, _ = standings(arms, results, known)
    return {
        "baseline_id": found.baseline_id,
        "baseline_name": found.name,
        "baseline_version": found.version,
        "content_sha256": cases_hash(found.cases),
        "total_cases": len(known),
        "ranking": [row.model_dump(mode="json") for row in ranking_rows(ranked)],
    }


def _judge_row(judge: JudgeFacts) -> dict[str, Any]:
    return {name: getattr(judge, name) for name in JudgeFacts.__slots__}


def _warnings(ranked: Sequence[ArmScores], idle: ArmScores | None) -> list[dict[str, Any]]:
    """Name the arms whose average is over other cases than the rest's."""
    every = [*ranked, *([idle] if idle else [])]
    return [
        {
            "code": _code(row),
            "skill_id": row.arm.skill_id,
            "skill_name": row.arm.name,
            "completed": len(row.completed),
            "failed": row.failed,
            "skipped": row.skipped,
        }
        for row in every
        if not row.is_complete
    ]


def _code(row: ArmScores) -> str:
    """Name what an arm lacks; what is said of the one without a skill is another thing, for it has no rank."""
    if row.completed:
        return "lab_no_skill_incomplete" if row.arm.is_no_skill else "lab_incomplete_set"
    if row.skipped and not row.failed:
        return "lab_no_skill_skipped" if row.arm.is_no_skill else "lab_only_skipped"
    return "lab_no_skill_nothing" if row.arm.is_no_skill else "lab_nothing_completed"


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [round(interval.low, 2), round(interval.high, 2)]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
