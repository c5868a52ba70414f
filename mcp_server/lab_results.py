"""Result types of the lab's tools. These shapes are the contract that other programs build on."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from mcp_server.results import Record


class Skills(TypedDict):
    """Skills by name."""

    skills: list[Record]
    total: int
    cursor: str | None


class SkillView(TypedDict):
    """A skill: its content page by page, or what two versions differ in."""

    meta: Record
    content: NotRequired[str]
    diff: NotRequired[str]
    tags: Record
    versions: list[str]
    history: list[Record]
    provenance: Record | None
    testSummary: Record | None
    doubts: list[str]
    cursor: str | None


class SavedSkill(TypedDict):
    """What became of a skill; a file may bring more than one, and baselines."""

    saved: list[Record]


class AssetTags(TypedDict):
    """An asset's tags, or the prompt to propose some by."""

    id: str
    kind: Literal["skill", "baseline"]
    status: Literal["done", "awaiting_answer"]
    manual: NotRequired[list[Record]]
    auto: NotRequired[list[Record]]
    prompt: NotRequired[Record]
    cursor: NotRequired[str | None]


class Baselines(TypedDict):
    """Baselines by name."""

    baselines: list[Record]
    total: int
    cursor: str | None


class BaselineView(TypedDict):
    """A baseline with its cases and drafts in brief, or one of them whole, part by part."""

    meta: Record
    tags: Record
    versions: list[str]
    cases: NotRequired[list[Record]]
    drafts: NotRequired[list[Record]]
    case: NotRequired[Record]
    parts: NotRequired[list[Record]]
    cursor: str | None


class SavedBaseline(TypedDict):
    """What became of a baseline, the drafts that wait, or the prompt to draft cases by."""

    id: str
    status: Literal["created", "changed", "unchanged", "drafts", "awaiting_answer"]
    name: NotRequired[str]
    version: NotRequired[str]
    case_ids: NotRequired[list[str]]
    drafts: NotRequired[list[Record]]
    prompt: NotRequired[Record]
    cursor: NotRequired[str | None]


class ProjectMade(TypedDict):
    """A new project, and what its run would take."""

    project: str
    id: str
    tasks: int
    model: str
    plan: Record


class ProjectRan(TypedDict):
    """How far a run came; what it would take; or what was changed in it."""

    project: str
    status: Literal["plan", "pending", "running", "done", "interrupted", "stopping", "skipped", "open"]
    plan: NotRequired[Record | None]
    total: NotRequired[int]
    completed: NotRequired[int]
    failed: NotRequired[int]
    skipped: NotRequired[int]
    cost_usd: NotRequired[float | None]
    budget: NotRequired[str]
    ranking: NotRequired[list[Record]]


class ProjectView(TypedDict):
    """All projects, or how one stands."""

    projects: NotRequired[list[Record]]
    project: NotRequired[Record]
    ranking: NotRequired[list[Record]]
    running: NotRequired[Record | None]
    last_run: NotRequired[Record | None]
    plan: NotRequired[Record]
    analysis: NotRequired[Record]
    iteration: NotRequired[Record]
    cursor: str | None


class Reported(TypedDict):
    """A report that lies in the folder ``exchange`` now; of a table also how it begins."""

    project: str
    name: str
    size: int
    not_passed: int
    text: NotRequired[str]
    whole: NotRequired[bool]


class Analysed(TypedDict):
    """What makes the better skills better, or the prompt to find it by."""

    project: str
    status: Literal["done", "awaiting_answer"]
    analysis: NotRequired[Record]
    prompt: NotRequired[Record]
    cursor: NotRequired[str | None]


class Recomposed(TypedDict):
    """A new skill, or the prompt to write it by."""

    project: str
    status: Literal["done", "awaiting_answer"]
    skill: NotRequired[Record]
    content: NotRequired[str]
    whole: NotRequired[bool]
    provenance: NotRequired[Record | None]
    retention: NotRequired[Record]
    prompt: NotRequired[Record]
    cursor: NotRequired[str | None]


class Iterated(TypedDict):
    """How far a search came, or what it would take."""

    project: str
    status: Literal["plan", "running", "done", "interrupted", "stopping", "stopped"]
    plan: NotRequired[Record]
    iteration: NotRequired[Record]
    retention: NotRequired[Record]


class Board(TypedDict):
    """Who did best on which baseline, and whether that still holds: by baseline, or in one list."""

    groups: NotRequired[list[Record]]
    records: NotRequired[list[Record]]
    archived_baselines: list[str]
    warnings: list[str]
    cursor: str | None
