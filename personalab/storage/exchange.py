"""Files outside the data root: finding, opening and writing them for import and export.

Paths are used as the person gave them. The walk through a folder never leaves it: hidden files are skipped,
links that lead out of it are reported and not followed, and special files (pipes, devices) are never waited
for.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from personalab.data_files import FILE_MODE, create_file, sync_folder, writing
from personalab.errors import PersonaLabError, Reason, StorageError, UserError, as_reason

MAX_FILES = 100_000
"""Maximum files of one import."""
_BESIDE_AN_ARCHIVE = re.compile(r"\.(?:journal|lock|bak\d+)$")
"""What a Veloca archive has beside it: it belongs to the archive, and older copies of it are no other stories."""
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that was named or lies in a folder that was, or why it is not opened."""

    path: Path
    shown: str
    error: PersonaLabError | None = None


def find_files(paths: Iterable[Path], limit: int = MAX_FILES) -> list[FoundFile]:
    """List the files that were named and those below the folders that were, each once, in order."""
    found: dict[str, FoundFile] = {}
    for path in paths:
        for file in _below(path) if path.is_dir() else [FoundFile(path, str(path))]:
            found.setdefault(os.path.abspath(file.path), file)
            if len(found) > limit:
                raise UserError("too_many_files", limit=limit)
    return list(found.values())


def _below(folder: Path) -> Iterator[FoundFile]:
    inside = os.path.realpath(folder)
    refused: list[FoundFile] = []

    def note(error: OSError) -> None:
        shown = str(error.filename or folder)
        refused.append(FoundFile(Path(shown), shown, _unreadable(error)))

    for place, folders, names in os.walk(folder, onerror=note):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(place, name)
            if name.startswith(".") or _BESIDE_AN_ARCHIVE.search(name):
                continue
            if path.is_symlink() and not _is_inside(path, inside):
                yield FoundFile(path, str(path), UserError("link_outside"))
            else:
                yield FoundFile(path, str(path))
    yield from refused


def _is_inside(path: Path, folder: str) -> bool:
    target = os.path.realpath(path)
    return os.path.commonpath([target, folder]) == folder


@contextmanager
def opened(path: Path) -> Generator[tuple[BinaryIO, int]]:
    """Open a plain file and tell its size; a pipe or a device is refused without waiting for it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise _unreadable(error) from error
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise StorageError("file_unreadable", reason=Reason("not_plain_file"))
        try:
            yield file, found.st_size
        except OSError as error:
            raise _unreadable(error) from error


def _unreadable(error: OSError | ValueError) -> StorageError:
    reason = as_reason(error)
    return StorageError("file_unreadable", reason=reason)


def write_outside(path: Path, chunks: Iterable[bytes], *, overwrite: bool, private: bool = False) -> int:
    """Write a file whole or not at all, over another plain one only if asked to; tell its size.

    A link is written through. A file that is replaced keeps its mode; a new one is ``private`` or follows the umask.
    """
    shown, size = str(path), 0
    if not overwrite and os.path.lexists(path):
        raise UserError("export_exists", file=shown)
    path, mode = _target(path) if overwrite else (path, None)
    fresh = path.with_name(f".personalab-{secrets.token_hex(6)}.tmp")
    try:
        with _writing_out(shown):
            with os.fdopen(create_file(fresh, FILE_MODE if private else 0o666), "wb") as file:
                if mode is not None:
                    os.fchmod(file.fileno(), mode)
                for chunk in chunks:
                    size += file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
            _put(fresh, path, overwrite=overwrite)
            sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink()
    return size


def _target(path: Path) -> tuple[Path, int | None]:
    """Find the file that is to be written over, and its mode; a pipe, a device or a folder is none."""
    found = Path(os.path.realpath(path)) if path.is_symlink() else path
    try:
        there = os.lstat(found)
    except FileNotFoundError:
        return found, None
    except (OSError, ValueError) as error:
        reason = as_reason(error)
        raise StorageError("export_unwritable", file=str(path), reason=reason) from error
    if not stat.S_ISREG(there.st_mode):
        raise UserError("export_not_plain", file=str(path))
    return found, stat.S_IMODE(there.st_mode)


@contextmanager
def _writing_out(shown: str) -> Generator[None]:
    """Explain why a file outside the data root cannot be written, and what helps."""
    try:
        with writing(shown):
            yield
    except StorageError as error:
        if error.code == "not_writable":
            raise StorageError("export_unwritable", **error.params) from error
        raise


def _put(fresh: Path, path: Path, *, overwrite: bool) -> None:
    """Move a file to its name; a link fails where another process has made one meanwhile."""
    if not overwrite:
        try:
            os.link(fresh, path)
            return
        except FileExistsError:
            raise UserError("export_exists", file=str(path)) from None
        except OSError as error:
            if error.errno not in _NO_LINKS or os.path.lexists(path):
                raise
    os.replace(fresh, path)


@contextmanager
def all_or_nothing() -> Generator[list[Path]]:
    """Collect folders that are made for one thing; if it fails after all, none of them stays."""
    made: list[Path] = []
    try:
        yield made
    except BaseException:
        for folder in reversed(made):
            shutil.rmtree(folder, ignore_errors=True)
        raise
