"""Placement of imported skills and baselines: new, unchanged, or the next version of an existing one.

An import that names its id is that asset; one without an id is matched with an existing asset of the same
content. Changed files next to it also make a next version.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar

from personalab.errors import UserError
from personalab.lab.assets import (
    NO_TAGS,
    BaselineMeta,
    Case,
    Cases,
    HistoryRecord,
    ManualTag,
    SkillMeta,
    SkillType,
    Tags,
)
from personalab.lab.editing import CASE_FIELDS, edit_baseline, edit_skill
from personalab.lab.formats import KEPT
from personalab.lab.records import AssetKind, in_seconds, next_version
from personalab.lab.tagging import MAX_TAG, mended, visible
from personalab.operations.lab.originals import Original, changed_evals, changed_files, original_of
from personalab.operations.lab.skills import first_meta, with_new_id
from personalab.services import Services
from personalab.storage.lab.assets import AssetFiles, Stored, StoredBaseline, StoredSkill

Outcome = Literal["created", "same", "updated"]
S = TypeVar("S", StoredSkill, StoredBaseline)
M = TypeVar("M", SkillMeta, BaselineMeta)


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What became of something that was brought in."""

    kind: AssetKind
    id: str
    name: str
    version: str
    outcome: Outcome
    folder: str

    @classmethod
    def of(cls, assets: AssetFiles, stored: Stored, outcome: Outcome) -> ImportResult:
        """Make the result from the stored asset."""
        meta, shown = stored.meta, assets.workspace.shown(stored.folder)
        return cls(stored.kind, meta.id, meta.name, meta.version, outcome, shown)


@dataclass(frozen=True, slots=True)
class ComingSkill:
    """A skill on its way in."""

    name: str
    content: str
    purpose: str
    provider: str
    description: str = ""
    author: str = ""
    source: str = ""
    type: SkillType = "skill"
    skill_id: str | None = None
    tags: tuple[str, ...] = ()
    original: Original | None = None

    def fields(self) -> dict[str, str]:
        """Return what a person may change of its meta."""
        names = ("name", "description", "author", "source", "purpose", "provider", "type")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class ComingBaseline:
    """A baseline on its way in."""

    name: str
    cases: tuple[Case, ...]
    purpose: str
    provider: str
    description: str = ""
    author: str = ""
    source: str = ""
    baseline_id: str | None = None
    original: Original | None = None

    def fields(self) -> dict[str, str]:
        """Return what a person may change of its meta."""
        names = ("name", "description", "author", "source", "purpose", "provider")
        return {name: getattr(self, name) for name in names}


# --- placing


def place_skill(services: Services, coming: ComingSkill, made: list[Path]) -> ImportResult:
    """Keep a skill; a folder that is made for it is added to ``made``."""
    assets, now = services.assets, services.now()
    old = _skill_here(assets, coming)
    extra = _beside(coming)
    if old is None:

        def add(skill_id: str) -> StoredSkill:
            meta = SkillMeta.read(first_meta(skill_id, now, **coming.fields()), "meta.json")
            return assets.add_skill(meta, coming.content, tags=_with(NO_TAGS, coming.tags, now), extra=extra)

        return _came(assets, add(coming.skill_id) if coming.skill_id else with_new_id(add), "created", made)
    changes: Mapping[str, object] = coming.fields()
    edit = edit_skill(old.meta, old.content, new_content=coming.content, changes=changes, now=now)
    files = changed_files(assets, old, coming.original)
    if edit is None and not files:
        return ImportResult.of(assets, old, "same")
    meta = edit.meta if edit is not None else _next(old.meta, now)
    history = _history(old.meta, meta, edit.history if edit is not None else None, files)
    stored = assets.add_skill_version(old, meta, coming.content, history, extra=extra)
    return _came(assets, stored, "updated", made)


def place_baseline(services: Services, coming: ComingBaseline, made: list[Path]) -> ImportResult:
    """Keep a baseline, as a skill is kept."""
    assets, now = services.assets, services.now()
    old = _baseline_here(assets, coming)
    extra = _beside(coming)
    if old is None:

        def add(baseline_id: str) -> StoredBaseline:
            meta = BaselineMeta.read(first_meta(baseline_id, now, **coming.fields()), "meta.json")
            cases = Cases(baseline_id=baseline_id, version="v1", cases=coming.cases)
            return assets.add_baseline(meta, cases, extra=extra)

        stored = add(coming.baseline_id) if coming.baseline_id else with_new_id(add)
        return _came(assets, stored, "created", made)
    changes: Mapping[str, object] = coming.fields()
    edit = edit_baseline(old.meta, old.cases, new_cases=coming.cases, changes=changes, now=now)
    files = changed_evals(assets, old, coming.original)
    if edit is None and not files:
        return ImportResult.of(assets, old, "same")
    meta = edit.meta if edit is not None else _next(old.meta, now)
    cases = edit.cases if edit is not None else _as_they_are(old.cases, meta)
    history = _history(old.meta, meta, edit.history if edit is not None else None, files)
    stored = assets.add_baseline_version(old, meta, cases, history, extra=extra)
    return _came(assets, stored, "updated", made)


def _beside(coming: ComingSkill | ComingBaseline) -> dict[str, bytes]:
    return coming.original.beside() if coming.original is not None else {}


def _came(assets: AssetFiles, stored: Stored, outcome: Outcome, made: list[Path]) -> ImportResult:
    made.append(stored.folder)
    return ImportResult.of(assets, stored, outcome)


def _next(meta: M, now: str) -> M:
    """Make the meta of a version in which only the files around an asset are others."""
    return meta.changed(
        version=next_version(meta.version),
        version_count=meta.version_count + 1,
        created_at=in_seconds(meta.created_at),
        updated_at=now,
    )


def _as_they_are(cases: Cases, meta: BaselineMeta) -> Cases:
    mended = [
        case.changed(created_at=in_seconds(case.created_at), updated_at=in_seconds(case.updated_at))
        for case in cases.cases
    ]
    return cases.changed(
        baseline_id=meta.id, version=meta.version, cases=[case.model_dump() for case in mended]
    )


def _history(before: M, after: M, edited: HistoryRecord | None, files: Sequence[str]) -> HistoryRecord:
    """Record what changed; of files only their names are told, for they are kept in both versions."""
    fields = edited.changed_fields if edited is not None else ()
    return HistoryRecord(
        from_version=before.version,
        to_version=after.version,
        timestamp=after.updated_at,
        changed_fields=(*fields, *(f"{KEPT}/{name}" for name in files)),
        diff=edited.diff if edited is not None else {},
    )


def merge_tags(services: Services, came: ImportResult, values: Sequence[str]) -> ImportResult:
    """Add the imported tags that a skill lacks; none is removed."""
    stored, now = services.assets.skill(came.id), services.now()
    if set(values) <= set(stored.tags.valid()):
        return came
    services.assets.change_tags(stored, lambda tags: _with(tags, values, now))
    return replace(came, outcome="updated" if came.outcome == "same" else came.outcome)


def _skill_here(assets: AssetFiles, coming: ComingSkill) -> StoredSkill | None:
    if coming.skill_id is not None:
        return _with_id(assets.skills(archived=True), coming.skill_id)
    for stored in assets.skills(archived=True):
        says = {name: getattr(stored.meta, name) for name in coming.fields()}
        if stored.content == coming.content and says == coming.fields():
            kept = original_of(assets, stored)
            if coming.original is None or kept is None or kept == coming.original:
                return stored
    return None


def _baseline_here(assets: AssetFiles, coming: ComingBaseline) -> StoredBaseline | None:
    if coming.baseline_id is not None:
        return _with_id(assets.baselines(archived=True), coming.baseline_id)
    told = _told(coming.cases)
    for stored in assets.baselines(archived=True):
        says = {name: getattr(stored.meta, name) for name in coming.fields()}
        if says == coming.fields() and _told(stored.cases.cases) == told:
            return stored
    return None


def _with_id(listed: Sequence[S], asset_id: str) -> S | None:
    return next((stored for stored in listed if stored.meta.id == asset_id), None)


def _told(cases: Sequence[Case]) -> list[tuple[str, ...]]:
    return [tuple(str(getattr(case, name)) for name in ("id", *CASE_FIELDS)) for case in cases]


def _with(tags: Tags, values: Sequence[str], now: str) -> Tags:
    fresh = [
        ManualTag(id=_new_id(), value=value, created_at=now) for value in values if value not in tags.valid()
    ]
    return mended(tags.model_copy(update={"manual": (*tags.manual, *fresh)}), _new_id)


def _new_id() -> str:
    return str(uuid.uuid4())


def tags_of_file(values: Sequence[str]) -> tuple[str, ...]:
    """Take the tags that a file names: what shows nothing is left out, and a tag that is too long is refused."""
    found = list(dict.fromkeys(tag for value in values if (tag := visible(value))))
    for tag in found:
        if len(tag) > MAX_TAG:
            raise UserError("lab_bad_tag", value=tag[:80], limit=MAX_TAG)
    return tuple(found)


def skill_from(assets: AssetFiles, source: str, purpose: str) -> StoredSkill | None:
    """Find the skill that says where it came from."""
    listed = assets.skills(archived=True)
    return next((one for one in listed if (one.meta.source, one.meta.purpose) == (source, purpose)), None)


def is_here(assets: AssetFiles, kind: AssetKind, short: str) -> bool:
    """Return whether an asset with this id, or the same beginning, exists, readable or not."""
    return any(place.name.short == short for place in assets.workspace.places(kind))
