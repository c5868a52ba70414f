"""The tasks of a project (each skill on each case), and which of them are open."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from personalab.data_files import replace_file
from personalab.dialogue import language_among
from personalab.lab.assets import Case
from personalab.lab.case_calls import CallRow, CaseCalls, Tested, arm_folder, case_file, hash_of, is_open
from personalab.lab.options import NO_SKILL, NO_SKILL_ID, NO_SKILL_NAME, NO_SKILL_VERSION, RunOptions
from personalab.lab.projects import Result, ResultStatus
from personalab.lab.segments import text_hash
from personalab.storage.lab.projects import BaselineCopy, ProjectPlace
from personalab.texts import PromptLanguage

_LANGUAGE_CASES = 200


@dataclass(frozen=True, slots=True)
class Arm:
    """A skill that takes part."""

    skill_id: str
    name: str
    version: str
    content: str
    system_file: Path
    """The file that holds exactly the content."""


@dataclass(frozen=True, slots=True)
class Task:
    """A skill to be tested on a case."""

    arm: Arm
    baseline_id: str
    baseline_version: str
    case: Case
    repeat: int
    """The number of the first repeat: another test of the same skill and case begins after those there were."""
    results: Path
    """The folder of all results."""
    prefixed: bool = False
    """Whether the result's name tells the baseline, too: there is more than one."""

    @property
    def folder(self) -> str:
        """The name of the folder of the skill's results."""
        return arm_folder(self.arm.skill_id, self.arm.version)

    @property
    def file(self) -> str:
        """The name of the result, without ``.json``."""
        return case_file(self.case.id, self.baseline_id if self.prefixed else None)

    @property
    def result_path(self) -> Path:
        """The result."""
        return self.results / self.folder / f"{self.file}.json"

    @property
    def calls_path(self) -> Path:
        """Every call that was made for it."""
        return self.results / self.folder / f"x_{self.file}.json"

    @property
    def tested(self) -> Tested:
        """What the result is about."""
        arm = self.arm
        return Tested(arm.skill_id, arm.version, self.baseline_id, self.baseline_version, self.case)


@dataclass(slots=True)
class CaseSheet:
    """The calls of a task, in memory and on disk."""

    place: ProjectPlace
    task: Task
    calls: CaseCalls
    earlier: bool
    """Whether its result is a failure, so that attempts are counted from the beginning."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _first: int = 0

    def __post_init__(self) -> None:
        self._first = len(self.calls.calls) if self.earlier else self.calls.given_up

    def rows(self, prefix: str) -> list[CallRow]:
        """List the attempts at a question."""
        return self.calls.rows(prefix)

    def given_up(self, prefix: str) -> int:
        """Count the attempts of an earlier run that gave up."""
        earlier = self.calls.model_copy(update={"calls": self.calls.calls[: self._first]})
        return len(earlier.rows(prefix)) if self._first else 0

    @property
    def has_more(self) -> bool:
        """Whether calls were made since an earlier run gave up."""
        return self.earlier and len(self.calls.calls) > self._first

    def keep(self, row: CallRow) -> None:
        """Note a call on disk."""
        fresh = self.calls.model_copy(update={"calls": (*self.calls.calls, row)})
        self.place.save_calls(self.task.calls_path, fresh)
        self.calls = fresh

    def give_up(self) -> None:
        """Note on disk that its attempts led to nothing: they do not count if the case is wanted again."""
        fresh = self.calls.model_copy(update={"given_up": len(self.calls.calls)})
        self.place.save_calls(self.task.calls_path, fresh)
        self.calls = fresh


@dataclass(slots=True)
class Tally:
    """How far a stage is."""

    total: int
    completed: int = 0
    """Completed results among all tasks."""
    failed: int = 0
    done: int = 0
    """Tasks with which the stage is through."""
    skills_completed: int = 0
    """The same without the arm that has no skill."""
    skills_failed: int = 0
    _failing: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def count(self, task: Task, status: ResultStatus) -> None:
        """Count a result, in the place of the failure that it may replace."""
        self.uncount(task)
        ours = task.arm.skill_id != NO_SKILL_ID
        self.completed += status == "completed"
        self.skills_completed += ours and status == "completed"
        if status == "failed":
            self.failed += 1
            self.skills_failed += ours
            self._failing.add((task.folder, task.file))

    def uncount(self, task: Task) -> None:
        """Count a failure no longer: its result is gone."""
        if self._failing and (key := (task.folder, task.file)) in self._failing:
            self._failing.remove(key)
            self.failed -= 1
            self.skills_failed -= task.arm.skill_id != NO_SKILL_ID


@dataclass(frozen=True, slots=True)
class Pending:
    """A task that is open."""

    task: Task
    earlier: bool
    """Whether its result says that it failed."""
    begun: bool
    """Whether calls were made for it."""


@dataclass(slots=True)
class Review:
    """What is open among tasks, and what is done."""

    pending: list[Pending]
    tally: Tally


def review(place: ProjectPlace, tasks: Sequence[Task], *, again: bool) -> Review:
    """Find the tasks that are open, by the results on disk; ``again`` opens those that failed."""
    tally = Tally(len(tasks))
    pending: list[Pending] = []
    folders = _Folders()
    for task in tasks:
        folder, names = folders.of(task)
        file = task.file
        result: Result | None = None
        if f"{file}.json" in names:
            path = f"{folder}/{file}.json"
            if place.is_completed(path):
                tally.count(task, "completed")
                continue
            result = place.result(Path(path))
        if result is not None:
            tally.count(task, result.status)
        if is_open(result, again=again):
            earlier = result is not None and result.status == "failed"
            pending.append(Pending(task, earlier, f"x_{file}.json" in names))
    tally.done = len(tasks) - len(pending)
    return Review(pending, tally)


class _Folders:
    """The files of each skill's results, listed once."""

    def __init__(self) -> None:
        self._known: dict[tuple[Path, str, str], tuple[str, frozenset[str]]] = {}

    def of(self, task: Task) -> tuple[str, frozenset[str]]:
        key = task.results, task.arm.skill_id, task.arm.version
        if key not in self._known:
            folder = str(task.results / task.folder)
            names = frozenset(os.listdir(folder)) if os.path.isdir(folder) else frozenset[str]()
            self._known[key] = folder, names
        return self._known[key]


@lru_cache(maxsize=64)
def _content_hash(content: str) -> str:
    return text_hash(content)


def open_sheet(place: ProjectPlace, pending: Pending) -> CaseSheet:
    """Read the calls of a task, or begin its list."""
    task = pending.task
    calls = (place.calls(task.calls_path) if pending.begun else None) or CaseCalls(
        case_id=task.case.id,
        skill_id=task.arm.skill_id,
        skill_version=task.arm.version,
        baseline_id=task.baseline_id,
        baseline_version=task.baseline_version,
        content_hash=_content_hash(task.arm.content),
        case_hash=hash_of(task.case.input, task.case.expected_output),
    )
    return CaseSheet(place, task, calls, pending.earlier)


# --- those of a project


def arms_of(place: ProjectPlace, options: RunOptions) -> list[Arm]:
    """List the skills of a project, each once, and the arm without one if it is wanted."""
    arms: dict[tuple[str, str], Arm] = {}
    for copy in place.skills():
        ref = copy.ref
        arms.setdefault(
            (ref.ref_id, ref.version), Arm(ref.ref_id, ref.name, ref.version, copy.content, copy.file)
        )
    found = list(arms.values())
    if options.no_skill_arm:
        file = place.folder / "x_no_skill.txt"
        found.append(Arm(NO_SKILL_ID, NO_SKILL_NAME, NO_SKILL_VERSION, NO_SKILL, file))
    return found


def write_no_skill(place: ProjectPlace) -> None:
    """Write the content of the arm without a skill."""
    path = place.folder / "x_no_skill.txt"
    if not path.is_file():
        replace_file(path, NO_SKILL.encode("utf-8"), place.shown(path))


def tasks_of(place: ProjectPlace, arms: Sequence[Arm], baselines: Sequence[BaselineCopy]) -> list[Task]:
    """List every task of a project, skill by skill."""
    several = len(baselines) > 1
    return [
        Task(arm, found.ref.ref_id, found.ref.version, case, 1, place.results, several)
        for arm in arms
        for found in baselines
        for case in found.cases.cases
    ]


def language_of(options: RunOptions, baselines: Sequence[BaselineCopy]) -> PromptLanguage:
    """Return the language in which judges are asked: the requested one, else that of the cases."""
    cases = [case for found in baselines for case in found.cases.cases][:_LANGUAGE_CASES]
    texts = [text for case in cases for text in (case.input, case.expected_output)]
    return options.language or language_among(texts) or "en"
