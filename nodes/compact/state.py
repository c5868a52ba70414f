"""Input, output and state of the compaction graph."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from langgraph.channels import EphemeralValue
from typing_extensions import TypedDict  # pydantic reads schemas from it on Python 3.11


class CompactInput(TypedDict, total=False):
    """A call of the graph.

    ``archive`` is the name of a file in the data root's folder ``archive``. What stands before ``trigger_entry_id``
    is summed up; left out, the newest entries stay as they are. With ``summary``, the caller's own text, no model is
    asked. ``dry_run`` shows the summary and writes nothing.
    """

    archive: str
    session_id: str
    trigger_entry_id: Annotated[str, EphemeralValue]
    summary: Annotated[str, EphemeralValue]
    dry_run: Annotated[bool, EphemeralValue]


class CompactOutput(TypedDict, total=False):
    """The result of a call."""

    archive: str
    session_id: str
    status: Literal["running", "done", "preview", "error"]
    dialogue: dict[str, Any] | None
    """The record in ``compacted_dialogues``; in a preview its ``trigger_entry_id`` and ``summary`` alone."""
    entries: int
    """How many entries it sums up."""
    usage: dict[str, int] | None
    error: dict[str, Any] | None


class CompactState(CompactInput, CompactOutput, total=False):
    """What the steps hand on."""

    trigger: str
    given: str | None
    """The caller's own summary."""
    preview: bool
    seen: str
    """What the account is made from, by its fingerprint."""
    account: str
