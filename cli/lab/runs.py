"""Project runs at a terminal: the plan, confirmation of costs, progress, the result and its exit code."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from cli.lab.finding import project_of
from cli.lab.projects import plan_text, show_ranking, show_unreal
from cli.lab.showing import Event, follow_lab, money, named, warned
from cli.output import bar, is_terminal, note, one_line, write, write_json
from cli.running import DONE, FAILED, Refusal, language, services
from cli.texts import tell
from personalab.errors import UserError
from personalab.lab.calling import is_free, is_limited, tells_price
from personalab.operations.lab.projects import count_no_skill_tasks, pause
from personalab.texts import say

if TYPE_CHECKING:
    from nodes.evaluate.state import EvaluateInput
    from personalab.storage.lab.projects import ProjectPlace

TESTS_FAILED = 100
"""Exit code if everything ran and a score is below the required one, as in promptfoo."""
_MAX_LINE = 4_096
_UNOPENED = ("provider.unknown", "provider.no_key", "provider.not_found", "provider.no_model_file")


async def run_project(
    word: str,
    changes: Mapping[str, Any],
    *,
    rerun_failed: bool,
    yes: bool,
    fail_below: float | None,
    as_json: bool,
) -> int:
    """Run what is left of a project, and tell how it ended; a limit that is ``None`` in ``changes`` is taken away."""
    place = await project_of(word)
    from graph.evaluate import stream_evaluate  # heavy: only once there is something to run

    call: EvaluateInput = {"project": place.name, "rerun_failed": rerun_failed, "changes": dict(changes)}
    planned, code = await follow_lab(stream_evaluate(services(), {**call, "dry_run": True}), told)
    if refused(planned):
        return code or FAILED
    plan, options = planned["plan"], await asyncio.to_thread(place.options)
    models = [options.model, *options.judging()] if plan["calls"] else []
    budget = is_limited(models, plan["max_calls"], plan["max_usd"])
    vain = not budget and plan["max_usd"] is not None
    asking = must_ask(models, yes=yes, budget=budget, refusal="lab_say_yes", vain=vain)
    note(plan_text(plan, await asyncio.to_thread(count_no_skill_tasks, place)))
    if asking and not await agreed(models):
        return FAILED
    with saying_how_to_go_on(f"personalab lab resume {place.name}"):
        result, code = await follow_lab(stream_evaluate(services(), call), told)
    if as_json:
        write_json(result)
    if refused(result):
        _name_models(result["error"], [options.model, *options.judging()])
        return code or FAILED
    await _show_end(place, result, as_json=as_json)
    code = DONE if result.get("status") == "done" and not result.get("failed") else FAILED
    if fail_below is not None and result.get("status") == "done":
        return await checked(place.name, fail_below) or code
    return code


@contextmanager
def saying_how_to_go_on(command: str) -> Generator[None]:
    """Print what is kept where Ctrl-C or a signal ends work, and the command that resumes it."""
    try:
        yield
    except (asyncio.CancelledError, KeyboardInterrupt):
        note(say("lab_left_off", language(), command=command))
        raise


def refused(result: Event) -> bool:
    """Print why work ended with an error, if it did."""
    error = result.get("error")
    if error:
        note(one_line(str(error["message"])))
    return bool(error)


async def _show_end(place: ProjectPlace, result: Event, *, as_json: bool) -> None:
    counts: dict[str, Any] = {
        name: result.get(name, 0) for name in ("total", "completed", "failed", "skipped")
    }
    status = "done" if result.get("status") == "done" else "budget" if result.get("budget") else "interrupted"
    if status == "budget":
        counts["limits"] = await asyncio.to_thread(_limits, place)
    said = tell(
        f"lab_run_{status}", language(), project=place.name, cost=money(result.get("cost_usd")), **counts
    )
    note(said)
    if idle := await asyncio.to_thread(count_no_skill_tasks, place):
        note(tell("lab_idle_within", language(), idle=idle))
    if result.get("budget"):
        warned("lab_budget_used", reason=str(result["budget"]))
    await show_unreal(place)
    if status == "done" and not as_json:
        details = await asyncio.to_thread(place.extra_summary)
        if details.get("skills"):
            show_ranking(details)
        write(tell("lab_after_run", language(), project=place.name))


def _limits(place: ProjectPlace) -> str:
    """Name the options that raise the limits a project has."""
    options = place.again().options()
    calls = ["--max-calls N"] if options.max_calls is not None or options.max_usd is None else []
    return " ".join([*calls, *(["--max-usd USD"] if options.max_usd is not None else [])])


def _name_models(error: Event, models: Sequence[str]) -> None:
    """Print whose model could not be opened: the project's, whatever the environment names."""
    if error.get("code") in _UNOPENED:
        note(tell("lab_project_model", language(), models=named(", ".join(dict.fromkeys(models)))))


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


def must_ask(models: Sequence[str], *, yes: bool, budget: bool, refusal: str, vain: bool = False) -> bool:
    """Return whether to ask a person before money is spent; without a terminal, ``--yes`` or a budget is needed.

    ``vain``: there is a budget, in money, and a model that does not tell what it costs.
    """
    if yes or all(is_free(model) for model in models):
        return False
    if is_terminal(sys.stdin):
        return True
    if vain:
        unpriced = [model for model in models if not tells_price(model)]
        raise UserError("lab_price_unknown", models=named(", ".join(dict.fromkeys(unpriced))))
    if not budget:
        raise Refusal(refusal, models=named(", ".join(dict.fromkeys(models))))
    return False


async def agreed(models: Sequence[str]) -> bool:
    """Ask whether money may be spent."""
    note(tell("lab_ask_spend", language(), models=named(", ".join(dict.fromkeys(models)))))
    said = await _answer()
    if said.strip().lower() in ("y", "yes", "是"):
        return True
    note(tell("lab_not_run", language()))
    return False


async def _answer() -> str:
    """Read a line from the terminal; an interrupted caller does not wait for its end."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        line = os.read(sys.stdin.fileno(), _MAX_LINE).decode("utf-8", "replace")  # holds no lock at the end
        with suppress(RuntimeError):  # the loop is closed: nothing waits any more
            loop.call_soon_threadsafe(lambda: answer.done() or answer.set_result(line))

    threading.Thread(target=read, daemon=True).start()
    return await answer


# --- exit codes


async def checked(project: str, least: float | None) -> int:
    """Return the exit code: whether a score is too low, or a case could not be run."""
    from personalab.lab.reports.tables import outcome
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
    done = await pause(services(), place.name)
    if as_json:
        write_json(done)
    else:
        code = "lab_stopping" if done["status"] == "stopping" else "lab_paused"
        write(tell(code, language(), project=place.name))
