"""The run that the steps of an evaluation share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nodes.evaluate.state import EvaluateState
from personalab.errors import Reason, UserError
from personalab.lab.options import RunOptions
from personalab.lab.projects import ProjectProgress, ProjectStatus
from personalab.operations.lab.evaluating import Evaluator, Tally, Task, Tell
from personalab.operations.lab.projects import check_changes, check_options, durable, save_changes
from personalab.operations.lab.tasks import arms_of, tasks_of
from personalab.services import Services
from personalab.storage.lab.projects import ProjectPlace
from personalab.story.records import check_given
from personalab.tasks import run_uncancellable


@dataclass(slots=True)
class EvaluationRun:
    """A project that is run, from the first step to the last, in this process."""

    services: Services
    place: ProjectPlace
    options: RunOptions
    again: bool
    """Whether failed tasks are repeated."""
    tell: Tell
    stop_asked: Callable[[], bool]
    _evaluator: Evaluator | None = None
    _tasks: list[Task] | None = None

    @property
    def evaluator(self) -> Evaluator:
        """What executes and judges."""
        if self._evaluator is None:
            self._evaluator = Evaluator(
                self.services,
                self.place,
                self.options,
                lambda event: self.tell(event),
                stop_asked=lambda: self.stop_asked(),
                again=self.again,
                checkpoint=self.save_progress,
            )
        return self._evaluator

    async def tasks(self) -> list[Task]:
        """List everything there is to do."""

        def read() -> list[Task]:
            return tasks_of(self.place, arms_of(self.place, self.options), self.place.baselines())

        if self._tasks is None:
            self._tasks = await asyncio.to_thread(read)
        return self._tasks

    def save_progress(self, completed: int, failed: int) -> None:
        """Save how many tasks are through; the results decide, this is for those who look."""
        place = self.place.again()
        progress = ProjectProgress(
            total_tasks=place.config.progress.total_tasks,
            completed_tasks=completed,
            failed_tasks=failed,
            last_checkpoint=completed + failed,
        )
        now = self.services.now()
        place.save_config(place.config.changed(progress=progress.model_dump(), updated_at=now))

    async def set_status(self, status: ProjectStatus) -> None:
        """Save what the project does now."""
        await run_uncancellable(set_status, self.place, status, self.services.now())

    async def after(self, evaluator: Evaluator, tally: Tally) -> dict[str, Any]:
        """Report the progress, and whether the run continues."""
        return {
            "status": "interrupted" if evaluator.stopped else "running",
            "completed": tally.completed,
            "failed": tally.failed,
            "cost_usd": evaluator.runner.spent,
            "budget": await self.worded(evaluator.budget),
        }

    async def worded(self, reason: Reason | None) -> str:
        """Say why the budget allows no more calls; empty if it does."""
        return reason.message(await asyncio.to_thread(self.services.preferences.language)) if reason else ""


def set_status(place: ProjectPlace, status: ProjectStatus, now: str) -> None:
    """Save what a project does now, if it did something else."""
    place = place.again()
    if place.config.status != status:
        place.save_config(place.config.changed(status=status, updated_at=now))


def find_project(services: Services, state: EvaluateState) -> ProjectPlace:
    """Find the project that was named."""
    return services.projects.project(check_given(state.get("project") or None, "project"))


def open_run(
    services: Services, state: EvaluateState, tell: Tell, stop_asked: Callable[[], bool], *, first: bool
) -> EvaluationRun:
    """Read a project to run it; the first step changes its options as requested."""
    place = durable(services, find_project(services, state))
    changes = state.get("changes") or {}
    if not isinstance(changes, dict):  # pyright: ignore[reportUnnecessaryIsInstance] (a caller's JSON)
        raise UserError("field_wrong", field="changes", reason=Reason("not_object"))
    options = place.options()
    if first and changes and state.get("dry_run"):
        options = check_changes(services, place, changes)
    elif first and changes:
        options = save_changes(services, place, changes)
        place = place.again()
    else:
        check_options(services, options)
    again = bool(state.get("rerun_failed")) if first else bool(state.get("again"))
    return EvaluationRun(services, place, options, again, tell, stop_asked)
