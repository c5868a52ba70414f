"""Terminal output and commands for analysis and recomposition of skills."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cli.lab.finding import project_of
from cli.lab.showing import named, show_stored, stored_fields, warned
from cli.output import BOLD, CYAN, DIM, ProgressLine, masked, note, paint, short, write, write_json
from cli.running import language, services
from cli.texts import tell
from cli.turns import read_text

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
