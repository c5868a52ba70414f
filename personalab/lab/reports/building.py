"""Conversion of a project's records into report data.

The ranking is computed again from the available results, so that every figure of a report matches its matrix.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from personalab.lab.findings import AnalysisReport, ExplorationLog, IterationReport
from personalab.lab.projects import Result
from personalab.lab.ranking import CaseResult, RankedArm, RankedBaseline, RunFacts, summarise
from personalab.lab.records import CATEGORIES, Category
from personalab.lab.reports.data import (
    MAX_TEXT,
    Analysis,
    CandidateDot,
    CaseRow,
    Cell,
    Costs,
    Excerpt,
    FoundIssue,
    FoundSegment,
    Iteration,
    Judge,
    ReportNotice,
    ReportSkill,
    RoundMark,
)
from personalab.lab.reports.texts import shortened
from personalab.lab.statistics import Interval

_UNREAL = "0.0.0-"
"""So the version of an executor begins that asks no model."""
_MAX_NAMED = 5
_ANY_TIME = "2000-01-01T00:00:00Z"
"""A summary has a time; the one made here is not kept."""


@dataclass(frozen=True, slots=True)
class SkillRanking:
    """The skills in order, and where each stood in what was ranked."""

    rows: tuple[ReportSkill, ...]
    order: tuple[int, ...]
    detectable: float | None


def rank(
    arms: Sequence[RankedArm],
    results: Sequence[Sequence[CaseResult]],
    baselines: Sequence[RankedBaseline],
    *,
    pass_score: float = 60.0,
) -> SkillRanking:
    """Rank arms by their results; two versions of one skill are two arms."""
    places = {_key(arm): at for at, arm in enumerate(arms)}
    named = [RankedArm(_key(arm), arm.name, arm.version, arm.content, arm.is_no_skill) for arm in arms]
    by_arm = {_key(arm): results[at] for at, arm in enumerate(arms)}
    facts = RunFacts(pass_score=pass_score)
    _, told = summarise("report", _ANY_TIME, named, by_arm, baselines=baselines, facts=facts)
    found: list[dict[str, Any]] = [*told["skills"], *([told["no_skill"]] if told["no_skill"] else [])]
    order = tuple(places[row["skill_id"]] for row in found)
    rows = tuple(_row(arms[at], row) for at, row in zip(order, found, strict=True))
    return SkillRanking(rows, order, told["minimum_detectable_difference"])


def _key(arm: RankedArm) -> str:
    return f"{arm.skill_id}@{arm.version}"


def _row(arm: RankedArm, told: Mapping[str, Any]) -> ReportSkill:
    categories: dict[Category, dict[str, float] | None] = {
        name: told["by_category"].get(name) for name in CATEGORIES
    }
    behind: Mapping[str, Any] = told.get("difference_to_first") or {}
    gain: Mapping[str, Any] = told.get("gain_over_no_skill") or {}
    back, gained = interval_from(behind.get("interval")), interval_from(gain.get("interval"))
    return ReportSkill(
        skill_id=arm.skill_id,
        name=arm.name,
        version=arm.version,
        rank=told.get("rank") if told["completed"] else None,
        tie_group=told.get("tie_group"),
        mean=told["mean"],
        interval=interval_from(told["interval"]),
        sd=told["sd"],
        behind=-behind["mean"] if behind else None,
        behind_interval=Interval(-back.high, -back.low) if back else None,
        gain=gain["mean"] if gain else None,
        gain_interval=gained,
        completed=told["completed"],
        failed=told["failed"],
        skipped=told["skipped"],
        incomplete=bool(told["completed"]) and not told["is_complete"],
        by_dimension=told["by_dimension"] or {},
        by_category={name: found["mean"] for name, found in categories.items() if found},
        is_no_skill=arm.is_no_skill,
    )


def interval_from(ends: object) -> Interval | None:
    """Read an interval from its two ends."""
    match ends:
        case [int() | float() as low, int() | float() as high]:
            return Interval(float(low), float(high))
        case _:
            return None


def cell_of(result: Result, *, with_texts: bool) -> Cell:
    """Make a place of the matrix from a result."""
    scores = result.scores.by_dimension() if result.status == "completed" else None
    return Cell(
        status=result.status,
        total=sum(scores.values()) if scores else None,
        scores=scores,
        output=_excerpt(result.actual_output) if with_texts else Excerpt(),
        reasoning=_excerpt(result.score_reasoning) if with_texts else Excerpt(),
        error=(result.error or "")[:MAX_TEXT],
        duration_ms=result.duration_ms,
        cli_version=result.cli_version[:MAX_TEXT],
        model_version=result.model_version[:MAX_TEXT],
    )


def _excerpt(text: str) -> Excerpt:
    return Excerpt(text).cut(MAX_TEXT)


def case_rows(baselines: Iterable[RankedBaseline]) -> tuple[CaseRow, ...]:
    """List the cases of baselines."""
    return tuple(
        CaseRow(
            case_id=case.id,
            name=case.name,
            category=case.category,
            baseline_id=found.baseline_id,
            baseline=found.name,
            input=case.input,
            expected=case.expected_output,
        )
        for found in baselines
        for case in found.cases.cases
    )


# --- what a reader must know first


def result_notices(
    rows: Sequence[ReportSkill], cells: Sequence[Sequence[Cell | None]], versions: Iterable[str]
) -> list[ReportNotice]:
    """List problems of a matrix: fake executors, unfinished runs, or holes."""
    found = list[ReportNotice]()
    unreal = sorted(
        {version for version in versions if version.startswith(_UNREAL) or version == "rehearsal"}
    )
    if unreal:
        found.append(ReportNotice("notice_rehearsal", {"versions": ", ".join(unreal)}, loud=True))
    every = [cell for line in cells for cell in line]
    missing = every.count(None)
    if missing:
        found.append(ReportNotice("notice_unfinished", {"missing": missing, "total": len(every)}))
    for status in ("failed", "skipped"):
        if count := sum(cell is not None and cell.status == status for cell in every):
            found.append(ReportNotice(f"notice_{status}", {"count": count}))
    if short := [shortened(row.name, 40) for row in rows if row.incomplete and not row.is_no_skill]:
        names = ", ".join(short[:_MAX_NAMED]) + ("…" if len(short) > _MAX_NAMED else "")
        found.append(ReportNotice("notice_incomplete", {"names": names}))
    if cells and len(cells[0]) == 1:
        found.append(ReportNotice("notice_one_case"))
    return found


def costs_of(calls: Iterable[Mapping[str, Any]]) -> Costs | None:
    """Add up the calls of a journal; a call that occurs twice counts once."""
    known: dict[str, Mapping[str, Any]] = {}
    for at, call in enumerate(calls):
        known[str(call.get("call_id") or at)] = call
    if not known:
        return None
    usages = [
        cast("Mapping[str, Any]", call["usage"])
        for call in known.values()
        if isinstance(call.get("usage"), dict)
    ]
    prices = [price for call in known.values() if (price := number(call.get("cost_usd"))) is not None]
    return Costs(
        calls=len(known),
        failed_calls=sum(call.get("status") != "ok" for call in known.values()),
        input_tokens=_tokens(usages, "input_tokens"),
        output_tokens=_tokens(usages, "output_tokens"),
        usd=sum(prices) if prices else None,
        priced_calls=len(prices),
    )


def _tokens(usages: Sequence[Mapping[str, Any]], name: str) -> int | None:
    counts = [int(count) for usage in usages if (count := number(usage.get(name))) is not None]
    return sum(counts) if counts else None


def number(value: object) -> float | None:
    """Take a value that may be anything for a number, if it is one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < 1e15 else None


# --- findings


def analysis_of(report: AnalysisReport) -> Analysis:
    """Take from an analysis what is shown of it."""
    return Analysis(
        segments=tuple(
            FoundSegment(each.id, each.skill_name, each.type, each.dimension, each.content, each.reason)
            for each in report.advantage_segments
        ),
        issues=tuple(FoundIssue(each.skill_name, each.dimension, each.description) for each in report.issues),
    )


def iteration_of(
    report: IterationReport | None,
    log: ExplorationLog | None,
    ledger: Mapping[str, Any],
    *,
    cause: str | None,
    start: float | None,
) -> Iteration | None:
    """Join what the files of an iteration tell; one that still goes on has no report yet."""
    if report is None and log is None:
        return None
    corrected, span = _corrected(ledger)
    count = number(ledger.get("evaluations"))
    return Iteration(
        rounds=tuple(_rounds(report, log)),
        stop_cause=cause or (report.stop_reason if report else ""),
        start_score=start,
        best_round=report.best_round if report else None,
        best_name=report.best_skill_name if report else "",
        best_score=_best(report, log),
        corrected=corrected,
        corrected_interval=span,
        retested=number(_object(ledger.get("best")).get("retested")) != 0,
        evaluations=None if count is None else int(count),
    )


def _rounds(report: IterationReport | None, log: ExplorationLog | None) -> Iterator[RoundMark]:
    won = {row.round: row for row in report.rounds} if report else {}
    explored = {found.round: found for found in log.rounds} if log else {}
    for at in sorted({*won, *explored}):
        row, tried = won.get(at), explored.get(at)
        candidates = tried.candidates if tried else ()
        told = row or next((each for each in candidates if each.won), None)
        yield RoundMark(
            round=at,
            strategy=(told.strategy if told else None) or "",
            winner=row.skill_name if row else "",
            score=told.avg_score if told else None,
            plateau_level=tried.plateau_level if tried else None,
            candidates=tuple(
                CandidateDot(each.strategy, each.avg_score, each.won, each.error or "") for each in candidates
            ),
        )


def _best(report: IterationReport | None, log: ExplorationLog | None) -> float | None:
    if report is not None:
        return report.best_avg_score
    best = log.recomputed_best() if log else None
    return best.avg_score if best else None


def _corrected(ledger: Mapping[str, Any]) -> tuple[float | None, Interval | None]:
    told = _object(_object(ledger.get("best")).get("corrected"))
    low, high = number(told.get("low")), number(told.get("high"))
    span = Interval(low, high) if low is not None and high is not None else None
    return number(told.get("score")), span


def judges_of(models: Iterable[str], controls: Mapping[str, Any]) -> tuple[Judge, ...]:
    """Describe judges with their results in ``x_controls.json``: how far they separated planted answers."""
    tested = {
        str(entry.get("model")): entry for entry in map(_object, _object(controls.get("judges")).values())
    }
    found = list[Judge]()
    for model in models:
        entry = tested.get(model, {})
        passed = entry.get("passed")
        found.append(Judge(model, number(entry.get("gap")), passed if isinstance(passed, bool) else None))
    return tuple(found)


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
