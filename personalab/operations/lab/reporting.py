"""Reports of a project for people, test runners and spreadsheets.

Everything but the project's plan may be missing or broken: the report names what cannot be read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from personalab.data_files import read_bytes
from personalab.errors import PersonaLabError, UserError, reason_of, worded
from personalab.lab.assets import CONTENT_FILE
from personalab.lab.case_calls import arm_folder, case_file
from personalab.lab.findings import IterationReport, Provenance
from personalab.lab.options import NO_SKILL, NO_SKILL_ID, NO_SKILL_NAME, NO_SKILL_VERSION, RunOptions
from personalab.lab.projects import Result
from personalab.lab.ranking import CaseResult, RankedArm, RankedBaseline, case_result
from personalab.lab.records import asset_folder
from personalab.lab.reports.building import (
    SkillRanking,
    analysis_of,
    case_rows,
    cell_of,
    costs_of,
    iteration_of,
    judges_of,
    rank,
    result_notices,
)
from personalab.lab.reports.data import (
    MAX_CELLS_WITH_TEXTS,
    Cell,
    ContentPair,
    Iteration,
    Judge,
    ReportData,
    ReportNotice,
    ReportSkill,
)
from personalab.lab.reports.html import html_report
from personalab.lab.reports.tables import csv_report, junit_report, not_passed
from personalab.services import Services
from personalab.storage.lab.iterations import IterationFiles
from personalab.storage.lab.project_journal import read_journal
from personalab.storage.lab.projects import ProjectPlace
from personalab.texts import Language

ReportFormat = Literal["html", "junit", "csv"]
FORMATS: tuple[ReportFormat, ...] = get_args(ReportFormat)
_KINDS: Mapping[ReportFormat, tuple[str, str]] = {
    "html": (".html", "text/html; charset=utf-8"),
    "junit": (".junit.xml", "application/xml; charset=utf-8"),
    "csv": (".csv", "text/csv; charset=utf-8"),
}
_MAX_BROKEN = 10
"""Maximum number of unreadable files that are named."""
_MAX_CONTENT = 1024 * 1024
_MAX_VERSIONS = 4
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ReportFile:
    """A report, and the name it would have as a file."""

    name: str
    content: bytes
    media_type: str
    not_passed: int
    """How many results of skills failed or are below the pass score."""


async def project_report(
    services: Services, project: str, format: str = "html", language: Language = "en"
) -> ReportFile:
    """Make a report of a project from its current files."""
    for known in FORMATS:
        if format == known:
            return await asyncio.to_thread(_report, services, project, known, language)
    raise UserError("lab_report_format", format=format[:40], known=", ".join(FORMATS))


async def report_data(services: Services, project: str, language: Language = "en") -> ReportData:
    """Gather what a report tells of a project."""
    return await asyncio.to_thread(_gathered, services, project, language)


def _report(services: Services, project: str, format: ReportFormat, language: Language) -> ReportFile:
    place = services.projects.project(project)
    data = _Gathering(place, language).data(services.now())
    match format:
        case "html":
            text = html_report(data, language)
        case "junit":
            text = junit_report(data)
        case "csv":
            text = csv_report(data)
    ending, media_type = _KINDS[format]
    return ReportFile(f"{place.name}{ending}", text.encode("utf-8"), media_type, not_passed(data))


def _gathered(services: Services, project: str, language: Language) -> ReportData:
    return _Gathering(services.projects.project(project), language).data(services.now())


@dataclass(frozen=True, slots=True)
class _Measured:
    """The arms of a project in the order of its plan, and what came of each."""

    arms: list[RankedArm]
    baselines: list[RankedBaseline]
    cells: list[list[Cell | None]]
    results: list[list[CaseResult]]

    def ranked(self, pass_score: float, baseline_id: str | None = None) -> SkillRanking:
        """Rank the arms, by one baseline or by all."""
        some = [each for each in self.baselines if baseline_id in (None, each.baseline_id)]
        return rank(self.arms, self.results, some, pass_score=pass_score)


@dataclass(slots=True)
class _Gathering:
    """Reads the files of one project, and notes which could not be read."""

    place: ProjectPlace
    language: Language
    notices: list[ReportNotice] = field(default_factory=list[ReportNotice])
    broken: int = 0
    versions: dict[str, None] = field(default_factory=dict[str, None])
    """Which executors made the results, in the order they were met."""

    def data(self, now: str) -> ReportData:
        """Gather everything."""
        config, options = self.place.config, self._options()
        measured = self._measured(options)
        ranking = measured.ranked(options.pass_score)
        cells = tuple(tuple(measured.cells[at]) for at in ranking.order)
        judges = judges_of(options.judging(), self._try(self.place.controls, {}))
        journal = self._try(self._journal, [])
        iteration, pair = self._iteration(measured, ranking, options)
        analysis, summary = self._try(self.place.analysis, None), self._try(self.place.summary, None)
        self._judge_notices(options, judges)
        notices = result_notices(ranking.rows, cells, [*self.versions, *_versions(journal)])
        if summary is None and any(cell for line in cells for cell in line):
            notices.append(ReportNotice("notice_no_summary"))
        return ReportData(
            name=config.name,
            project_id=config.id,
            description=config.description,
            status=config.status,
            created_at=config.created_at,
            scored_at=summary.generated_at if summary else "",
            made_at=now,
            model=options.model,
            executors=tuple(self.versions)[:_MAX_VERSIONS],
            judges=judges,
            repeats=options.repeats,
            judge_repeats=options.judge_repeats,
            pass_score=options.pass_score,
            detectable=ranking.detectable,
            rows=_trusted(ranking.rows, judges),
            cases=case_rows(measured.baselines),
            cells=cells,
            costs=costs_of(journal),
            notices=(*notices, *self.notices, *self._more_broken()),
            iteration=iteration,
            pair=pair,
            analysis=analysis_of(analysis) if analysis else None,
        )

    def _journal(self) -> list[dict[str, Any]]:
        return read_journal(self.place.journal, self.place.shown(self.place.journal))

    # --- reading what may be broken

    def _try(self, read: Callable[[], T], otherwise: T) -> T:
        try:
            return read()
        except PersonaLabError as error:
            self._note(error)
            return otherwise

    def _note(self, error: PersonaLabError) -> None:
        self.broken += 1
        if self.broken > _MAX_BROKEN:
            return
        file = str(error.params.get("file") or self.place.name)
        reason = worded(reason_of(error), self.language)
        self.notices.append(ReportNotice("notice_broken", {"file": file, "reason": reason}))

    def _more_broken(self) -> list[ReportNotice]:
        left = self.broken - _MAX_BROKEN
        return [ReportNotice("notice_more_broken", {"count": left})] if left > 0 else []

    def _options(self) -> RunOptions:
        fallback = RunOptions(model=self.place.config.cli_config.model or "–")
        return self._try(self.place.options, fallback)

    # --- skills, cases, results

    def _measured(self, options: RunOptions) -> _Measured:
        arms, baselines = self._arms(options), self._baselines()
        count = len(arms) * sum(len(each.cases.cases) for each in baselines)
        found = [self._results(arm, baselines, with_texts=count <= MAX_CELLS_WITH_TEXTS) for arm in arms]
        return _Measured(arms, baselines, [line[0] for line in found], [line[1] for line in found])

    def _arms(self, options: RunOptions) -> list[RankedArm]:
        copies = self._try(self.place.skills, [])
        contents = {(copy.ref.ref_id, copy.ref.version): copy.content for copy in copies}
        arms = [
            RankedArm(
                ref.ref_id, ref.name or ref.ref_id, ref.version, contents.get((ref.ref_id, ref.version), "")
            )
            for ref in self.place.config.skills
        ]
        if options.no_skill_arm:
            arms.append(RankedArm(NO_SKILL_ID, NO_SKILL_NAME, NO_SKILL_VERSION, NO_SKILL, is_no_skill=True))
        return arms

    def _baselines(self) -> list[RankedBaseline]:
        copies = self._try(self.place.baselines, [])
        return [
            RankedBaseline(copy.ref.ref_id, copy.ref.name, copy.ref.version, copy.cases) for copy in copies
        ]

    def _results(
        self, arm: RankedArm, baselines: Sequence[RankedBaseline], *, with_texts: bool
    ) -> tuple[list[Cell | None], list[CaseResult]]:
        cells, results = list[Cell | None](), list[CaseResult]()
        several = len(self.place.config.baselines) > 1
        for baseline in baselines:
            prefix = baseline.baseline_id if several else None
            for case in baseline.cases.cases:
                try:
                    path = self._path(arm, case_file(case.id, prefix))
                    result = self.place.read(path, Result)
                except PersonaLabError as error:
                    self._note(error)
                    cells.append(Cell("broken", error=error.message(self.language)))
                    continue
                cells.append(cell_of(result, with_texts=with_texts) if result else None)
                if result is not None:
                    self._met(result)
                    fitting = result.model_copy(
                        update={"case_id": case.id, "baseline_id": baseline.baseline_id}
                    )
                    results.append(case_result(fitting))
        return cells, results

    def _path(self, arm: RankedArm, file: str) -> Path:
        return self.place.results / arm_folder(arm.skill_id, arm.version) / f"{file}.json"

    def _met(self, result: Result) -> None:
        if result.cli_version and len(self.versions) < 100:
            self.versions.setdefault(result.cli_version)
        for doubt in result.doubts():
            file = f"{result.skill_id[:8]}/{result.case_id}"
            if len(self.notices) < _MAX_BROKEN:
                params = {"file": file, "field": doubt.field, "reason": doubt.reason.message(self.language)}
                self.notices.append(ReportNotice("notice_doubt", params))

    # --- judges

    def _judge_notices(self, options: RunOptions, judges: Sequence[Judge]) -> None:
        for judge in judges:
            if judge.passed is False:
                gap = "–" if judge.gap is None else f"{judge.gap:.1f}"
                self.notices.append(
                    ReportNotice("notice_judge", {"judge": judge.model, "gap": gap}, loud=True)
                )
        if options.judging() == (options.model,):
            self.notices.append(ReportNotice("notice_self_judged", {"model": options.model}))

    # --- the iteration, and the winner

    def _iteration(
        self, measured: _Measured, ranking: SkillRanking, options: RunOptions
    ) -> tuple[Iteration | None, ContentPair | None]:
        """Return an iteration, and the winner's text next to that of the best original."""
        files = IterationFiles(self.place.folder)
        report, log = self._try(files.report, None), self._try(files.log, None)
        plan, ledger = self._try(files.plan, None), self._try(files.ledger, None)
        if report is None and log is None:
            return None, self._recomposed(ranking, measured)
        # it was made on one baseline, the project may have more
        begun = measured.ranked(options.pass_score, plan.baseline_id if plan else None)
        parent = next((at for at, row in enumerate(begun.rows) if row.rank is not None), None)
        start = None if parent is None else begun.rows[parent].mean
        cause = plan.stop_cause if plan else None
        found = iteration_of(report, log, ledger or {}, cause=cause, start=start)
        if report is None or report.best_round == 0 or parent is None:
            return found, None
        after = self._try(lambda: self._content(files, report), None)
        before = measured.arms[begun.order[parent]].content
        names = (begun.rows[parent].name, report.best_skill_name)
        return found, None if after is None else ContentPair(*names, before, after)

    def _content(self, files: IterationFiles, report: IterationReport) -> str:
        folder = files.round_folder(report.best_round) / "skills"
        path = folder / asset_folder("skill", Path(report.best_skill_id).name, "v1") / CONTENT_FILE
        return read_bytes(path, self.place.shown(path), _MAX_CONTENT).decode("utf-8", "replace")

    def _recomposed(self, ranking: SkillRanking, measured: _Measured) -> ContentPair | None:
        """Compare the first of the ranking with what it was made of, where that took part as well."""
        if not ranking.rows or ranking.rows[0].rank is None:
            return None
        first, others = ranking.rows[0], list(enumerate(ranking.rows))[1:]
        sources = {first.skill_id, *self._sources(ranking.order[0])}
        parent = next((at for at, row in others if row.skill_id in sources), None)
        if parent is None:
            return None
        before, after = measured.arms[ranking.order[parent]], measured.arms[ranking.order[0]]
        names = (f"{before.name} {before.version}", f"{after.name} {after.version}")
        return ContentPair(*names, before.content, after.content)

    def _sources(self, at: int) -> list[str]:
        """Name the skills that one of the project's was recomposed of."""
        folder = self.place.folder / "skills" / Path(self.place.config.skills[at].local_path).name
        told = self._try(lambda: self.place.read(folder / "provenance.json", Provenance), None)
        return [each.skill_id for each in told.source_skills] if told else []


def _trusted(rows: Sequence[ReportSkill], judges: Sequence[Judge]) -> tuple[ReportSkill, ...]:
    """Take the ranks away where a judge is blind."""
    if all(judge.passed is not False for judge in judges):
        return tuple(rows)
    return tuple(replace(row, rank=None, tie_group=None) for row in rows)


def _versions(journal: Sequence[Mapping[str, Any]]) -> set[str]:
    return {version for call in journal if isinstance(version := call.get("cli_version"), str)}
