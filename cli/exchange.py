"""Terminal output for imports and exports."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cli.output import (
    BOLD,
    DIM,
    GREEN,
    YELLOW,
    ProgressLine,
    is_terminal,
    masked,
    note,
    one_line,
    paint,
    write,
    write_json,
)
from cli.running import DONE, FAILED, Refusal, language_of
from cli.texts import tell
from personalab.texts import Language

if TYPE_CHECKING:
    from personalab.operations.exporting import CardVersion, ExportFile, ExportFormat
    from personalab.operations.imports import Imported, ImportOptions, ImportReport, OnConflict
    from personalab.services import Services

STDOUT = "-"


# --- in


async def import_paths(
    services: Services,
    paths: Sequence[str],
    wishes: ImportOptions,
    *,
    as_json: bool,
) -> int:
    """Import files and list what each became; files that were skipped or undecided make the exit code 1."""
    language = await asyncio.to_thread(language_of, services)
    report = await _import(services, [Path(path) for path in paths], wishes, language)
    if as_json:
        write_json(report.fields(language))
    else:
        _print_report(report, language)
    open_conflicts = [entry for entry in report.imported if entry.options]
    if open_conflicts and not as_json and is_terminal(sys.stdin) and is_terminal(sys.stdout):
        await _decide(services, open_conflicts, wishes, language)
    elif open_conflicts:
        note(tell("import_choose_flag", language, count=len(open_conflicts)))
        return FAILED
    return FAILED if report.skipped else DONE


async def _decide(
    services: Services, conflicts: Sequence[Imported], wishes: ImportOptions, language: Language
) -> None:
    """Ask about each card that conflicts with a character, and import it as the person chooses."""
    from cli.choosing import ask

    choices: tuple[OnConflict, ...] = ("skip", "update", "copy")
    rows = [tell(f"import_choice_{choice}", language) for choice in choices]
    for entry in conflicts:
        shown = {"id": entry.entry_id, "name": masked(one_line(entry.name)), "file": masked(entry.file)}
        chosen = choices[ask(tell("import_choose", language, **shown), rows, language)]
        if chosen != "skip":
            wished = replace(wishes, on_conflict=chosen)
            _print_report(await _import(services, [Path(entry.file)], wished, language), language)


async def _import(
    services: Services, paths: Sequence[Path], wishes: ImportOptions, language: Language
) -> ImportReport:
    from personalab.operations.importing import import_files

    progress = ProgressLine()

    def show(done: int, total: int, name: str) -> None:
        progress.show(tell("importing", language, done=done, total=total, name=masked(name)))

    try:
        return await import_files(services, paths, wishes, show)
    finally:
        progress.clear()


def _print_report(report: ImportReport, language: Language) -> None:
    for entry in report.imported:
        write(_row(entry, language))
        for noted in entry.notes:
            write(paint(f"    {masked(one_line(noted.message(language)))}", DIM))
    for skipped in report.skipped:
        reason = masked(one_line(skipped.error.message(language)))
        note(
            paint(
                tell("import_skipped", language, file=masked(skipped.file), message=reason),
                YELLOW,
                sys.stderr,
            )
        )
    if report.not_indexed is not None:
        note(tell("import_not_indexed", language, message=one_line(report.not_indexed.message(language))))
    if not report.imported and not report.skipped:
        note(tell("import_nothing", language))
    elif len(report.imported) + len(report.skipped) > 1:
        counts = {"imported": len(report.imported), "skipped": len(report.skipped)}
        write(tell("import_counts", language, **counts))


def _row(entry: Imported, language: Language) -> str:
    mark = paint(tell(f"import_{entry.outcome}", language), DIM if entry.outcome == "same" else GREEN)
    kind = tell(f"kind_{entry.kind}", language)
    name = masked(one_line(entry.name))
    return f"{mark}  {kind}  {paint(entry.entry_id, BOLD)}  {name}  {paint('← ' + masked(entry.file), DIM)}"


# --- out


async def export_to(
    services: Services,
    entry: str,
    format: ExportFormat | None,
    out: str | None,
    session: str | None,
    version: CardVersion | None,
    *,
    markers: bool,
    reasoning: bool,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write an entry to a file, or to standard output, which then carries nothing else."""
    from personalab.operations.exporting import export_entry, write_export

    if out == STDOUT and as_json:
        raise Refusal("not_together", names="--out -, --json")
    language = await asyncio.to_thread(language_of, services)
    exported = await export_entry(
        services,
        entry,
        format,
        session_id=session,
        version=version,
        language=language,
        markers=markers,
        reasoning=reasoning,
    )
    if out == STDOUT:
        await asyncio.to_thread(_pour, exported)
    else:
        path = _place(out, exported.name)
        size = await write_export(exported, path, overwrite=overwrite)
        if as_json:
            shown = {"file": str(path), "bytes": size, "format": exported.format, "id": exported.entry_id}
            left = {
                "other_sessions": list(exported.other_sessions),
                "left_out": list(exported.left_out),
            }
            write_json({**shown, "kind": exported.kind, **left})
        else:
            write(
                tell("exported", language, file=masked(str(path)), size=f"{size:,}", format=exported.format)
            )
    if exported.left_out:
        names = masked(", ".join(exported.left_out))
        note(tell("export_left_out", language, format=exported.format, names=names))
    if exported.other_sessions:
        others = ", ".join(exported.other_sessions)
        note(tell("one_session", language, others=others, entry=exported.entry_id, format=exported.format))


def _place(out: str | None, name: str) -> Path:
    path = Path(out) if out is not None else Path(name)
    return path / name if path.is_dir() else path


def _pour(exported: ExportFile) -> None:
    sys.stdout.flush()
    for chunk in exported.chunks:
        sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()
