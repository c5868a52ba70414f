"""Input, output and state of the graph that updates a character's persona and memory."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from langgraph.channels import EphemeralValue
from typing_extensions import TypedDict  # pydantic reads schemas from it on Python 3.11


class UpdateInput(TypedDict, total=False):
    """A call of the graph; with ``dry_run`` the new persona is shown and nothing is written."""

    instance_id: str
    dry_run: Annotated[bool, EphemeralValue]


class UpdateOutput(TypedDict, total=False):
    """The result of a call."""

    instance_id: str
    session_id: str
    """The session that was looked back on."""
    turns: list[int]
    """The first and the last turn that were."""
    status: Literal["running", "done", "unchanged", "preview", "error"]
    before: str
    evolved_persona: str
    changes: list[dict[str, Any]]
    """Each with the turns it rests on."""
    diff: list[dict[str, str]]
    """Sentence by sentence: ``op`` (``same``, ``add`` or ``remove``) and ``text``."""
    revision: int
    """The one the character stands at now."""
    memory: dict[str, Any] | None
    """What was learned about the player: ``turns``, ``steps`` (what changed), ``dropped``, ``conversations``."""
    warnings: list[dict[str, Any]]
    usage: dict[str, int] | None
    error: dict[str, Any] | None


class UpdateState(UpdateInput, UpdateOutput, total=False):
    """What the steps hand on."""

    lease: str
    preview: bool
    last_turn: int
    """The newest turn when the session was read: if another one came, the character knows more by now."""
    model: str
    """Who answered."""
