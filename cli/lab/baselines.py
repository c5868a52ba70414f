"""Terminal output and commands for baselines, their cases and drafts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from cli.lab.finding import baseline_of
from cli.lab.showing import asset_row, named, show_meta, show_stored, stored_fields, tell_unread, warned
from cli.output import BOLD, CYAN, DIM, ProgressLine, masked, note, paint, short, write, write_json
from cli.running import Refusal, language, services
from cli.texts import tell
from cli.turns import read_text
from personalab.errors import as_reason
from personalab.operations.lab import baselines

if TYPE_CHECKING:
    from personalab.storage.lab.assets import StoredBaseline

_WIDTH = 70
_MAX_CASES_FILE = 16 * 1024 * 1024


async def show_baselines(
    purpose: str | None, tag: str | None, query: str | None, *, everything: bool, as_json: bool
) -> None:
    """List baselines with their tags."""
    found = await baselines.list_baselines(
        services(), purpose=purpose, tag=tag, query=query, archived=everything
    )
    if as_json:
        write_json(found)
        return
    if not found:
        note(tell("lab_no_baselines", language()))
    for row in found:
        write(asset_row(row, tell("lab_cases", language(), count=row["case_count"])))
    await tell_unread()


async def show_baseline(word: str, version: str | None, *, as_json: bool) -> None:
    """Print a baseline and its cases."""
    found = await baselines.get_baseline(services(), (await baseline_of(word)).meta.id, version)
    if as_json:
        write_json(found)
        return
    show_meta(found["meta"], found["tags"], found["versions"])
    for doubt in found["doubts"]:
        warned("lab_doubtful", reason=named(doubt))
    for case in found["cases"]:
        write("")
        _show_case(case)
    if found["drafts"]:
        short_id = found["meta"]["id"][:8]
        note(tell("lab_drafts_wait", language(), count=len(found["drafts"]), asset_id=short_id))


def _show_case(case: Mapping[str, Any]) -> None:
    category = tell(f"lab_{case['category']}", language())
    write(f"{paint(named(case['id']), CYAN)} {paint(named(case['name']), BOLD)} {paint(category, DIM)}")
    write(f"  {paint('>', DIM)} {masked(short(case['input'], _WIDTH))}")
    write(f"  {paint('=', DIM)} {masked(short(case['expected_output'], _WIDTH))}")


async def new_baseline(name: str, cases_file: Path | None, fields: dict[str, Any], *, as_json: bool) -> None:
    """Keep a new baseline, with the cases of a file if there is one."""
    cases = await asyncio.to_thread(_read_cases, cases_file) if cases_file is not None else []
    made = await baselines.create_baseline(services(), name=name, cases=cases, **fields)
    show_stored(made, "lab_made_baseline", as_json=as_json)


def _read_cases(path: Path) -> list[dict[str, Any]]:
    """Read cases as ``cases.json`` has them, or a bare list of them."""
    from personalab.storage.lab.external_folders import read_external_file

    try:
        data: Any = json.loads(read_external_file(path, _MAX_CASES_FILE).decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise Refusal("bad_request_file", file=str(path), reason=as_reason(error)) from error
    rows: object = cast("dict[str, Any]", data).get("cases") if isinstance(data, dict) else data
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in cast("list[object]", rows)):
        raise Refusal("lab_bad_cases", file=str(path))
    return cast("list[dict[str, Any]]", rows)


async def edit_baseline(word: str, fields: dict[str, Any], expected: str | None, *, as_json: bool) -> None:
    """Change what a baseline says of itself."""
    stored = await baseline_of(word)
    if not any(value is not None for value in fields.values()):
        raise Refusal("lab_nothing_given")
    made = await baselines.edit_baseline(services(), stored.meta.id, expected_version=expected, **fields)
    _show_edited(stored, made, as_json=as_json)


async def archive_baseline(word: str, *, archived: bool, as_json: bool) -> None:
    """Archive a baseline, or restore it."""
    stored = await baseline_of(word)
    made = await baselines.archive_baseline(services(), stored.meta.id, archived=archived)
    show_stored(made, "lab_put_away" if archived else "lab_brought_back", as_json=as_json)


def _show_edited(before: StoredBaseline, after: StoredBaseline, *, as_json: bool) -> None:
    same = before.meta.version == after.meta.version
    show_stored(after, "lab_unchanged" if same else "lab_edited", as_json=as_json)


# --- cases


async def add_case(word: str, fields: dict[str, Any], *, as_json: bool) -> None:
    """Add a case."""
    stored = await baseline_of(word)
    made = await baselines.add_case(services(), stored.meta.id, **await _texts(fields))
    case = made.cases.cases[-1]
    if as_json:
        write_json({**stored_fields(made), "case": case.model_dump(mode="json")})
    else:
        version = made.meta.version
        write(
            tell("lab_case_added", language(), case_id=case.id, name=named(made.meta.name), version=version)
        )


async def edit_case(word: str, case_id: str, fields: dict[str, Any], *, as_json: bool) -> None:
    """Change a case."""
    stored = await baseline_of(word)
    if not any(value is not None for value in fields.values()):
        raise Refusal("lab_nothing_given")
    made = await baselines.edit_case(services(), stored.meta.id, case_id, **await _texts(fields))
    _show_edited(stored, made, as_json=as_json)


async def remove_case(word: str, case_id: str, *, as_json: bool) -> None:
    """Remove a case."""
    stored = await baseline_of(word)
    made = await baselines.remove_case(services(), stored.meta.id, case_id)
    show_stored(made, "lab_edited", as_json=as_json)


async def _texts(fields: dict[str, Any]) -> dict[str, Any]:
    """Read from stdin what is given as ``-``; only one of the texts can be."""
    asked = [name for name in ("input", "expected_output") if fields.get(name) == "-"]
    if len(asked) > 1:
        raise Refusal("not_together", names="--input -, --expected -")
    read = {name: await asyncio.to_thread(read_text, "-") for name in asked}
    return {**fields, **read}


# --- drafts


async def generate(word: str, description: str, count: int, model: str | None, *, as_json: bool) -> None:
    """Let a model draft cases; they wait for review."""
    stored = await baseline_of(word)
    progress = ProgressLine()
    progress.show(tell("lab_drafting", language(), name=named(stored.meta.name)))
    try:
        said = await asyncio.to_thread(read_text, description)
        done = await baselines.generate_cases(services(), stored.meta.id, said, count, model=model)
    finally:
        progress.clear()
    if as_json:
        write_json(done)
        return
    for draft in done["drafts"]:
        _show_case(draft)
    if done["repeated"]:
        note(tell("lab_repeated", language(), count=done["repeated"]))
    note(tell("lab_drafts_wait", language(), count=len(done["drafts"]), asset_id=stored.meta.id[:8]))


async def show_drafts(word: str, *, as_json: bool) -> None:
    """Print the drafts that wait for review."""
    stored = await baseline_of(word)
    _show_drafts(await baselines.drafts(services(), stored.meta.id), as_json=as_json)


def _show_drafts(found: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    if as_json:
        write_json(found)
        return
    if not found:
        note(tell("lab_no_drafts", language()))
    for draft in found:
        _show_case(draft)


async def accept_drafts(word: str, ids: Sequence[str], *, everything: bool, as_json: bool) -> None:
    """Make cases of drafts."""
    stored = await baseline_of(word)
    made = await baselines.accept_drafts(services(), stored.meta.id, _chosen(ids, everything))
    _show_edited(stored, made, as_json=as_json)


async def reject_drafts(word: str, ids: Sequence[str], *, everything: bool, as_json: bool) -> None:
    """Refuse drafts, and show those that still wait."""
    stored = await baseline_of(word)
    left = await baselines.reject_drafts(services(), stored.meta.id, _chosen(ids, everything))
    _show_drafts(left, as_json=as_json)


def _chosen(ids: Sequence[str], everything: bool) -> Sequence[str] | None:
    if everything == bool(ids):
        raise Refusal("lab_drafts_or_all")
    return None if everything else ids
