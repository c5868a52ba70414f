"""Finding and reading assets of one kind, including those that other programs wrote.

A list reads the names of all folders and the files of the newest versions only. The folder decides where a
version belongs (its purpose, provider and version), its ``meta.json`` decides the rest; where they differ, a
doubt is noted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import ClassVar, Generic, Literal, TypeVar

from personalab.errors import BadRecord, NotFound, PersonaLabError, Reason, StorageError, UserError
from personalab.lab.assets import (
    CONTENT_FILE,
    MAX_CASES,
    NO_TAGS,
    AutoTagLog,
    BaselineMeta,
    Cases,
    HistoryRecord,
    SkillMeta,
    Tags,
    baseline_doubts,
    version_folder,
)
from personalab.lab.findings import Provenance
from personalab.lab.records import SHORT, AssetKind, Doubt, parse_time
from personalab.storage.lab.workspace import AssetFolder, Workspace

MAX_CONTENT_BYTES = 1024 * 1024
MAX_META_BYTES = 1024 * 1024
MAX_HISTORY_BYTES = 64 * 1024 * 1024
"""A change shows a text before and after."""
SKILL_FILES = ("meta.json", CONTENT_FILE)
BASELINE_FILES = ("meta.json", "cases.json")


@dataclass(frozen=True, slots=True)
class StoredSkill:
    """One version of a skill."""

    kind: ClassVar[Literal["skill"]] = "skill"
    meta: SkillMeta
    content: str
    tags: Tags
    folder: Path
    provenance: Provenance | None = None
    doubts: tuple[Doubt, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredBaseline:
    """One version of a baseline."""

    kind: ClassVar[Literal["baseline"]] = "baseline"
    meta: BaselineMeta
    cases: Cases
    tags: Tags
    folder: Path
    doubts: tuple[Doubt, ...] = ()


@dataclass(frozen=True, slots=True)
class AssetProblem:
    """A folder that cannot be read, or that contradicts itself."""

    folder: str
    error: PersonaLabError
    broken: bool


S = TypeVar("S", StoredSkill, StoredBaseline)
Reader = Callable[[Workspace, AssetFolder], S]


class AssetCollection(Generic[S]):
    """All assets of one kind."""

    def __init__(self, workspace: Workspace, kind: AssetKind, reader: Reader[S]) -> None:
        self._workspace = workspace
        self._kind: AssetKind = kind
        self._reader = reader

    def all(self, *, archived: bool) -> list[S]:
        """Read the newest versions that can be read, by name."""
        found = [stored for stored, _ in self._tried() if stored is not None]
        shown = [stored for stored in found if archived or stored.meta.status == "active"]
        return sorted(shown, key=lambda stored: (stored.meta.name, stored.meta.id))

    def one(self, asset_id: str, version: str | None) -> S:
        """Find one by its id, the beginning of it, or its folder's name."""
        named = version_folder(asset_id)
        groups = self._groups()
        if named is not None and named.kind == self._kind:
            chosen = [group for group in groups if group[0].name.short == named.short]
            if not chosen:
                raise self._missing(asset_id)
            return self._version(self._only(chosen, asset_id), version or named.version)
        if len(asset_id) < SHORT:
            raise self._missing(asset_id)
        likely = [group for group in groups if group[0].name.short[:SHORT] == asset_id[:SHORT]]
        chosen = self._meant(likely, asset_id) or self._meant(groups, asset_id)
        return self._version(self._only(chosen, asset_id), version)

    def versions(self, stored: StoredSkill | StoredBaseline) -> list[str]:
        """Name the versions of an asset that are there, the oldest first."""
        return [place.name.version for place in self.group_of(stored)]

    def read(self, folder: Path) -> S:
        """Read the version in a folder."""
        name = version_folder(folder.name)
        if name is None:
            raise StorageError("file_missing", file=self._workspace.shown(folder))
        return self._reader(
            self._workspace, AssetFolder(folder.parent.parent.name, folder.parent.name, folder, name)
        )

    def problems(self) -> list[AssetProblem]:
        """List the newest versions that cannot be read or contradict themselves."""
        found: list[AssetProblem] = []
        for folder in self._workspace.unreadable(self._kind):
            shown = self._workspace.shown(folder)
            closed = StorageError("file_broken", file=shown, reason=Reason("unreadable"))
            found.append(AssetProblem(shown, closed, broken=True))
        for stored, problem in self._tried():
            if problem is not None:
                found.append(problem)
            for doubt in stored.doubts if stored is not None else ():
                shown = self._workspace.shown(stored.folder) if stored is not None else ""
                error = BadRecord("lab_doubt", file=shown, field=doubt.field, reason=doubt.reason)
                found.append(AssetProblem(shown, error, broken=False))
        return found

    def _tried(self) -> Iterator[tuple[S | None, AssetProblem | None]]:
        for group in self._groups():
            try:
                yield self._reader(self._workspace, group[-1]), None
            except (StorageError, UserError) as error:
                yield None, AssetProblem(self._workspace.shown(group[-1].folder), error, broken=True)

    # --- which folders are versions of one asset

    def _groups(self) -> list[list[AssetFolder]]:
        """Group the versions of each asset, the oldest first.

        An asset that was moved has versions in several places, and so have two whose ids begin alike: only there
        the ids have to be read.
        """
        places = sorted(self._workspace.places(self._kind), key=_by_short)
        found: list[list[AssetFolder]] = []
        for _, group in groupby(places, key=lambda place: place.name.short):
            versions = list(group)
            if len({place.folder.parent for place in versions}) > 1:
                versions.sort(key=lambda place: (self._id_in(place), place.name.number))
                found += [list(same) for _, same in groupby(versions, key=self._id_in)]
            else:
                found.append(versions)
        return found

    def _id_in(self, place: AssetFolder) -> str:
        """Read whose version it is; one that cannot tell stands for itself."""
        try:
            data = self._workspace.read_json(place.folder / "meta.json", MAX_META_BYTES)
        except StorageError:
            return str(place.folder)
        found = data.get("id") if isinstance(data, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] (any JSON)
        return found if isinstance(found, str) else str(place.folder)

    def group_of(self, stored: StoredSkill | StoredBaseline) -> list[AssetFolder]:
        """Find the versions of an asset, the oldest first."""
        for group in self._groups():
            if any(place.folder == stored.folder for place in group):
                return group
        raise self._missing(stored.meta.id)

    def _meant(self, groups: list[list[AssetFolder]], asset_id: str) -> list[list[AssetFolder]]:
        """Return those with this exact id, or else those whose ids begin with it."""
        ids = [self._id_in(group[-1]) for group in groups]
        exact = [group for group, found in zip(groups, ids, strict=True) if found == asset_id]
        return exact or [g for g, found in zip(groups, ids, strict=True) if found.startswith(asset_id)]

    def _only(self, groups: list[list[AssetFolder]], asset_id: str) -> list[AssetFolder]:
        if not groups:
            raise self._missing(asset_id)
        if len(groups) > 1:
            shown = ", ".join(self._workspace.shown(group[-1].folder) for group in groups[:5])
            raise UserError("lab_ambiguous_id", asset_id=asset_id[:80], found=shown)
        return groups[0]

    def _version(self, group: list[AssetFolder], version: str | None) -> S:
        if version is None:
            return self._reader(self._workspace, group[-1])
        for place in group:
            if place.name.version == version:
                return self._reader(self._workspace, place)
        known = ", ".join(place.name.version for place in group[-20:])
        raise NotFound("lab_no_version", version=version[:20], name=group[-1].folder.name, known=known)

    def _missing(self, asset_id: str) -> NotFound:
        return NotFound(
            "lab_no_skill" if self._kind == "skill" else "lab_no_baseline", asset_id=asset_id[:80]
        )


def _by_short(place: AssetFolder) -> tuple[str, int, str]:
    return place.name.short, place.name.number, str(place.folder)


# --- one version


def read_skill(workspace: Workspace, place: AssetFolder) -> StoredSkill:
    """Read one version of a skill."""
    shown = workspace.shown(place.folder / "meta.json")
    meta = SkillMeta.read(workspace.read_json(place.folder / "meta.json", MAX_META_BYTES), shown)
    content = workspace.read_text(place.folder / CONTENT_FILE, MAX_CONTENT_BYTES)
    kept = place.folder / "provenance.json"
    provenance = None
    if os.path.lexists(kept):
        provenance = Provenance.read(workspace.read_json(kept, MAX_META_BYTES), workspace.shown(kept))
    return StoredSkill(
        meta=meta.changed(**_placed(place)) if (doubts := _doubts(meta, place)) else meta,
        content=content,
        tags=read_tags(workspace, place.folder),
        folder=place.folder,
        provenance=provenance,
        doubts=doubts,
    )


def read_baseline(workspace: Workspace, place: AssetFolder) -> StoredBaseline:
    """Read one version of a baseline."""
    shown = workspace.shown(place.folder / "meta.json")
    meta = BaselineMeta.read(workspace.read_json(place.folder / "meta.json", MAX_META_BYTES), shown)
    kept = place.folder / "cases.json"
    cases = Cases.read(workspace.read_json(kept), workspace.shown(kept))
    if len(cases.cases) > MAX_CASES:
        reason = Reason("too_many_cases", count=len(cases.cases), limit=MAX_CASES)
        raise StorageError("file_broken", file=workspace.shown(kept), reason=reason)
    doubts = (*_doubts(meta, place), *baseline_doubts(meta, cases))
    if doubts:
        meta = meta.changed(**_placed(place), case_count=len(cases.cases))
    return StoredBaseline(
        meta=meta,
        cases=cases,
        tags=read_tags(workspace, place.folder),
        folder=place.folder,
        doubts=doubts,
    )


def _placed(place: AssetFolder) -> dict[str, str]:
    return {"purpose": place.purpose, "provider": place.provider, "version": place.name.version}


def _doubts(meta: SkillMeta | BaselineMeta, place: AssetFolder) -> tuple[Doubt, ...]:
    found = [
        Doubt(field, Reason("other_folder", value=getattr(meta, field)[:80], name=value))
        for field, value in _placed(place).items()
        if getattr(meta, field) != value
    ]
    if meta.id[:SHORT] != place.name.short[:SHORT]:
        found.append(Doubt("id", Reason("other_folder", value=meta.id[:80], name=place.name.short)))
    return tuple(found)


def read_tags(workspace: Workspace, folder: Path) -> Tags:
    """Read the tags of a version; without a file there are none."""
    path = folder / "tags.json"
    if not os.path.lexists(path):
        return NO_TAGS
    return Tags.read(workspace.read_json(path, MAX_META_BYTES), workspace.shown(path))


def read_history(workspace: Workspace, folder: Path) -> list[HistoryRecord]:
    """Read the changes that led to a version, the oldest first; what cannot be read is left out."""
    found: list[HistoryRecord] = []
    for path in _json_files(folder / "history"):
        try:
            data = workspace.read_json(path, MAX_HISTORY_BYTES)
            found.append(HistoryRecord.read(data, workspace.shown(path)))
        except (StorageError, UserError):
            continue
    return sorted(found, key=lambda record: (int(record.to_version[1:]), parse_time(record.timestamp)))


def read_logs(workspace: Workspace, folder: Path) -> dict[str, AutoTagLog]:
    """Read the logs of automatic tagging by their files' names; what cannot be read is left out."""
    found: dict[str, AutoTagLog] = {}
    for path in _json_files(folder / "auto_tag_log"):
        try:
            found[path.name] = AutoTagLog.read(workspace.read_json(path), workspace.shown(path))
        except (StorageError, UserError):
            continue
    return found


def _json_files(folder: Path) -> list[Path]:
    if folder.is_symlink() or not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.suffix == ".json" and path.name[0] != ".")
