"""Where does a call's answer stand until its asker has kept it?

Each call has files of its own in a spool folder: ``.in`` and ``.system`` are what it was asked, ``.out`` and ``.err``
what a program said, ``.done`` an answer that no program has written down. They survive the death of our process, not
that of the machine.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from personalab.errors import BadRecord, StorageError
from personalab.lab.calling import CallAnswer

MAX_KEPT_BYTES = 128 * 1024 * 1024
_MODE = 0o600
_PARTS = ("in", "system", "out", "err", "done")


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
        """Open one of the files, made where it is missing."""
        return self._open(self.path(part), flags)

    def _open(self, path: str, flags: int) -> int:
        flags |= os.O_CREAT | os.O_CLOEXEC
        try:
            return os.open(path, flags, _MODE)
        except FileNotFoundError:
            Path(self.folder).mkdir(parents=True, exist_ok=True)
            return os.open(path, flags, _MODE)

    def write(self, part: str, content: bytes) -> None:
        """Write one of the files."""
        fd = self.open(part, os.O_WRONLY | os.O_TRUNC)
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
            fd = os.open(self.path(part), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return b""
        try:
            at, length = span(os.fstat(fd).st_size)
            return os.pread(fd, length, at)
        finally:
            os.close(fd)

    def size(self, part: str) -> int:
        """Tell how large one of the files is; nothing, where nobody can say."""
        try:
            return os.stat(self.path(part)).st_size
        except OSError:
            return 0

    def remove(self) -> None:
        """Remove all of them."""
        for part in _PARTS:
            try:  # noqa: SIM105 (each case of a large project comes here)
                os.unlink(self.path(part))
            except FileNotFoundError:
                pass

    def is_kept(self) -> bool:
        """Tell whether an answer was kept."""
        return os.path.exists(self.path("done"))

    def kept(self) -> CallAnswer | None:
        """Read the answer that was kept; what cannot be read is none."""
        if not self.is_kept():
            return None
        raw = self.read("done", MAX_KEPT_BYTES) or b""
        try:
            return CallAnswer.read(json.loads(raw))
        except (ValueError, RecursionError, BadRecord):
            return None

    def keep(self, answer: CallAnswer) -> None:
        """Keep the answer, whole or not at all."""
        content = json.dumps(answer.fields()).encode("ascii")
        # One process works on a call: a name that an earlier one left behind is simply used again.
        fresh = os.path.join(self.folder, f".{self.name}.done.tmp")
        fd = self._open(fresh, os.O_WRONLY | os.O_TRUNC)
        try:
            write_all(fd, content)
        finally:
            os.close(fd)
        os.replace(fresh, self.path("done"))


def write_all(fd: int, content: bytes) -> None:
    """Write all of it, in as many goes as it takes."""
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]


def forget_call(spool: Path, call_id: str) -> None:
    """Remove a call's files: its asker has kept the answer, or wants it asked anew."""
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
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageError("disk_full", file=shown) from error
        raise StorageError("not_writable", file=shown, reason=error.strerror or str(error)) from error
