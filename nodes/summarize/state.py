"""Input, output and state of the summary graph."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from langgraph.channels import EphemeralValue
from typing_extensions import TypedDict  # pydantic reads schemas from it on Python 3.11


class SummaryInput(TypedDict, total=False):
    """A call of the graph; with ``dry_run`` the points are shown and nothing is written."""

    instance_id: str
    dry_run: Annotated[bool, EphemeralValue]


class SummaryOutput(TypedDict, total=False):
    """The result of a call."""

    instance_id: str
    session_id: str
    """The session that was summarised."""
    new_session_id: str
    """The one that follows it."""
    status: Literal["running", "done", "preview", "error"]
    points: list[dict[str, Any]]
    kept_turns: int
    warnings: list[dict[str, Any]]
    usage: dict[str, int] | None
    error: dict[str, Any] | None


class SummaryState(SummaryInput, SummaryOutput, total=False):
    """What the steps hand on."""

    lease: str
    preview: bool
    turns_indexed: bool
    """Whether the turns are in the library already."""
    has_news: bool
    """Whether anything happened that the session did not take over from the one before."""
    left_behind: list[int]
    """The turns that stay behind unanswered, because they are too long."""
    last_turn: int
    """The newest turn when the session was read: if another one came, the summary is not of it."""
