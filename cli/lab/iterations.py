"""Terminal output and commands for the iterative search for a better skill."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from cli.lab.finding import project_of
from cli.lab.findings import show_retention
from cli.lab.runs import agreed, must_ask, refused, saying_how_to_go_on, told
from cli.lab.showing import follow_lab, named, score, short_id
from cli.output import BOLD, DIM, GREEN, note, paint, write, write_json
from cli.running import DONE, FAILED, language, services
from cli.texts import TEXTS, tell
from personalab.errors import UserError
from personalab.lab.calling import is_limited
from personalab.operations.lab import iterating, projects
from personalab.operations.lab.findings import retention_of_search

if TYPE_CHECKING:
    from nodes.iterate.state import IterateInput
    from personalab.storage.lab.projects import ProjectPlace

_MAX_ROUNDS = 1_000
"""No search has more; a file may say anything."""


async def iterate(
    word: str, wishes: Mapping[str, Any], limits: Mapping[str, Any], *, yes: bool, as_json: bool
) -> int:
    """Search for a better skill, or go on with the search that was interrupted.

    ``limits`` are the project's from now on, once it is agreed that the search begins.
    """
    place = await project_of(word)
    given = {name: value for name, value in wishes.items() if value is not None}
    bound, options = await _bound(place, given), await asyncio.to_thread(place.options)
    models = [options.model, *options.judging()] if bound["calls"] else []
    wanted: dict[str, Any] = {"max_calls": options.max_calls, "max_usd": options.max_usd, **limits}
    budget = is_limited(models, wanted["max_calls"], wanted["max_usd"]) or "max_evaluations" in given
    asking = must_ask(models, yes=yes, budget=budget, refusal="lab_iterate_say_yes")
    if bound["calls"]:
        note(tell("lab_iterate_bound", language(), **bound))
    if asking and not await agreed(models):
        return FAILED
    if limits:
        await projects.change_options(services(), place.name, limits)
    from graph.iterate import stream_iterate  # heavy: only once there is something to search

    call = cast("IterateInput", {"project": place.name, **given})
    with saying_how_to_go_on(f"personalab lab iterate {place.name}"):
        result, code = await follow_lab(stream_iterate(services(), call), told)
    if refused(result):
        if as_json:
            write_json(result)
        return code or FAILED
    retention = await retention_of_search(services(), place.name)
    if as_json:
        write_json({**result, "retention": retention})
    else:
        _show_result(result, place.name)
        show_retention(retention)
    return DONE if result.get("status") == "done" else FAILED


async def _bound(place: ProjectPlace, wishes: Mapping[str, Any]) -> dict[str, int]:
    """Return a search's maximum evaluations and calls, and those made so far; refuse one that cannot start."""
    if not (place.results / "summary.json").is_file():
        raise UserError("lab_not_run_yet", project=place.config.name)
    bound = await iterating.iteration_bound(services(), place.name, wishes)
    found = await projects.project_status(services(), place.name)
    return {**bound, "made": found["calls_made"]}


def _show_result(result: Mapping[str, Any], project: str) -> None:
    if result.get("status") != "done":
        note(tell("lab_iteration_open", language(), project=project))
        if best := result.get("best"):
            _show_best(best)
        return
    if report := result.get("report"):
        _show_rounds(report["rounds"], report["total_rounds"])
    counts = {name: result.get(name) or 0 for name in ("round", "evaluations")}
    note(tell("lab_iterated", language(), cause=_cause(result.get("stop_cause")), **counts))
    if best := result.get("best"):
        _show_best(best)
    if skill_id := result.get("skill_id"):
        write(tell("lab_winner", language(), skill_id=skill_id))
    else:
        write(tell("lab_no_winner", language()))
    if result.get("ended_before"):
        note(tell("lab_iteration_over", language(), project=project))


def _cause(cause: object) -> str:
    """Word why a search ended; what another program wrote may have no words here."""
    code = f"lab_cause_{cause}"
    return tell(code, language()) if code in TEXTS else named(cause or "–")


def _show_rounds(rounds: list[dict[str, Any]], total: int) -> None:
    known = {row["round"]: row for row in rounds}
    for number in sorted({*known, *range(1, min(total, _MAX_ROUNDS) + 1)}):
        if number not in known:
            write(f"{number:>3} {paint(tell('lab_screened_only', language()), DIM)}")
            continue
        row = known[number]
        delta = row["score_delta"]
        change = paint(f"{delta:+.1f}", GREEN if delta > 0 else DIM) if delta is not None else ""
        write(
            f"{row['round']:>3} {row['strategy'] or '–':<16} {score(row['avg_score']):>5} {change}".rstrip()
        )


def _show_best(best: Mapping[str, Any]) -> None:
    write(f"{short_id(best['skill_id'])} {paint(named(best['name']), BOLD)} {score(best['avg_score'])}")
    if corrected := best.get("corrected"):
        ends = {name: score(corrected[name]) for name in ("score", "low", "high")}
        write(tell("lab_estimated" if best.get("retested") == 0 else "lab_corrected", language(), **ends))


async def show_iteration(word: str, *, as_json: bool) -> None:
    """Print how far a search is, or its report."""
    place = await project_of(word)
    found = await iterating.iteration_status(services(), place.name)
    if as_json:
        write_json(found)
        return
    if found["running"]:
        note(tell("lab_iterating_now", language(), project=place.name))
    elif found["completed_at"] is None:
        note(tell("lab_iteration_open", language(), project=place.name))
    if (
        found["report"] and found["completed_at"] is not None
    ):  # for a running search, this describes an earlier end
        _show_rounds(found["report"]["rounds"], found["report"]["total_rounds"])
        cause = _cause(found["stop_cause"])
        ledger = cast("dict[str, Any]", found["ledger"] or {})
        evaluations = ledger.get("evaluations") or 0
        rounds = found["report"]["total_rounds"]
        write(tell("lab_iterated", language(), cause=cause, round=rounds, evaluations=evaluations))
        if ledger.get("best"):
            _show_best(ledger["best"])
        return
    for row in found["rounds"]:
        level = tell("lab_plateau", language(), level=row["plateau_level"])
        tried = ", ".join(row["strategies_tried"])
        write(f"{row['round']:>3} {level} {paint(tried, DIM)} {str(row['winner_skill_id'] or '–')[:8]}")


async def stop(word: str, *, as_json: bool) -> None:
    """Ask a search to come to its end, and wait for it."""
    place = await project_of(word)
    ended = await iterating.stop_iteration(services(), place.name)
    if as_json:
        write_json(ended)
    else:
        code = "lab_paused" if ended["status"] == "stopped" else "lab_stopping"
        write(tell(code, language(), project=place.name))
