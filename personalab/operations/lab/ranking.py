"""Ranking of a project's skills: the check of its judges with control pairs, and the summary of its results."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from personalab.errors import UserError
from personalab.lab.case_calls import (
    CallRow,
    answer_of,
    attempts_of,
    control_calls,
    execute_calls,
    judge_calls,
    judgement_of,
    repeat_totals,
)
from personalab.lab.controls import LEAST_GAP, Control, choose_controls, verdict
from personalab.lab.judging import judge_identity
from personalab.lab.options import NO_SKILL_ID, RunOptions
from personalab.lab.projects import RunSummary
from personalab.lab.ranking import (
    CaseResult,
    CostFacts,
    JudgeFacts,
    RankedArm,
    RankedBaseline,
    RunFacts,
    case_result,
    summarise,
)
from personalab.operations.lab.calls import CallRequest, CallRunner, together
from personalab.operations.lab.evaluating import judge_question
from personalab.operations.lab.questions import FailedCallError
from personalab.operations.lab.tasks import Task, arms_of, language_of, tasks_of
from personalab.storage.lab.project_journal import Account, read_journal
from personalab.storage.lab.projects import BaselineCopy, ProjectPlace
from personalab.tasks import run_uncancellable
from personalab.texts import PromptLanguage

Side = Literal["good", "bad"]
_SIDES: tuple[Side, ...] = ("good", "bad")


@dataclass(slots=True)
class ControlSheet:
    """The calls with which one judge is tested."""

    place: ProjectPlace
    identity: str
    data: dict[str, Any]
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _first: int = 0

    def __post_init__(self) -> None:
        self._first = len(self.calls)

    @property
    def entry(self) -> dict[str, Any]:
        """What is known of the judge."""
        return self.data.setdefault("judges", {}).setdefault(self.identity, {})

    @property
    def calls(self) -> list[CallRow]:
        """Every call that was made."""
        return [CallRow.read(row, "x_controls.json") for row in self.entry.get("calls", [])]

    def rows(self, prefix: str) -> list[CallRow]:
        """List the attempts at a question."""
        return [row for row in self.calls if attempts_of(row.call_id) == prefix]

    def given_up(self, prefix: str) -> int:
        """Count the attempts of earlier runs: a control is repeated in each run."""
        return sum(attempts_of(row.call_id) == prefix for row in self.calls[: self._first])

    def keep(self, row: CallRow) -> None:
        """Note a call on disk."""
        self.entry.setdefault("calls", []).append(row.model_dump(mode="json"))
        self.place.save_controls(self.data)

    def note(self, **facts: Any) -> None:
        """Note the verdict on disk."""
        self.entry.update(facts)
        self.place.save_controls(self.data)


def unproven(place: ProjectPlace, options: RunOptions, language: PromptLanguage) -> list[str]:
    """Name the judges that were not tested yet."""
    if not options.controls:
        return []
    known = place.controls().get("judges", {})
    return [
        model
        for model in options.judging()
        if known.get(judge_identity(model, language), {}).get("passed") is None
    ]


def judge_facts(place: ProjectPlace, options: RunOptions, language: PromptLanguage) -> tuple[JudgeFacts, ...]:
    """List the judges with their results on the planted answers."""
    known = place.controls().get("judges", {})
    found: list[JudgeFacts] = []
    for model in options.judging():
        identity = judge_identity(model, language)
        entry = known.get(identity, {})
        found.append(JudgeFacts(identity, model, entry.get("gap"), entry.get("passed")))
    return tuple(found)


async def prove_judges(
    place: ProjectPlace, options: RunOptions, runner: CallRunner, language: PromptLanguage, *, again: bool
) -> None:
    """Have every judge score the planted answers, once per project; a blind judge is an error.

    ``again`` tests one anew that was found blind: its model may have been mended.
    """
    if not options.controls:
        return
    data = await asyncio.to_thread(place.controls)
    for model in options.judging():
        sheet = ControlSheet(place, judge_identity(model, language), data)
        passed = sheet.entry.get("passed")
        if passed is None or (again and not passed):
            await _prove(place, options, runner, sheet, model, language)
        if not sheet.entry["passed"]:
            raise UserError(
                "lab_judge_blind",
                judge=model,
                gap=f"{sheet.entry['gap']:g}",
                least=f"{LEAST_GAP:g}",
                reason=sheet.entry["reason"],
            )


async def _prove(
    place: ProjectPlace,
    options: RunOptions,
    runner: CallRunner,
    sheet: ControlSheet,
    model: str,
    language: PromptLanguage,
) -> None:
    tries = int(sheet.entry.get("tries", 0)) + 1
    await runner.forget(sheet.calls)
    planted: list[tuple[int, Control, Side]] = [
        (number, control, side)
        for number, control in enumerate(choose_controls(language), 1)
        for side in _SIDES
    ]
    rows = await together(
        runner.get_answer(_control(options, sheet.identity, model, language, tries, planted_one), sheet)
        for planted_one in planted
    )
    failure = next((row for row in rows if row.status != "ok"), None)
    if failure is not None:
        raise FailedCallError("lab_control_failed", failure, retryable=True, judge=model)
    totals = [judgement_of(row).total for row in rows]
    found = verdict(list(zip(totals[::2], totals[1::2], strict=True)))
    facts = {"passed": found.passed, "gap": found.gap, "reason": found.told(language), "tries": tries}
    async with sheet.lock:
        await run_uncancellable(lambda: sheet.note(model=model, language=language, **facts))


def _control(
    options: RunOptions,
    identity: str,
    model: str,
    language: PromptLanguage,
    tries: int,
    planted: tuple[int, Control, Side],
) -> CallRequest:
    number, control, side = planted
    answer = control.good if side == "good" else control.bad
    question = judge_question(control.input, control.expected, answer, language, model, options)
    prefix = f"{control_calls(identity, number, side)}-t{tries}"
    return CallRequest(prefix, "control", model, question, judgement_of, {"judge": model})


def write_summary(place: ProjectPlace, options: RunOptions, now: str) -> RunSummary:
    """Rank the skills of a project by the results on disk, and save it."""
    arms, baselines = arms_of(place, options), place.baselines()
    results: dict[str, list[CaseResult]] = {}
    for task in tasks_of(place, arms, baselines):
        if (result := place.result(task.result_path)) is not None:
            totals = _repeats(place, options, task) if options.repeats > 1 else []
            results.setdefault(task.arm.skill_id, []).append(case_result(result, totals))
    summary, extra = summarise(
        place.config.id,
        now,
        [
            RankedArm(arm.skill_id, arm.name, arm.version, arm.content, arm.skill_id == NO_SKILL_ID)
            for arm in arms
        ],
        results,
        baselines=_ranked(baselines),
        facts=RunFacts(
            pass_score=options.pass_score,
            repeats=options.repeats,
            judges=judge_facts(place, options, language_of(options, baselines)),
            costs=_costs(place),
        ),
    )
    place.save_summary(summary, extra)
    return summary


def _ranked(baselines: Sequence[BaselineCopy]) -> list[RankedBaseline]:
    return [
        RankedBaseline(found.ref.ref_id, found.ref.name, found.ref.version, found.cases)
        for found in baselines
    ]


def _repeats(place: ProjectPlace, options: RunOptions, task: Task) -> list[float]:
    """Read the totals of a case's repeats."""
    calls = place.calls(task.calls_path)
    if calls is None:
        return []
    answers = [
        answer_of(calls, execute_calls(task.folder, task.file, number))
        for number in range(task.repeat, task.repeat + options.repeats)
    ]
    judged = [
        answer_of(calls, judge_calls(answer.call_id, judge, number))
        for answer in answers
        if answer is not None
        for judge in options.judging()
        for number in range(1, options.judge_repeats + 1)
    ]
    return repeat_totals([row for row in judged if row is not None])


def _costs(place: ProjectPlace) -> CostFacts:
    found = Account(read_journal(place.journal, place.shown(place.journal)))
    return CostFacts(found.calls, found.input_tokens, found.output_tokens, found.spent)
