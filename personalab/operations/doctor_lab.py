"""The doctor's check of the lab's workspace and its projects.

Files of other programs are accepted: a file that cannot be read is a problem, a contradiction only a note.
Nothing that was measured or written by a person is ever changed. Repairs cover leftovers of writers that
died, the status and progress of a project that nobody runs, a truncated line in the cost journal, and expired
sessions.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from pydantic import Field

from personalab.data_files import write_json
from personalab.errors import Busy, PersonaLabError, Reason, as_reason
from personalab.lab.analysis import leaders_of
from personalab.lab.case_calls import CallRow, CaseCalls, arm_folder
from personalab.lab.findings import AnalysisReport, ExplorationLog, IterationReport, RoundConfig
from personalab.lab.iterating import IterationPlan
from personalab.lab.options import CliSettings, RunOptions, TempSession
from personalab.lab.projects import BaselineRef, ProjectConfig, ProjectProgress, Result, RunSummary, SkillRef
from personalab.lab.records import DIMENSIONS, SHORT, AssetKind, Doubt, Record
from personalab.lab.segments import find_exact
from personalab.operations.doctor_findings import Finding
from personalab.operations.doctor_lab_files import (
    CheckedVersion,
    LabFiles,
    LabFinding,
    Sweep,
    check_skill,
    check_version,
)
from personalab.providers.call_spool import forget_call
from personalab.services import Services
from personalab.storage.lab.asset_collections import read_baseline, read_skill
from personalab.storage.lab.iterations import FOLDER as ITERATIONS
from personalab.storage.lab.project_journal import MAX_JOURNAL, CallJournal
from personalab.storage.lab.projects import (
    ANALYSIS,
    CONFIG,
    CONTROLS,
    EXTRA_ANALYSIS,
    EXTRA_SUMMARY,
    JOURNAL,
    RUN,
    SPOOL,
    SUMMARY,
)
from personalab.storage.lab.workspace import KIND_FOLDERS, AssetFolder, Workspace, folders_in
from personalab.storage.story_lock import running
from personalab.story.records import is_id

_KINDS: tuple[AssetKind, ...] = ("skill", "baseline")


async def examine_lab(services: Services, sweep: Sweep, *, fix: bool) -> tuple[list[Finding], int]:
    """Check the workspace; give what was found, and how many files were looked at."""
    files = LabFiles(services.assets.workspace)
    root = files.workspace.root
    if not await asyncio.to_thread(root.is_dir):
        there = await asyncio.to_thread(os.path.lexists, root)
        params = {"reason": as_reason(NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)))}
        return ([Finding("not_a_folder", root.name, params=params)], 1) if there else ([], 0)
    await asyncio.to_thread(_check_assets, files)
    await asyncio.to_thread(_check_sessions, files, services, fix=fix)
    await asyncio.to_thread(_check_leftovers, files, sweep, fix=fix)
    await examine_projects(services, files, sweep, fix=fix)
    return files.findings, files.looked_at


# --- skills and baselines


def _check_assets(files: LabFiles) -> None:
    lock = files.workspace.root / ".lock"
    if os.path.lexists(lock) and not lock.is_file():
        files.findings.append(Finding("not_a_file", files.shown(lock)))
    for kind in _KINDS:
        for folder in files.workspace.unreadable(kind):
            params = {"reason": as_reason(PermissionError(errno.EACCES, os.strerror(errno.EACCES)))}
            files.findings.append(Finding("not_a_folder", files.shown(folder), params=params))
        for place in files.workspace.places(kind):
            known = len(files.findings)
            check_version(files, place.folder, kind)
            if not any(found.level == "problem" for found in files.findings[known:]):
                _check_place(files, kind, place)


def _check_place(files: LabFiles, kind: AssetKind, place: AssetFolder) -> None:
    """Compare a version's metadata with its location."""
    path = place.folder / "meta.json"
    try:
        doubts = (read_skill if kind == "skill" else read_baseline)(files.workspace, place).doubts
    except PersonaLabError as error:
        files.broken(path, error)
        return
    files.doubt(path, [found for found in doubts if found.field not in ("case_count", "baseline_id")])


# --- the command line


def _check_sessions(files: LabFiles, services: Services, *, fix: bool) -> None:
    folder = files.workspace.root / "cli"
    files.read(folder / "config.json", CliSettings, needed=False)
    over: list[Finding] = []
    for path in files.json_files(folder / "temp_session"):
        session = files.read(path, TempSession, needed=False)
        if session is None:
            continue
        if session.session_id != path.stem:
            files.doubt(
                path, [Doubt("session_id", Reason("other_file", value=session.session_id, name=path.stem))]
            )
        elif not session.is_settled and session.is_over(services.now()):
            params = {"expires_at": session.expires_at, "status": session.status}
            over.append(
                LabFinding("lab_doctor_expired", files.shown(path), params=params, fixable=True, level="note")
            )
    if not over or not fix:
        files.findings += over
        return
    try:
        services.lab_sessions.expire(services.now())
    except PersonaLabError as error:
        files.findings += [
            *over,
            Finding("not_repaired", files.shown(folder), params={"reason": as_reason(error)}),
        ]
        return
    files.findings += [replace(found, fixed=True) for found in over]


# --- what writers that died have left behind


def _check_leftovers(files: LabFiles, sweep: Sweep, *, fix: bool) -> None:
    """Look first; take the workspace's lock only where there is something to remove."""
    folders = _swept(files.workspace)
    found: list[Finding] = []
    for folder in folders:
        sweep(folder, found, fix=False)
    if found and fix:
        try:
            with files.workspace.writer():
                found = []
                for folder in folders:
                    sweep(folder, found, fix=True)
        except PersonaLabError as error:
            shown = files.workspace.root.name
            found.append(Finding("not_repaired", shown, params={"reason": as_reason(error)}))
    files.findings += found


def _swept(workspace: Workspace) -> list[Path]:
    """Name the folders in which the workspace's writers make their temporary files."""
    cli = workspace.root / "cli"
    found = [cli, cli / "temp_session", cli / "temp_session" / "exports"]
    for kind in _KINDS:
        for purpose in folders_in(workspace.root / KIND_FOLDERS[kind]):
            for provider in folders_in(purpose):
                found.append(provider)
                for version in folders_in(provider):
                    found += [version, version / "auto_tag_log"]
    return [folder for folder in found if folder.is_dir() and not folder.is_symlink()]


# --- projects


_SHOWN_LINES = 5
"""Maximum number of journal lines reported per project."""
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", re.ASCII)
_ROUND = re.compile(r"round_[0-9]+|x_retest", re.ASCII)
_OTHER_PROJECT = Doubt("project_id", Reason("other_id", file="config.json"))


class _JudgeControls(Record):
    calls: tuple[CallRow, ...] = ()


class _Controls(Record):
    """``results/x_controls.json``."""

    judges: dict[str, _JudgeControls] = Field(default_factory=dict[str, _JudgeControls])


async def examine_projects(services: Services, files: LabFiles, sweep: Sweep, *, fix: bool) -> None:
    """Check the projects, each for itself."""
    top = services.projects.folder
    if top.is_dir():
        await asyncio.to_thread(sweep, top, files.findings, fix=fix)
    for folder in await asyncio.to_thread(folders_in, top):
        if not is_id(folder.name):
            files.findings.append(Finding("bad_name", files.shown(folder), level="note"))
            continue
        await _examine_project(services, files, sweep, folder, fix=fix)


async def _examine_project(
    services: Services, files: LabFiles, sweep: Sweep, folder: Path, *, fix: bool
) -> None:
    """Look first; take the project's lease only where something can be repaired."""

    def check(*, repair: bool) -> LabFiles:
        seen = LabFiles(files.workspace)
        _Project(services, seen, sweep, folder, repair=repair).check()
        return seen

    seen = await asyncio.to_thread(check, repair=False)
    if fix and any(found.fixable for found in seen.findings):
        try:
            leases, wait = services.projects.leases, services.settings.busy_seconds
            async with leases.holding(folder.name, "doctor", wait=wait):
                seen = await asyncio.to_thread(check, repair=True)
        except PersonaLabError as error:
            shown = files.shown(folder)
            seen.findings.append(
                LabFinding("lab_doctor_busy", shown)
                if isinstance(error, Busy)
                else Finding("not_repaired", shown, params={"reason": as_reason(error)})
            )
    files.findings += seen.findings
    files.looked_at += seen.looked_at


@dataclass(slots=True)
class _Project:
    """The examination of one project; with ``repair``, the caller holds its lease."""

    services: Services
    files: LabFiles
    sweep: Sweep
    folder: Path
    repair: bool
    kept_calls: set[str] = field(default_factory=set[str])
    """The calls whose answers are in files of their cases."""
    contents: dict[str, str] = field(default_factory=dict[str, str])
    """The skills' contents by id."""
    cases: int | None = 0
    """How many cases there are, if all baselines can be read."""

    def check(self) -> None:
        """Check every file."""
        lock = self.folder / ".lock"
        if os.path.lexists(lock) and not (lock.is_file() and not lock.is_symlink()):
            self.files.findings.append(Finding("not_a_file", self.files.shown(lock)))
            return
        writing = not self.repair and running(self.folder) is not None
        config = self.files.read(self.folder / CONFIG, ProjectConfig)
        self.files.read(self.folder / RUN, RunOptions, needed=False)
        if config is not None:
            self._check_copies(config)
        counted = self._check_results(self.folder / "results")
        summary = self._check_sums(config)
        self._check_analysis(config, summary)
        for folder in self._iterations():
            self._check_iteration(config, folder)
        if writing:
            return
        self._check_journal()
        self._check_leftovers(config)
        if config is not None:
            self._check_standing(config, counted)

    # --- the copies

    def _check_copies(self, config: ProjectConfig) -> None:
        """Check the copies of the assets; a path that leads out of the project is not followed."""
        for at, skill in enumerate(config.skills):
            self._check_folder_name(at, skill)
            content = self._check_copy(f"skills.{at}", skill, "skill").content
            if content is not None:
                self.contents[skill.ref_id] = content
        for at, baseline in enumerate(config.baselines):
            cases = self._check_copy(f"baselines.{at}", baseline, "baseline").cases
            self.cases = None if self.cases is None or cases is None else self.cases + len(cases.cases)

    def _check_folder_name(self, at: int, skill: SkillRef) -> None:
        """Report that a skill's results cannot have a folder: a run would refuse."""
        try:
            arm_folder(skill.ref_id, skill.version)
        except PersonaLabError:
            params = {"field": f"skills.{at}.ref_id", "reason": Reason("no_file_name")}
            shown = self.files.shown(self.folder / CONFIG)
            self.files.findings.append(LabFinding("lab_doctor_field", shown, params=params))

    def _check_copy(self, where: str, ref: SkillRef | BaselineRef, kind: AssetKind) -> CheckedVersion:
        parts, folder = ref.local_path.split("/"), self.folder
        for part in parts:
            folder = folder / part
            if not _PART.fullmatch(part) or os.path.islink(folder):
                params = {"field": f"{where}.local_path", "reason": Reason("outside_project")}
                shown = self.files.shown(self.folder / CONFIG)
                self.files.findings.append(LabFinding("lab_doctor_field", shown, params=params))
                return CheckedVersion(None)
        found = check_version(self.files, folder, kind)
        if found.meta is not None and found.meta.id != ref.ref_id:
            self.files.doubt(folder / "meta.json", [Doubt("id", Reason("other_id", file="config.json"))])
        return found

    # --- results

    def _check_results(self, top: Path) -> dict[str, Counter[str]]:
        """Check every result and the calls it was made from; count by folder what became of the cases."""
        counted: dict[str, Counter[str]] = {}
        for folder in folders_in(top):
            tally = counted.setdefault(folder.name, Counter())
            for path in self.files.json_files(folder):
                if path.name.startswith("x_"):
                    calls = self.files.read(path, CaseCalls, needed=False)
                    self._keep(calls.calls if calls is not None else ())
                elif (result := self.files.read(path, Result, needed=False)) is not None:
                    tally[result.status] += 1
                    self._check_place(path, result)
        return counted

    def _keep(self, rows: Sequence[CallRow]) -> None:
        self.kept_calls.update(row.call_id for row in rows)

    def _check_place(self, path: Path, result: Result) -> None:
        """Compare a result's fields with its location."""
        folder = f"{result.skill_id[:SHORT]}_{result.skill_version}"
        if folder != path.parent.name:
            self.files.doubt(
                path, [Doubt("skill_id", Reason("other_folder", value=folder, name=path.parent.name))]
            )
        if path.stem.rpartition("__")[2] != result.case_id:
            self.files.doubt(
                path, [Doubt("case_id", Reason("other_file", value=result.case_id, name=path.stem))]
            )

    def _check_sums(self, config: ProjectConfig | None) -> RunSummary | None:
        results = self.folder / "results"
        summary = self.files.read(results / SUMMARY, RunSummary, needed=False)
        self.files.read(results / EXTRA_SUMMARY, Record, needed=False)
        controls = self.files.read(results / CONTROLS, _Controls, needed=False)
        for judge in controls.judges.values() if controls else ():
            self._keep(judge.calls)
        self._same_project(config, results / SUMMARY, summary)
        return summary

    def _same_project(
        self,
        config: ProjectConfig | None,
        path: Path,
        record: RunSummary | AnalysisReport | IterationReport | ExplorationLog | IterationPlan | None,
    ) -> None:
        if config is not None and record is not None and record.project_id != config.id:
            self.files.doubt(path, [_OTHER_PROJECT])

    # --- analysis and iterations

    def _check_analysis(self, config: ProjectConfig | None, summary: RunSummary | None) -> None:
        path = self.folder / ANALYSIS
        report = self.files.read(path, AnalysisReport, needed=False)
        extra = self.files.read(self.folder / EXTRA_ANALYSIS, Record, needed=False)
        self._same_project(config, path, report)
        if report is None:
            return
        for at, segment in enumerate(report.advantage_segments if config else ()):
            content = self.contents.get(segment.skill_id)
            where = f"advantage_segments[{at}]"
            if content is None:
                self.files.doubt(path, [Doubt(f"{where}.skill_id", Reason("no_such_skill"))])
            elif find_exact(content, segment.content) is None:
                reason = Reason("not_verbatim", segment_id=segment.id)
                self.files.doubt(path, [Doubt(f"{where}.content", reason)])
        based_on = (extra.model_extra or {}).get("summary_generated_at") if extra else None
        if summary is not None and based_on in (None, summary.generated_at):
            self._check_leaders(path, report, summary)

    def _check_leaders(self, path: Path, report: AnalysisReport, summary: RunSummary) -> None:
        leaders = leaders_of(summary.ranking)
        for name in DIMENSIONS if leaders else ():
            if getattr(leaders, name) != getattr(report.dimension_leaders, name):
                reason = Reason("not_leader", file="summary.json")
                self.files.doubt(path, [Doubt(f"dimension_leaders.{name}", reason)])

    def _iterations(self) -> list[Path]:
        """Find the iteration, and those that were set aside."""
        names = (ITERATIONS, f"x_{ITERATIONS}_")
        return [
            found
            for found in folders_in(self.folder)
            if found.name == names[0] or found.name.startswith(names[1])
        ]

    def _check_iteration(self, config: ProjectConfig | None, folder: Path) -> None:
        kinds: dict[str, type[IterationPlan] | type[IterationReport] | type[ExplorationLog]] = {
            "x_iteration.json": IterationPlan,
            "iteration_report.json": IterationReport,
            "exploration_log.json": ExplorationLog,
        }
        for name, kind in kinds.items():
            self._same_project(config, folder / name, self.files.read(folder / name, kind, needed=False))
        self.files.read(folder / "x_ledger.json", Record, needed=False)
        for found in folders_in(folder):
            if _ROUND.fullmatch(found.name):
                self.files.read(found / "config.json", RoundConfig, needed=False)
                self._check_results(found / "results")
                for skill in folders_in(found / "skills"):
                    check_skill(self.files, skill)

    # --- what a run that died has left

    def _check_journal(self) -> None:
        path = self.folder / JOURNAL
        if not os.path.lexists(path):
            return
        shown = self.files.shown(path)
        try:
            raw = self.files.workspace.read(path, MAX_JOURNAL)
        except PersonaLabError as error:
            self.files.broken(path, error)
            return
        self.files.looked_at += 1
        *lines, last = raw.split(b"\n")
        for number, _ in zip(_broken_lines(lines), range(_SHOWN_LINES), strict=False):
            params = {"reason": Reason("no_call_record")}
            self.files.findings.append(LabFinding("lab_doctor_line", shown, number, params))
        if last:
            self._found(Finding("torn_line", shown, len(lines) + 1, fixable=True), self._mend_journal)

    def _mend_journal(self) -> None:
        journal = CallJournal(self.folder / JOURNAL, JOURNAL)
        journal.open()
        journal.close()

    def _check_leftovers(self, config: ProjectConfig | None) -> None:
        for folder in self._written():
            self.sweep(folder, self.files.findings, fix=self.repair)
        for stop in sorted(self.folder.glob(".stop*")):
            self._found(Finding("stop_leftover", self.files.shown(stop), fixable=True), stop.unlink)
        spool = self.folder / SPOOL
        if config is None or config.status != "completed" or spool.is_symlink() or not spool.is_dir():
            return
        left = {name.rpartition(".")[0] for name in os.listdir(spool)} & self.kept_calls
        if left:
            finding = LabFinding(
                "lab_doctor_spool", self.files.shown(spool), params={"count": len(left)}, fixable=True
            )
            self._found(replace(finding, level="note"), lambda: [forget_call(spool, name) for name in left])

    def _written(self) -> Iterator[Path]:
        """Name the folders in which a run makes its temporary files."""
        results = [self.folder / "results"]
        yield self.folder
        for iteration in self._iterations():
            yield iteration
            for found in folders_in(iteration):
                yield found
                results.append(found / "results")
        for top in results:
            if top.is_dir() and not top.is_symlink():
                yield top
                yield from folders_in(top)

    # --- how far it is

    def _check_standing(self, config: ProjectConfig, counted: dict[str, Counter[str]]) -> None:
        """Compare what the plan says with who runs it and with the results; both are only derived."""
        changes: dict[str, Any] = {}
        shown = self.files.shown(self.folder / CONFIG)
        if config.status == "running":
            changes["status"] = "interrupted"
            self._found(LabFinding("lab_doctor_running", shown, fixable=True), lambda: self._patch(changes))
        progress = self._progress(config, counted)
        if progress is not None and progress != config.progress:
            told = f"{progress.completed_tasks}+{progress.failed_tasks}/{progress.total_tasks}"
            finding = LabFinding("lab_doctor_progress", shown, params={"found": told}, fixable=True)
            values = {"progress": progress.model_dump(mode="json")}
            self._found(replace(finding, level="note"), lambda: self._patch(values))

    def _progress(self, config: ProjectConfig, counted: dict[str, Counter[str]]) -> ProjectProgress | None:
        """Count a project's progress; ``None`` if it cannot be determined."""
        if self.cases is None:
            return None
        try:
            folders = [arm_folder(skill.ref_id, skill.version) for skill in config.skills]
        except PersonaLabError:
            return None
        completed, failed = (
            sum(counted.get(name, Counter())[status] for name in folders)
            for status in ("completed", "failed")
        )
        known = config.progress.last_checkpoint
        return config.progress.model_copy(
            update={
                "total_tasks": len(config.skills) * self.cases,
                "completed_tasks": completed,
                "failed_tasks": failed,
                "last_checkpoint": known if known is None and not completed + failed else completed + failed,
            }
        )

    def _patch(self, changes: dict[str, Any]) -> None:
        """Change fields of the plan; all others stay as they are, whoever wrote them."""
        path = self.folder / CONFIG
        data = cast("dict[str, Any]", self.files.workspace.read_json(path))
        write_json(path, {**data, **changes, "updated_at": self.services.now()}, self.files.shown(path))

    def _found(self, finding: Finding, mend: Callable[[], object]) -> None:
        """Note something that can be repaired; with ``repair``, do so."""
        if self.repair:
            try:
                mend()
                finding = replace(finding, fixed=True)
            except (OSError, PersonaLabError) as error:
                params = {"reason": as_reason(error)}
                self.files.findings.append(Finding("not_repaired", finding.file, params=params))
        self.files.findings.append(finding)


def _broken_lines(lines: list[bytes]) -> Iterator[int]:
    """Number the lines that are no account of a call."""
    try:
        rows: list[object] = json.loads(b"[" + b",".join(lines) + b"]")  # many times faster than line by line
    except (ValueError, RecursionError):
        rows = []
    if len(rows) != len(lines):
        rows = [_row(line) for line in lines]
    for number, row in enumerate(rows, 1):
        found = cast("dict[str, object]", row) if isinstance(row, dict) else {}
        if not isinstance(found.get("call_id"), str) and lines[number - 1].strip():
            yield number


def _row(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
