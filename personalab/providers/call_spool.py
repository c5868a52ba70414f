"""The files that hold a call's answer until its caller has stored it.

Each call has files of its own in a spool folder: ``.in`` and ``.system`` hold its input, ``.out`` and
``.err`` the output of a program, ``.done`` an answer that no program has written down. They survive the death
of our process, not that of the machine.

Only regular files are used, and for writing only those with a single name, in a folder that is not a symbolic
link. Anything else was put there by another program and may lead out of the data root, or block whoever opens
it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from personalab.errors import BadRecord, Reason, StorageError, as_reason
from personalab.lab.calling import CallAnswer

MAX_KEPT_BYTES = 128 * 1024 * 1024
_MODE = 0o600
_PARTS = ("in", "system", "out", "err", "done")
HALF_KEPT = ".done.tmp"
"""How the name of an answer ends while it is being written; it begins with a dot."""
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LINK = Reason("link")
_FOREIGN = Reason("not_plain_file")
_NOT_OURS = (errno.ELOOP, errno.EINVAL, errno.ENXIO, errno.EMLINK)
"""What the system, or ``CallFiles.open``, says of a link, a pipe, a device, a socket or a second name."""


class CallFiles:
    """The files of one call."""

    __slots__ = ("_start", "folder", "name")

    def __init__(self, spool: Path, call_id: str) -> None:
        self.folder = str(spool)
        self.name = call_id
        self._start = os.path.join(self.folder, call_id)

    def path(self, part: str) -> str:
        """Name one of the files."""
        return f"{self._start}.{part}"

    def open(self, part: str, flags: int) -> int:
        """Open one of the files, with ``O_CREAT`` made where it is missing; refuse what is no file of ours."""
        flags |= os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
        with self._opened_folder(create=bool(flags & os.O_CREAT)) as folder:
            fd = os.open(f"{self.name}.{part}", flags, _MODE, dir_fd=folder)
        found, writes = os.fstat(fd), flags & (os.O_WRONLY | os.O_RDWR)
        if not stat.S_ISREG(found.st_mode) or (writes and found.st_nlink > 1):
            os.close(fd)
            raise OSError(errno.EINVAL, _FOREIGN)
        os.set_blocking(fd, True)
        return fd

    def create(self, part: str) -> int:
        """Create one of the files for writing; an existing one is removed, never written to."""
        return self._create(f"{self.name}.{part}")

    def _create(self, name: str) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with self._opened_folder(create=True) as folder:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            return os.open(name, flags, _MODE, dir_fd=folder)

    @contextmanager
    def _opened_folder(self, *, create: bool = False) -> Generator[int]:
        try:
            folder = os.open(self.folder, _FOLDER_FLAGS)
        except FileNotFoundError:
            if not create:
                raise
            Path(self.folder).mkdir(parents=True, exist_ok=True)
            folder = os.open(self.folder, _FOLDER_FLAGS)
        except NotADirectoryError as error:
            if os.path.islink(self.folder):
                raise OSError(errno.ELOOP, _LINK) from error
            raise
        try:
            yield folder
        finally:
            os.close(folder)

    def write(self, part: str, content: bytes) -> None:
        """Write one of the files."""
        fd = self.create(part)
        try:
            write_all(fd, content)
        finally:
            os.close(fd)

    def read(self, part: str, limit: int) -> bytes | None:
        """Read one of the files; ``None`` if it is larger than the limit, nothing if it is not there."""
        return None if self.size(part) > limit else self.head(part, limit)

    def head(self, part: str, limit: int) -> bytes:
        """Read the beginning of one of the files."""
        return self._read(part, lambda size: (0, min(size, limit)))

    def tail(self, part: str, limit: int) -> bytes:
        """Read the end of one of the files."""
        return self._read(part, lambda size: (max(0, size - limit), limit))

    def _read(self, part: str, span: Callable[[int], tuple[int, int]]) -> bytes:
        try:
            fd = self.open(part, os.O_RDONLY)
        except FileNotFoundError:
            return b""
        try:
            at, length = span(os.fstat(fd).st_size)
            return os.pread(fd, length, at)
        finally:
            os.close(fd)

    def size(self, part: str) -> int:
        """Return the size of one of the files; 0 if it is unknown."""
        try:
            return os.lstat(self.path(part)).st_size
        except OSError:
            return 0

    def remove(self) -> None:
        """Remove all of them."""
        try:
            with self._opened_folder() as folder:
                for part in _PARTS:
                    try:  # noqa: SIM105 (each case of a large project comes here)
                        os.unlink(f"{self.name}.{part}", dir_fd=folder)
                    except FileNotFoundError:
                        pass
        except FileNotFoundError:
            return

    def is_kept(self) -> bool:
        """Return whether an answer was kept."""
        return os.path.lexists(self.path("done"))

    def kept(self) -> CallAnswer | None:
        """Read the answer that was kept; what cannot be read is none."""
        if not self.is_kept():
            return None
        try:
            return CallAnswer.read(json.loads(self.read("done", MAX_KEPT_BYTES) or b""))
        except (ValueError, RecursionError, BadRecord):
            return None
        except OSError as error:
            if error.errno in _NOT_OURS:
                return None
            raise

    def keep(self, answer: CallAnswer) -> None:
        """Keep the answer, whole or not at all."""
        content = json.dumps(answer.fields()).encode("ascii")
        # One process works on a call: a name that an earlier one left behind is simply used again.
        fresh = f".{self.name}{HALF_KEPT}"
        fd = self._create(fresh)
        try:
            write_all(fd, content)
        finally:
            os.close(fd)
        with self._opened_folder() as folder:
            os.replace(fresh, f"{self.name}.done", src_dir_fd=folder, dst_dir_fd=folder)


def write_all(fd: int, content: bytes) -> None:
    """Write all of it, in as many goes as it takes."""
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]


def forget_call(spool: Path, call_id: str) -> None:
    """Remove a call's files: the caller has stored the answer, or wants it asked again."""
    files = CallFiles(spool, call_id)
    with spooling(files):
        files.remove()


@contextmanager
def spooling(files: CallFiles) -> Generator[None]:
    """Translate what the system says when a file of a call cannot be read or written."""
    try:
        yield
    except OSError as error:
        shown = f"{os.path.basename(files.folder)}/{files.name}"
        if error.errno in _NOT_OURS:
            reason = _LINK if error.errno == errno.ELOOP else _FOREIGN
            raise StorageError("lab_spool_foreign", file=shown, reason=reason) from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageError("disk_full", file=shown) from error
        raise StorageError("not_writable", file=shown, reason=as_reason(error)) from error
