"""Input, output and state of the iteration graph."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from langgraph.channels import EphemeralValue
from typing_extensions import TypedDict  # pydantic reads schemas from it on Python 3.11


class IterateInput(TypedDict, total=False):
    """A call of the graph: a project that was run, by its name or id.

    What is left out has the value of the project's ``iteration_config`` or a default. An iteration that was
    interrupted is gone on with; ``fresh`` sets it aside and begins another.
    """

    project: str
    max_rounds: Annotated[int, EphemeralValue]
    beam_width: Annotated[int, EphemeralValue]
    plateau_threshold: Annotated[float, EphemeralValue]
    plateau_rounds_before_escape: Annotated[int, EphemeralValue]
    stop_threshold: Annotated[float, EphemeralValue]
    max_evaluations: Annotated[int, EphemeralValue]
    keep: Annotated[list[str], EphemeralValue]
    """Ids of segments that every candidate has to contain."""
    retention_rules: Annotated[str, EphemeralValue]
    """The same as a sentence, such as ``keep seg_001 to seg_003``."""
    baseline_id: Annotated[str, EphemeralValue]
    seed: Annotated[int, EphemeralValue]
    fresh: Annotated[bool, EphemeralValue]


class IterateOutput(TypedDict, total=False):
    """The result of a call."""

    project: str
    status: Literal["running", "done", "interrupted", "error"]
    round: int
    """The rounds that have ended."""
    evaluations: int
    """How many evaluations were made."""
    best: dict[str, Any] | None
    """The best so far: skill_id, name, round, avg_score, and its corrected score with an interval."""
    stop_cause: str | None
    ended_before: bool
    """Whether the search had come to its end already, and nothing was done."""
    report: dict[str, Any] | None
    """``iteration_report.json``, once it has ended."""
    skill_id: str | None
    """The winner in the library; none where no candidate was better than the originals."""
    error: dict[str, Any] | None


class IterateState(IterateInput, IterateOutput, total=False):
    """What the steps hand on."""

    lease: str
    batch: int
    """How many evaluations are asked for."""
    ended_by: Literal["manual", "budget"] | None
    """Whether a person, or the budget, ended the search early."""
