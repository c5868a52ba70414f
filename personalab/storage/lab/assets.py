"""Storage of skills and baselines: one folder per version, which never changes except for its tags."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from personalab.data_files import MAX_JSON_BYTES, dump_json
from personalab.errors import UserError
from personalab.lab.assets import (
    CONTENT_FILE,
    MAX_CASES,
    NO_TAGS,
    AutoTagLog,
    BaselineMeta,
    Cases,
    HistoryRecord,
    SkillMeta,
    Status,
    Tags,
    check_folder_name,
    edit_baseline,
    edit_skill,
    history_name,
    is_folder_name,
    unique_name,
)
from personalab.lab.findings import Provenance
from personalab.lab.records import SHORT, AssetKind, Record, asset_folder
from personalab.storage.lab.asset_collections import (
    BASELINE_FILES,
    MAX_CONTENT_BYTES,
    SKILL_FILES,
    AssetCollection,
    AssetProblem,
    StoredBaseline,
    StoredSkill,
    read_baseline,
    read_history,
    read_logs,
    read_skill,
    read_tags,
)
from personalab.storage.lab.workspace import KIND_FOLDERS, Workspace, check_extra

Stored = StoredSkill | StoredBaseline
S = TypeVar("S", StoredSkill, StoredBaseline)
_NOTHING: Mapping[str, bytes] = {}


class AssetFiles:
    """The skills and baselines of a workspace; ``root`` is the workspace's folder."""

    def __init__(self, root: Path) -> None:
        self.workspace = Workspace(root)
        self._skills = AssetCollection(self.workspace, "skill", read_skill)
        self._baselines = AssetCollection(self.workspace, "baseline", read_baseline)

    # --- reading

    def skills(self, *, archived: bool = False) -> list[StoredSkill]:
        """List the newest versions by name; archived ones only on request."""
        return self._skills.all(archived=archived)

    def baselines(self, *, archived: bool = False) -> list[StoredBaseline]:
        """List the newest versions by name; archived ones only on request."""
        return self._baselines.all(archived=archived)

    def skill(self, skill_id: str, version: str | None = None) -> StoredSkill:
        """Find a skill by its id, the beginning of it (8 characters at least) or its folder's name."""
        return self._skills.one(skill_id, version)

    def baseline(self, baseline_id: str, version: str | None = None) -> StoredBaseline:
        """Find a baseline, as a skill is found."""
        return self._baselines.one(baseline_id, version)

    def versions(self, stored: Stored) -> list[str]:
        """Name the versions that are there, the oldest first."""
        return self._shelf(stored).versions(stored)

    def problems(self) -> list[AssetProblem]:
        """List what cannot be read of the workspace, and contradictions."""
        return [*self._skills.problems(), *self._baselines.problems()]

    def history(self, stored: Stored) -> list[HistoryRecord]:
        """Return the changes that led to a version, the oldest first."""
        return read_history(self.workspace, stored.folder)

    def logs(self, stored: Stored) -> dict[str, AutoTagLog]:
        """Return the logs of automatic tagging by their files' names."""
        return read_logs(self.workspace, stored.folder)

    def beside(self, stored: Stored, name: str) -> bytes | None:
        """Read a file beside the asset's own, e.g. ``x_drafts.json``; ``None`` where there is none."""
        check_extra({name: b""})
        return self._optional(stored.folder.joinpath(*name.split("/")))

    # --- something new

    def add_skill(
        self,
        meta: SkillMeta,
        content: str,
        *,
        tags: Tags = NO_TAGS,
        provenance: Provenance | None = None,
        extra: Mapping[str, bytes] = _NOTHING,
    ) -> StoredSkill:
        """Keep a new skill; an id whose first 8 characters another one has is refused."""
        files = {**_skill_files(meta, content), "tags.json": _dumped(tags, "tags.json"), **extra}
        if provenance is not None:
            files["provenance.json"] = _dumped(provenance, "provenance.json")
        return self._skills.read(self._add("skill", meta, files, extra))

    def add_baseline(
        self,
        meta: BaselineMeta,
        cases: Cases,
        *,
        tags: Tags = NO_TAGS,
        extra: Mapping[str, bytes] = _NOTHING,
    ) -> StoredBaseline:
        """Keep a new baseline; its number of cases is counted."""
        counted = meta.changed(case_count=len(cases.cases))
        files = {**_baseline_files(counted, cases), "tags.json": _dumped(tags, "tags.json"), **extra}
        return self._baselines.read(self._add("baseline", counted, files, extra))

    def _add(
        self,
        kind: AssetKind,
        meta: SkillMeta | BaselineMeta,
        files: Mapping[str, bytes],
        extra: Mapping[str, bytes],
    ) -> Path:
        check_extra(extra)
        folder = self._folder(kind, meta)
        with self.workspace.writer():
            self.workspace.sweep(kind)
            taken = (place for place in self.workspace.places(kind) if place.name.short == meta.id[:SHORT])
            if (other := next(taken, None)) is not None:
                raise UserError(
                    "lab_short_id_taken", short=meta.id[:SHORT], folder=self.workspace.shown(other.folder)
                )
            self.workspace.appear(folder, files)
        return folder

    # --- the next version

    def add_skill_version(
        self,
        old: StoredSkill,
        meta: SkillMeta,
        content: str,
        history: HistoryRecord,
        *,
        extra: Mapping[str, bytes] = _NOTHING,
    ) -> StoredSkill:
        """Keep the next version, if the old one is still the newest; everything else is copied forward."""
        files = {**_skill_files(meta, content), **extra}
        return self._skills.read(self._add_version(old, meta, files, history, extra, SKILL_FILES))

    def add_baseline_version(
        self,
        old: StoredBaseline,
        meta: BaselineMeta,
        cases: Cases,
        history: HistoryRecord,
        *,
        extra: Mapping[str, bytes] = _NOTHING,
    ) -> StoredBaseline:
        """Keep the next version, if the old one is still the newest; everything else is copied forward."""
        counted = meta.changed(case_count=len(cases.cases))
        files = {**_baseline_files(counted, cases), **extra}
        return self._baselines.read(self._add_version(old, counted, files, history, extra, BASELINE_FILES))

    def set_status(self, stored: S, status: Status, now: str) -> S:
        """Archive an asset or bring it back: a change of its meta, so a version of its own."""
        changes = {"status": status}
        if isinstance(stored, StoredSkill):
            made = edit_skill(stored.meta, stored.content, new_content=None, changes=changes, now=now)
            if made is None:
                return stored
            return self.add_skill_version(stored, made.meta, made.content, made.history)
        edit = edit_baseline(stored.meta, stored.cases, new_cases=None, changes=changes, now=now)
        if edit is None:
            return stored
        return self.add_baseline_version(stored, edit.meta, edit.cases, edit.history)

    def _add_version(
        self,
        old: Stored,
        meta: SkillMeta | BaselineMeta,
        files: Mapping[str, bytes],
        history: HistoryRecord,
        extra: Mapping[str, bytes],
        own: Sequence[str],
    ) -> Path:
        check_extra(extra)
        moved = (meta.purpose, meta.provider) != (old.meta.purpose, old.meta.provider)
        parent = self._folder(old.kind, meta).parent if moved else old.folder.parent
        short = old.folder.name.removeprefix(f"{old.kind}_").rpartition("_")[0]
        folder = parent / f"{old.kind}_{short}_{meta.version}"
        with self.workspace.writer():
            self.workspace.sweep(old.kind)
            self._check_newest(old)
            record = f"history/{history_name(history)}"
            made = {**files, record: _dumped(history, record)}
            self.workspace.appear(folder, made, like=old.folder, without={*own, *extra})
        return folder

    def _check_newest(self, stored: Stored) -> None:
        newest = self._shelf(stored).versions(stored)[-1:]
        if newest != [stored.meta.version]:
            raise UserError(
                "lab_asset_changed", name=stored.meta.name[:80], version=newest[0] if newest else "–"
            )

    def _folder(self, kind: AssetKind, meta: SkillMeta | BaselineMeta) -> Path:
        """Return the folder of a version; its meta is checked before it becomes part of a path."""
        meta.fields("meta.json")
        purpose = check_folder_name(meta.purpose, "purpose")
        provider = check_folder_name(meta.provider, "provider")
        name = asset_folder(kind, meta.id, meta.version)
        return self.workspace.root / KIND_FOLDERS[kind] / purpose / provider / name

    # --- what changes without a new version: tags, logs, drafts

    def change_tags(
        self, stored: Stored, change: Callable[[Tags], Tags], *, log: tuple[str, AutoTagLog] | None = None
    ) -> Tags:
        """Change the current tags of the newest version, and store a log with them."""
        with self.workspace.writer():
            folder = self._newest_folder(stored)
            before = read_tags(self.workspace, folder)
            tags = change(before)
            if tags != before:
                self.workspace.replace(folder / "tags.json", _dumped(tags, "tags.json"))
            if log is not None:
                self._write_log(folder, *log)
            return tags

    def add_log(self, stored: Stored, log: AutoTagLog, stem: str) -> str:
        """Keep a log under a name that no other has; give the name."""
        with self.workspace.writer():
            folder = self._newest_folder(stored)
            logs = folder / "auto_tag_log"
            name = unique_name(stem, set(os.listdir(logs)) if logs.is_dir() else (), ".json")
            self._write_log(folder, name, log)
            return name

    def save_log(self, stored: Stored, name: str, log: AutoTagLog) -> None:
        """Replace a log in the newest version."""
        with self.workspace.writer():
            self._write_log(self._newest_folder(stored), name, log)

    def drop_log(self, stored: Stored, name: str) -> None:
        """Remove a log of work that was not done."""
        with self.workspace.writer():
            _log_path(self._newest_folder(stored), name).unlink(missing_ok=True)

    def change_beside(
        self, stored: Stored, name: str, change: Callable[[bytes | None], Mapping[str, Any]]
    ) -> None:
        """Change a JSON file beside the newest version's own."""
        check_extra({name: b""})
        with self.workspace.writer():
            path = self._newest_folder(stored) / name
            content = dump_json(change(self._optional(path)))
            if len(content) > MAX_JSON_BYTES:
                raise UserError("lab_too_large", file=name, bytes=len(content), limit=MAX_JSON_BYTES)
            self.workspace.replace(path, content)

    def _write_log(self, folder: Path, name: str, log: AutoTagLog) -> None:
        self.workspace.replace(_log_path(folder, name), _dumped(log, name))

    def _optional(self, path: Path) -> bytes | None:
        return self.workspace.read(path) if os.path.lexists(path) else None

    def _newest_folder(self, stored: Stored) -> Path:
        return self._shelf(stored).group_of(stored)[-1].folder

    def _shelf(self, stored: Stored) -> AssetCollection[StoredSkill] | AssetCollection[StoredBaseline]:
        return self._skills if isinstance(stored, StoredSkill) else self._baselines


def _log_path(folder: Path, name: str) -> Path:
    if not name.startswith("session_") or not name.endswith(".json") or not is_folder_name(name[:-5]):
        raise UserError("lab_bad_name", what="log", value=name[:80])
    return folder / "auto_tag_log" / name


def _dumped(record: Record, file: str) -> bytes:
    return dump_json(record.fields(file))


def _skill_files(meta: SkillMeta, content: str) -> dict[str, bytes]:
    try:
        text = content.encode("utf-8")
    except UnicodeEncodeError:
        raise UserError("lab_not_unicode", field=CONTENT_FILE) from None
    if len(text) > MAX_CONTENT_BYTES:
        raise UserError("lab_too_large", file=CONTENT_FILE, bytes=len(text), limit=MAX_CONTENT_BYTES)
    return {"meta.json": _dumped(meta, "meta.json"), CONTENT_FILE: text}


def _baseline_files(meta: BaselineMeta, cases: Cases) -> dict[str, bytes]:
    if len(cases.cases) > MAX_CASES:
        raise UserError("lab_too_many_cases", count=len(cases.cases), limit=MAX_CASES)
    if cases.baseline_id != meta.id or cases.version != meta.version:
        raise UserError("lab_other_baseline", baseline_id=meta.id[:80], version=meta.version)
    content = _dumped(cases, "cases.json")
    if len(content) > MAX_JSON_BYTES:
        raise UserError("lab_too_large", file="cases.json", bytes=len(content), limit=MAX_JSON_BYTES)
    return {"meta.json": _dumped(meta, "meta.json"), "cases.json": content}
