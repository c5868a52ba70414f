"""The files of an archive: locking and reading them.

``NAME`` is the archive. Next to it are ``NAME.lock``, ``NAME.journal``, the backups ``NAME.bak1`` (the
newest) and so on, each with the journal that was folded into it, ``NAME.bak1.journal``, damaged files that
were set aside, ``NAME.broken1``, and the state before a backup was restored, ``NAME.before1``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from personalab.archive.foreign_files import load_json
from personalab.archive.veloca_archive import Archive
from personalab.data_files import close_locked, lock_fd, open_regular, writing
from personalab.errors import BadRecord, Busy, StorageError, as_reason
from personalab.storage.veloca_journal import JournalScan, Stamp, read_from, scan, stamp_of

MAX_ARCHIVE_BYTES = 512 * 1024 * 1024
WAIT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ArchiveLocation:
    """The location of an archive."""

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
        """Hold the archive's lock while the block runs; to look at a file that nobody writes leaves none beside it."""
        make = not shared or os.path.exists(self.journal)
        return archive_lock(self.shown, self.wait, shared=shared, make=make)


def place_of(path: str | Path, limit: int = MAX_ARCHIVE_BYTES, wait: float = WAIT_SECONDS) -> ArchiveLocation:
    """Find an archive's location, through links; refuse paths that cannot be archives."""
    found = Path(os.path.realpath(path))
    if not os.path.isdir(found.parent):
        raise StorageError("archive_no_folder", file=str(found), folder=str(found.parent))
    try:
        kind = found.stat().st_mode
    except FileNotFoundError:
        return ArchiveLocation(found, limit, wait)
    except OSError as error:
        raise StorageError("archive_unreadable", file=str(found), reason=as_reason(error)) from error
    if not stat.S_ISREG(kind):
        raise StorageError("archive_not_a_file", file=str(found))
    return ArchiveLocation(found, limit, wait)


# --- reading


class HeldFile:
    """A file that was opened while nobody wrote to it, to be read when others may write again.

    Ours are replaced and never rewritten, and a journal only grows: what was open stays as it was, up to its size.
    """

    def __init__(self, path: Path, limit: int) -> None:
        self._limit = limit
        self._fd = -1
        self._problem: BadRecord | FileNotFoundError | None = None
        self.stamp: Stamp = ()
        """Which state of the file it is; nothing, if there is none."""
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            self.stamp = stamp_of(self._fd) or ()
            self._problem = self._refused(os.fstat(self._fd))
        except FileNotFoundError as error:
            self._problem = error
        except OSError as error:
            self._problem = _input_error(error)

    def _refused(self, found: os.stat_result) -> BadRecord | None:
        """See to its kind and size before anything of it is read."""
        if not stat.S_ISREG(found.st_mode):
            return BadRecord("archive_no_regular_file")
        if found.st_size > self._limit:
            return BadRecord("too_large", actual=found.st_size, limit=self._limit)
        return None

    @property
    def is_there(self) -> bool:
        """Whether there was such a file."""
        return not isinstance(self._problem, FileNotFoundError)

    def raw(self) -> bytes:
        """Read it whole; ``FileNotFoundError`` or ``BadRecord`` says why that cannot be."""
        if self._problem is not None:
            raise self._problem
        try:
            return read_from(self._fd, 0, self.stamp[2])
        except OSError as error:
            raise _input_error(error) from error

    def archive(self) -> Archive:
        """Read it as an archive."""
        return Archive(load_json(self.raw(), limit=self._limit))

    def journal(self) -> JournalScan:
        """Read it as a journal; one that is missing is empty."""
        return scan(self.raw(), whole=True) if self.is_there else JournalScan((), 0)

    def close(self) -> None:
        """Close the file."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> HeldFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _input_error(error: OSError) -> BadRecord:
    return BadRecord("archive_input_error", reason=as_reason(error))


def read_raw(path: Path, limit: int) -> bytes:
    """Read a file whole; ``FileNotFoundError`` or ``BadRecord`` says why that cannot be."""
    with HeldFile(path, limit) as held:
        return held.raw()


def read_archive(path: Path, limit: int) -> Archive:
    """Read an archive's file; ``BadRecord`` says what is wrong with it."""
    with HeldFile(path, limit) as held:
        return held.archive()


def read_journal(path: Path, limit: int) -> JournalScan:
    """Read a journal that is no longer written; a missing one is empty."""
    with HeldFile(path, limit) as held:
        return held.journal()


def replay(archive: Archive, found: JournalScan) -> int:
    """Apply a journal to an archive; return the number of records."""
    count = 0
    for put in found.puts:
        for name, values in put.items():
            archive.put(name, values)
            count += len(values)
    return count


def clear_drafts(place: ArchiveLocation) -> None:
    """Remove unfinished drafts of writers that died; the caller holds the lock, so nobody else is writing."""
    unfinished = re.compile(rf"\.{re.escape(place.path.name)}(?:\.bak\d+)?(?:\.journal)?\.[0-9a-f]{{8}}\.tmp")
    with contextlib.suppress(OSError):
        for path in place.path.parent.iterdir():
            if unfinished.fullmatch(path.name):
                path.unlink(missing_ok=True)


# --- the lock across processes: many readers or one writer


_FIRST_NAP, _LONGEST_NAP = 0.0005, 0.01
_UNWRITABLE = (errno.EACCES, errno.EROFS, errno.EPERM)


class archive_lock:  # noqa: N801 (used like a function, in a with statement)
    """Hold an archive's lock: alone, or with other readers. Waits for it, but not for ever.

    A reader takes the lock that is there; where there is none and he may not or need not make it, nobody writes.
    """

    def __init__(self, archive: str, wait: float, *, shared: bool, make: bool) -> None:
        self._path = f"{archive}.lock"
        self._archive = archive
        self._wait = wait
        self._shared = shared
        self._make = make
        self._fd = -1

    def __enter__(self) -> None:
        try:
            with writing(self._archive):
                self._wait_for_it()
        except BaseException:
            self._release()
            raise

    def _wait_for_it(self) -> None:
        deadline = time.monotonic() + self._wait
        nap = _FIRST_NAP
        while True:
            self._open()
            if self._fd < 0 or self._take():
                return
            if time.monotonic() >= deadline:
                raise Busy("file_busy", file=self._archive, seconds=f"{self._wait:g}")
            time.sleep(nap)
            nap = min(nap * 2, _LONGEST_NAP)

    def _open(self) -> None:
        try:
            self._fd = self._opened()
        except FileNotFoundError:
            if self._make:
                self._create()

    def _opened(self) -> int:
        """Open the file that is there; to lock it, reading is enough, except on some network drives."""
        try:
            return open_regular(self._path, os.O_RDWR)
        except OSError as error:
            if error.errno not in _UNWRITABLE:
                raise
            return open_regular(self._path)

    def _create(self) -> None:
        """Create the file, accessible only to those who may read the archive."""
        try:
            self._fd = open_regular(self._path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            if not self._shared or error.errno not in _UNWRITABLE:
                raise
            return
        with contextlib.suppress(OSError):
            os.fchmod(self._fd, stat.S_IMODE(os.stat(self._archive).st_mode))

    def _take(self) -> bool:
        """Take the lock, unless another holds it or the file was put away meanwhile."""
        try:
            if lock_fd(self._fd, self._path, shared=self._shared) and os.path.samestat(
                os.fstat(self._fd), os.stat(self._path)
            ):
                return True
        except FileNotFoundError:
            pass
        self._release()
        return False

    def _release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            close_locked(fd)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()
