"""Which files does an archive consist of, and how are they locked, read and replaced?

``NAME`` is the archive. Beside it stand ``NAME.lock``, ``NAME.journal``, the backups ``NAME.bak1`` (the newest) and so
on, each with the journal that was folded into it, ``NAME.bak1.journal``, and what was found broken: ``NAME.broken1``.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from personalab.archive.loading import load_json
from personalab.archive.veloca_rules import Archive
from personalab.errors import BadRecord, Busy, StorageError
from personalab.storage.files import writing
from personalab.storage.veloca_journal import Scan, Stamp, read_from, scan, stamp_of

MAX_ARCHIVE_BYTES = 512 * 1024 * 1024
WAIT_SECONDS = 10.0
_FIRST_NAP, _LONGEST_NAP = 0.0005, 0.01
_UNWRITABLE = (errno.EACCES, errno.EROFS, errno.EPERM)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an archive stands."""

    path: Path
    limit: int = MAX_ARCHIVE_BYTES
    wait: float = WAIT_SECONDS

    @property
    def shown(self) -> str:
        """How errors name it."""
        return str(self.path)

    @property
    def journal(self) -> Path:
        """Where changes are kept that are not in the file yet."""
        return self.beside("journal")

    def beside(self, ending: str) -> Path:
        """Name a file that belongs to the archive."""
        return self.path.with_name(f"{self.path.name}.{ending}")

    def backup(self, number: int) -> Path:
        """Name a backup."""
        return self.beside(f"bak{number}")

    def backup_journal(self, number: int) -> Path:
        """Name the journal that was folded into a backup."""
        return self.beside(f"bak{number}.journal")

    def locked(self, *, shared: bool = False) -> archive_lock:
        """Hold the archive's lock while the block runs."""
        return archive_lock(f"{self.path}.lock", self.shown, self.wait, shared=shared)


def place_of(path: str | Path, limit: int = MAX_ARCHIVE_BYTES, wait: float = WAIT_SECONDS) -> Place:
    """Find where an archive stands, through links; refuse what cannot be one."""
    found = Path(os.path.realpath(path))
    if not found.parent.is_dir():
        raise StorageError("archive_no_folder", file=str(found), folder=str(found.parent))
    try:
        kind = found.stat().st_mode
    except FileNotFoundError:
        return Place(found, limit, wait)
    except OSError as error:
        raise StorageError(
            "archive_unreadable", file=str(found), reason=error.strerror or str(error)
        ) from error
    if not stat.S_ISREG(kind):
        raise StorageError("archive_not_a_file", file=str(found))
    return Place(found, limit, wait)


class archive_lock:  # noqa: N801 (used like a function, in a with statement)
    """Hold an archive's lock: alone, or with other readers. Waits for it, but not for ever.

    A reader who may not write to the folder takes the lock that is there; where there is none, nobody writes.
    """

    def __init__(self, path: str, shown: str, wait: float, *, shared: bool) -> None:
        self._path = path
        self._shown = shown
        self._wait = wait
        self._shared = shared
        self._fd = -1

    def __enter__(self) -> None:
        deadline = time.monotonic() + self._wait
        nap = _FIRST_NAP
        while True:
            self._open()
            if self._fd < 0 or self._take():
                return
            if time.monotonic() >= deadline:
                raise Busy("file_busy", file=self._shown, seconds=f"{self._wait:g}")
            time.sleep(nap)
            nap = min(nap * 2, _LONGEST_NAP)

    def _open(self) -> None:
        with writing(self._shown):
            try:
                self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except OSError as error:
                if not self._shared or error.errno not in _UNWRITABLE:
                    raise
                with contextlib.suppress(FileNotFoundError):
                    self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)

    def _take(self) -> bool:
        """Take the lock, unless another holds it or the file was put away meanwhile."""
        try:
            fcntl.flock(self._fd, (fcntl.LOCK_SH if self._shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(self._fd), os.stat(self._path)):
                return True
        except (BlockingIOError, FileNotFoundError):
            pass
        self._release()
        return False

    def _release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()


# --- reading


def read_raw(path: Path, limit: int) -> tuple[bytes, Stamp]:
    """Read a file whole whose kind and size are seen to first, and tell which state of it that is."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        found, stamp = os.fstat(fd), stamp_of(fd)
        if not stat.S_ISREG(found.st_mode) or stamp is None:
            raise BadRecord("archive_no_regular_file")
        if found.st_size > limit:
            raise BadRecord("too_large", actual=found.st_size, limit=limit)
        return read_from(fd, 0, found.st_size), stamp
    finally:
        os.close(fd)


def read_archive(path: Path, limit: int) -> tuple[Archive, Stamp]:
    """Read an archive's file; ``BadRecord`` says what is wrong with it."""
    try:
        raw, stamp = read_raw(path, limit)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise BadRecord("archive_input_error", reason=error.strerror or str(error)) from error
    return Archive(load_json(raw, limit=limit)), stamp


def read_journal(path: Path, limit: int) -> Scan:
    """Read a journal that nobody writes any more; one that is missing is empty."""
    try:
        return scan(read_raw(path, limit)[0], whole=True)
    except FileNotFoundError:
        return Scan((), 0)
    except OSError as error:
        raise BadRecord("archive_input_error", reason=error.strerror or str(error)) from error


def replay(archive: Archive, found: Scan) -> int:
    """Put what a journal holds into an archive; return how many records that were."""
    count = 0
    for put in found.puts:
        for name, values in put.items():
            archive.put(name, values)
            count += len(values)
    return count


def clear_drafts(place: Place) -> None:
    """Remove what writers that died left unfinished; whoever calls holds the lock, so nobody else is writing."""
    unfinished = re.compile(rf"\.{re.escape(place.path.name)}(?:\.journal|\.bak\d+)?\.[0-9a-f]{{8}}\.tmp")
    with contextlib.suppress(OSError):
        for path in place.path.parent.iterdir():
            if unfinished.fullmatch(path.name):
                path.unlink(missing_ok=True)
