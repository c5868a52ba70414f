"""The projects of a workspace, their folders and the files in them."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar, cast

from pydantic import Field, ValidationError, model_validator

from personalab.data_files import (
    MAX_JSON_BYTES,
    locked_file,
    make_folder_below,
    open_regular,
    read_bytes,
    read_json,
    replace_file,
    write_json,
    writing,
)
from personalab.errors import BadRecord, Invalid, NotFound, PersonaLabError, Reason, StorageError, UserError
from personalab.lab.assets import CONTENT_FILE, Cases, unique_name
from personalab.lab.case_calls import CallRow, CaseCalls
from personalab.lab.findings import AnalysisReport
from personalab.lab.options import RunOptions, options_from
from personalab.lab.projects import BaselineRef, ProjectConfig, Result, RunSummary, SkillRef
from personalab.lab.records import SHORT, Count, Record, compact_time
from personalab.leases import Leases
from personalab.storage.lab.workspace import copy_folder
from personalab.storage.story_lock import FileStoryLock, LockCodes, running
from personalab.story.records import is_id

CONFIG, RUN, JOURNAL, SPOOL = "config.json", "x_run.json", "calls.jsonl", "x_spool"
SUMMARY, EXTRA_SUMMARY, CONTROLS = "summary.json", "x_summary.json", "x_controls.json"
ANALYSIS, EXTRA_ANALYSIS = "analysis_report.json", "x_analysis.json"
MAX_CONTENT = 1024 * 1024
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", re.ASCII)
R = TypeVar("R", bound=Record)


class JudgeControls(Record):
    """How one judge did on planted answers."""

    passed: Annotated[bool, Field(strict=True)] | None = None
    gap: Annotated[float, Field(strict=True, allow_inf_nan=False)] | None = None
    reason: str = ""
    tries: Count = 0
    calls: tuple[CallRow, ...] = ()

    @model_validator(mode="after")
    def _measured(self) -> Self:
        if self.passed is not None and self.gap is None:
            raise Invalid("at_field", field="gap", reason=Reason("not_number"))
        return self


class Controls(Record):
    """``results/x_controls.json``."""

    judges: dict[str, JudgeControls] = Field(default_factory=dict[str, JudgeControls])


@dataclass(frozen=True, slots=True)
class SkillCopy:
    """A skill as a project has it."""

    ref: SkillRef
    content: str
    file: Path
    """The file that holds exactly the content."""


@dataclass(frozen=True, slots=True)
class BaselineCopy:
    """A baseline as a project has it."""

    ref: BaselineRef
    cases: Cases


@dataclass(frozen=True, slots=True)
class ProjectPlace:
    """A project's folder, and its plan as it was read."""

    folder: Path
    config: ProjectConfig
    sync: bool = False
    """Whether what is written must survive a power loss."""

    # --- paths

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.name

    @property
    def results(self) -> Path:
        """The folder of the results of the project's own run."""
        return self.folder / "results"

    @property
    def spool(self) -> Path:
        """Where calls that are under way keep their answers."""
        return self.folder / SPOOL

    @property
    def journal(self) -> Path:
        """The account of every call."""
        return self.folder / JOURNAL

    def shown(self, path: Path) -> str:
        """Name a file as an error does."""
        return f"{self.name}/{path.relative_to(self.folder).as_posix()}"

    # --- any file

    def read(self, path: Path, kind: type[R]) -> R | None:
        """Read a file as others may have written it; ``None`` where there is none."""
        return None if not path.is_file() else kind.read(read_json(path, self.shown(path)), self.shown(path))

    def write(self, path: Path, record: Record) -> None:
        """Replace a file, if what is written is strictly of its format."""
        self.write_extra(path, record.fields(self.shown(path)))

    def read_extra(self, path: Path) -> dict[str, Any]:
        """Read a file of ours beside the source's; empty where there is none."""
        if not path.is_file():
            return {}
        found = read_json(path, self.shown(path))
        if not isinstance(found, dict):
            raise StorageError("file_broken", file=self.shown(path), reason=Reason("not_object"))
        return cast("dict[str, Any]", found)

    def write_extra(self, path: Path, data: Mapping[str, Any]) -> None:
        """Replace a file of ours."""
        write_json(path, data, self.shown(path), sync=self.sync)

    def make_folder(self, folder: Path) -> None:
        """Make a folder of the project, if it is not there; a link on the way to it is refused."""
        make_folder_below(self.folder, folder, self.shown(folder))

    # --- plan

    def again(self) -> ProjectPlace:
        """Reload the plan."""
        return replace(self, config=read_config(self.folder))

    def save_config(self, config: ProjectConfig) -> ProjectPlace:
        """Save the plan; give the project with it."""
        self.write(self.folder / CONFIG, config)
        return replace(self, config=config)

    def options(self) -> RunOptions:
        """Read how it is run; a project of another program has only what its plan says."""
        return self.read(self.folder / RUN, RunOptions) or options_from(self.config.cli_config)

    def save_options(self, options: RunOptions) -> None:
        """Save how it is run."""
        self.write(self.folder / RUN, options)

    def skills(self) -> list[SkillCopy]:
        """Read the copies of its skills."""
        return [self._skill(ref) for ref in self.config.skills]

    def _skill(self, ref: SkillRef) -> SkillCopy:
        file = self._copy(ref.local_path) / CONTENT_FILE
        raw = read_bytes(file, self.shown(file), MAX_CONTENT)
        try:
            return SkillCopy(ref, raw.decode("utf-8"), file)
        except UnicodeDecodeError as error:
            raise StorageError("file_broken", file=self.shown(file), reason=Reason("not_utf8")) from error

    def baselines(self) -> list[BaselineCopy]:
        """Read the copies of its baselines."""
        return [self._baseline(ref) for ref in self.config.baselines]

    def _baseline(self, ref: BaselineRef) -> BaselineCopy:
        file = self._copy(ref.local_path) / "cases.json"
        return BaselineCopy(ref, Cases.read(read_json(file, self.shown(file)), self.shown(file)))

    def _copy(self, local_path: str) -> Path:
        """Find a copy; a path that leads out of the project is refused."""
        parts = local_path.split("/")
        if not all(_PART.fullmatch(part) for part in parts):
            raise BadRecord("lab_bad_local_path", file=f"{self.name}/{CONFIG}", value=local_path[:80])
        found = self.folder.joinpath(*parts)
        if not found.resolve().is_relative_to(self.folder.resolve()):
            raise BadRecord("lab_bad_local_path", file=f"{self.name}/{CONFIG}", value=local_path[:80])
        return found

    # --- results

    def has_results(self) -> bool:
        """Return whether anything was measured yet."""
        if not self.results.is_dir():
            return False
        with os.scandir(self.results) as entries:
            return any(entry.is_dir() for entry in entries)

    def is_completed(self, path: str) -> bool:
        """Return quickly whether a result is complete and valid; if ``False``, it must be read."""
        try:
            with os.fdopen(open_regular(path), "rb", buffering=0) as file:
                if os.fstat(file.fileno()).st_size > MAX_JSON_BYTES:
                    return False
                return Result.model_validate_json(file.read()).status == "completed"
        except (OSError, StorageError, ValidationError):
            return False

    def result(self, path: Path) -> Result | None:
        """Read a result; ``None`` where there is none that can be read, for it can be made again from its calls."""
        try:
            return self.read(path, Result)
        except PersonaLabError:
            return None

    def all_results(self, results: Path | None = None) -> list[Result]:
        """Read every result, skill by skill, case by case."""
        found = [self.result(path) for path in self.result_paths(results)]
        return [result for result in found if result is not None]

    def result_paths(self, results: Path | None = None) -> list[Path]:
        """List the files of the results."""
        top = results or self.results
        folders = sorted(entry.path for entry in _folders_in(top))
        return [
            Path(folder, name)
            for folder in folders
            for name in sorted(os.listdir(folder))
            if name.endswith(".json") and not name.startswith(("x_", "."))
        ]

    def calls(self, path: Path) -> CaseCalls | None:
        """Read every call of a case."""
        return self.read(path, CaseCalls)

    def save_calls(self, path: Path, calls: CaseCalls) -> None:
        """Save every call of a case, on one line: this is written after each of them."""
        raw = json.dumps(calls.model_dump(mode="json"), ensure_ascii=False)
        replace_file(path, f"{raw}\n".encode("utf-8", "backslashreplace"), self.shown(path), sync=self.sync)

    def summary(self) -> RunSummary | None:
        """Read the summary."""
        return self.read(self.results / SUMMARY, RunSummary)

    def extra_summary(self) -> dict[str, Any]:
        """Read what the source's summary has no place for."""
        return self.read_extra(self.results / EXTRA_SUMMARY)

    def save_summary(self, summary: RunSummary, extra: Mapping[str, Any]) -> None:
        """Save the summary; the source's file comes last, for it says that there is one."""
        self.make_folder(self.results)
        self.write_extra(self.results / EXTRA_SUMMARY, extra)
        self.write(self.results / SUMMARY, summary)

    def controls(self) -> dict[str, Any]:
        """Read how the judges did on planted answers."""
        path = self.results / CONTROLS
        found = self.read_extra(path)
        try:
            Controls.read(found, self.shown(path))
        except BadRecord as error:
            reason = Reason("at_field", field=error.params["field"], reason=error.params["reason"])
            raise StorageError("file_broken", file=self.shown(path), reason=reason) from error
        return found

    def save_controls(self, controls: Mapping[str, Any]) -> None:
        """Save how the judges did on planted answers."""
        self.make_folder(self.results)
        self.write_extra(self.results / CONTROLS, controls)

    def sweep(self) -> None:
        """Remove what a writer that was killed left beside the files of a run; only its one writer may."""
        for path in self.folder.glob(".*.tmp"):
            if path.name.startswith((f".{CONFIG}.", f".{RUN}.", ".x_no_skill.")):
                path.unlink(missing_ok=True)
        folders = [self.results, *(Path(entry.path) for entry in _folders_in(self.results))]
        for folder in folders:
            for name in os.listdir(folder) if folder.is_dir() else ():
                if name.startswith(".") and name.endswith(".tmp"):
                    (folder / name).unlink(missing_ok=True)

    # --- analysis

    def analysis(self) -> AnalysisReport | None:
        """Read what the analysis found."""
        return self.read(self.folder / ANALYSIS, AnalysisReport)

    def save_analysis(self, report: AnalysisReport, extra: Mapping[str, Any]) -> None:
        """Save what the analysis found."""
        self.write_extra(self.folder / EXTRA_ANALYSIS, extra)
        self.write(self.folder / ANALYSIS, report)


def _folders_in(folder: Path) -> list[os.DirEntry[str]]:
    if not folder.is_dir():
        return []
    return [entry for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]


def read_config(folder: Path) -> ProjectConfig:
    """Read a project's plan."""
    path = folder / CONFIG
    if not path.is_file():
        raise NotFound("lab_no_project", project=folder.name[:80])
    return ProjectConfig.read(read_json(path, f"{folder.name}/{CONFIG}"), f"{folder.name}/{CONFIG}")


_FOLDER = re.compile(r"project_[A-Za-z0-9_-]{1,56}", re.ASCII)
_MAX_SLUG = 36
"""A folder's name is an id of at most 64 characters, also with a number after it."""
_HALF = ".new-"


@dataclass(frozen=True, slots=True)
class ProjectProblem:
    """A folder that is no project, and why."""

    name: str
    error: PersonaLabError


class ProjectFiles:
    """The projects of a workspace."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "projects"
        codes = LockCodes(
            missing="lab_no_project", busy="lab_project_busy", idle="lab_project_idle", named="project"
        )
        self.leases = Leases(FileStoryLock(self.folder, codes))
        """Who writes which project."""

    def list(self) -> list[ProjectPlace]:
        """List the projects, the newest first; what cannot be read is among the ``problems``."""
        return self._scan()[0]

    def problems(self) -> list[ProjectProblem]:
        """List the folders that are not projects."""
        return self._scan()[1]

    def _scan(self) -> tuple[list[ProjectPlace], list[ProjectProblem]]:
        found: list[ProjectPlace] = []
        problems: list[ProjectProblem] = []
        for name in self._names():
            try:
                if not is_id(name):
                    raise UserError("lab_bad_project_folder", name=name[:80])
                found.append(ProjectPlace(self.folder / name, read_config(self.folder / name)))
            except PersonaLabError as error:
                problems.append(ProjectProblem(name, error))
        found.sort(key=lambda place: (place.config.created_at, place.name), reverse=True)
        return found, problems

    def _names(self) -> list[str]:
        if not self.folder.is_dir():
            return []
        return sorted(
            entry.name
            for entry in os.scandir(self.folder)
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
        )

    def project(self, name_or_id: str) -> ProjectPlace:
        """Find a project by its folder's name, its id or the beginning of it, or its name if only one has it."""
        folder = self.folder / name_or_id
        if is_id(name_or_id) and not folder.is_symlink() and (folder / CONFIG).is_file():
            return ProjectPlace(folder, read_config(folder))
        places = self.list()
        exact = [place for place in places if place.config.id == name_or_id]
        begun = [
            place for place in places if len(name_or_id) >= SHORT and place.config.id.startswith(name_or_id)
        ]
        named = [place for place in places if place.config.name == name_or_id]
        for some in (exact, begun, named):
            if len(some) == 1:
                return some[0]
            if some:
                names = ", ".join(place.name for place in some[:5])
                raise UserError("lab_project_ambiguous", project=name_or_id[:80], projects=names)
        raise NotFound("lab_no_project", project=name_or_id[:80])

    def is_running(self, place: ProjectPlace) -> bool:
        """Return whether some process holds the project right now."""
        return running(place.folder) is not None

    def create(
        self, config: ProjectConfig, options: RunOptions, slug: str, copies: Mapping[str, Path]
    ) -> ProjectPlace:
        """Make a project with copies of assets, ``{local path: folder}``; it appears whole or not at all."""
        with self._creating():
            half = self.folder / f"{_HALF}{secrets.token_hex(4)}"
            try:
                for local_path, source in copies.items():
                    copy_folder(source, half / local_path)
                write_json(half / CONFIG, config.fields(CONFIG), CONFIG)
                write_json(half / RUN, options.fields(RUN), RUN)
                target = self._free_name(slug, config.created_at)
                with writing(target.name):
                    half.rename(target)
            except BaseException:
                shutil.rmtree(half, ignore_errors=True)
                raise
        return ProjectPlace(target, config)

    def _free_name(self, slug: str, created_at: str) -> Path:
        stem = f"project_{slug[:_MAX_SLUG]}_{compact_time(created_at)}"
        if _FOLDER.fullmatch(stem) is None:
            raise UserError("lab_bad_project_folder", name=stem[:80])
        return self.folder / unique_name(stem, set(os.listdir(self.folder)))

    @contextmanager
    def _creating(self) -> Generator[None]:
        """Be the only one who makes projects; what an earlier one left half made is swept away."""
        make_folder_below(self.folder.parent, self.folder, "projects")
        with locked_file(self.folder / ".lock", "projects/.lock"):
            for half in self.folder.glob(f"{_HALF}*"):
                shutil.rmtree(half, ignore_errors=True)
            yield
