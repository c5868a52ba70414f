"""How does a terminal run a project: the plan, a question where money may be spent, and progress?"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cli.lab.finding import project_of
from cli.lab.projects import plan_text, show_ranking
from cli.lab.showing import Event, follow_lab, money, named, warned
from cli.output import bar, is_terminal, note, one_line, write, write_json
from cli.running import DONE, FAILED, Refusal, language, services
from cli.texts import tell
from personalab.operations.lab import projects

if TYPE_CHECKING:
    from nodes.evaluate.state import EvaluateInput
    from personalab.storage.lab.projects import ProjectPlace

TESTS_FAILED = 100
"""How a shell learns that everything ran and a score is below what was asked, as promptfoo has it."""
_LOCAL = ("scripted:", "local:")


async def run_project(
    word: str,
    changes: Mapping[str, Any],
    *,
    rerun_failed: bool,
    yes: bool,
    fail_below: float | None,
    as_json: bool,
) -> int:
    """Run what is left of a project, and tell how it ended."""
    place = await project_of(word)
    from graph.evaluate import stream_evaluate  # heavy: only once there is something to run

    given = {name: value for name, value in changes.items() if value is not None}
    call: EvaluateInput = {"project": place.name, "rerun_failed": rerun_failed, "changes": given}
    planned, code = await follow_lab(stream_evaluate(services(), {**call, "dry_run": True}), told)
    if refused(planned):
        return code or FAILED
    plan, options = planned["plan"], await asyncio.to_thread(place.options)
    models = [options.model, *options.judging()] if plan["calls"] else []
    budget = plan["max_calls"] is not None or plan["max_usd"] is not None
    asking = must_ask(models, yes=yes, budget=budget, refusal="lab_say_yes")
    note(plan_text(plan))
    if asking and not await agreed(models):
        return FAILED
    result, code = await follow_lab(stream_evaluate(services(), call), told)
    if as_json:
        write_json(result)
    if refused(result):
        return code or FAILED
    await _show_end(place, result, as_json=as_json)
    code = DONE if result.get("status") == "done" and not result.get("failed") else FAILED
    if fail_below is not None and result.get("status") == "done":
        return await checked(place.name, fail_below) or code
    return code


def refused(result: Event) -> bool:
    """Say why work ended with an error, if it did."""
    error = result.get("error")
    if error:
        note(one_line(str(error["message"])))
    return bool(error)


async def _show_end(place: ProjectPlace, result: Event, *, as_json: bool) -> None:
    counts = {name: result.get(name, 0) for name in ("total", "completed", "failed", "skipped")}
    status = "done" if result.get("status") == "done" else "interrupted"
    said = tell(
        f"lab_run_{status}", language(), project=place.name, cost=money(result.get("cost_usd")), **counts
    )
    note(said)
    if result.get("budget"):
        warned("lab_budget_used", reason=str(result["budget"]))
    if status == "done" and not as_json:
        details = await asyncio.to_thread(place.extra_summary)
        if details.get("skills"):
            show_ranking(details)
        write(tell("lab_after_run", language(), project=place.name))


def told(event: Event) -> str:
    """Word how far a run is: a bar, the stage, what failed and what it cost."""
    stage = tell(f"lab_stage_{event.get('stage', 'execute')}", language())
    found = f"{stage} {bar(event['done'], event['total'], 16)} {event['done']}/{event['total']}"
    if event.get("round"):
        found = tell("lab_round", language(), number=event["round"]) + " " + found
    if event.get("failed"):
        found += tell("lab_failed_so_far", language(), count=event["failed"])
    if event.get("cost_usd"):
        found += f" {money(event['cost_usd'])}"
    return found


# --- money


def must_ask(models: Sequence[str], *, yes: bool, budget: bool, refusal: str) -> bool:
    """Tell whether a person is to be asked before money is spent; where none can, ``--yes`` or a budget is needed."""
    if yes or all(may_be_free(model) for model in models):
        return False
    if is_terminal(sys.stdin):
        return True
    if not budget:
        raise Refusal(refusal, models=named(", ".join(dict.fromkeys(models))))
    return False


async def agreed(models: Sequence[str]) -> bool:
    """Ask whether money may be spent."""
    note(tell("lab_ask_spend", language(), models=named(", ".join(dict.fromkeys(models)))))
    said = await asyncio.to_thread(sys.stdin.readline)
    if said.strip().lower() in ("y", "yes", "是"):
        return True
    note(tell("lab_not_run", language()))
    return False


def may_be_free(model: str) -> bool:
    """Tell whether a model runs here, and so costs nothing."""
    return model == "rehearsal" or model.startswith(_LOCAL)


# --- what a shell is told


async def checked(project: str, least: float | None) -> int:
    """Tell by the exit code whether a score is below what is asked, or a case could not be run."""
    from personalab.lab.reports.junit import outcome
    from personalab.operations.lab.reporting import report_data

    data = await report_data(services(), project, language())
    limit = data.pass_score if least is None else least
    found = [
        outcome(data.cell(at, case), limit)
        for at, row in enumerate(data.rows)
        if not row.is_no_skill
        for case in range(len(data.cases))
    ]
    counts = {name: found.count(name) for name in ("passed", "failure", "error", "skipped")}
    note(tell("lab_checked", language(), least=f"{limit:g}", **counts))
    if counts["failure"]:
        return TESTS_FAILED
    return FAILED if counts["error"] or not counts["passed"] else DONE


async def pause_project(word: str, *, as_json: bool) -> None:
    """Ask a running project to pause."""
    place = await project_of(word)
    done = await projects.pause_project(services(), place.name)
    if as_json:
        write_json(done)
    else:
        code = "lab_stopping" if done["status"] == "stopping" else "lab_paused"
        write(tell(code, language(), project=place.name))
