"""Concurrent calls of a run that are paid once, retried by cause of failure, and kept within the budget."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from personalab.errors import Invalid, Reason, UserError
from personalab.lab.calling import Call, CallAnswer, exceeds, plain_params, repeats_note
from personalab.lab.case_calls import (
    HOPELESS,
    CallRow,
    Role,
    nth,
    role_of,
    row_of,
    standing,
    unreadable,
    wait_before,
)
from personalab.lab.options import RunOptions
from personalab.leases import STOP_POLL_SECONDS
from personalab.operations.lab.questions import FailedCallError, export_prompt, version_of
from personalab.ports import AnswerNeeded, Executor
from personalab.providers.call_spool import HALF_KEPT
from personalab.services import Services
from personalab.storage.lab.project_journal import CallJournal
from personalab.storage.lab.projects import ProjectPlace
from personalab.tasks import discard_failure, end_tasks, run_uncancellable

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


_PRICE_UNKNOWN = Reason("price_unknown")
_TINY = 1e-9
"""Amounts of money are added up with an error that is smaller."""


class CallSheet(Protocol):
    """Where the calls of one case are noted."""

    lock: asyncio.Lock

    def rows(self, prefix: str) -> list[CallRow]:
        """List the attempts at a question."""
        ...

    def given_up(self, prefix: str) -> int:
        """Return how many of the attempts belong to an earlier run that failed for good."""
        ...

    def keep(self, row: CallRow) -> None:
        """Note a call on disk."""
        ...


Question = Callable[[str, str | None, int | None], Call]
"""Words a call, given its name, what was wrong with the last answer if it could not be read, and the most tokens it
may have; ``None`` for all of it."""


@dataclass(frozen=True, slots=True)
class CallRequest:
    """Something to ask, however many attempts it takes."""

    prefix: str
    role: Role
    model: str
    question: Question
    """Words it."""
    read: Callable[[CallRow], object] = lambda row: row
    """Raises ``ValueError`` where an answer cannot be used."""
    place: dict[str, Any] = field(default_factory=dict[str, Any])
    """What else is noted of each call."""


class CallRunner:
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
        self.budget: Reason | None = None
        """Why the budget allows no more calls."""

    @property
    def stopped(self) -> bool:
        """Whether a stop was requested."""
        return self._stopped

    @property
    def ending(self) -> bool:
        """Whether no more calls may start: a stop was requested, or something failed for good."""
        return self._ending.is_set()

    def halt(self) -> None:
        """Stop starting calls; those in progress are finished and kept."""
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
        """The cost of all calls so far; ``None`` if it was not reported."""
        return self._journal.account.spent if self._journal else None

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Open the account and look whether someone asks to stop, for as long as calls are made."""
        await asyncio.to_thread(self._open)
        watch = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            await end_tasks([watch])
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

    async def get_answer(self, wanted: CallRequest, sheet: CallSheet) -> CallRow:
        """Ask until there is an answer or no attempt is left; give the last call.

        ``NoMoreCalls`` where another one would be needed and none may begin. After any other failure none begins.
        """
        try:
            return await self._get_answer(wanted, sheet)
        except NoMoreCalls:
            raise
        except BaseException:
            self.halt()
            raise

    async def _get_answer(self, wanted: CallRequest, sheet: CallSheet) -> CallRow:
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

    async def _ask(self, wanted: CallRequest, sheet: CallSheet, call_id: str, before: list[CallRow]) -> None:
        unread = _last_unreadable(before)
        wrong = unread.error if unread else None
        executor = await self._executor(wanted.model)
        async with self._slots:
            await self._begin(wanted.role, call_id)
            try:
                answer, sent = await self._answer(executor, wanted, call_id, wrong)
            except BaseException:
                self._end(call_id)
                raise
            if answer.error_code in HOPELESS:  # at once: the next call to get the slot would fail, too
                self.halt()
        try:
            row = self._noted(wanted, call_id, answer, before, sent)
            await self._note(row, sheet, answer, executor)
        finally:
            self._end(call_id)

    async def _note(self, row: CallRow, sheet: CallSheet, answer: CallAnswer, executor: Executor) -> None:
        hopeless = answer.error_code in HOPELESS
        if hopeless and not answer.cost_usd:
            await run_uncancellable(executor.forget, self._place.spool, row.call_id)
        else:
            async with sheet.lock:
                await run_uncancellable(self._keep, sheet, row, executor)
        if hopeless:
            raise FailedCallError("lab_run_hopeless", answer)

    async def _answer(
        self, executor: Executor, wanted: CallRequest, call_id: str, wrong: str | None
    ) -> tuple[CallAnswer, dict[str, Any]]:
        """Make a call; also tell how its prompt was fitted into the project's context, for the account."""
        try:
            call, sent = await self._fitted(wanted, call_id, wrong)
        except UserError as error:  # a blank input: no model can be asked
            params = plain_params(error.params)
            failed = CallAnswer(
                "failed",
                error=str(error),
                error_code=error.code,
                error_params=params,
                executor=executor.name,
                cli_version=await version_of(executor),
            )
            return failed, {}
        return await executor.run(call, self._place.spool), sent

    async def _fitted(
        self, wanted: CallRequest, call_id: str, wrong: str | None
    ) -> tuple[Call, dict[str, Any]]:
        """Word a call; one that is too long for the project is exported whole and sent shortened, as it says."""
        context, sent = self._place.config.context_config, dict[str, Any]()
        call = wanted.question(call_id, wrong, None)
        if not exceeds(context.token_threshold, call.system, call.text):
            return call, sent
        if context.auto_compress:
            short = wanted.question(call_id, wrong, context.token_threshold)
            sent["compressed"] = True
        else:
            short = call
        if context.auto_export:
            sent["context_export"] = await run_uncancellable(
                export_prompt, self._place, call_id, call.system, call.text
            )
        return short, sent

    def _noted(
        self,
        wanted: CallRequest,
        call_id: str,
        answer: CallAnswer,
        before: list[CallRow],
        sent: dict[str, Any],
    ) -> CallRow:
        row = row_of(
            answer,
            call_id=call_id,
            role=wanted.role,
            at=self._services.now(),
            model=wanted.model,
            **wanted.place,
            **sent,
        )
        if row.status == "ok":
            try:
                _check_corrected(wanted, call_id, wanted.read(row), before)
            except ValueError as error:
                return unreadable(row, error)
        return row

    def _keep(self, sheet: CallSheet, row: CallRow, executor: Executor) -> None:
        self.journal.append(row.accounting())
        sheet.keep(row)
        executor.forget(self._place.spool, row.call_id)

    async def _executor(self, model: str) -> Executor:
        if model not in self._executors:
            self._executors[model] = await self._services.executor(model)
        return self._executors[model]

    # --- what an earlier run left

    async def forget(self, rows: Iterable[CallRow]) -> None:
        """Remove from the spool what is on disk already: its writer died before it could."""
        for row in rows:
            if row.call_id in self._spooled:
                executor = await self._executor(row.model)
                await run_uncancellable(executor.forget, self._place.spool, row.call_id)

    # --- whether a call may begin

    async def _begin(self, role: Role, call_id: str) -> None:
        """Start a call once it is sure to keep to the budget; one that an earlier run started is already paid for."""
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
        """Return whether a call may start at once; if not, one in progress will show its cost first."""
        if self.ending:
            raise NoMoreCalls
        if call_id in self._spooled:
            return True
        options = self._options
        if options.max_calls is not None and self._begun >= options.max_calls:
            self.budget = self.budget or Reason("calls_used_up", limit=options.max_calls)
        if self.budget:
            raise NoMoreCalls(self.budget)
        return options.max_usd is None or self._is_affordable(role, options.max_usd)

    def _is_affordable(self, role: Role, limit: float) -> bool:
        """Return whether the budget covers a call if it and all in progress cost as much as the dearest of their kind.

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
        self.budget = Reason("money_used_up", limit=f"{limit:g}")
        raise NoMoreCalls(self.budget)

    def _price(self, role: Role | None) -> float:
        """Return a call's assumed cost: that of the dearest of its kind, or of all while there is none."""
        account = self.journal.account
        price = account.dearest(role) if role else None
        return account.dearest_of_all if price is None else price


def _last_unreadable(rows: list[CallRow]) -> CallRow | None:
    return next((row for row in reversed(rows) if row.status == "unreadable"), None)


def _check_corrected(wanted: CallRequest, call_id: str, found: object, before: list[CallRow]) -> None:
    """Raise ``ValueError`` where a corrected answer repeats what we said was wrong with the one before it."""
    unread = _last_unreadable(before)
    if unread is None or unread.error is None:
        return
    first, again = wanted.question(call_id, None, None), wanted.question(call_id, unread.error, None)
    note = again.text.removeprefix(first.text)
    if repeats_note(found, note, (first.system, first.text, unread.text)):
        raise Invalid("repeats_note")


def spooled_calls(spool: Path) -> frozenset[str]:
    """Name the calls that have files in a spool; what a full disk left half written is removed."""
    found: set[str] = set()
    for name in os.listdir(spool):
        if not name.startswith("."):
            found.add(name.partition(".")[0])
        elif name.endswith(HALF_KEPT):
            with contextlib.suppress(OSError):
                (spool / name).unlink()
    return frozenset(found)
