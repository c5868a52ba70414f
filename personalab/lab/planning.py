"""Estimates of the calls, tokens and costs that a run still needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from personalab.lab.resuming import Role

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
