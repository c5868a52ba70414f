"""The summary of a project, computed from its results on disk."""

from __future__ import annotations

from collections.abc import Sequence

from personalab.lab.options import NO_SKILL_ID, RunOptions
from personalab.lab.outcomes import repeat_totals
from personalab.lab.projects import RunSummary
from personalab.lab.ranking import (
    CaseResult,
    CostFacts,
    RankedArm,
    RankedBaseline,
    RunFacts,
    case_result,
    summarise,
)
from personalab.lab.resuming import answer_of, execute_calls, judge_calls
from personalab.operations.lab.proving import judge_facts
from personalab.operations.lab.tasks import Task, arms_of, language_of, tasks_of
from personalab.storage.lab.project_journal import Account, read_journal
from personalab.storage.lab.projects import BaselineCopy, ProjectPlace


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
