"""The lock of an archive across processes: many readers or one writer."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from types import TracebackType

from personalab.data_files import lock_fd, open_regular, writing
from personalab.errors import Busy

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
        """Release the lock explicitly; a process forked meanwhile has the same file open, so closing is not enough."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()
