"""Terminal output for analysis, recomposition, the leaderboard and reports of a project."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from cli.lab.finding import baseline_of, project_of
from cli.lab.runs import checked
from cli.lab.showing import named, padded, score, short_id, show_stored, stored_fields, warned
from cli.output import (
    BOLD,
    CYAN,
    DIM,
    YELLOW,
    ProgressLine,
    columns,
    masked,
    note,
    paint,
    short,
    write,
    write_json,
)
from cli.running import DONE, Refusal, language, services
from cli.texts import tell
from cli.turns import read_text
from personalab.operations.lab.reporting import project_report

if TYPE_CHECKING:
    from personalab.lab.findings import AnalysisReport


_WIDTH = 90


async def analyse(word: str, model: str | None, *, as_json: bool) -> None:
    """Find out what makes each skill good or bad, and print it."""
    from personalab.operations.lab.findings import run_analysis

    place = await project_of(word)
    progress = ProgressLine()
    progress.show(tell("lab_analysing", language(), project=place.name))
    try:
        report = await run_analysis(services(), place.name, model=model)
    finally:
        progress.clear()
    if as_json:
        write_json(report.model_dump(mode="json"))
        return
    _show_report(report, {ref.ref_id: ref.name for ref in place.config.skills})
    note(tell("lab_after_analysis", language(), project=place.name))


def _show_report(report: AnalysisReport, names: Mapping[str, str]) -> None:
    write(tell("lab_best", language(), name=named(report.best_skill_name), skill_id=report.best_skill_id[:8]))
    for dimension, skill_id in report.dimension_leaders.model_dump().items():
        leader = named(names.get(skill_id, skill_id))
        write(f"  {tell(f'lab_{dimension}', language())} {paint(leader, CYAN)}")
    if not report.advantage_segments:
        warned("lab_no_segments_found")
    for segment in report.advantage_segments:
        dimension = tell(f"lab_{segment.dimension}", language())
        place = paint(f"{segment.type} · {dimension} · {named(segment.skill_name)}", DIM)
        write(f"{paint(segment.id, CYAN)} {place}")
        write(f"  {masked(short(segment.content, _WIDTH))}")
        write(f"  {paint('← ' + masked(short(segment.reason, _WIDTH)), DIM)}")
    for issue in report.issues:
        dimension = tell(f"lab_{issue.dimension}", language())
        write(
            f"! {paint(named(issue.skill_name), BOLD)} {dimension}: {masked(short(issue.description, _WIDTH))}"
        )


async def recompose(
    word: str, wishes: Mapping[str, Any], rules: str, model: str | None, *, as_json: bool
) -> None:
    """Make a new skill of segments; ``wishes`` are options of the operation."""
    from personalab.operations.lab.findings import recompose as make
    from personalab.operations.lab.findings import retention_of_analysis

    place = await project_of(word)
    said = await asyncio.to_thread(read_text, rules)
    progress = ProgressLine()
    progress.show(tell("lab_recomposing", language(), project=place.name))
    try:
        made = await make(services(), place.name, model=model, rules=said, **wishes)
    finally:
        progress.clear()
    retention = await retention_of_analysis(services(), place.name, said, wishes["keep"], wishes["drop"])
    if as_json:
        write_json({**stored_fields(made), "retention": retention})
        return
    show_stored(made, "lab_recomposed", as_json=False)
    show_retention(retention)
    write("")
    write(masked(made.content))


def show_retention(retention: Mapping[str, Sequence[str]]) -> None:
    """Print how rules were understood."""
    ids = {name: ", ".join(found) or "–" for name, found in retention.items()}
    write(tell("lab_retention", language(), **ids))


# --- leaderboard


Row = Mapping[str, Any]


async def show_board(baseline: str | None, purpose: str | None, *, flat: bool, as_json: bool) -> None:
    """Print who did best on which baseline."""
    from personalab.operations.lab.leaderboard import leaderboard

    tests = (await baseline_of(baseline)).meta.id if baseline is not None else None
    found = await leaderboard(services(), group=not flat, baseline_id=tests, purpose=purpose)
    if as_json:
        write_json(found)
        return
    groups = cast("list[Row]", found.get("groups") or [])
    records = cast("list[Row]", found.get("records") or [])
    if not groups and not records:
        note(tell("lab_board_empty", language()))
    for group in groups:
        head = f"{paint(named(group['baseline_name']), BOLD)} {short_id(str(group['baseline_id']))}"
        count = tell("lab_board_skills", language(), count=group["skill_count"])
        write(f"{head} {paint(count, DIM)}")
        _show_records(group["records"], with_baseline=False)
    _show_records(records, with_baseline=True)
    for warning in found["warnings"]:
        warned("warning", message=_worded(warning))


def _show_records(records: Sequence[Row], *, with_baseline: bool) -> None:
    if not records:
        return
    width = max(columns(named(row["skill_name"])) for row in records)
    for row in records:
        tested = f"{row['skill_version_tested']} {row['completed_cases']}/{row['case_count']}"
        place = f"{named(row['baseline_name'])} · " if with_baseline else ""
        stale = row["staleness"]
        mark = "" if stale == "current" else paint(f" {tell(f'lab_{stale}', language())}", YELLOW)
        rest = paint(f"{tested} {place}{named(row['project_name'])} {row['tested_at']}", DIM)
        write(f"  {score(row['avg_score']):>5} {padded(named(row['skill_name']), width)} {rest}{mark}")


def _worded(warning: Row) -> str:
    from personalab.lab.calling import warning_text

    return named(warning_text(warning, language()))


# --- reports


STDOUT = "-"


async def write_report(
    word: str, form: str, out: str | None, *, overwrite: bool, check: bool, as_json: bool
) -> int:
    """Write a report to a file, or to standard output, which then carries nothing else."""
    if out == STDOUT and as_json:
        raise Refusal("not_together", names="--out -, --json")
    place = await project_of(word)
    report = await project_report(services(), place.name, form, language())
    if out == STDOUT:
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdout.buffer.write, report.content)
        sys.stdout.buffer.flush()
    else:
        path = _place(out, report.name)
        await asyncio.to_thread(_save, path, report.content, overwrite)
        if as_json:
            write_json(
                {"project": place.name, "file": str(path), "bytes": len(report.content), "format": form}
            )
        else:
            size = f"{len(report.content):,}"
            write(tell("exported", language(), file=masked(str(path)), size=size, format=form))
    return await checked(place.name, None) if check else DONE


def _place(out: str | None, name: str) -> Path:
    path = Path(out) if out is not None else Path(name)
    return path / name if path.is_dir() else path


def _save(path: Path, content: bytes, overwrite: bool) -> None:
    from personalab.storage.exchange import write_outside

    if not path.absolute().parent.is_dir():
        raise Refusal("lab_no_folder", folder=str(path.absolute().parent))
    write_outside(path, [content], overwrite=overwrite)
