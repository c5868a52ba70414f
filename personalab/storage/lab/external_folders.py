"""Reading and writing of whole folders outside the workspace.

The walk through a folder never leaves it: a link that leads out of it or to a folder is refused, and so are
special files. Files of tools, such as ``.git``, are skipped.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from personalab.data_files import replace_file, sync_folder, writing
from personalab.errors import NotFound, PersonaLabError, StorageError, UserError
from personalab.storage.exchange import opened

MAX_FILES = 500
MAX_BYTES = 32 * 1024 * 1024
MAX_FILE_BYTES = 16 * 1024 * 1024
_MAX_DEPTH = 16
_LONGEST_NAME = 300
_LEFT_BEHIND = frozenset((".git", ".hg", ".svn", ".DS_Store", "__pycache__", "node_modules"))


@dataclass(frozen=True, slots=True)
class ExternalFile:
    """A file's bytes, and whether it can be run."""

    content: bytes
    executable: bool = False


def read_external_file(path: Path, limit: int = MAX_FILE_BYTES) -> bytes:
    """Read one plain file, whose size is checked first."""
    try:
        with opened(path) as (file, size):
            if size > limit:
                raise UserError("lab_file_large", file=str(path), actual=size, limit=limit)
            found = file.read(limit + 1)
            if len(found) > limit:
                raise UserError("lab_file_large", file=str(path), actual=len(found), limit=limit)
            return found
    except StorageError as error:
        raise NotFound("lab_nothing_there", file=str(path)) from error


def read_beside(folder: Path, name: str, limit: int = MAX_FILE_BYTES) -> bytes:
    """Read a file by its relative name, which must not lead out of the folder, directly or through a link."""
    path = folder / name
    if not _is_inside(path, os.path.realpath(folder)):
        raise UserError("lab_bad_inner", file=name[:200])
    return read_external_file(path, limit)


def read_folder(folder: Path) -> dict[str, ExternalFile]:
    """Read all files of a folder by their relative names, in order, within the limits."""
    found: dict[str, ExternalFile] = {}
    size = 0
    for name, path in _plain_files(folder, folder, os.path.realpath(folder), 0):
        if len(found) >= MAX_FILES:
            raise _too_large(folder)
        try:
            content = read_external_file(path)
        except PersonaLabError as error:
            if error.code == "lab_nothing_there":
                raise UserError("lab_bad_inner", file=str(path)) from error
            raise
        size += len(content)
        if size > MAX_BYTES:
            raise _too_large(folder)
        found[name] = ExternalFile(content, os.access(path, os.X_OK))
    return found


def _too_large(folder: Path) -> UserError:
    return UserError("lab_folder_large", file=str(folder), files=MAX_FILES, limit=MAX_BYTES)


def _plain_files(top: Path, folder: Path, inside: str, depth: int) -> Iterator[tuple[str, Path]]:
    try:
        with os.scandir(folder) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise NotFound("lab_nothing_there", file=str(folder)) from error
    for entry in listed:
        path = Path(entry.path)
        name = path.relative_to(top).as_posix()
        if entry.name in _LEFT_BEHIND or entry.name.endswith(".pyc"):
            continue
        leads_out = entry.is_symlink() and (entry.is_dir() or not _is_inside(path, inside))
        if leads_out or not _is_plain_name(name, entry.name) or depth > _MAX_DEPTH:
            raise UserError("lab_bad_inner", file=f"{top.name}/{name}"[:400])
        if entry.is_dir():
            yield from _plain_files(top, path, inside, depth + 1)
        else:
            yield name, path


def _is_plain_name(name: str, last: str) -> bool:
    return last.isprintable() and "\\" not in last and len(name) <= _LONGEST_NAME


def _is_inside(path: Path, folder: str) -> bool:
    target = os.path.realpath(path)
    return os.path.commonpath([target, folder]) == folder


def write_folder(folder: Path, files: Mapping[str, ExternalFile], *, overwrite: bool = False) -> list[Path]:
    """Write a folder whole or not at all; into one that exists only if asked to, file by file.

    Files that stand there and are not written over stay.
    """
    for name in files:
        parts = PurePosixPath(name).parts
        if not parts or PurePosixPath(name).is_absolute() or ".." in parts or not name.isprintable():
            raise UserError("lab_bad_inner", file=name[:200])
    if os.path.lexists(folder):
        if not overwrite or folder.is_symlink() or not folder.is_dir():
            raise UserError("lab_export_taken", file=str(folder))
        _write_into(folder, files)
    else:
        _write_new(folder, files)
    return [folder.joinpath(*PurePosixPath(name).parts) for name in files]


def _write_new(folder: Path, files: Mapping[str, ExternalFile]) -> None:
    fresh = folder.with_name(f".personalab-{secrets.token_hex(6)}.tmp")
    with writing(str(folder)):
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            for name, file in files.items():
                path = fresh.joinpath(*PurePosixPath(name).parts)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(file.content)
                _set_mode(path, file)
            os.rename(fresh, folder)
            sync_folder(folder.parent)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def _write_into(folder: Path, files: Mapping[str, ExternalFile]) -> None:
    inside = os.path.realpath(folder)
    for name, file in files.items():
        path = folder.joinpath(*PurePosixPath(name).parts)
        if not _is_inside(path.parent, inside) or path.is_dir():
            raise UserError("lab_bad_inner", file=str(path)[:400])
        with writing(str(path)):
            path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, file.content, str(path), mode=0o666)
        _set_mode(path, file)


def _set_mode(path: Path, file: ExternalFile) -> None:
    if file.executable:
        path.chmod(path.stat().st_mode | 0o111)
