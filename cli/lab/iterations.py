"""How does a terminal search for a better skill, and show how far the search is?"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from cli.lab.finding import project_of
from cli.lab.runs import agreed, must_ask, refused, told
from cli.lab.showing import follow_lab, named, score, short_id
from cli.output import BOLD, DIM, GREEN, note, paint, write, write_json
from cli.running import DONE, FAILED, language, services
from cli.texts import tell
from personalab.operations.lab import iterating

if TYPE_CHECKING:
    from nodes.iterate.state import IterateInput


async def iterate(word: str, wishes: Mapping[str, Any], *, yes: bool, as_json: bool) -> int:
    """Search for a better skill, or go on with the search that was interrupted."""
    place = await project_of(word)
    given = {name: value for name, value in wishes.items() if value is not None}
    options = await asyncio.to_thread(place.options)
    budget = options.max_calls is not None or options.max_usd is not None or "max_evaluations" in given
    models = [options.model, *options.judging()]
    if must_ask(models, yes=yes, budget=budget, refusal="lab_iterate_say_yes") and not await agreed(models):
        return FAILED
    from graph.iterate import stream_iterate  # heavy: only once there is something to search

    call = cast("IterateInput", {"project": place.name, **given})
    result, code = await follow_lab(stream_iterate(services(), call), told)
    if as_json:
        write_json(result)
    if refused(result):
        return code or FAILED
    if not as_json:
        _show_result(result)
    return DONE if result.get("status") == "done" else FAILED


def _show_result(result: Mapping[str, Any]) -> None:
    if report := result.get("report"):
        _show_rounds(report["rounds"])
    cause = tell(f"lab_cause_{result.get('stop_cause') or 'manual'}", language())
    counts = {name: result.get(name) or 0 for name in ("round", "evaluations")}
    note(tell("lab_iterated", language(), cause=cause, **counts))
    if best := result.get("best"):
        _show_best(best)
    if skill_id := result.get("skill_id"):
        write(tell("lab_winner", language(), skill_id=skill_id))
    else:
        write(tell("lab_no_winner", language()))


def _show_rounds(rounds: list[dict[str, Any]]) -> None:
    for row in rounds:
        delta = row["score_delta"]
        change = paint(f"{delta:+.1f}", GREEN if delta > 0 else DIM) if delta is not None else ""
        write(
            f"{row['round']:>3} {row['strategy'] or '–':<16} {score(row['avg_score']):>5} {change}".rstrip()
        )


def _show_best(best: Mapping[str, Any]) -> None:
    write(f"{short_id(best['skill_id'])} {paint(named(best['name']), BOLD)} {score(best['avg_score'])}")
    if corrected := best.get("corrected"):
        ends = {name: score(corrected[name]) for name in ("score", "low", "high")}
        write(tell("lab_corrected", language(), **ends))


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
    if found["report"]:
        _show_rounds(found["report"]["rounds"])
        cause = tell(f"lab_cause_{found['stop_cause'] or 'manual'}", language())
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
