"""Input, output and state of the graph that learns from a conversation."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from langgraph.channels import EphemeralValue
from typing_extensions import TypedDict  # pydantic reads schemas from it on Python 3.11


class MemorizeInput(TypedDict, total=False):
    """A call of the graph: a saved conversation by its id, or a request to save one (``agent_id``, ``messages``, …).

    A conversation that was learned from before is left as it is, unless ``again`` asks the model once more.
    """

    conversation_id: str
    request: Annotated[dict[str, Any], EphemeralValue]
    again: Annotated[bool, EphemeralValue]


class MemorizeOutput(TypedDict, total=False):
    """The result of a call."""

    conversation_id: str
    agent_id: str
    user_id: str
    memory_id: str
    status: Literal["running", "done", "unchanged", "error"]
    steps: list[dict[str, Any]]
    """What was added, replaced, removed, or said again."""
    dropped: list[dict[str, str]]
    """What the model said that was not taken, what it did not get to see, and why."""
    pipeline_result: dict[str, Any] | None
    usage: dict[str, int] | None
    """What the questions used together, where the provider says so."""
    error: dict[str, Any] | None


class MemorizeState(MemorizeInput, MemorizeOutput, total=False):
    """What the steps hand on."""

    facts: list[dict[str, Any]]
    operations: list[dict[str, Any]]
    result: dict[str, Any]
    """The pipeline_result as far as it has come."""
    failure: dict[str, Any] | None
    anew: bool
    """Whether a conversation that was learned from is to be learned from again."""
