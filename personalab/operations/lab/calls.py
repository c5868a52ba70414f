"""How is a call made so that it is paid once, retried by cause, and never beyond the budget?

In this order: the executor keeps the answer in the spool by itself; the call is accounted for in ``calls.jsonl``; its
answer goes into the file of its case; the spool forgets it. Whoever dies between any two of these finds, the next
time, the answer where it was left, and goes on from there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from personalab.errors import ProviderError, UserError
from personalab.lab.calling import Call, CallAnswer
from personalab.lab.options import RunOptions
from personalab.lab.resuming import CallRow, Role, nth, row_of, standing, wait_before
from personalab.ports import Executor
from personalab.services import Services
from personalab.storage.lab.project_journal import CallJournal
from personalab.storage.lab.projects import ProjectPlace
from personalab.storage.leases import STOP_POLL_SECONDS, unbroken

T = TypeVar("T")
_HOPELESS = frozenset(
    [
        *("provider.cli_missing", "provider.cli_login", "provider.cli_usage"),
        *("provider.no_key", "provider.wrong_key", "provider.unknown", "provider.not_installed"),
        *("provider.no_model_file", "provider.bad_model_file"),
    ]
)
"""No other call would fare better: the run ends instead of failing case after case."""


class NoMoreCalls(Exception):  # noqa: N818 (what was decided, not what failed)
    """No call may begin: someone asked to stop, or the budget is used up (``reason`` says how)."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class Sheet(Protocol):
    """Where the calls of one case are noted."""

    lock: asyncio.Lock

    def rows(self, prefix: str) -> list[CallRow]:
        """List the attempts of what was asked."""
        ...

    def given_up(self, prefix: str) -> int:
        """Tell how many of the attempts belong to an earlier run that gave up."""
        ...

    def keep(self, row: CallRow) -> None:
        """Note a call on disk."""
        ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """Something to ask, however many attempts it takes."""

    prefix: str
    role: Role
    model: str
    question: Callable[[str, str | None], Call]
    """Words it: given the call's name, and what was wrong with the last answer if it could not be read."""
    read: Callable[[CallRow], object] = lambda row: row
    """Raises ``ValueError`` where an answer cannot be used."""
    place: dict[str, Any] = field(default_factory=dict[str, Any])
    """What else is noted of each call."""


class CallDesk:
    """Makes the calls of a run: so many at a time, within the budget, until someone asks to stop."""

    def __init__(
        self, services: Services, place: ProjectPlace, options: RunOptions, stop_asked: Callable[[], bool]
    ) -> None:
        self._services = services
        self._place = place
        self._options = options
        self._stop_asked = stop_asked
        self._slots = asyncio.Semaphore(options.concurrency)
        self._executors: dict[str, Executor] = {}
        self._stop = asyncio.Event()
        self._under_way = 0
        self._spooled: frozenset[str] = frozenset()
        self._journal: CallJournal | None = None
        self.budget = ""
        """Why the budget allows no more calls; empty as long as it does."""

    @property
    def stopped(self) -> bool:
        """Whether someone asked to stop."""
        return self._stop.is_set()

    @property
    def journal(self) -> CallJournal:
        """The account of all calls; the first time reads it, which may block."""
        if self._journal is None:
            place = self._place
            self._journal = CallJournal(place.journal, place.shown(place.journal), sync=place.sync)
        return self._journal

    @property
    def spent(self) -> float | None:
        """What all calls cost so far; ``None`` where nobody said."""
        return self._journal.account.spent if self._journal else None

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Open the account and look whether someone asks to stop, for as long as calls are made."""
        await asyncio.to_thread(self._open)
        watch = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch
            self.journal.close()

    def _open(self) -> None:
        self._place.make_folder(self._place.spool)
        self.journal.open()
        self._spooled = frozenset(name.split(".")[0] for name in os.listdir(self._place.spool))
        if self._stop_asked():
            self._stop.set()

    async def _watch(self) -> None:
        while not self._stop.is_set():
            await asyncio.sleep(STOP_POLL_SECONDS)
            if await asyncio.to_thread(self._stop_asked):
                self._stop.set()

    # --- one question

    async def pursue(self, wanted: Wanted, sheet: Sheet) -> CallRow:
        """Ask until there is an answer or no attempt is left; give the last call.

        ``NoMoreCalls`` where another one would be needed and none may begin.
        """
        while True:
            rows = sheet.rows(wanted.prefix)
            for row in rows:
                if row.status == "ok":
                    return row
            counted = rows[sheet.given_up(wanted.prefix) :]
            if standing(counted, self._options.retry_count) == "failed":
                return counted[-1]
            options = self._options
            await self._pause(wait_before(counted, options.backoff_seconds, options.backoff_limit))
            await self._ask(wanted, sheet, nth(wanted.prefix, len(rows) + 1), counted)

    async def _pause(self, seconds: float) -> None:
        if seconds > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), seconds)

    async def _ask(self, wanted: Wanted, sheet: Sheet, call_id: str, before: list[CallRow]) -> None:
        wrong = next((row.error for row in reversed(before) if row.status == "unreadable"), None)
        executor = await self._executor(wanted.model)
        async with self._slots:
            self._allow(call_id)
            self._under_way += 1
            try:
                answer = await self._answer(executor, wanted, call_id, wrong)
            except BaseException:
                self._under_way -= 1
                raise
        try:
            if answer.error_code in _HOPELESS:
                await unbroken(executor.forget, self._place.spool, call_id)
                raise _same_failure(answer)
            row = self._noted(wanted, call_id, answer)
            async with sheet.lock:
                await unbroken(self._keep, sheet, row, executor)
        finally:
            self._under_way -= 1

    async def _answer(
        self, executor: Executor, wanted: Wanted, call_id: str, wrong: str | None
    ) -> CallAnswer:
        try:
            call = wanted.question(call_id, wrong)
        except UserError as error:  # a blank input: nobody can be asked
            return CallAnswer("failed", error=str(error), error_code=error.code, executor=executor.name)
        return await executor.run(call, self._place.spool)

    def _noted(self, wanted: Wanted, call_id: str, answer: CallAnswer) -> CallRow:
        row = row_of(
            answer,
            call_id=call_id,
            role=wanted.role,
            at=self._services.now(),
            model=wanted.model,
            **wanted.place,
        )
        if row.status == "ok":
            try:
                wanted.read(row)
            except ValueError as error:
                return row.model_copy(update={"status": "unreadable", "error": str(error)[:300]})
        return row

    def _keep(self, sheet: Sheet, row: CallRow, executor: Executor) -> None:
        self.journal.append(row.accounting())
        sheet.keep(row)
        executor.forget(self._place.spool, row.call_id)

    async def _executor(self, model: str) -> Executor:
        if model not in self._executors:
            self._executors[model] = await self._services.executor(model)
        return self._executors[model]

    # --- what an earlier run left

    async def forget(self, rows: Iterable[CallRow]) -> None:
        """Remove from the spool what is noted on disk: whoever noted it died before it could."""
        for row in rows:
            if row.call_id in self._spooled:
                executor = await self._executor(row.model)
                await unbroken(executor.forget, self._place.spool, row.call_id)

    # --- whether a call may begin

    def _allow(self, call_id: str) -> None:
        """Refuse a call that would go beyond the budget; one that an earlier run began is paid already."""
        if self.stopped:
            raise NoMoreCalls
        if call_id in self._spooled:
            return
        options, account = self._options, self.journal.account
        if options.max_calls is not None and account.calls + self._under_way >= options.max_calls:
            self.budget = f"all {options.max_calls} calls are made"
        if options.max_usd is not None:
            promised = self._under_way * (account.mean_cost or 0.0)
            if (account.spent or 0.0) + promised >= options.max_usd:
                self.budget = f"{options.max_usd:g} USD are spent"
        if self.budget:
            raise NoMoreCalls(self.budget)


def _same_failure(answer: CallAnswer) -> ProviderError:
    return ProviderError("lab_run_hopeless", reason=answer.error or answer.error_code or "?")


async def all_of(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Do several things at once; the first failure ends the others and is raised as it is."""
    tasks: list[asyncio.Task[T]] = []
    try:
        async with asyncio.TaskGroup() as group:
            tasks += [group.create_task(one) for one in work]
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None
    return [task.result() for task in tasks]


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
