"""The files of a skill and of a baseline: their fields, their names, and the edits that make a next version."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar

from pydantic import Field, model_validator

from personalab.errors import Invalid, NotFound, Reason, UserError
from personalab.lab.records import (
    CATEGORIES,
    SHORT,
    AssetKind,
    CaseId,
    Category,
    Count,
    Doubt,
    Filled,
    Record,
    Time,
    Uuid,
    Version,
    compact_time,
    in_seconds,
    is_uuid4,
    next_version,
)

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


_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", *(f"com{n}" for n in range(10)), *(f"lpt{n}" for n in range(10))]
)
_VERSIONED = re.compile(r"(skill|baseline)_(.+)_v([1-9][0-9]{0,6})", re.ASCII | re.DOTALL)
_APART = re.compile(r"[^a-z0-9]+")
_LONGEST_SLUG = 40


def is_folder_name(value: object) -> bool:
    """Return whether a value may name a folder on any system."""
    return isinstance(value, str) and bool(_FOLDER.fullmatch(value)) and value.lower() not in _DEVICES


def check_folder_name(value: object, what: str) -> str:
    """Return the name unchanged, or refuse it before any path is built from it; ``what`` names the field."""
    if isinstance(value, str) and is_folder_name(value):
        return value
    shown = value if isinstance(value, str) else repr(value)
    raise UserError("lab_bad_name", what=what, value=shown[:80])


@dataclass(frozen=True, slots=True)
class VersionFolder:
    """What the name of a version's folder says."""

    kind: AssetKind
    short: str
    number: int

    @property
    def version(self) -> str:
        """The version, as it is written."""
        return f"v{self.number}"


def version_folder(name: str) -> VersionFolder | None:
    """Read the name of a version's folder; ``None`` if it is none."""
    found = _VERSIONED.fullmatch(name)
    if found is None:
        return None
    kind: Literal["skill", "baseline"] = "skill" if found[1] == "skill" else "baseline"
    return VersionFolder(kind, found[2], int(found[3]))


def project_slug(name: str, project_id: str) -> str:
    """Make the middle of a project's folder name: the name's Latin letters and digits, else ``p`` and the short id."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode("ascii").lower()
    found = _APART.sub("_", plain).strip("_")[:_LONGEST_SLUG].strip("_")
    return found or f"p{project_id[:SHORT]}"


def unique_name(stem: str, taken: Container[str], ending: str = "") -> str:
    """Return the stem with its ending, or with ``_2``, ``_3``… between them, the first that is not taken."""
    found, number = f"{stem}{ending}", 2
    while found in taken:
        found = f"{stem}_{number}{ending}"
        number += 1
    return found


def history_name(record: HistoryRecord) -> str:
    """Name the file of a change."""
    return f"{record.from_version}_to_{record.to_version}_{compact_time(record.timestamp)}.json"


META_FIELDS = ("name", "description", "author", "source", "purpose", "provider", "type", "status")
"""What a person may change of a meta; the rest is derived."""
CASE_FIELDS = ("name", "category", "input", "expected_output", "description")
MAX_CASES = 10_000
_CASE_NUMBER = re.compile(r"case_(\d{1,6})", re.ASCII)
_TIMES = ("created_at", "updated_at")
M = TypeVar("M", SkillMeta, BaselineMeta)


@dataclass(frozen=True, slots=True)
class SkillEdit:
    """The next version of a skill."""

    meta: SkillMeta
    content: str
    history: HistoryRecord


@dataclass(frozen=True, slots=True)
class BaselineEdit:
    """The next version of a baseline."""

    meta: BaselineMeta
    cases: Cases
    history: HistoryRecord


def edit_skill(
    meta: SkillMeta, content: str, *, new_content: str | None, changes: Mapping[str, object], now: str
) -> SkillEdit | None:
    """Make the next version of a skill; ``None`` where nothing would change."""
    fresh, names, meta_diff = _edited_meta(meta, changes, now)
    diff: dict[str, Any] = {}
    if new_content is not None and new_content != content:
        names.insert(0, "content")
        diff["content"] = {"before": content, "after": new_content}
    if not names:
        return None
    if meta_diff:
        diff["meta"] = meta_diff
    return SkillEdit(
        fresh, content if new_content is None else new_content, _record(meta, fresh, now, names, diff)
    )


def edit_baseline(
    meta: BaselineMeta,
    cases: Cases,
    *,
    new_cases: Sequence[Case] | None,
    changes: Mapping[str, object],
    now: str,
) -> BaselineEdit | None:
    """Make the next version of a baseline; ``None`` where nothing would change."""
    after = cases.cases if new_cases is None else tuple(new_cases)
    if len(after) > MAX_CASES:
        raise UserError("lab_too_many_cases", count=len(after), limit=MAX_CASES)
    fresh, names, meta_diff = _edited_meta(meta, changes, now)
    case_names, case_diff = compare_cases(cases.cases, after)
    if not names and not case_names:
        return None
    diff: dict[str, Any] = {}
    if case_diff:
        diff["cases"] = case_diff
    if meta_diff:
        diff["meta"] = meta_diff
    fresh = fresh.changed(case_count=len(after))
    mended = [case.changed(**{name: in_seconds(getattr(case, name)) for name in _TIMES}) for case in after]
    kept = cases.changed(
        baseline_id=meta.id, version=fresh.version, cases=[case.model_dump() for case in mended]
    )
    return BaselineEdit(fresh, kept, _record(meta, fresh, now, [*case_names, *names], diff))


def _edited_meta(
    meta: M, changes: Mapping[str, object], now: str
) -> tuple[M, list[str], dict[str, dict[str, object]]]:
    if not is_uuid4(meta.id):
        raise UserError("lab_foreign_id", asset_id=meta.id[:80], name=meta.name[:80])
    wanted = {
        name: value
        for name, value in changes.items()
        if value is not None and name in META_FIELDS and value != getattr(meta, name, None)
    }
    for name in ("purpose", "provider"):
        if name in wanted:
            check_folder_name(wanted[name], name)
    if (name := wanted.get("name")) is not None and not str(name).strip():
        raise UserError("lab_blank", field="name")
    fresh = meta.changed(
        **wanted,
        version=next_version(meta.version),
        version_count=meta.version_count + 1,
        created_at=in_seconds(meta.created_at),
        updated_at=now,
    )
    diff = {name: {"before": getattr(meta, name), "after": getattr(fresh, name)} for name in wanted}
    return fresh, [f"meta.{name}" for name in wanted], diff


def _record(
    before: SkillMeta | BaselineMeta,
    after: SkillMeta | BaselineMeta,
    now: str,
    names: list[str],
    diff: dict[str, Any],
) -> HistoryRecord:
    return HistoryRecord(
        from_version=before.version,
        to_version=after.version,
        timestamp=now,
        changed_fields=tuple(names),
        diff=diff,
    )


# --- cases


def compare_cases(
    before: Sequence[Case], after: Sequence[Case]
) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """Return the cases that were added, removed and changed; a changed one has only the fields that differ."""
    old, new = {case.id: case for case in before}, {case.id: case for case in after}
    names: list[str] = []
    diff: dict[str, dict[str, Any]] = {}
    for case_id, case in new.items():
        if (was := old.get(case_id)) is None:
            names.append(f"cases.+{case_id}")
            diff[case_id] = {"before": None, "after": case.model_dump(mode="json")}
            continue
        fields = [name for name in CASE_FIELDS if getattr(was, name) != getattr(case, name)]
        if fields:
            names += [f"cases.{case_id}.{name}" for name in fields]
            diff[case_id] = {
                "before": {name: getattr(was, name) for name in fields},
                "after": {name: getattr(case, name) for name in fields},
            }
    for case_id, case in old.items():
        if case_id not in new:
            names.append(f"cases.-{case_id}")
            diff[case_id] = {"before": case.model_dump(mode="json"), "after": None}
    return names, diff


def case_ids(cases: Iterable[Case], history: Iterable[HistoryRecord], count: int) -> list[str]:
    """Return ids for so many new cases, after the highest that was ever used, so that none is reused."""
    used = [case.id for case in cases]
    used += [name for record in history for name in record.changed_fields if name.startswith("cases.")]
    numbers = [int(found[1]) for name in used if (found := _CASE_NUMBER.search(name))]
    first = max(numbers, default=0) + 1
    return [f"case_{number:03d}" for number in range(first, first + count)]


def new_case(case_id: str, fields: Mapping[str, object], now: str) -> Case:
    """Make a case of what a person or a model gave."""
    return checked_case(
        Case.read(
            {
                "description": "",
                **{name: fields.get(name) or "" for name in CASE_FIELDS},
                "category": fields.get("category") or "standard",
                "id": case_id,
                "created_at": now,
                "updated_at": now,
            },
            case_id,
        )
    )


def change_case(cases: Sequence[Case], case_id: str, changes: Mapping[str, object], now: str) -> list[Case]:
    """Return the cases with some fields of one changed; one that stays as it is keeps its time."""
    at = _place(cases, case_id)
    wanted = {name: value for name, value in changes.items() if name in CASE_FIELDS and value is not None}
    if all(getattr(cases[at], name) == value for name, value in wanted.items()):
        return list(cases)
    if "category" in wanted and wanted["category"] not in CATEGORIES:
        raise UserError("lab_bad_category", value=str(wanted["category"])[:80], known=", ".join(CATEGORIES))
    changed = checked_case(cases[at].changed(**wanted, updated_at=now))
    return [*cases[:at], changed, *cases[at + 1 :]]


def remove_case(cases: Sequence[Case], case_id: str) -> list[Case]:
    """Return the cases without one; the others keep their ids."""
    at = _place(cases, case_id)
    return [*cases[:at], *cases[at + 1 :]]


def checked_case(case: Case) -> Case:
    """Refuse a case that asks nothing."""
    for name in ("name", "input"):
        if not getattr(case, name).strip():
            raise UserError("lab_blank_case", case_id=case.id, field=name)
    return case


def _place(cases: Sequence[Case], case_id: str) -> int:
    for at, case in enumerate(cases):
        if case.id == case_id:
            return at
    raise NotFound("lab_no_case", case_id=case_id[:80], known=", ".join(c.id for c in cases[:20]) or "–")
