"""Names and records of the calls of a case, and the choice of its next call.

The name of a call follows from its purpose and the number of the attempt. A run that resumes after a crash
therefore makes the same call that was in progress, and uses an existing answer instead of paying for it
again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from personalab.errors import BadRecord, as_reason
from personalab.lab.calling import CallAnswer
from personalab.lab.projects import Result
from personalab.lab.records import SHORT, Count, Filled, Number, Record
from personalab.lab.stored_errors import plain_params

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
    return CallRow(
        call_id=call_id,
        role=role,
        attempt=int(call_id.rpartition("-a")[2]),
        at=at,
        status=answer.status,
        text=answer.text,
        structured=answer.structured,
        error=answer.error,
        error_code=answer.error_code,
        error_params=dict(answer.error_params) if answer.error_params is not None else None,
        retryable=answer.retryable,
        retry_after=answer.retry_after,
        duration_ms=answer.duration_ms,
        executor=answer.executor,
        cli_version=answer.cli_version,
        model=model,
        model_version=answer.model_version,
        usage=dict(answer.usage) if answer.usage else None,  # pyright: ignore[reportArgumentType] (whole numbers)
        cost_usd=answer.cost_usd,
        **place,
    )


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
