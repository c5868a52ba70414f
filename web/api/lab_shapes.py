"""Request and response models of the lab's library and projects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, cast

from fastapi import Path
from pydantic import Field, model_validator

from personalab.dialogue import well_formed
from personalab.lab.assets import SkillType, Status, TagStatus
from personalab.lab.leaderboard import Staleness
from personalab.lab.projects import ProjectStatus
from personalab.lab.records import AssetKind
from personalab.results import ResultModel
from personalab.texts import PromptLanguage
from web.shapes import Fields, Id, RequestModel

_ID = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
ProjectName = Annotated[
    str, Path(pattern=_ID, description="Its folder's name, its id or the beginning of it")
]
AssetId = Annotated[
    str, Path(pattern=_ID, description="Its id, or the beginning of it (8 characters at least)")
]
Version = Annotated[str, Field(pattern=r"^v[1-9][0-9]{0,6}$")]
Model = Annotated[str, Field(min_length=1, max_length=200)]
Usd = Annotated[float, Field(ge=0, le=1_000_000)]
Calls = Annotated[int, Field(ge=0, le=10**9)]
UNREAD = "What is not listed because it cannot be read, and why, in words"


class LabResponse(ResultModel):
    """What is told of the lab's files, which any program may have written: also texts that are not well formed."""

    @model_validator(mode="before")
    @classmethod
    def _make_sendable(cls, given: object) -> object:
        return _sendable(given)


def _sendable(given: object) -> object:
    match given:
        case str():
            return well_formed(given)
        case dict():
            return {name: _sendable(value) for name, value in cast("dict[str, object]", given).items()}
        case list() | tuple():
            return [_sendable(value) for value in cast("Sequence[object]", given)]
        case _:
            return given


# --- skills, baselines, tags


class TestSummary(LabResponse):
    """How a skill did over all its tests."""

    has_tests: bool
    best_score: float | None
    best_baseline_name: str | None
    test_count: int
    staleness: Staleness | None


class AssetRow(LabResponse):
    """What a list shows of a skill or a baseline."""

    id: str
    name: str
    description: str
    purpose: str
    provider: str
    version: str
    version_count: int
    status: Status
    updated_at: str
    tags: list[str] = Field(description="Those that a person gave or approved")
    pending_tags: list[str] = Field(description="Those that a model proposed and that wait for a person")


class SkillRow(AssetRow):
    """A skill in a list."""

    type: SkillType
    test_summary: TestSummary | None = Field(alias="testSummary")


class BaselineRow(AssetRow):
    """A baseline in a list."""

    case_count: int


class SkillList(LabResponse):
    """The skills, by name."""

    skills: list[SkillRow]
    unread: list[str] = Field(description=UNREAD)


class BaselineList(LabResponse):
    """The baselines, by name."""

    baselines: list[BaselineRow]
    unread: list[str] = Field(description=UNREAD)


class Tag(LabResponse):
    """A tag of a person (approved from the beginning), or one that a model proposed."""

    id: str
    value: str
    by: Literal["person", "model"]
    status: TagStatus


class AssetChange(LabResponse):
    """A step from one version to the next."""

    from_version: str
    to_version: str
    timestamp: str
    changed_fields: list[str]


class SkillResponse(LabResponse):
    """One version of a skill, whole."""

    skill: SkillRow
    content: str
    all_tags: list[Tag]
    versions: list[str]
    history: list[AssetChange]
    strategy: str | None = Field(description="How it was put together, if it was made of others")


class CaseView(LabResponse):
    """A case of a baseline."""

    id: str
    name: str
    category: str
    description: str
    input: str
    expected_output: str


class BaselineResponse(LabResponse):
    """One version of a baseline, whole."""

    baseline: BaselineRow
    cases: list[CaseView]
    all_tags: list[Tag]
    versions: list[str]
    history: list[AssetChange]


class WaitingTag(LabResponse):
    """A tag that a model proposed and that waits for a person's word."""

    kind: AssetKind
    asset_id: str
    asset_name: str
    tag_id: str
    value: str
    generated_at: str


class WaitingTags(LabResponse):
    """All of them."""

    waiting: list[WaitingTag]


class JudgedTag(RequestModel):
    """Which tag is approved or rejected."""

    kind: AssetKind
    asset_id: Id
    tag: Annotated[str, Field(min_length=1, max_length=200, description="Its id or its value")]


class AssetTagsResponse(LabResponse):
    """The tags of an asset after a change."""

    kind: AssetKind
    asset_id: str
    all_tags: list[Tag]


class ProposedTags(RequestModel):
    """Of what a model proposes tags."""

    kind: AssetKind
    asset_id: Id
    confirm: bool = Field(default=False, description="A person agreed to the call, where it may cost money")


# --- projects


class Part(LabResponse):
    """A skill or a baseline of a project: a copy of that version."""

    id: str
    name: str
    version: str


class ProgressResponse(LabResponse):
    """How many tasks (a skill on a case) are through."""

    total: int
    completed: int
    failed: int
    left: int
    text: str = Field(description="The same in words")


class ProjectJobResponse(LabResponse):
    """The job of this server that works on a project."""

    job_id: str
    kind: str


class ProjectRow(LabResponse):
    """What a list shows of a project."""

    project: str = Field(description="Its folder's name: how it is addressed")
    name: str
    status: ProjectStatus
    model: str
    created_at: str
    updated_at: str
    skills: list[Part]
    baselines: list[Part]
    progress: ProgressResponse
    running: ProjectJobResponse | None
    status_text: str = Field(description="What is done with it now, in words")


class ProjectList(LabResponse):
    """The projects, the newest first."""

    projects: list[ProjectRow]
    unread: list[str] = Field(description=UNREAD)


class ProjectResponse(ProjectRow):
    """How a project stands."""

    id: str
    description: str
    options: Fields
    calls_made: int
    spent_usd: float | None = Field(description="null: nobody said what calls cost")
    is_free: bool = Field(description="Whether all its models run here and cost nothing")
    cost_text: str = Field(description="What its calls have cost, in words")
    has_results: bool


class PlanResponse(LabResponse):
    """What a run would take, before anything is spent."""

    tasks: int
    done: int
    execute_calls: int
    judge_calls: int
    control_calls: int
    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None = Field(description="null: nobody knows yet what calls cost")
    calls_made: int
    spent_usd: float | None
    max_calls: int | None
    max_usd: float | None
    within_budget: bool | None = Field(description="null: the budget is one in money and prices are unknown")
    models: list[str]
    is_free: bool
    needs_confirm: bool = Field(description="Whether a run has to be confirmed: it may cost money")
    text: list[str] = Field(description="The same in words")


class ProjectOptions(RequestModel):
    """How a project is run; what is left out has its usual value."""

    model: Model | None = Field(
        default=None,
        description="Who answers: provider:model, rehearsal, or a model of the claude command line",
    )
    judges: Annotated[list[Model], Field(max_length=16)] | None = None
    repeats: Annotated[int, Field(ge=1, le=100)] | None = None
    judge_repeats: Annotated[int, Field(ge=1, le=100)] | None = None
    no_skill_arm: bool | None = None
    controls: bool | None = None
    max_calls: Calls | None = None
    max_usd: Usd | None = None
    concurrency: Annotated[int, Field(ge=1, le=64)] | None = None
    timeout_seconds: Annotated[float, Field(gt=0, le=86_400)] | None = None
    retry_count: Annotated[int, Field(ge=0, le=20)] | None = None
    pass_score: Annotated[float, Field(ge=0, le=100)] | None = None
    language: PromptLanguage | None = None


class NewProject(RequestModel):
    """A project to be made, with copies of the newest versions."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    description: Annotated[str, Field(max_length=2_000)] = ""
    skill_ids: Annotated[list[Id], Field(min_length=1, max_length=200)]
    baseline_ids: Annotated[list[Id], Field(min_length=1, max_length=50)]
    options: ProjectOptions = ProjectOptions()


class RunRequest(RequestModel):
    """How a project is run now."""

    confirm: bool = Field(default=False, description="A person has seen the plan and agreed to it")
    rerun_failed: bool = False
    max_calls: Calls | None = Field(default=None, description="Over all its runs; null takes the limit away")
    max_usd: Usd | None = Field(default=None, description="Over all its runs; null takes the limit away")


class Paused(LabResponse):
    """What became of a wish to pause or stop."""

    project: str
    status: str = Field(description="The run's or search's own; stopping: calls are under way still")


class Skipping(RequestModel):
    """A skill's case that is left out, or taken in again."""

    skill_id: Id
    case_id: Id
    baseline_id: Id | None = None
    undo: bool = False


class SkippedResponse(LabResponse):
    """What was left out or taken in again."""

    project: str
    skill_id: str
    case_id: str
    status: Literal["skipped", "open"]
