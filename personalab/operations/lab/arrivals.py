"""Where does a skill or a baseline that comes from elsewhere go: is it new, the same, or the next version of one?

One that names its id is that one; one that does not is the same as one here that says the same. The files something
came from are kept beside it, in ``x_source``, with a list of them in ``x_source.json``.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from personalab.errors import StorageError
from personalab.lab.assets import NO_TAGS, BaselineMeta, Case, Cases, ManualTag, SkillMeta, SkillType, Tags
from personalab.lab.editing import CASE_FIELDS, edit_baseline, edit_skill
from personalab.lab.formats import KEPT
from personalab.lab.records import AssetKind
from personalab.operations.lab.skills import with_new_id
from personalab.services import Services
from personalab.storage.files import dump_json
from personalab.storage.lab.assets import AssetFiles, Stored, StoredBaseline, StoredSkill
from personalab.storage.lab.outside import OutsideFile

Outcome = Literal["created", "same", "updated"]
S = TypeVar("S", StoredSkill, StoredBaseline)
_LIST = f"{KEPT}.json"


@dataclass(frozen=True, slots=True)
class CameIn:
    """What became of something that was brought in."""

    kind: AssetKind
    id: str
    name: str
    version: str
    outcome: Outcome
    folder: str

    @classmethod
    def of(cls, assets: AssetFiles, stored: Stored, outcome: Outcome) -> CameIn:
        """Tell it of what is kept now."""
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
        """Give what a person may change of its meta."""
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
        """Give what a person may change of its meta."""
        names = ("name", "description", "author", "source", "purpose", "provider")
        return {name: getattr(self, name) for name in names}


# --- the files something came from


@dataclass(frozen=True, slots=True)
class Original:
    """The folder that something came from."""

    called: str
    files: Mapping[str, OutsideFile]

    def beside(self) -> dict[str, bytes]:
        """Give the files that keep it beside an asset."""
        listed = [
            {"name": name, **({"executable": True} if file.executable else {})}
            for name, file in self.files.items()
        ]
        kept = {_kept_name(name): file.content for name, file in self.files.items()}
        return {_LIST: dump_json({"called": self.called, "files": listed}), **kept}


def _kept_name(name: str) -> str:
    """Name a kept file so that none is hidden: hidden ones are left-overs in the workspace."""
    parts = [part.replace("%", "%25") for part in name.split("/")]
    return "/".join([KEPT, *(f"%2E{part[1:]}" if part.startswith(".") else part for part in parts)])


def original_of(assets: AssetFiles, stored: Stored) -> Original | None:
    """Find the files that an asset came from; without all of them there are none."""
    listed = assets.beside(stored, _LIST)
    if listed is None:
        return None
    try:
        found = cast("dict[str, Any]", json.loads(listed))
        rows = [(str(row["name"]), row.get("executable") is True) for row in found["files"]]
        called = str(found["called"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    files: dict[str, OutsideFile] = {}
    for name, executable in rows:
        content = assets.beside(stored, _kept_name(name))
        if content is None:
            raise StorageError("file_missing", file=f"{stored.folder.name}/{_kept_name(name)}")
        files[name] = OutsideFile(content, executable)
    return Original(called, files)


# --- placing


def place_skill(services: Services, coming: ComingSkill, made: list[Path]) -> CameIn:
    """Keep a skill; a folder that is made for it is added to ``made``."""
    assets, now = services.assets, services.now()
    old = _skill_here(assets, coming)
    extra = coming.original.beside() if coming.original is not None else {}
    if old is None:
        fields = {
            **coming.fields(),
            "version": "v1",
            "status": "active",
            "created_at": now,
            "updated_at": now,
        }

        def add(skill_id: str) -> StoredSkill:
            meta = SkillMeta.read({"id": skill_id, **fields}, "meta.json")
            return assets.add_skill(meta, coming.content, tags=_tags(coming.tags, now), extra=extra)

        stored = add(coming.skill_id) if coming.skill_id else with_new_id(add)
        made.append(stored.folder)
        return CameIn.of(assets, stored, "created")
    changes: Mapping[str, object] = coming.fields()
    edit = edit_skill(old.meta, old.content, new_content=coming.content, changes=changes, now=now)
    if edit is None:
        return CameIn.of(assets, old, "same")
    stored = assets.add_skill_version(old, edit.meta, edit.content, edit.history, extra=extra)
    made.append(stored.folder)
    return CameIn.of(assets, stored, "updated")


def place_baseline(services: Services, coming: ComingBaseline, made: list[Path]) -> CameIn:
    """Keep a baseline, as a skill is kept."""
    assets, now = services.assets, services.now()
    old = _baseline_here(assets, coming)
    extra = coming.original.beside() if coming.original is not None else {}
    if old is None:
        fields = {
            **coming.fields(),
            "version": "v1",
            "status": "active",
            "created_at": now,
            "updated_at": now,
        }

        def add(baseline_id: str) -> StoredBaseline:
            meta = BaselineMeta.read({"id": baseline_id, **fields}, "meta.json")
            cases = Cases(baseline_id=baseline_id, version="v1", cases=coming.cases)
            return assets.add_baseline(meta, cases, extra=extra)

        stored = add(coming.baseline_id) if coming.baseline_id else with_new_id(add)
        made.append(stored.folder)
        return CameIn.of(assets, stored, "created")
    changes: Mapping[str, object] = coming.fields()
    edit = edit_baseline(old.meta, old.cases, new_cases=coming.cases, changes=changes, now=now)
    if edit is None:
        return CameIn.of(assets, old, "same")
    stored = assets.add_baseline_version(old, edit.meta, edit.cases, edit.history, extra=extra)
    made.append(stored.folder)
    return CameIn.of(assets, stored, "updated")


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


def _tags(values: Sequence[str], now: str) -> Tags:
    if not values:
        return NO_TAGS
    rows = (ManualTag(id=str(uuid.uuid4()), value=value, created_at=now) for value in values)
    return Tags(manual=tuple(rows), auto=())


def skill_from(assets: AssetFiles, source: str, purpose: str) -> StoredSkill | None:
    """Find the skill that says where it came from."""
    listed = assets.skills(archived=True)
    return next((one for one in listed if (one.meta.source, one.meta.purpose) == (source, purpose)), None)


def is_here(assets: AssetFiles, kind: AssetKind, short: str) -> bool:
    """Tell whether an asset of an id, or of the same beginning, is here, readable or not."""
    return any(place.name.short == short for place in assets.workspace.places(kind))
