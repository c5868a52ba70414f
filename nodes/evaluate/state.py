"""Input, output and state of the evaluation graph."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from langgraph.channels import EphemeralValue
from typing_extensions import TypedDict  # pydantic reads schemas from it on Python 3.11


class EvaluateInput(TypedDict, total=False):
    """A call of the graph.

    ``project`` is a folder's name, an id or a name. ``rerun_failed`` does anew what failed; without it only what is
    missing is done. ``dry_run`` ends with the plan. ``changes`` are options to change first (concurrency, budget…).
    """

    project: str
    rerun_failed: Annotated[bool, EphemeralValue]
    dry_run: Annotated[bool, EphemeralValue]
    changes: Annotated[dict[str, Any], EphemeralValue]


class EvaluateOutput(TypedDict, total=False):
    """The result of a call."""

    project: str
    project_id: str
    status: Literal["running", "done", "plan", "interrupted", "error"]
    """``interrupted``: someone paused it, or the budget is used up; what is done is kept."""
    plan: dict[str, Any] | None
    total: int
    completed: int
    failed: int
    skipped: int
    cost_usd: float | None
    budget: str
    """Why the budget allowed no more calls; empty if it did."""
    summary: dict[str, Any] | None
    error: dict[str, Any] | None


class EvaluateState(EvaluateInput, EvaluateOutput, total=False):
    """What the steps hand on."""

    lease: str
    again: bool
