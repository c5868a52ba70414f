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
from pathlib import Path
from typing import Any, Protocol, TypeVar

from personalab.errors import UserError
from personalab.lab.calling import Call, CallAnswer, plain_params
from personalab.lab.options import RunOptions
from personalab.lab.resuming import HOPELESS, CallRow, Role, nth, role_of, row_of, standing, wait_before
from personalab.operations.lab.call_failures import FailedCallError
from personalab.ports import AnswerNeeded, Executor
from personalab.services import Services
from personalab.storage.lab.project_journal import CallJournal
from personalab.storage.lab.projects import ProjectPlace
from personalab.storage.leases import STOP_POLL_SECONDS, unbroken

T = TypeVar("T")
_PRICE_UNKNOWN = "the price of a call is unknown, so max_usd cannot be kept; use max_calls"
_TINY = 1e-9
"""Amounts of money are added up with an error that is smaller."""


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
        self._ending = asyncio.Event()
        self._stopped = False
        self._freed = asyncio.Event()
        self._begun = 0
        self._under_way: dict[str, Role] = {}
        self._spooled: frozenset[str] = frozenset()
        self._unclaimed: dict[str, Role | None] = {}
        self._journal: CallJournal | None = None
        self.budget = ""
        """Why the budget allows no more calls; empty as long as it does."""

    @property
    def stopped(self) -> bool:
        """Whether someone asked to stop."""
        return self._stopped

    @property
    def ending(self) -> bool:
        """Whether no call may begin any more: someone asked to stop, or something failed for good."""
        return self._ending.is_set()

    def halt(self) -> None:
        """Let no call begin any more; those under way come to their end and are kept."""
        self._ending.set()

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
        self._spooled = spooled_calls(self._place.spool)
        known = self.journal.account.call_ids
        self._unclaimed = {name: role_of(name) for name in self._spooled if name not in known}
        self._begun = len(known) + len(self._unclaimed)
        if self._stop_asked():
            self._stop()

    def _stop(self) -> None:
        self._stopped = True
        self.halt()

    async def _watch(self) -> None:
        while not self.ending:
            await asyncio.sleep(STOP_POLL_SECONDS)
            if await asyncio.to_thread(self._stop_asked):
                self._stop()

    # --- one question

    async def pursue(self, wanted: Wanted, sheet: Sheet) -> CallRow:
        """Ask until there is an answer or no attempt is left; give the last call.

        ``NoMoreCalls`` where another one would be needed and none may begin. After any other failure none begins.
        """
        try:
            return await self._pursue(wanted, sheet)
        except NoMoreCalls:
            raise
        except BaseException:
            self.halt()
            raise

    async def _pursue(self, wanted: Wanted, sheet: Sheet) -> CallRow:
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
                await asyncio.wait_for(self._ending.wait(), seconds)

    async def _ask(self, wanted: Wanted, sheet: Sheet, call_id: str, before: list[CallRow]) -> None:
        wrong = next((row.error for row in reversed(before) if row.status == "unreadable"), None)
        executor = await self._executor(wanted.model)
        async with self._slots:
            await self._begin(wanted.role, call_id)
            try:
                answer = await self._answer(executor, wanted, call_id, wrong)
            except BaseException:
                self._end(call_id)
                raise
            if answer.error_code in HOPELESS:  # at once: whoever gets the slot would fail, too
                self.halt()
        try:
            await self._note(wanted, sheet, call_id, answer, executor)
        finally:
            self._end(call_id)

    async def _note(
        self, wanted: Wanted, sheet: Sheet, call_id: str, answer: CallAnswer, executor: Executor
    ) -> None:
        hopeless = answer.error_code in HOPELESS
        if hopeless and not answer.cost_usd:
            await unbroken(executor.forget, self._place.spool, call_id)
        else:
            row = self._noted(wanted, call_id, answer)
            async with sheet.lock:
                await unbroken(self._keep, sheet, row, executor)
        if hopeless:
            raise FailedCallError("lab_run_hopeless", answer)

    async def _answer(
        self, executor: Executor, wanted: Wanted, call_id: str, wrong: str | None
    ) -> CallAnswer:
        try:
            call = wanted.question(call_id, wrong)
        except UserError as error:  # a blank input: nobody can be asked
            params = plain_params(error.params)
            return CallAnswer(
                "failed", error=str(error), error_code=error.code, error_params=params, executor=executor.name
            )
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

    async def _begin(self, role: Role, call_id: str) -> None:
        """Begin a call, as soon as it is sure to keep to the budget; one that an earlier run began is paid already."""
        while not self._may_begin(role, call_id):
            await self._freed.wait()
        if call_id not in self._spooled:
            self._begun += 1
        self._unclaimed.pop(call_id, None)
        self._under_way[call_id] = role

    def _end(self, call_id: str) -> None:
        self._under_way.pop(call_id, None)
        self._freed.set()
        self._freed = asyncio.Event()

    def _may_begin(self, role: Role, call_id: str) -> bool:
        """Tell whether a call may begin at once; if not, one that is under way will tell what it cost."""
        if self.ending:
            raise NoMoreCalls
        if call_id in self._spooled:
            return True
        options = self._options
        if options.max_calls is not None and self._begun >= options.max_calls:
            self.budget = self.budget or f"all {options.max_calls} calls are made"
        if self.budget:
            raise NoMoreCalls(self.budget)
        return options.max_usd is None or self._is_affordable(role, options.max_usd)

    def _is_affordable(self, role: Role, limit: float) -> bool:
        """Tell whether a call is paid for even if it and all under way are as dear as the dearest of their kind.

        As long as no price of a kind is known, one of it is under way at a time.
        """
        account = self.journal.account
        paying: dict[str, Role] = {
            name: one for name, one in self._under_way.items() if name not in account.call_ids
        }
        if account.unpriced:
            self.budget = _PRICE_UNKNOWN
            raise NoMoreCalls(self.budget)
        price = account.dearest(role)
        if price is None and role in paying.values():
            return False
        promised = sum(map(self._price, paying.values())) + sum(map(self._price, self._unclaimed.values()))
        left = limit - (account.spent or 0.0) - promised
        if self._price(role) <= left + _TINY and (price is not None or left > 0):
            return True
        if paying:
            return False
        self.budget = f"{limit:g} USD are spent"
        raise NoMoreCalls(self.budget)

    def _price(self, role: Role | None) -> float:
        """Tell what a call may cost: as much as the dearest of its kind, or of all where there is none yet."""
        account = self.journal.account
        price = account.dearest(role) if role else None
        return account.dearest_of_all if price is None else price


def spooled_calls(spool: Path) -> frozenset[str]:
    """Name the calls that have files in a spool; what a full disk left half written is removed."""
    found: set[str] = set()
    for name in os.listdir(spool):
        if name.startswith("."):
            with contextlib.suppress(OSError):
                (spool / name).unlink()
        else:
            found.add(name.partition(".")[0])
    return frozenset(found)


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
    for task in tasks:
        if not task.cancelled():
            task.exception()  # looked at, so that nobody complains that it was not


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
