"""The result of a case, made from its calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from personalab.errors import Reason
from personalab.lab.assets import Case
from personalab.lab.judging import Judgement, combine, read_judgement
from personalab.lab.projects import NO_SCORES, Result, ResultStatus, scores_of
from personalab.lab.resuming import BUDGET, JUDGE, SKIPPED, CallRow
from personalab.texts import PromptLanguage

MAX_ERROR = 500


@dataclass(frozen=True, slots=True)
class Tested:
    """What was tested on which case."""

    skill_id: str
    skill_version: str
    baseline_id: str
    baseline_version: str
    case: Case


def failed_result(tested: Tested, executed: Sequence[CallRow], failure: CallRow, *, by_judge: bool) -> Result:
    """Make the result of a case that failed in execution or judging; an answer is kept."""
    error = failure.error or failure.error_code or str(Reason("no_reason"))
    told = f"{JUDGE}{error}" if by_judge else error
    return _result(tested, "failed", executed or (failure,), told[:MAX_ERROR])


def left_out(tested: Tested, executed: Sequence[CallRow], reason: Reason) -> Result:
    """Make the result of a case that the budget did not cover."""
    return _result(tested, "skipped", executed, f"{BUDGET}{reason}")


def skipped_result(tested: Tested, now: str) -> Result:
    """Make the result of a case that a person skipped."""
    return _result(tested, "skipped", (), SKIPPED).changed(executed_at=now)


def judged_result(
    tested: Tested, executed: Sequence[CallRow], judged: Sequence[CallRow], language: PromptLanguage
) -> Result:
    """Make the result of a case that was executed and judged: means over its repeats, judges and their repeats."""
    combined = combine([judgement_of(row) for row in judged], language)
    return _result(
        tested,
        "completed",
        executed,
        None,
    ).model_copy(
        update={
            "scores": scores_of(combined.scores),
            "score_reasoning": combined.reasoning,
            "score_evaluated_at": max(row.at for row in judged),
        }
    )


def judgement_of(row: CallRow) -> Judgement:
    """Read what a judge said; ``ValueError`` tells what is wrong with it."""
    return read_judgement(row.structured if row.structured is not None else row.text)


def repeat_totals(judged: Sequence[CallRow]) -> list[float]:
    """Return the mean total of each repeat of a case."""
    found: dict[int, list[float]] = {}
    for row in judged:
        found.setdefault(row.repeat, []).append(judgement_of(row).total)
    return [sum(totals) / len(totals) for _, totals in sorted(found.items())]


_NEVER = "1970-01-01T00:00:00Z"
"""A case that was never executed needs a time all the same."""


def _result(tested: Tested, status: ResultStatus, executed: Sequence[CallRow], error: str | None) -> Result:
    first = executed[0] if executed else None
    fields: dict[str, object] = {
        "case_id": tested.case.id,
        "skill_id": tested.skill_id,
        "skill_version": tested.skill_version,
        "baseline_id": tested.baseline_id,
        "baseline_version": tested.baseline_version,
        "executed_at": first.at if first else _NEVER,
        "status": status,
        "input": tested.case.input,
        "expected_output": tested.case.expected_output,
        "actual_output": first.text if first and first.status == "ok" else "",
        "duration_ms": first.duration_ms if first else 0,
        "cli_version": first.cli_version if first else "",
        "model_version": first.model_version if first else "",
        "error": error,
        "scores": NO_SCORES,
    }
    return Result.model_construct(**fields)  # pyright: ignore[reportArgumentType] (checked when it is written)
