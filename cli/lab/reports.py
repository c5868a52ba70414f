"""Writes a project's report to a file or to standard output."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from cli.lab.finding import project_of
from cli.lab.runs import checked
from cli.output import masked, write, write_json
from cli.running import DONE, Refusal, language, services
from cli.texts import tell
from personalab.operations.lab.reporting import project_report

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
