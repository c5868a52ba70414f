"""Texts of the lab: plans, costs, a skill's standing and the result of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from personalab.errors import PersonaLabError
from personalab.lab.reports.data import Iteration, ReportSkill
from personalab.lab.reports.texts import word
from personalab.texts import Language, say


def score(value: float | None) -> str:
    """Word a score; what is unknown is a dash, never 0."""
    return "–" if value is None else f"{value:.1f}"


def cell_text(status: str, total: float | None, language: Language) -> str:
    """Word a cell of the matrix: its score, or why it has none."""
    if status == "completed" and total is not None:
        return score(total)
    return word(status, language) if status in ("failed", "skipped") else say(f"web_lab_{status}", language)


def status_text(status: str, language: Language) -> str:
    """Return a project's status as text."""
    return say("web_lab_open", language) if status == "pending" else word(status, language)


def unread_text(name: str, error: PersonaLabError, language: Language) -> str:
    """Word that something on the disk is in no list, and why."""
    return say("web_lab_unread", language, name=name, reason=error)


def usd(value: float) -> str:
    """Word an amount."""
    return f"${value:.4f}".rstrip("0").rstrip(".")


def cost_text(models: Sequence[str], cost_usd: float | None, language: Language, *, free: bool) -> str:
    """Word what calls would cost."""
    if free:
        return say("web_lab_rehearsal" if "rehearsal" in models else "web_lab_free", language)
    if cost_usd is None:
        return say("web_lab_cost_unknown", language)
    return say("web_lab_cost", language, usd=usd(cost_usd))


def plan_text(plan: Mapping[str, Any], models: Sequence[str], language: Language, *, free: bool) -> list[str]:
    """Word what a run would take."""
    if not plan["calls"]:
        return [say("web_lab_plan_nothing", language)]
    said = [say("web_lab_plan", language, **plan), cost_text(models, plan["cost_usd"], language, free=free)]
    if plan["within_budget"] is False:
        said.append(say("web_lab_over", language))
    return said


def search_plan_text(
    bound: Mapping[str, int], models: Sequence[str], language: Language, *, free: bool
) -> list[str]:
    """Word what a search takes at the most."""
    if not bound["calls"]:
        return [say("web_lab_search_over", language)]
    said = say("web_lab_search_plan", language, **bound)
    return [said, cost_text(models, None, language, free=free)]


def spent_text(calls: int, spent: float | None, language: Language, *, free: bool) -> str:
    """Word what a project has cost."""
    if free or not calls:
        return say("web_lab_spent_nothing", language, calls=calls)
    if spent is None:
        return say("web_lab_spent_unknown", language, calls=calls)
    return say("web_lab_spent", language, calls=calls, usd=usd(spent))


def rank_notes(row: ReportSkill, *, tied: bool, language: Language) -> list[str]:
    """Word what has to be known about a skill's place."""
    said = [say("web_lab_tie", language)] if tied else []
    if row.behind is not None and (span := row.behind_interval):
        code = "web_lab_behind" if span.high < 0 else "web_lab_difference"
        ends = {"low": _signed(span.low), "high": _signed(span.high)}
        said.append(say(code, language, value=_signed(row.behind), **ends))
    if row.gain is not None:
        said.append(say("web_lab_gain", language, value=_signed(row.gain)))
    if row.incomplete:
        said.append(say("web_lab_incomplete", language))
    counts = {"completed": row.completed, "failed": row.failed, "skipped": row.skipped}
    return [*said, say("web_lab_counts", language, **counts)]


def _signed(value: float) -> str:
    return f"{value:+.1f}".replace("-", "−")


def search_text(found: Iteration, *, cause: str | None, running: bool, language: Language) -> list[str]:
    """Word how a search goes or went."""
    if running:
        said = [say("web_lab_search_runs", language)]
    elif cause:
        said = [say("web_lab_search_ended", language, cause=word(cause, language))]
    else:
        said = [say("web_lab_search_paused", language)]
    if found.evaluations is not None:
        said.append(say("web_lab_evaluations", language, count=found.evaluations))
    if cause and found.best_name:
        code = "web_lab_winner" if found.best_round else "web_lab_no_winner"
        said.append(say(code, language, name=found.best_name, score=score(found.best_score)))
    if cause and found.corrected is not None and found.corrected_interval is not None:
        code = "web_lab_corrected" if found.retested else "web_lab_estimated"
        low, high = score(found.corrected_interval.low), score(found.corrected_interval.high)
        said.append(say(code, language, score=score(found.corrected), low=low, high=high))
    return said
