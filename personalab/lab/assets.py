"""The files of a skill and of a baseline."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from personalab.errors import Invalid, Reason
from personalab.lab.dimensions import Category
from personalab.lab.records import AssetKind, CaseId, Count, Doubt, Filled, Record, Time, Uuid, Version

Status = Literal["active", "archived"]
SkillType = Literal["skill", "agent"]
TagStatus = Literal["pending", "approved", "rejected"]
CONTENT_FILE = "content.txt"


class SkillMeta(Record):
    """``meta.json`` of a skill or an agent."""

    id: Uuid
    name: Filled
    description: str = ""
    author: str = ""
    source: str = ""
    purpose: Filled
    provider: Filled
    type: SkillType = "skill"
    version: Version
    version_count: int = Field(default=1, ge=1)
    content_file: Literal["content.txt"] = CONTENT_FILE
    status: Status
    created_at: Time
    updated_at: Time


class BaselineMeta(Record):
    """``meta.json`` of a baseline."""

    id: Uuid
    name: Filled
    description: str = ""
    author: str = ""
    source: str = ""
    purpose: Filled
    provider: Filled
    version: Version
    version_count: int = Field(default=1, ge=1)
    case_count: Count = 0
    status: Status
    created_at: Time
    updated_at: Time


class ManualTag(Record):
    """A tag that a person gave."""

    id: Uuid
    value: Filled
    created_at: Time


class AutoTag(Record):
    """A tag that a model proposed, and what a person said to it."""

    id: Uuid
    value: str
    status: TagStatus
    generated_at: Time
    approved_at: Time | None = None
    rejected_at: Time | None = None
    log_ref: str


class Tags(Record):
    """``tags.json``."""

    manual: tuple[ManualTag, ...]
    auto: tuple[AutoTag, ...]

    def valid(self) -> list[str]:
        """Name the tags that count: those a person gave or approved, each once."""
        found = [tag.value for tag in self.manual]
        found += [tag.value for tag in self.auto if tag.status == "approved"]
        return list(dict.fromkeys(found))


NO_TAGS = Tags(manual=(), auto=())


class HistoryRecord(Record):
    """``history/{from}_to_{to}_{time}.json``: only what changed stands in ``diff``."""

    from_version: Version
    to_version: Version
    timestamp: Time
    changed_fields: tuple[str, ...]
    diff: dict[str, Any]


class ParsedTag(Record):
    """A tag as it was read from a model's answer."""

    value: str


class AutoTagLog(Record):
    """``auto_tag_log/session_{time}.json``."""

    session_id: Filled
    triggered_at: Time
    triggered_by: Literal["user", "batch"]
    target_type: AssetKind
    target_id: Uuid
    status: Literal["running", "completed", "failed"]
    duration_ms: Count
    cli_version: str
    model_version: str
    raw_output: str
    parsed_tags: tuple[ParsedTag, ...]
    error: str | None


class Case(Record):
    """One test case."""

    id: CaseId
    name: str
    category: Category
    input: str
    expected_output: str
    description: str = ""
    created_at: Time
    updated_at: Time


class Cases(Record):
    """``cases.json``."""

    baseline_id: Uuid
    version: Version
    cases: tuple[Case, ...]

    @model_validator(mode="after")
    def _unique(self) -> Self:
        ids = [case.id for case in self.cases]
        if len(set(ids)) < len(ids):
            twice = next(name for name in ids if ids.count(name) > 1)
            raise Invalid("twice", name=twice)
        return self

    def case(self, case_id: str) -> Case | None:
        """Find a case."""
        return next((case for case in self.cases if case.id == case_id), None)


def baseline_doubts(meta: BaselineMeta, cases: Cases) -> list[Doubt]:
    """Compare what a baseline says of itself with its cases."""
    found: list[Doubt] = []
    if meta.case_count != len(cases.cases):
        found.append(
            Doubt("case_count", Reason("other_case_count", value=meta.case_count, count=len(cases.cases)))
        )
    if cases.baseline_id != meta.id:
        found.append(Doubt("baseline_id", Reason("other_id", file="meta.json")))
    return found
