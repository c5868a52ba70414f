"""Text and result fields for plans, rankings, analyses and searches of the lab."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mcp_server.texts import tell
from personalab.lab.calling import warning_text
from personalab.operations.lab.projects import stand_ins
from personalab.storage.lab.projects import ProjectPlace
from personalab.texts import Language

_RANK_FIELDS = (
    *("rank", "tie_group", "skill_id", "skill_name", "skill_version", "mean", "interval", "completed"),
    *("failed", "skipped", "passed", "by_dimension", "is_complete"),
)
_RANKED = 30
_SEGMENTS = 60
_ROUNDS = 30


def money(usd: float | None) -> str:
    """Word an amount."""
    return "?" if usd is None else f"${usd:.4f}".rstrip("0").rstrip(".")


def score(value: float | None) -> str:
    """Word a score."""
    return "–" if value is None else f"{value:.1f}"


def plan_text(plan: Mapping[str, Any], language: Language) -> str:
    """Word what a run would take."""
    spent = money(plan["spent_usd"] if plan["calls_made"] else 0.0)
    said = tell("lab_plan", language, **{**plan, "cost": money(plan["cost_usd"]), "spent": spent})
    if plan["max_calls"] is not None or plan["max_usd"] is not None:
        limits = {"calls": plan["max_calls"], "usd": plan["max_usd"]}
        shown = {name: "–" if value is None else value for name, value in limits.items()}
        said += "\n" + tell("lab_over" if plan["within_budget"] is False else "lab_within", language, **shown)
    return said


# --- rankings


def ranking_of(place: ProjectPlace) -> list[dict[str, Any]]:
    """Return the ranking of a project with its intervals; the arm without a skill comes last, without a rank."""
    details = place.extra_summary()
    skills: list[dict[str, Any]] = details.get("skills") or []
    rows = [_ranked(row) for row in skills[:_RANKED]]
    if idle := details.get("no_skill"):
        rows.append({**_ranked(idle), "rank": None, "tie_group": None})
    return rows


def _ranked(row: Mapping[str, Any]) -> dict[str, Any]:
    shown = {name: row.get(name) for name in _RANK_FIELDS}
    gain = row.get("gain_over_no_skill")
    return {**shown, "gain_over_no_skill": gain["mean"]} if gain else shown


def ranking_text(rows: Sequence[Mapping[str, Any]], language: Language) -> list[str]:
    """Format a ranking; skills that cannot be told apart share a rank and a sign."""
    groups = [row.get("tie_group") for row in rows]
    said: list[str] = []
    for row, group in zip(rows, groups, strict=True):
        tied = group is not None and groups.count(group) > 1
        first = rows[groups.index(group)]["rank"] if tied else row["rank"]
        rank = "–" if first is None else f"{first}{'=' if tied else '.'}"
        ends = row.get("interval")
        span = f" [{score(ends[0])}–{score(ends[1])}]" if ends else ""
        gain = f" {row['gain_over_no_skill']:+.1f}" if row.get("gain_over_no_skill") is not None else ""
        counts = tell("lab_counts", language, **{n: row[n] for n in ("completed", "failed", "skipped")})
        head = f"{rank} {row['skill_name']} {row['skill_version']} ({str(row['skill_id'])[:8]})"
        said.append(f"{head} {score(row['mean'])}{span}{gain} · {counts}")
    if any("= " in line[:5] for line in said):
        said.append(tell("lab_ties", language))
    return said


def notices(place: ProjectPlace, language: Language) -> list[str]:
    """Return what a reader must know about the scores: stand-ins, and the summary's warnings."""
    said: list[str] = []
    if unreal := stand_ins(place):
        said.append(tell("lab_unreal", language, versions=", ".join(unreal)[:120]))
    said += [warning_text(row, language) for row in place.extra_summary().get("warnings", ())[:10]]
    return said


# --- what was found out


def analysis_fields(report: Any) -> dict[str, Any]:
    """Return an analysis as a result has it."""
    told = report.model_dump(mode="json")
    shown = {name: told[name] for name in ("generated_at", "best_skill_id", "best_skill_name")}
    return {
        **shown,
        "dimension_leaders": told["dimension_leaders"],
        "advantage_segments": told["advantage_segments"][:_SEGMENTS],
        "issues": told["issues"][:_SEGMENTS],
        "segment_count": len(told["advantage_segments"]),
    }


def analysis_text(analysis: Mapping[str, Any], language: Language) -> list[str]:
    """Word an analysis."""
    said = [tell("lab_best", language, name=analysis["best_skill_name"], id=analysis["best_skill_id"][:8])]
    leaders = ", ".join(f"{name}: {who[:8]}" for name, who in analysis["dimension_leaders"].items())
    said.append(tell("lab_leaders", language, leaders=leaders))
    for row in analysis["advantage_segments"]:
        place = f"{row['type']}, {row['dimension']}, {row['skill_name']}"
        said.append(f"- {row['id']} ({place}): {row['content']}\n  ← {row['reason']}")
    if not analysis["segment_count"]:
        said.append(tell("lab_no_segments_yet", language))
    if left := analysis["segment_count"] - len(analysis["advantage_segments"]):
        said.append(tell("lab_segments_left", language, count=left))
    for row in analysis["issues"]:
        said.append(f"! {row['skill_name']}, {row['dimension']}: {row['description']}")
    return said


def iteration_fields(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a search as a result has it, from its result or from its files."""
    report: Mapping[str, Any] = found.get("report") or {}
    ledger: Mapping[str, Any] = found.get("ledger") or {}
    rounds: list[dict[str, Any]] = report.get("rounds") or []
    tried: list[dict[str, Any]] = found.get("rounds") or []
    explored = [_explored(row) for row in tried]
    best = found.get("best") or ledger.get("best") or found.get("best_ever")
    winner = found.get("skill_id") or (report.get("best_skill_id") if report.get("best_round") else None)
    count = report.get("total_rounds", found.get("round", len(explored)))
    return {
        **({"ended_before": True} if found.get("ended_before") else {}),
        "total_rounds": count,
        "evaluations": found.get("evaluations") or ledger.get("evaluations"),
        "stop_cause": found.get("stop_cause"),
        "best": dict(best) if best else None,
        "winner_skill_id": winner,
        "rounds": [dict(row) for row in rounds[-_ROUNDS:]] or explored[-_ROUNDS:],
    }


def _explored(row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("round", "plateau_level", "strategies_tried", "winner_skill_id")
    return {name: row.get(name) for name in names}


def iteration_text(iteration: Mapping[str, Any], language: Language) -> list[str]:
    """Word a search."""
    said: list[str] = []
    for row in iteration["rounds"]:
        if "avg_score" in row:
            delta = f" ({row['score_delta']:+.1f})" if row["score_delta"] is not None else ""
            said.append(f"{row['round']}. {row['strategy'] or '–'} {score(row['avg_score'])}{delta}")
        else:
            said.append(f"{row['round']}. {', '.join(row['strategies_tried'] or [])}")
    cause = iteration["stop_cause"]
    counts = {"rounds": iteration["total_rounds"], "evaluations": iteration["evaluations"] or 0}
    said.append(tell("lab_searched" if cause else "lab_search_open", language, cause=cause, **counts))
    if best := iteration["best"]:
        said += _best_text(best, language)
    if winner := iteration["winner_skill_id"]:
        said.append(tell("lab_winner", language, skill_id=winner))
    elif cause:
        said.append(tell("lab_no_winner", language))
    if iteration.get("ended_before"):
        said.append(tell("lab_search_over", language))
    return said


def _best_text(best: Mapping[str, Any], language: Language) -> list[str]:
    name = best.get("name") or str(best.get("skill_id", ""))[:8]
    said = [tell("lab_best_found", language, name=name, score=score(best.get("avg_score")))]
    if corrected := best.get("corrected"):
        ends = {name: score(corrected[name]) for name in ("score", "low", "high")}
        said.append(tell("lab_estimated" if best.get("retested") == 0 else "lab_corrected", language, **ends))
    return said
