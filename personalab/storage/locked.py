"""An exclusive lock across processes for a file that all of them rewrite."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path
from types import TracebackType

from personalab.data_files import lock_fd, open_regular
from personalab.errors import Busy
from personalab.storage.files import writing

WAIT_SECONDS = 10.0


class locked_file:  # noqa: N801 (used like a function, in a with statement)
    """Hold an exclusive lock on a file beside the data while the block runs; waits for it, but not for ever."""

    def __init__(self, path: Path, shown: str) -> None:
        self._path = path
        self._shown = shown
        self._fd = -1

    def __enter__(self) -> None:
        try:
            with writing(self._shown):
                self._fd = open_regular(self._path, os.O_RDWR | os.O_CREAT)
                self._wait_for_it()
        except BaseException:
            self._release()
            raise

    def _wait_for_it(self) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            if lock_fd(self._fd, self._path):
                return
            if time.monotonic() >= deadline:
                raise Busy("file_busy", file=self._shown, seconds=f"{WAIT_SECONDS:g}")
            time.sleep(0.01)

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
