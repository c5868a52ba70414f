"""Terminal output and commands for skills."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cli.lab.finding import baseline_of, skill_of
from cli.lab.showing import (
    asset_row,
    named,
    score,
    short_id,
    show_meta,
    show_stored,
    tell_unread,
    text_of,
    warned,
)
from cli.output import BOLD, DIM, GREEN, RED, masked, note, paint, write, write_json
from cli.running import DONE, FAILED, Refusal, language, services
from cli.texts import tell
from personalab.errors import NotFound, PersonaLabError
from personalab.operations.lab import exchange, skills
from personalab.operations.lab.importing import ImportResult

Changes = dict[str, Any]


async def install_samples(*, as_json: bool) -> None:
    """Install the missing samples."""
    came = await exchange.install_samples(services())
    if as_json:
        write_json([_came(row) for row in came])
        return
    _show_came(came)
    if not came:
        note(tell("lab_samples_here", language()))


# --- looking


async def show_skills(
    purpose: str | None, tag: str | None, query: str | None, *, everything: bool, as_json: bool
) -> None:
    """List skills with their tags and how they did."""
    found = await skills.list_skills(services(), purpose=purpose, tag=tag, query=query, archived=everything)
    if as_json:
        write_json(found)
        return
    if not found:
        note(tell("lab_no_skills", language()))
    for row in found:
        write(asset_row(row, _tested(row["testSummary"])))
    await tell_unread()


def _tested(summary: dict[str, Any] | None) -> str:
    if not summary:
        return ""
    staleness = tell(f"lab_{summary['staleness'] or 'scoreless'}", language())
    best = score(summary["best_score"])
    return tell("lab_tested", language(), best=best, count=summary["test_count"], staleness=staleness)


async def show_skill(word: str, version: str | None, *, as_json: bool) -> None:
    """Print everything of a skill."""
    found = await skills.get_skill(services(), (await skill_of(word)).meta.id, version)
    if as_json:
        write_json(found)
        return
    show_meta(found["meta"], found["tags"], found["versions"])
    if tested := _tested(found["testSummary"]):
        write(tested)
    if origin := found["provenance"]:
        sources = ", ".join(
            f"{named(row['skill_name'])} ({', '.join(row['contributed_segments'])})"
            for row in origin["source_skills"]
        )
        project = named(origin["source_project_name"])
        write(tell("lab_made_of", language(), sources=sources or "–", project=project))
    for doubt in found["doubts"]:
        warned("lab_doubtful", reason=named(doubt))
    write("")
    write(masked(found["content"]))


async def show_diff(word: str, before: str | None, after: str | None, *, as_json: bool) -> None:
    """Print what changed in a skill's content between two versions; the last change if none is named."""
    stored = await skill_of(word)
    known = await asyncio.to_thread(services().assets.versions, stored)
    first, last = before or known[max(0, len(known) - 2)], after or known[-1]
    text = await skills.skill_diff(services(), stored.meta.id, first, last)
    if as_json:
        write_json({"id": stored.meta.id, "from_version": first, "to_version": last, "diff": text})
    elif text:
        for line in text.splitlines():
            write(_coloured(masked(line)))
    else:
        note(tell("lab_no_difference", language(), before=first, after=last))


def _coloured(line: str) -> str:
    if line.startswith(("+++", "---", "@@")):
        return paint(line, DIM)
    return paint(line, GREEN) if line.startswith("+") else paint(line, RED) if line.startswith("-") else line


# --- changing


async def new_skill(
    name: str, text: str | None, file: Path | None, fields: Changes, *, as_json: bool
) -> None:
    """Keep a new skill."""
    content = await asyncio.to_thread(text_of, text, file)
    if content is None:
        raise Refusal("lab_need_content")
    made = await skills.create_skill(services(), name=name, content=content, **fields)
    show_stored(made, "lab_made_skill", as_json=as_json)


async def edit_skill(
    word: str, text: str | None, file: Path | None, fields: Changes, expected: str | None, *, as_json: bool
) -> None:
    """Make the next version of a skill."""
    stored = await skill_of(word)
    content = await asyncio.to_thread(text_of, text, file)
    if content is None and not any(value is not None for value in fields.values()):
        raise Refusal("lab_nothing_given")
    made = await skills.edit_skill(
        services(), stored.meta.id, content=content, expected_version=expected, **fields
    )
    same = made.meta.version == stored.meta.version
    show_stored(made, "lab_unchanged" if same else "lab_edited", as_json=as_json)


async def archive_skill(word: str, *, archived: bool, as_json: bool) -> None:
    """Archive a skill, or restore it."""
    stored = await skill_of(word)
    made = await skills.archive_skill(services(), stored.meta.id, archived=archived)
    show_stored(made, "lab_put_away" if archived else "lab_brought_back", as_json=as_json)


# --- in and out


async def import_skills(
    paths: Sequence[Path], purpose: str | None, provider: str | None, name: str | None, *, as_json: bool
) -> int:
    """Import files, each whole or not at all; a failed import makes the exit code 1."""
    if len(paths) == 1:
        _check_there(paths[0])
        came = await exchange.import_skill(
            services(), paths[0], purpose=purpose, provider=provider, name=name
        )
        _print_import([_came(row) for row in came], [], as_json=as_json)
        return DONE
    if name is not None:
        raise Refusal("lab_one_name")
    rows: list[dict[str, Any]] = []
    failed: list[dict[str, Any]] = []
    for path in paths:
        try:
            _check_there(path)
            came = await exchange.import_skill(services(), path, purpose=purpose, provider=provider)
            rows += [{**_came(row), "file": str(path)} for row in came]
        except PersonaLabError as error:
            failed.append({"file": str(path), "code": error.code, "message": error.message(language())})
    _print_import(rows, failed, as_json=as_json)
    return FAILED if failed else DONE


def _check_there(path: Path) -> None:
    """Refuse a missing path, so that it is not reported as an unknown format."""
    if not path.exists():
        raise NotFound("lab_nothing_there", file=str(path))


def _print_import(rows: Sequence[dict[str, Any]], failed: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        write_json({"imported": rows, "failed": failed})
    for row in () if as_json else rows:
        write(_came_row(row))
    for row in failed:
        warned("import_skipped", file=named(row["file"]), message=named(row["message"]))


async def export_skill(word: str, out: Path, baseline: str | None, *, overwrite: bool, as_json: bool) -> None:
    """Write a skill as a folder that other programs read."""
    stored = await skill_of(word)
    tests = (await baseline_of(baseline)).meta.id if baseline is not None else None
    files = await exchange.export_skill(
        services(), stored.meta.id, out, baseline_id=tests, overwrite=overwrite
    )
    _show_files(files, as_json=as_json)


async def export_promptfoo(
    words: Sequence[str], baseline: str, out: Path, model: str, *, overwrite: bool, as_json: bool
) -> None:
    """Write skills and a baseline as a promptfoo configuration."""
    ids = [(await skill_of(word)).meta.id for word in words]
    tests = (await baseline_of(baseline)).meta.id
    files = await exchange.export_promptfoo(services(), ids, tests, out, model=model, overwrite=overwrite)
    _show_files(files, as_json=as_json)


def _show_files(files: Sequence[Path], *, as_json: bool) -> None:
    if as_json:
        write_json({"files": [str(file) for file in files]})
        return
    for file in files:
        write(masked(str(file)))


async def from_character(character: str, *, as_json: bool) -> None:
    """Import a character's persona as a skill."""
    came = await exchange.import_persona(services(), character)
    if as_json:
        write_json(_came(came))
    else:
        _show_came([came])


async def to_character(word: str, character: str, *, overwrite: bool, as_json: bool) -> None:
    """Make a skill who a character is."""
    stored = await skill_of(word)
    saved = await exchange.skill_to_character(services(), stored.meta.id, character, overwrite=overwrite)
    if as_json:
        write_json({"character_id": character, "name": saved.entry.name, "created": saved.created})
    else:
        code = "lab_character_made" if saved.created else "lab_character_changed"
        write(tell(code, language(), character=character, name=named(stored.meta.name)))


def _came(row: ImportResult) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("kind", "id", "name", "version", "outcome", "folder")}


def _show_came(came: Sequence[ImportResult]) -> None:
    for row in came:
        write(_came_row(_came(row)))


def _came_row(row: dict[str, Any]) -> str:
    outcome = tell(f"lab_outcome_{row['outcome']}", language())
    kind = tell(f"lab_kind_{row['kind']}", language())
    return f"{outcome}  {kind}  {short_id(row['id'])} {paint(named(row['name']), BOLD)} {row['version']}"
