"""Terminal output for rebuilding the event library and for the findings of ``doctor``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from cli.output import DIM, GREEN, RED, YELLOW, ProgressLine, note, paint, write, write_json
from cli.running import DONE, FAILED, language_of
from cli.texts import tell
from personalab.texts import Language

if TYPE_CHECKING:
    from personalab.operations.doctor_findings import DoctorReport, Finding
    from personalab.services import Services


async def rebuild(services: Services, *, as_json: bool) -> int:
    """Rebuild the event library; what had to be left out makes the exit code 1."""
    from personalab.operations.reindex import reindex

    language = await asyncio.to_thread(language_of, services)
    progress = ProgressLine()

    def show(done: int, total: int, name: str) -> None:
        progress.show(tell("reindexing", language, done=done, total=total, name=name))

    try:
        rebuilt = await reindex(services, show)
    finally:
        progress.clear()
    if as_json:
        skipped = [error.message(language) for error in rebuilt.skipped]
        write_json({"counts": rebuilt.counts, "skipped": skipped})
    else:
        write(tell("reindexed", language, **rebuilt.counts))
        for error in rebuilt.skipped:
            note(tell("skipped", language, message=error.message(language)))
    return FAILED if rebuilt.skipped else DONE


async def examine(services: Services, *, fix: bool, as_json: bool) -> int:
    """Check the data root, print the findings, and tell by the exit code whether all is well now."""
    from personalab.operations.doctor import examine_root

    language = await asyncio.to_thread(language_of, services)
    progress = ProgressLine()
    try:
        report = await examine_root(
            services, fix=fix, progress=lambda name: progress.show(tell("checking", language, name=name))
        )
    finally:
        progress.clear()
    if as_json:
        write_json(report.as_json(language))
    else:
        _print_report(report, language)
    return DONE if report.healthy else FAILED


def _print_report(report: DoctorReport, language: Language) -> None:
    for finding in report.findings:
        write(_row(finding, language))
    problems = [finding for finding in report.findings if finding.level == "problem"]
    if not problems:
        write(paint(tell("all_well", language, files=report.files), GREEN))
        return
    fixed = sum(finding.fixed for finding in problems)
    left = len(problems) - fixed
    counts = {"files": report.files, "problems": len(problems), "fixed": fixed, "left": left}
    write(paint(tell("checked", language, **counts), RED if left else GREEN))
    waiting = sum(finding.fixable and not finding.fixed for finding in problems)
    if waiting:
        note(tell("can_fix", language, count=waiting))


def _row(finding: Finding, language: Language) -> str:
    place = finding.file if finding.line is None else f"{finding.file}:{finding.line}"
    if finding.level == "note":
        mark = paint(tell("mark_note", language), DIM)
    elif finding.fixed:
        mark = paint(tell("mark_fixed", language), GREEN)
    else:
        mark = paint(tell("mark_problem", language), RED)
    remedy = "" if finding.fixed else finding.remedy(language)
    tail = paint(f"\n    → {remedy}", YELLOW) if remedy else ""
    return f"{mark}  {place}  {finding.message(language)}{tail}"
