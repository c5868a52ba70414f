"""The lab's workspace: its layout, its lock and the atomic creation of folders.

One writer at a time holds ``workspace/.lock``; readers never wait. The folder of a version is created next to
its final place, under a name that begins with a dot, and renamed: it appears whole or not at all. The next
writer removes what a writer that died has left. Links are not followed, whoever made them.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from personalab.data_files import (
    FOLDER_MODE,
    MAX_JSON_BYTES,
    create_file,
    locked_file,
    make_folder,
    make_folder_below,
    open_regular,
    replace_file,
    sync_folder,
    without_bom,
    writing,
)
from personalab.errors import Because, Reason, StorageError, UserError, as_reason, json_reason
from personalab.lab.assets import VersionFolder, version_folder
from personalab.lab.records import AssetKind

KIND_FOLDERS: Mapping[AssetKind, str] = {"skill": "skills", "baseline": "baselines"}
MAX_EXTRA_BYTES = 64 * 1024 * 1024
MAX_EXTRA_FILES = 1_000
_LEFT_OVER = re.compile(r"\.(?:skill|baseline)_.+\.[0-9a-f]{8}\.tmp", re.DOTALL)


@dataclass(frozen=True, slots=True)
class AssetFolder:
    """The folder of one version of an asset, by its name alone."""

    purpose: str
    provider: str
    folder: Path
    name: VersionFolder


class Workspace:
    """The folder that holds all files of the lab."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._prefix = f"{root}{os.sep}"

    def shown(self, path: Path) -> str:
        """Name a file as a person finds it below the data root."""
        inner = str(path).removeprefix(self._prefix)
        return f"{self.root.name}/{inner}".replace(os.sep, "/")

    def writer(self) -> locked_file:
        """Be the only one who writes; waits for others, but not for ever."""
        with writing(self.root.name):
            make_folder(self.root)
        return locked_file(self.root / ".lock", f"{self.root.name}/.lock")

    # --- reading

    def read(self, path: Path, limit: int = MAX_JSON_BYTES) -> bytes:
        """Read a file whose kind and size are checked first; a link is not followed."""
        try:
            with os.fdopen(open_regular(path, os.O_NOFOLLOW, shown=self.shown(path)), "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size > limit:
                    raise self._broken(path, Reason("too_many_bytes", count=size, limit=limit))
                return file.read()
        except FileNotFoundError as error:
            raise StorageError("file_missing", file=self.shown(path)) from error
        except OSError as error:
            reason = Reason("link") if error.errno == errno.ELOOP else as_reason(error)
            raise self._broken(path, reason) from error

    def _broken(self, path: Path, reason: Because) -> StorageError:
        return StorageError("file_broken", file=self.shown(path), reason=reason)

    def read_text(self, path: Path, limit: int) -> str:
        """Read a text, to the letter."""
        try:
            return self.read(path, limit).decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._broken(path, Reason("not_utf8")) from error

    def read_json(self, path: Path, limit: int = MAX_JSON_BYTES) -> object:
        """Read a JSON file."""
        raw = self.read(path, limit)
        try:
            return json.loads(without_bom(raw).decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise self._broken(path, json_reason(error)) from error

    def places(self, kind: AssetKind) -> Iterator[AssetFolder]:
        """Find the folders of all versions by their names; nothing is opened."""
        for provider in self._providers(kind):
            for folder in folders_in(provider):
                name = version_folder(folder.name)
                if name is not None and name.kind == kind:
                    yield AssetFolder(provider.parent.name, provider.name, folder, name)

    def unreadable(self, kind: AssetKind) -> list[Path]:
        """Find the folders that are not accessible; lists skip them."""
        top = self.root / KIND_FOLDERS[kind]
        return [folder for folder in (top, *folders_in(top), *self._providers(kind)) if not _may_read(folder)]

    def _providers(self, kind: AssetKind) -> list[Path]:
        purposes = folders_in(self.root / KIND_FOLDERS[kind])
        return [provider for purpose in purposes for provider in folders_in(purpose)]

    # --- writing, under the lock

    def appear(
        self,
        folder: Path,
        files: Mapping[str, bytes],
        *,
        like: Path | None = None,
        without: Collection[str] = (),
    ) -> None:
        """Make a folder with these files, and with those of another version but for some; it appears whole."""
        shown = self.shown(folder)
        fresh = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.tmp")
        make_folder_below(self.root, folder.parent, shown)
        with writing(shown):
            try:
                fresh.mkdir(mode=FOLDER_MODE)
                if like is not None:
                    _copy(like, fresh, without)
                for name, content in files.items():
                    _write(fresh.joinpath(*PurePosixPath(name).parts), content)
                sync_folder(fresh)
                os.rename(fresh, folder)
                sync_folder(folder.parent)
            except BaseException:
                shutil.rmtree(fresh, ignore_errors=True)
                raise

    def replace(self, path: Path, content: bytes) -> None:
        """Replace a file in a version's folder, and clear away what a writer that died has left of it."""
        make_folder_below(self.root, path.parent, self.shown(path))
        with writing(self.shown(path)):
            for found in path.parent.glob(f".{path.name}.*.tmp"):
                found.unlink(missing_ok=True)
        replace_file(path, content, self.shown(path), sync=True)

    def sweep(self, kind: AssetKind) -> None:
        """Clear away the folders that writers who died have not finished."""
        for provider in self._providers(kind):
            for found in folders_in(provider, hidden=True):
                if _LEFT_OVER.fullmatch(found.name):
                    shutil.rmtree(found, ignore_errors=True)


def folders_in(folder: Path, *, hidden: bool = False) -> list[Path]:
    """List the folders in a folder by name: the plain ones, or those that begin with a dot; links are left out."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return [folder / name for name in sorted(names) if name.startswith(".") == hidden and _is_text(name)]


def _may_read(folder: Path) -> bool:
    return not folder.is_dir() or os.access(folder, os.R_OK | os.X_OK)


def _is_text(name: str) -> bool:
    """Return whether a name can be written in JSON and shown; names of other bytes are never ours."""
    return name.isprintable()


def check_extra(extra: Mapping[str, bytes]) -> None:
    """Refuse files beside an asset's own that could land elsewhere or fill the disk; each begins with ``x_``."""
    for name in extra:
        parts = name.split("/")
        plain = all(part not in ("", ".", "..") and part.isprintable() and "\\" not in part for part in parts)
        if not plain or not name.startswith("x_") or len(name) > 400:
            raise UserError("lab_bad_extra", file=name[:80])
    size = sum(len(content) for content in extra.values())
    if len(extra) > MAX_EXTRA_FILES or size > MAX_EXTRA_BYTES:
        raise UserError(
            "lab_extra_too_large", count=len(extra), bytes=size, most=MAX_EXTRA_FILES, limit=MAX_EXTRA_BYTES
        )


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder to a place where there is none; links, pipes and devices are left out."""
    with writing(target.name):
        make_folder(target)
        _copy(source, target, ())


def _copy(source: Path, target: Path, without: Collection[str]) -> None:
    """Copy plain files and folders; hidden ones are left-overs, links are not followed."""
    for entry in sorted(os.scandir(source), key=lambda found: found.name):
        if entry.name.startswith(".") or entry.name in without:
            continue
        if entry.is_dir(follow_symlinks=False):
            inner = target / entry.name
            inner.mkdir(mode=FOLDER_MODE)
            _copy(Path(entry.path), inner, ())
        elif entry.is_file(follow_symlinks=False):
            with (
                os.fdopen(open_regular(entry.path, os.O_NOFOLLOW), "rb") as old,
                os.fdopen(create_file(target / entry.name), "wb") as new,
            ):
                shutil.copyfileobj(old, new)


def _write(path: Path, content: bytes) -> None:
    """Write a file of a folder that is not visible yet, also over a copy from another version."""
    make_folder(path.parent)
    with os.fdopen(open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
