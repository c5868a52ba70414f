"""Opening of models and of the files that a model's name refers to; whatever hangs blocks only its own model.

Each model that is being opened has a thread of its own, up to a small limit. They are daemon threads, so that
a stuck one does not prevent the process from ending. Only regular files are opened, without blocking.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

from personalab.errors import Because, ProviderError, Reason, as_reason

MAX_SCRIPT_BYTES = 16 * 1024 * 1024


class NotAModelFile(Exception):  # noqa: N818 (what is wrong, for the caller to word)
    """A file cannot be used."""

    def __init__(self, reason: Because) -> None:
        super().__init__(reason)
        self.reason = reason


def check_regular(path: Path) -> None:
    """Refuse what is no regular file, or may not be read."""
    os.close(_opened(path))


def read_script(path: Path) -> bytes:
    """Read a script of at most ``MAX_SCRIPT_BYTES``."""
    with open(_opened(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_SCRIPT_BYTES:
            raise NotAModelFile(Reason("too_many_bytes", count=size, limit=MAX_SCRIPT_BYTES))
        content = file.read(MAX_SCRIPT_BYTES + 1)
    if len(content) > MAX_SCRIPT_BYTES:
        raise NotAModelFile(Reason("too_many_bytes", count=len(content), limit=MAX_SCRIPT_BYTES))
    return content


def _opened(path: Path) -> int:
    """Open a file to read. It is looked at first: merely opening some devices does something."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise NotAModelFile(Reason("not_plain_file"))
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        raise NotAModelFile(as_reason(error)) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotAModelFile(Reason("not_plain_file"))
    return fd


T = TypeVar("T")
MAX_OPENING = 4
OPEN_SECONDS = 60.0


class ModelOpener:
    """Runs what opens models, one at a time for each name and a few names at a time."""

    def __init__(self, *, at_once: int = MAX_OPENING, seconds: float = OPEN_SECONDS) -> None:
        self._at_once = at_once
        self._seconds = seconds
        self._guard = threading.Lock()
        self._opening: dict[str, concurrent.futures.Future[object]] = {}

    async def run(self, name: str, work: Callable[[], T], *, seconds: float | None = None) -> T:
        """Do the work in a thread; who asks for the same name meanwhile gets the same result.

        After the time limit it is a ``ProviderError`` that may be retried: a retry waits for the same work.
        """
        limit = self._seconds if seconds is None else seconds
        future = self._begun(name, work)
        # Shielded: a caller that is cancelled does not cancel it for the others.
        waiting = asyncio.shield(asyncio.wrap_future(future))
        try:
            return cast("T", await asyncio.wait_for(waiting, limit))
        except TimeoutError as error:
            if future.done():  # the work itself said so
                raise
            raise ProviderError(
                "provider.open_timeout", retryable=True, model=name[:80], seconds=f"{limit:g}"
            ) from error

    def _begun(self, name: str, work: Callable[[], T]) -> concurrent.futures.Future[object]:
        with self._guard:
            if name in self._opening:
                return self._opening[name]
            if len(self._opening) >= self._at_once:
                raise ProviderError(
                    "provider.open_busy", retryable=True, model=name[:80], count=self._at_once
                )
            future: concurrent.futures.Future[object] = concurrent.futures.Future()
            self._opening[name] = future
        threading.Thread(
            target=self._do, args=(name, work, future), name="personalab-open-model", daemon=True
        ).start()
        return future

    def _do(self, name: str, work: Callable[[], object], future: concurrent.futures.Future[object]) -> None:
        future.set_running_or_notify_cancel()
        try:
            made = work()
        except BaseException as error:  # noqa: BLE001 (it is the asker's, whatever it is)
            self._end(name)
            future.set_exception(error)
        else:
            self._end(name)
            future.set_result(made)

    def _end(self, name: str) -> None:
        with self._guard:
            self._opening.pop(name, None)
