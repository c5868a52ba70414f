"""File reading for the doctor's checks of the lab, and the findings about single versions of assets."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from personalab.data_files import MAX_JSON_BYTES
from personalab.errors import PersonaLabError, Reason, StorageError, as_reason
from personalab.lab.assets import (
    CONTENT_FILE,
    AutoTagLog,
    BaselineMeta,
    Cases,
    HistoryRecord,
    SkillMeta,
    Tags,
    baseline_doubts,
)
from personalab.lab.findings import Provenance
from personalab.lab.generating import DRAFTS_FILE, Drafts
from personalab.lab.records import AssetKind, Doubt, Record
from personalab.operations.doctor_findings import Finding
from personalab.operations.lab.importing import KEPT_LIST, KeptList, kept_name
from personalab.storage.lab.asset_collections import MAX_CONTENT_BYTES, MAX_HISTORY_BYTES
from personalab.storage.lab.workspace import Workspace
from personalab.texts import Language, say

R = TypeVar("R", bound=Record)
TOO_LARGE = Reason("number_too_large")


class Sweep(Protocol):
    """Finds the abandoned temporary files of a folder."""

    def __call__(self, folder: Path, findings: list[Finding], *, fix: bool) -> None:
        """Add them to the findings; with ``fix``, remove them."""
        ...


class LabFinding(Finding):
    """A finding about the lab's files; its texts are with the lab's other texts."""

    __slots__ = ()

    def message(self, language: Language) -> str:
        """Return what is wrong."""
        return say(self.code, language, **self.params)

    def remedy(self, language: Language) -> str:
        """Return what to do."""
        if self.fixable:
            return super().remedy(language)
        return say(f"{self.code}_remedy", language, **self.params)


class LabFiles:
    """Reads files as other programs may have written them, and collects what is wrong."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.findings: list[Finding] = []
        self.looked_at = 0

    def shown(self, path: Path) -> str:
        """Name a file as a person finds it below the data root."""
        return self.workspace.shown(path)

    def read(
        self, path: Path, kind: type[R], *, needed: bool = True, limit: int = MAX_JSON_BYTES
    ) -> R | None:
        """Read a JSON file and tell what contradicts itself in it; ``None`` if it is missing or broken."""
        try:
            record = kind.read(self.workspace.read_json(path, limit), path.name)
            self.looked_at += 1
            self.doubt(path, record.doubts())
        except (PersonaLabError, ArithmeticError) as error:
            self.broken(path, error, needed=needed)
            return None
        return record

    def read_text(self, path: Path) -> str | None:
        """Read a skill's content."""
        try:
            found = self.workspace.read_text(path, MAX_CONTENT_BYTES)
        except PersonaLabError as error:
            self.broken(path, error)
            return None
        self.looked_at += 1
        return found

    def broken(self, path: Path, error: Exception, *, needed: bool = True) -> None:
        """Note that a file cannot be read, with the field that is wrong if it is one."""
        if isinstance(error, StorageError) and error.code == "file_missing":
            if needed:
                self.findings.append(Finding("missing", self.shown(path)))
            return
        self.looked_at += 1
        params = error.params if isinstance(error, PersonaLabError) else {"reason": TOO_LARGE}
        reason = params.get("reason") or error
        code = "lab_doctor_field" if "field" in params else "lab_doctor_broken"
        told = (
            {"field": str(params["field"])[:200], "reason": reason}
            if "field" in params
            else {"reason": reason}
        )
        self.findings.append(LabFinding(code, self.shown(path), params=told))

    def doubt(self, path: Path, doubts: Iterable[Doubt]) -> None:
        """Note what contradicts itself; what is read is right nevertheless."""
        for found in doubts:
            params = {"field": found.field[:200], "reason": found.reason}
            self.findings.append(
                LabFinding("lab_doctor_doubt", self.shown(path), params=params, level="note")
            )

    def json_files(self, folder: Path) -> list[Path]:
        """List the JSON files of a folder that can be named; a link to a folder is not followed."""
        if folder.is_symlink() or not folder.is_dir():
            return []
        try:
            names = sorted(os.listdir(folder))
        except OSError as error:
            params = {"reason": as_reason(error)}
            self.findings.append(Finding("not_a_folder", self.shown(folder), params=params))
            return []
        return [
            folder / name
            for name in names
            if name.endswith(".json") and name[0] != "." and name.isprintable()
        ]


@dataclass(frozen=True, slots=True)
class CheckedVersion:
    """What could be read of one version of an asset."""

    meta: SkillMeta | BaselineMeta | None
    content: str | None = None
    cases: Cases | None = None


def check_version(files: LabFiles, folder: Path, kind: AssetKind) -> CheckedVersion:
    """Check every file of one version of an asset, wherever it is."""
    own = check_skill(files, folder) if kind == "skill" else _check_baseline(files, folder)
    files.read(folder / "tags.json", Tags, needed=False)
    _check_kept(files, folder)
    for path in files.json_files(folder / "history"):
        files.read(path, HistoryRecord, needed=False, limit=MAX_HISTORY_BYTES)
    for path in files.json_files(folder / "auto_tag_log"):
        files.read(path, AutoTagLog, needed=False)
    return own


def _check_kept(files: LabFiles, folder: Path) -> None:
    """Check that what an asset came from is there, all that is listed."""
    listed = files.read(folder / KEPT_LIST, KeptList, needed=False)
    for row in listed.files if listed is not None else ():
        path = folder / kept_name(row.name)
        if not os.path.lexists(path):
            files.findings.append(Finding("missing", files.shown(path)))


def check_skill(files: LabFiles, folder: Path) -> CheckedVersion:
    """Check what a skill consists of."""
    meta = files.read(folder / "meta.json", SkillMeta)
    files.read(folder / "provenance.json", Provenance, needed=False)
    return CheckedVersion(meta, content=files.read_text(folder / CONTENT_FILE))


def _check_baseline(files: LabFiles, folder: Path) -> CheckedVersion:
    meta = files.read(folder / "meta.json", BaselineMeta)
    cases = files.read(folder / "cases.json", Cases)
    files.read(folder / DRAFTS_FILE, Drafts, needed=False)
    if meta is not None and cases is not None:
        files.doubt(folder / "meta.json", baseline_doubts(meta, cases))
    return CheckedVersion(meta, cases=cases)
