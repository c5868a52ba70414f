"""Concurrent calls whose results are kept when another call fails."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from personalab.errors import Reason
from personalab.ports import AnswerNeeded
from personalab.tasks import discard_failure

T = TypeVar("T")


class NoMoreCalls(Exception):  # noqa: N818 (what was decided, not what failed)
    """No call may start: a stop was requested, or the budget is used up (``reason`` says how)."""

    def __init__(self, reason: Reason | None = None) -> None:
        super().__init__(reason)
        self.reason = reason


async def all_of(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Do several things at once; after a failure the others come to their end first, for what they do is paid.

    Only who is cancelled, or whose question is another's to answer, ends them at once.
    """
    some = list(work)
    if len(some) == 1:
        return [await some[0]]
    tasks = [asyncio.ensure_future(one) for one in some]
    try:
        failure = await _first_failure(tasks)
        if failure is not None and (isinstance(failure, AnswerNeeded) or not isinstance(failure, Exception)):
            await _cancelled(tasks)
        elif failure is not None:
            await asyncio.wait(tasks)
    except asyncio.CancelledError:
        await _cancelled(tasks)
        raise
    finally:
        for task in tasks:
            discard_failure(task)
    if failure is not None:
        raise failure
    return [task.result() for task in tasks]


async def _first_failure(tasks: list[asyncio.Task[T]]) -> BaseException | None:
    done = (await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION))[0] if tasks else set[Any]()
    failures = (task.exception() for task in tasks if task in done and not task.cancelled())
    return next((failure for failure in failures if failure is not None), None)


async def _cancelled(tasks: list[asyncio.Task[T]]) -> None:
    """Cancel what is not done, and wait for it however often we are cancelled ourselves."""
    for task in tasks:
        task.cancel()
    while not all(task.done() for task in tasks):
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait(tasks)


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Do several things at once; where no more calls may begin, those that have begun come to their end first."""

    async def held(one: Coroutine[Any, Any, T]) -> T | NoMoreCalls:
        try:
            return await one
        except NoMoreCalls as ending:
            return ending

    found: list[T] = []
    ending: NoMoreCalls | None = None
    for outcome in await all_of(held(one) for one in work):
        if isinstance(outcome, NoMoreCalls):
            ending = outcome
        else:
            found.append(outcome)
    if ending is not None:
        raise ending
    return found
