"""Execution of skills on cases and judging of the answers, without repeating completed or orphaned work."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from personalab.errors import Reason
from personalab.lab.calling import Call, CallAnswer, room_beside, shorten_parts
from personalab.lab.case_calls import (
    CallRow,
    answer_of,
    execute_calls,
    failed_result,
    judge_calls,
    judged_result,
    judgement_of,
    left_out,
    row_of,
    short_hash,
    unreadable,
)
from personalab.lab.judging import asked_again, judge_call
from personalab.lab.options import RunOptions
from personalab.lab.projects import Result
from personalab.operations.lab.calls import (
    CallRequest,
    CallRunner,
    NoMoreCalls,
    Question,
    all_of,
    spooled_calls,
    together,
)
from personalab.operations.lab.questions import room_for_judging
from personalab.operations.lab.tasks import (
    CaseSheet,
    Pending,
    Review,
    Tally,
    Task,
    language_of,
    open_sheet,
    review,
)
from personalab.providers.call_spool import forget_call
from personalab.providers.claude_cli import answer_left, is_running
from personalab.services import Services
from personalab.storage.lab.project_journal import CallJournal
from personalab.storage.lab.projects import ProjectPlace
from personalab.tasks import run_uncancellable
from personalab.texts import PromptLanguage

_EXECUTION = re.compile(r"x-(?P<case>.+)-r(?P<repeat>\d+)-a\d+")
_JUDGEMENT = re.compile(r"j-(?P<case>.+)-r(?P<repeat>\d+)-a\d+-(?P<judge>[0-9a-f]{8})-k(?P<number>\d+)-a\d+")
_CONTROL = re.compile(r"c-.+-a\d+")


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Clears a project's spool of leftover calls; the caller holds the project's lease."""

    place: ProjectPlace
    journal: CallJournal
    options: RunOptions
    now: str

    def settle(self, tasks: Iterable[Task]) -> None:
        """Account for what is left of the calls of tasks that are through, and of controls.

        What belongs to other tasks stays: a search that was interrupted asks for it when it goes on.
        """
        left = spooled_calls(self.place.spool)
        if not left:
            return
        known = {f"{task.folder}-{task.file}": task for task in tasks}
        for call_id in sorted(left):
            found = _EXECUTION.fullmatch(call_id) or _JUDGEMENT.fullmatch(call_id)
            task = known.get(found["case"]) if found else None
            if found is not None and task is not None and self._is_ours(task, int(found["repeat"])):
                self._settle(call_id, task, found)
            elif _CONTROL.fullmatch(call_id):
                self._settle(call_id, None, None)

    def _is_ours(self, task: Task, repeat: int) -> bool:
        return task.repeat <= repeat < task.repeat + self.options.repeats

    def _settle(self, call_id: str, task: Task | None, found: re.Match[str] | None) -> None:
        spool = self.place.spool
        if is_running(spool, call_id):
            return
        answer = answer_left(spool, call_id)
        if answer is not None:
            row = self._row(call_id, answer, found)
            self.journal.append(row.accounting())
            if task is not None:
                self._keep(task, row)
        forget_call(spool, call_id)

    def _row(self, call_id: str, answer: CallAnswer, found: re.Match[str] | None) -> CallRow:
        at = self.now
        if found is None:
            return row_of(answer, call_id=call_id, role="control", at=at, model=answer.model_version)
        place: dict[str, Any] = {"repeat": int(found["repeat"])}
        if found.re is _EXECUTION:
            return row_of(answer, call_id=call_id, role="execute", at=at, model=self.options.model, **place)
        judges = [judge for judge in self.options.judging() if short_hash(judge) == found["judge"]]
        judge = judges[0] if judges else answer.model_version
        place |= {"judge": judge, "number": int(found["number"])}
        row = row_of(answer, call_id=call_id, role="judge", at=at, model=judge, **place)
        return _readable(row)

    def _keep(self, task: Task, row: CallRow) -> None:
        """Write a call to the file of its case, unless that is completed: existing judgements stay as they are."""
        if self.place.is_completed(str(task.result_path)):
            return
        sheet = open_sheet(self.place, Pending(task, earlier=False, begun=task.calls_path.exists()))
        if not any(one.call_id == row.call_id for one in sheet.calls.calls):
            sheet.keep(row)


def _readable(row: CallRow) -> CallRow:
    if row.status == "ok":
        try:
            judgement_of(row)
        except ValueError as error:
            return unreadable(row, error)
    return row


Stage = Literal["controls", "execute", "judge"]
Tell = Callable[[dict[str, Any]], None]
Checkpoint = Callable[[int, int], None]
"""Saves how many tasks are completed and how many failed; may block."""
Step = Callable[[Task, CaseSheet], Awaitable[bool]]
"""Does a stage's part of a task; tells whether the task is through with that."""
_WORKERS = 2
"""Workers per concurrent call: while one records an answer, another makes the next call."""
_TELL_SECONDS = 0.1
_CHECKPOINT_SECONDS = 1.0


class Evaluator:
    """Executes and judges tasks of one project; its user holds the project's lease."""

    def __init__(
        self,
        services: Services,
        place: ProjectPlace,
        options: RunOptions,
        tell: Tell,
        *,
        stop_asked: Callable[[], bool] = lambda: False,
        again: bool = False,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self._services = services
        self._place = place
        self._options = options
        self._tell = tell
        self._again = again
        self._checkpoint = checkpoint
        self.runner = CallRunner(services, place, options, stop_asked)
        self._language: PromptLanguage | None = options.language
        self._told_at = self._saved_at = 0.0
        self._left: list[tuple[Task, CaseSheet]] = []
        self._tally = Tally(0)
        self._reviewed: tuple[Sequence[Task], Review] | None = None

    @property
    def stopped(self) -> bool:
        """Whether it ended because of a stop request."""
        return self.runner.stopped

    @property
    def budget(self) -> Reason | None:
        """Why the budget allowed no more calls."""
        return self.runner.budget

    async def language(self) -> PromptLanguage:
        """Return the language in which the judges are asked."""
        if self._language is None:
            baselines = await asyncio.to_thread(self._place.baselines)
            self._language = language_of(self._options, baselines)
        return self._language

    async def execute(self, tasks: Sequence[Task]) -> Tally:
        """Execute every task that has no answer yet."""
        await self.language()
        return await self._run("execute", tasks, self._execute)

    async def judge(self, tasks: Sequence[Task]) -> Tally:
        """Judge every answer that is not judged yet, and write its result."""
        await self.language()
        return await self._run("judge", tasks, self._judge)

    async def results(self, tasks: Sequence[Task]) -> list[Result | None]:
        """Read the results, in the order of the tasks."""
        return await asyncio.to_thread(lambda: [self._place.result(task.result_path) for task in tasks])

    # --- many tasks

    async def _run(self, stage: Stage, tasks: Sequence[Task], one: Step) -> Tally:
        found = await self.review(tasks)
        self._tally, self._left = found.tally, []
        await asyncio.to_thread(self._make_folders, tasks)
        still_open: list[Pending] = []
        async with self.runner.open():
            self._report(stage, now=True)
            queue = iter(found.pending)
            workers = min(_WORKERS * self._options.concurrency, len(found.pending))
            await all_of(self._work(stage, queue, one, still_open) for _ in range(workers))
            await run_uncancellable(self._leave_out)
            if stage == "judge" and not self.runner.ending:
                await run_uncancellable(self._settle, tasks, still_open)
            self._report(stage, now=True)
            await self._save(now=True)
        left = replace(self._tally, done=len(tasks) - len(still_open))
        self._reviewed = None if self.stopped else (tasks, Review(still_open, left))
        return self._tally

    async def review(self, tasks: Sequence[Task]) -> Review:
        """Find what is open among tasks; of the very same list a stage knows what the one before it left."""
        if self._reviewed is None or self._reviewed[0] is not tasks:
            self._reviewed = tasks, await asyncio.to_thread(self._review, tasks)
        return self._reviewed[1]

    def _review(self, tasks: Sequence[Task]) -> Review:
        return review(self._place, tasks, again=self._again)

    def _make_folders(self, tasks: Sequence[Task]) -> None:
        for results, folder in {(task.results, task.folder) for task in tasks}:
            self._place.make_folder(results / folder)

    async def _work(
        self, stage: Stage, queue: Iterator[Pending], one: Step, still_open: list[Pending]
    ) -> None:
        try:
            await self._work_off(stage, queue, one, still_open)
        except BaseException:
            self.runner.halt()
            raise

    async def _work_off(
        self, stage: Stage, queue: Iterator[Pending], one: Step, still_open: list[Pending]
    ) -> None:
        for pending in queue:
            if self.runner.ending:
                return
            sheet = await self._sheet(pending)
            is_through = False
            try:
                is_through = await one(pending.task, sheet)
                self._tally.done += 1
            except NoMoreCalls as ending:
                if ending.reason:
                    self._left.append((pending.task, sheet))
            if not is_through:
                still_open.append(replace(pending, begun=True))
            self._report(stage)
            await self._save()

    async def _sheet(self, pending: Pending) -> CaseSheet:
        if not pending.begun:
            return open_sheet(self._place, pending)
        sheet = await asyncio.to_thread(open_sheet, self._place, pending)
        await self.runner.forget(sheet.calls.calls)
        return sheet

    def _leave_out(self) -> None:
        if (reason := self.budget) is None:
            return
        for task, sheet in self._left:
            if sheet.earlier and task.result_path.exists():  # that it failed says more
                continue
            executed = [row for row in self._answers(task, sheet) if row is not None]
            result = left_out(task.tested, executed, reason)
            if not executed:
                result = result.model_copy(update={"executed_at": self._services.now()})
            self._place.write(task.result_path, result)

    def _settle(self, tasks: Sequence[Task], still_open: Sequence[Pending]) -> None:
        """Account for calls of an earlier run that no stage of this one has asked for."""
        waiting = {(pending.task.folder, pending.task.file) for pending in still_open}
        through = (task for task in tasks if not waiting or (task.folder, task.file) not in waiting)
        leftovers = Leftovers(self._place, self.runner.journal, self._options, self._services.now())
        leftovers.settle(through)

    # --- one task

    async def _execute(self, task: Task, sheet: CaseSheet) -> bool:
        rows = await together(
            self.runner.get_answer(self._execution(task, n), sheet) for n in self._repeats(task)
        )
        answered = [row for row in rows if row.status == "ok"]
        failure = next((row for row in rows if row.status != "ok"), None)
        if failure is not None:
            result = failed_result(task.tested, answered[:1], failure, by_judge=False)
            return await self._finish(task, sheet, result)
        if sheet.has_more:  # what an earlier run said of it is no longer true
            await run_uncancellable(partial(task.result_path.unlink, missing_ok=True))
            self._tally.uncount(task)
        return False

    async def _judge(self, task: Task, sheet: CaseSheet) -> bool:
        found = self._answers(task, sheet)
        executed = [row for row in found if row is not None]
        if len(executed) < len(found):
            return False
        rows = await together(
            self.runner.get_answer(self._judgement(task, row, judge, number), sheet)
            for row in executed
            for judge in self._options.judging()
            for number in range(1, self._options.judge_repeats + 1)
        )
        failure = next((row for row in rows if row.status != "ok"), None)
        if failure is not None:
            result = failed_result(task.tested, executed, failure, by_judge=True)
        else:
            result = judged_result(task.tested, executed, rows, await self.language())
        return await self._finish(task, sheet, result)

    async def _finish(self, task: Task, sheet: CaseSheet, result: Result) -> bool:
        await run_uncancellable(self._write, task, sheet, result)
        self._tally.count(task, result.status)
        return True

    def _write(self, task: Task, sheet: CaseSheet, result: Result) -> None:
        self._place.write(task.result_path, result)
        if result.status == "failed":
            sheet.give_up()

    def _repeats(self, task: Task) -> range:
        return range(task.repeat, task.repeat + self._options.repeats)

    def _answers(self, task: Task, sheet: CaseSheet) -> list[CallRow | None]:
        return [
            answer_of(sheet.calls, execute_calls(task.folder, task.file, number))
            for number in self._repeats(task)
        ]

    def _execution(self, task: Task, repeat: int) -> CallRequest:
        options, arm = self._options, task.arm

        def question(call_id: str, _: str | None, tokens: int | None) -> Call:
            text = task.case.input
            if tokens is not None:
                room = room_beside(tokens, arm.content, skill=arm.name)
                text = shorten_parts([text], room, self._language or "en")[0]
            return Call(
                call_id=call_id,
                system=arm.content,
                system_file=str(arm.system_file),
                text=text,
                schema=None,
                model=options.model,
                timeout_seconds=options.timeout_seconds,
                extra_flags=options.extra_flags,
                repeat=repeat,
            )

        prefix = execute_calls(task.folder, task.file, repeat)
        return CallRequest(prefix, "execute", options.model, question, place={"repeat": repeat})

    def _judgement(self, task: Task, row: CallRow, judge: str, number: int) -> CallRequest:
        case, prefix = task.case, judge_calls(row.call_id, judge, number)
        place = {"repeat": row.repeat, "judge": judge, "number": number}
        question = judge_question(
            case.input, case.expected_output, row.text, self._language or "en", judge, self._options
        )
        return CallRequest(prefix, "judge", judge, question, judgement_of, place)

    # --- how far it is

    def _report(self, stage: Stage, *, now: bool = False) -> None:
        at = time.monotonic()
        if not now and at - self._told_at < _TELL_SECONDS:
            return
        self._told_at = at
        tally = self._tally
        event: dict[str, Any] = {"type": "progress", "turn": None, "stage": stage}
        event |= {"done": tally.done, "total": tally.total, "completed": tally.completed}
        self._tell({**event, "failed": tally.failed, "cost_usd": self.runner.spent})

    async def _save(self, *, now: bool = False) -> None:
        at = time.monotonic()
        if self._checkpoint is None or (not now and at - self._saved_at < _CHECKPOINT_SECONDS):
            return
        self._saved_at = at
        await run_uncancellable(self._checkpoint, self._tally.skills_completed, self._tally.skills_failed)


def judge_question(
    case_input: str, expected: str, answer: str, language: PromptLanguage, judge: str, options: RunOptions
) -> Question:
    """Return the question to a judge; it contains nothing of the skill."""

    def question(call_id: str, wrong: str | None, tokens: int | None) -> Call:
        parts = [case_input, expected, answer]
        if tokens is not None:
            parts = shorten_parts(parts, room_for_judging(tokens, language), language)
        asked = judge_call(parts[0], parts[1], parts[2], language)
        asked = asked_again(asked, wrong, language) if wrong else asked
        return Call(
            call_id=call_id,
            system=asked.system,
            system_file=None,
            text=asked.text,
            schema=asked.schema,
            model=judge,
            timeout_seconds=options.timeout_seconds,
        )

    return question
