"""How do processes take turns at a file they all rewrite?"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType

from personalab.storage.files import writing


class locked_file:  # noqa: N801 (used like a function, in a with statement)
    """Hold an exclusive (or shared) lock on a file beside the data while the block runs; waits for it."""

    def __init__(self, path: Path, shown: str, *, shared: bool = False) -> None:
        self._path = path
        self._shown = shown
        self._kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        self._fd = -1

    def __enter__(self) -> None:
        with writing(self._shown):
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._fd, self._kind)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)
