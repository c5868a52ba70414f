"""The projects of a workspace, and the atomic creation of a project's folder."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from personalab.data_files import locked_file, make_folder_below, write_json, writing
from personalab.errors import NotFound, PersonaLabError, UserError
from personalab.lab.naming import numbered
from personalab.lab.options import RunOptions
from personalab.lab.projects import ProjectConfig
from personalab.lab.records import SHORT, compact_time
from personalab.leases import Leases
from personalab.storage.lab.project_place import (
    CONFIG,
    RUN,
    BaselineCopy,
    ProjectPlace,
    SkillCopy,
    read_config,
)
from personalab.storage.lab.workspace import copy_folder
from personalab.storage.story_lock import FileStoryLock, LockCodes, running
from personalab.story.records import is_id

__all__ = ["BaselineCopy", "ProjectFiles", "ProjectPlace", "ProjectProblem", "SkillCopy"]

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
        return self.folder / numbered(stem, set(os.listdir(self.folder)))

    @contextmanager
    def _creating(self) -> Generator[None]:
        """Be the only one who makes projects; what an earlier one left half made is swept away."""
        make_folder_below(self.folder.parent, self.folder, "projects")
        with locked_file(self.folder / ".lock", "projects/.lock"):
            for half in self.folder.glob(f"{_HALF}*"):
                shutil.rmtree(half, ignore_errors=True)
            yield
