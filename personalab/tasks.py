"""Background tasks that are kept until they end, ended together, and whose exceptions are always read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


def discard_failure(task: asyncio.Future[Any]) -> None:
    """Ignore the exception of a task that may have no waiter any more; waiters still get it."""
    task.add_done_callback(_read)


def _read(task: asyncio.Future[Any]) -> None:
    """Read a task's exception: asyncio reports one that was never read when the task is deleted."""
    if not task.cancelled():
        task.exception()


async def run_uncancellable(work: Callable[..., T], *arguments: Any) -> T:
    """Run work in a thread and wait for its end, even when cancelled: nobody gets its lock before that."""
    run = partial(copy_context().run, work, *arguments)
    return await complete(asyncio.get_running_loop().run_in_executor(None, run))


async def complete(work: Awaitable[T]) -> T:
    """Wait for the end of work, even when cancelled; the cancellation is raised afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        task.exception()
        raise cancelled
    return task.result()


async def end_tasks(tasks: Iterable[asyncio.Task[Any]], seconds: float | None = None) -> None:
    """Cancel tasks and wait for their cleanup, at most for so many seconds; how they end is ignored."""
    running: list[asyncio.Task[Any]] = []
    for task in tasks:
        if task.done():
            _read(task)
        else:
            task.cancel()
            discard_failure(task)
            running.append(task)
    if running:
        await asyncio.wait(running, timeout=seconds)


class BackgroundTasks(set[asyncio.Task[None]]):
    """Tasks that run on their own; a failure of one is logged."""

    def __init__(self, log: logging.Logger) -> None:
        super().__init__()
        self._log = log

    def keep(self, task: asyncio.Task[None]) -> asyncio.Task[None]:
        """Keep a task until it ends: the event loop alone would not."""
        self.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("a background task failed", exc_info=error)
