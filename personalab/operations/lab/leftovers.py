"""Cleanup of calls in the spool that an earlier run started and that are no longer needed.

They are paid for, so their costs are recorded, and an answer that its case may need later is written to the
case's file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from personalab.lab.calling import CallAnswer
from personalab.lab.options import RunOptions
from personalab.lab.outcomes import judgement_of
from personalab.lab.resuming import CallRow, row_of, short_hash, unreadable
from personalab.operations.lab.calls import spooled_calls
from personalab.operations.lab.tasks import Pending, Task, open_sheet
from personalab.providers.call_spool import forget_call
from personalab.providers.claude_cli import answer_left, is_running
from personalab.storage.lab.project_journal import CallJournal
from personalab.storage.lab.projects import ProjectPlace

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
