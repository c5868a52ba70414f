"""The calls of a case: their names and records, the choice of the next call, the result, and the estimated cost."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pydantic import Field

from personalab.errors import BadRecord, Reason, as_reason
from personalab.lab.assets import Case
from personalab.lab.calling import CallAnswer, plain_params
from personalab.lab.judging import Judgement, combine, read_judgement
from personalab.lab.projects import NO_SCORES, Result, ResultStatus, scores_of
from personalab.lab.records import SHORT, Count, Filled, Number, Record
from personalab.texts import PromptLanguage

Role = Literal["execute", "judge", "control"]
Standing = Literal["ok", "again", "failed"]
"""The state of a question: an answer, another attempt to make, or permanent failure."""
BUDGET = "budget: "
JUDGE = "judge: "
SKIPPED = "skipped by a person"
HOPELESS = frozenset(
    [
        *("provider.cli_missing", "provider.cli_login", "provider.cli_usage"),
        *("provider.no_key", "provider.wrong_key", "provider.unknown", "provider.not_installed"),
        *("provider.no_model_file", "provider.bad_model_file"),
    ]
)
"""No other call would fare better: the run ends instead of failing case after case."""
_ROLES: dict[str, Role] = {"x": "execute", "j": "judge", "c": "control"}
_SAFE = re.compile(r"[A-Za-z0-9_-]{1,48}", re.ASCII)


class CallRow(Record):
    """A call that was made for a case: what it was for, and what came of it."""

    call_id: Filled
    role: Role
    repeat: int = Field(default=1, ge=1)
    judge: str = ""
    number: int = Field(default=1, ge=1)
    """Which of a judge's repeats it is."""
    attempt: int = Field(default=1, ge=1)
    at: str
    status: Literal["ok", "failed", "unreadable"]
    """``unreadable``: there is an answer, and no judgement in it."""
    text: str = ""
    structured: Any = None
    error: str | None = None
    error_code: str | None = None
    error_params: dict[str, str | int | float] | None = None
    retryable: bool = False
    retry_after: Number | None = None
    duration_ms: Count = 0
    executor: str = ""
    cli_version: str = ""
    model: str = ""
    model_version: str = ""
    usage: dict[str, int] | None = None
    cost_usd: Number | None = None
    compressed: bool = False
    """Whether the prompt was sent shortened, because it was too long for the project's ``context_config``."""
    context_export: str | None = None
    """The file of the project that has the whole prompt then."""

    def accounting(self) -> dict[str, Any]:
        """Return the fields for ``calls.jsonl``: everything but texts."""
        left_out = {"text", "structured", "error_params", "retryable", "retry_after"}
        return self.model_dump(mode="json", exclude=left_out)


def unreadable(row: CallRow, error: ValueError) -> CallRow:
    """Return a call as one whose answer cannot be read, with the reason."""
    params = plain_params({"reason": as_reason(error)})
    told = {"status": "unreadable", "error": str(error)[:300], "error_params": params}
    return row.model_copy(update=told)


class CaseCalls(Record):
    """``x_{case}.json``: every call of a case, in the order they ended."""

    case_id: Filled
    skill_id: Filled
    skill_version: str
    baseline_id: Filled
    baseline_version: str
    content_hash: str
    """Of the skill's content, SHA-256."""
    case_hash: str
    """Of the case's input and what is expected."""
    calls: tuple[CallRow, ...] = ()
    given_up: int = Field(default=0, ge=0)
    """Number of first calls that ended in a permanent failure; if the case is requested again, they do not count."""

    def rows(self, prefix: str) -> list[CallRow]:
        """List the attempts at a question."""
        return [row for row in self.calls if attempts_of(row.call_id) == prefix]


def row_of(answer: CallAnswer, *, call_id: str, role: Role, at: str, model: str, **place: Any) -> CallRow:
    """Note a call and its answer."""
    about = {
        "call_id": call_id,
        "role": role,
        "attempt": int(call_id.rpartition("-a")[2]),
        "at": at,
        "model": model,
    }
    return CallRow.model_validate({**answer.fields(), **about, **place})


# --- names


def safe_part(value: str, what: str) -> str:
    """Return a part of a file's name unchanged, or refuse it before any path is built from it."""
    if _SAFE.fullmatch(value) is None or value.startswith(
        "x_"
    ):  # our own files next to the source's are named like this
        raise BadRecord("lab_unsafe_id", what=what, value=value[:80])
    return value


def arm_folder(skill_id: str, version: str) -> str:
    """Name the folder of a skill's results."""
    return f"{safe_part(skill_id[:SHORT], 'skill_id')}_{safe_part(version, 'version')}"


def case_file(case_id: str, baseline_id: str | None) -> str:
    """Name a case's result, without ``.json``; ``baseline_id`` is given where a project has more than one."""
    safe = safe_part(case_id, "case_id")
    return f"{safe_part(baseline_id[:SHORT], 'baseline_id')}__{safe}" if baseline_id else safe


def execute_calls(folder: str, file: str, repeat: int) -> str:
    """Name the attempts to execute a case."""
    return f"x-{folder}-{file}-r{repeat}"


def judge_calls(answer_id: str, judge: str, number: int) -> str:
    """Name the attempts of a judge at the answer of a call: another answer is judged again."""
    return f"j{answer_id[1:]}-{short_hash(judge)}-k{number}"


def control_calls(identity: str, pair: int, side: Literal["good", "bad"]) -> str:
    """Name the attempts of a judge at a planted answer."""
    return f"c-{short_hash(identity)}-p{pair}-{side}"


def nth(prefix: str, attempt: int) -> str:
    """Name one attempt."""
    return f"{prefix}-a{attempt}"


def role_of(call_id: str) -> Role | None:
    """Return the purpose of a call by its name."""
    return _ROLES.get(call_id.partition("-")[0])


def attempts_of(call_id: str) -> str:
    """Name the attempts one of which a call is."""
    return call_id.rpartition("-a")[0]


def short_hash(text: str) -> str:
    """Name a text by its hash."""
    return hash_of(text)[:SHORT]


def hash_of(*texts: str) -> str:
    """Hash texts, each with its length, so that no two lists of them are alike."""
    found = hashlib.sha256()
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass")
        found.update(f"{len(raw)}:".encode("ascii"))
        found.update(raw)
    return found.hexdigest()


# --- what comes next


def standing(rows: Sequence[CallRow], retry_count: int) -> Standing:
    """Return whether there is an answer or an attempt left: some for transient failures, one for an unreadable answer.

    What ended a whole run is no attempt: it says nothing of the case.
    """
    rows = [row for row in rows if row.error_code not in HOPELESS]
    if any(row.status == "ok" for row in rows):
        return "ok"
    unreadable = sum(row.status == "unreadable" for row in rows)
    failed = len(rows) - unreadable
    hopeless = any(row.status == "failed" and not row.retryable for row in rows)
    if hopeless or unreadable > 1 or failed > retry_count:
        return "failed"
    return "again"


def wait_before(rows: Sequence[CallRow], base: float, limit: float) -> float:
    """Return the delay before the next attempt; a longer one that a service asks for takes precedence."""
    failed = [row for row in rows if row.status == "failed"]
    if not failed or rows[-1].status != "failed":
        return 0.0
    return min(limit, max(base * 2 ** (len(failed) - 1), failed[-1].retry_after or 0.0))


def answer_of(calls: CaseCalls, prefix: str) -> CallRow | None:
    """Find the answer to a question: the last one, because a case may be executed again."""
    return next((row for row in reversed(calls.rows(prefix)) if row.status == "ok"), None)


def is_judge_failure(result: Result) -> bool:
    """Return whether a case was executed and only its judgement failed."""
    return result.status == "failed" and (result.error or "").startswith(JUDGE)


def is_open(result: Result | None, *, again: bool) -> bool:
    """Return whether a case is still to be done.

    A judge that failed is asked again in every run; what failed to execute only where it is wanted (``again``). What
    the budget left out is open, what a person left out is not.
    """
    if result is None:
        return True
    if result.status == "failed":
        return again or is_judge_failure(result)
    return result.status == "skipped" and (result.error or "").startswith(BUDGET)


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


JUDGE_PROMPT_TOKENS = 1_100
"""Estimated tokens of a judge's prompt besides the case and the answer."""
USUAL_OUTPUT: Mapping[Role, int] = {"execute": 500, "judge": 300, "control": 300}
"""How long an answer is, about, as long as none is known."""


@dataclass(frozen=True, slots=True)
class TaskLeft:
    """What is left of one task."""

    content_tokens: int
    input_tokens: int
    expected_tokens: int
    executions: int
    judgements: int


@dataclass(frozen=True, slots=True)
class Known:
    """What the calls so far have shown."""

    calls: int = 0
    spent_usd: float | None = None
    mean_cost: Mapping[Role, float | None] | None = None
    mean_output: Mapping[Role, float] | None = None
    unpriced: bool = False
    """Whether an answer came without its price."""

    def output(self, role: Role) -> float:
        """Estimate the length of an answer."""
        return (self.mean_output or {}).get(role, USUAL_OUTPUT[role])

    def cost(self, role: Role) -> float | None:
        """Estimate the cost of a call; a control costs what a judgement does."""
        found = (self.mean_cost or {}).get(role)
        return self.cost("judge") if found is None and role == "control" else found


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a run would do, if every call succeeds at once; retries come on top."""

    tasks: int
    done: int
    execute_calls: int
    judge_calls: int
    control_calls: int
    calls: int
    input_tokens: int
    """Estimated; a command line's own prompts come on top."""
    output_tokens: int
    cost_usd: float | None
    """``None`` until a call has reported its cost."""
    calls_made: int
    spent_usd: float | None
    max_calls: int | None
    max_usd: float | None
    within_budget: bool | None
    """Whether the budget suffices; ``None`` if it is in money and the cost of calls is unknown."""

    def fields(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)


def plan_of(
    left: Iterable[TaskLeft],
    *,
    tasks: int,
    control_calls: int,
    known: Known,
    max_calls: int | None,
    max_usd: float | None,
) -> RunPlan:
    """Add up what is left."""
    some = list(left)
    counts: dict[Role, int] = {
        "execute": sum(task.executions for task in some),
        "judge": sum(task.judgements for task in some),
        "control": control_calls,
    }
    answer = known.output("execute")
    asked = sum(task.executions * (task.content_tokens + task.input_tokens) for task in some)
    judged = sum(
        task.judgements * (JUDGE_PROMPT_TOKENS + task.input_tokens + task.expected_tokens + answer)
        for task in some
    )
    controls = control_calls * (JUDGE_PROMPT_TOKENS + USUAL_OUTPUT["execute"])
    cost = _cost(counts, known)
    calls = sum(counts.values())
    return RunPlan(
        tasks=tasks,
        done=tasks - len(some),
        execute_calls=counts["execute"],
        judge_calls=counts["judge"],
        control_calls=control_calls,
        calls=calls,
        input_tokens=round(asked + judged + controls),
        output_tokens=round(sum(number * known.output(role) for role, number in counts.items())),
        cost_usd=cost,
        calls_made=known.calls,
        spent_usd=known.spent_usd,
        max_calls=max_calls,
        max_usd=max_usd,
        within_budget=_fits(known.calls + calls, max_calls) and _affordable(cost, calls, known, max_usd),
    )


def _cost(counts: Mapping[Role, int], known: Known) -> float | None:
    if known.unpriced and any(counts.values()):
        return None
    total = 0.0
    for role, number in counts.items():
        each = known.cost(role)
        if number and each is None:
            return None
        total += number * (each or 0.0)
    return round(total, 6)


def _affordable(cost: float | None, calls: int, known: Known, limit: float | None) -> bool | None:
    spent = known.spent_usd or 0.0
    if limit is None or not calls or spent > limit:
        return _fits(spent, limit)
    return None if cost is None else _fits(spent + cost, limit)


def _fits(amount: float, limit: float | None) -> bool:
    return limit is None or amount <= limit
