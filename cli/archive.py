"""Terminal output and commands for Veloca archives."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.output import (
    BOLD,
    CYAN,
    DIM,
    GREEN,
    RED,
    YELLOW,
    is_terminal,
    masked,
    note,
    paint,
    write,
    write_json,
)
from cli.running import DONE, FAILED, Refusal, language, one_of, services, wait_for
from cli.texts import tell
from cli.turns import follow, read_text
from personalab.archive.veloca_archive import SHORT_ID
from personalab.data_files import open_regular
from personalab.errors import Reason, as_reason
from personalab.operations import archives
from personalab.operations.archives import ArchivePlace

if TYPE_CHECKING:
    from nodes.compact.state import CompactInput

MAX_TOOLS = 1024 * 1024


def opened(file: Path | None) -> ArchivePlace:
    """Find the archive that a command works with."""
    return archives.archive_of(services(), file=file)


# --- looking


async def show_sessions(archive: ArchivePlace, *, everything: bool, as_json: bool) -> None:
    """Print the sessions with what they hold."""
    found = await archives.sessions(archive, everything=everything)
    if as_json:
        write_json(found)
        return
    if not found:
        note(tell("archive_no_sessions", language(), file=_option(archive)))
    for session in found:
        place = tell("archive_session", language(), **session)
        name = _struck(session["name"], session["status"])
        write(f"{paint(session['session_id'][:SHORT_ID], CYAN)} {name} {paint(place, DIM)}")


async def show_entries(archive: ArchivePlace, session: str, *, everything: bool, as_json: bool) -> None:
    """Print the entries of a session, with those that a summary replaces marked."""
    found = await archives.entries(archive, session, everything=everything, on_unread=_unread(archive))
    if as_json:
        write_json(found)
        return
    if not found:
        note(tell("archive_no_entries", language()))
    for entry in found:
        compacted = "" if entry["is_compaction"] else f" {tell('archive_compacted', language())}"
        head = paint(f"{entry['entry_id'][:SHORT_ID]} {entry['role']}{compacted}", DIM)
        write(f"{head} {_struck(entry['message'], entry['status'])}{_tools(entry['tools'])}")


def _unread(archive: ArchivePlace) -> Callable[[int], None]:
    """Print on stderr how many records are not listed because they cannot be read."""

    def say(count: int) -> None:
        if count:
            told = tell("archive_unread", language(), count=count, file=_option(archive))
            note(paint(told, YELLOW, sys.stderr))

    return say


def _struck(text: str, status: int) -> str:
    """Mark what is deleted."""
    return paint(tell("archive_deleted", language(), text=masked(text)), DIM) if status else masked(text)


def _tools(tools: dict[str, Any] | None) -> str:
    calls = [call["function"] for call in (tools or {}).get("tool_calls", [])]
    shown = "".join(f" → {call['name']}({call['arguments']})" for call in calls)
    return paint(masked(shown), DIM) if shown else ""


async def show_context(archive: ArchivePlace, session: str, *, as_json: bool) -> None:
    """Print what a model should see."""
    found = await archives.context(archive, session, on_unread=_unread(archive))
    if as_json:
        write_json(found)
        return
    for message in found:
        words = masked(str(message.get("content") or ""))
        write(f"{paint(message['role'], BOLD)} {words}{_tools(message['tools'])}")


async def show_tokens(archive: ArchivePlace, session: str | None, *, as_json: bool) -> None:
    """Print the tokens that were used, by session."""
    found = await archives.tokens(archive, session)
    if as_json:
        write_json(found)
        return
    for row in found["sessions"]:
        write(f"{paint(row['session_id'][:SHORT_ID], CYAN)} {masked(row['name'])} {row['tokens']}")
    write(tell("archive_tokens", language(), total=found["total"]))


# --- writing


async def begin_session(archive: ArchivePlace, name: str, *, as_json: bool) -> None:
    """Create a session and print its id."""
    _show(archive, await archives.begin_session(archive, name), "archive_begun", as_json)


async def append_entry(
    archive: ArchivePlace,
    session: str,
    role: str,
    text: str,
    *,
    tokens: int,
    tools: str | None,
    as_json: bool,
) -> None:
    """Write an entry at the end of a session."""
    one_of({"TEXT -": text == "-", "--tools -": tools == "-"})
    called = await asyncio.to_thread(_tool_calls, tools) if tools is not None else None
    said = await asyncio.to_thread(read_text, text)
    made = await archives.append_entry(archive, session, role, said, tokens=tokens, tools=called)
    _show(archive, made, "archive_appended", as_json)


def _tool_calls(file: str) -> object:
    try:
        with sys.stdin.buffer if file == "-" else os.fdopen(open_regular(file), "rb") as opened_file:
            raw = opened_file.read(MAX_TOOLS + 1)
        if len(raw) > MAX_TOOLS:
            raise Refusal("bad_request_file", file=file, reason=Reason("over_bytes", limit=MAX_TOOLS))
        return json.loads(raw.decode("utf-8-sig"))
    except OSError as error:
        raise Refusal("bad_request_file", file=file, reason=as_reason(error)) from error
    except (ValueError, RecursionError) as error:
        raise Refusal("bad_request_file", file=file, reason=as_reason(error)) from error


async def edit_entry(archive: ArchivePlace, entry: str, text: str, *, as_json: bool) -> None:
    """Word an entry differently."""
    said = await asyncio.to_thread(read_text, text)
    _show(archive, await archives.edit_entry(archive, entry, said), "archive_edited", as_json)


async def mark(archive: ArchivePlace, record: str, *, deleted: bool, as_json: bool) -> None:
    """Mark a record as deleted, or bring it back."""
    changed = await archives.mark(archive, record, deleted=deleted)
    _show(archive, changed, "archive_marked" if deleted else "archive_unmarked", as_json)


def _show(archive: ArchivePlace, record: dict[str, Any], code: str, as_json: bool) -> None:
    if as_json:
        write_json(record)
        return
    named = record.get("entry_id") or record["session_id"]
    write(tell(code, language(), record_id=named, file=_option(archive)))


def _option(archive: ArchivePlace) -> str:
    """Return what a command needs to work with the same archive."""
    return "" if archive.in_root else f" --file {shlex.quote(str(archive.path))}"


# --- compacting


async def compact_session(
    archive: ArchivePlace,
    session: str,
    *,
    summary: str | None,
    trigger: str | None,
    dry_run: bool,
    model: str | None,
    as_json: bool,
) -> int:
    """Compact a session, with progress; with ``dry_run`` only show the summary."""
    from graph.compact import stream_compact

    call: CompactInput = {"session_id": session, "dry_run": dry_run}
    if trigger is not None:
        call["trigger_entry_id"] = trigger
    if summary is not None:
        call["summary"] = await asyncio.to_thread(read_text, summary)
    result, code = await follow(
        stream_compact(services(), call, model=model, file=None if archive.in_root else archive.path),
        lambda done, total: tell("summarising", language(), done=done, total=total),
    )
    if as_json:
        write_json(result)
    if error := result.get("error"):
        note(str(error["message"]))
    elif not as_json:
        write(masked(result["dialogue"]["summary"]))
        told = "archive_preview" if result["status"] == "preview" else "archive_compacted_done"
        session = result["session_id"][:SHORT_ID]
        note(tell(told, language(), count=result["entries"], session=session, file=_option(archive)))
    return code


async def undo_compaction(archive: ArchivePlace, record: str, *, as_json: bool) -> None:
    """Take a compaction back and tell what came back with it."""
    undone = await archives.undo_compaction(archive, record)
    if as_json:
        write_json(undone)
    else:
        write(tell("archive_undone", language(), count=undone["entries"]))


# --- the file itself


async def verify_archive(archive: ArchivePlace, *, as_json: bool) -> int:
    """Check an archive; whatever is wrong is listed and makes the exit code 1."""
    report = await archives.verify(archive, language())
    if as_json:
        write_json(report)
    else:
        for problem in report["problems"]:
            write(f"{paint(tell('mark_problem', language()), RED)} {masked(problem['message'])}")
        code = "archive_sound" if report["healthy"] else "archive_unsound"
        write(paint(tell(code, language(), **report["counts"]), GREEN if report["healthy"] else YELLOW))
    return DONE if report["healthy"] else FAILED


async def fold_journal(archive: ArchivePlace, *, as_json: bool) -> None:
    """Write the journal into the file."""
    folded = await archives.fold(archive)
    if as_json:
        write_json(folded)
    else:
        code = "archive_folded" if folded["folded"] else "archive_nothing_to_fold"
        write(tell(code, language(), file=folded["file"]))


async def show_backups(archive: ArchivePlace, *, as_json: bool) -> None:
    """List the backups."""
    found = await archives.backups(archive)
    if as_json:
        write_json(found)
        return
    if not found:
        note(tell("archive_no_backups", language()))
    for backup in found:
        code = "archive_backup_broken" if backup["problem"] else "archive_backup"
        write(tell(code, language(), name=Path(backup["path"]).name, **backup))


def restore_archive(archive: ArchivePlace, backup: int | None, *, yes: bool, as_json: bool) -> int:
    """Repair a broken file, or restore a backup; without a terminal ``--yes`` is required."""
    if not yes:
        if not is_terminal(sys.stdin):
            raise Refusal("archive_say_yes")
        code = "archive_ask_whole" if backup is None else "archive_ask"
        note(tell(code, language(), file=archive.path.name, backup=backup))
        if sys.stdin.readline().strip().lower() not in ("y", "yes", "是"):
            note(tell("not_forgotten", language()))
            return FAILED
    restored = wait_for(archives.restore(archive, backup))
    if as_json:
        write_json(restored)
    else:
        _show_restored(restored, "archive_restored" if backup is None else "archive_went_back")
    return DONE


def _show_restored(restored: dict[str, Any], code: str) -> None:
    if not restored["changed"]:
        write(tell("archive_whole", language(), **restored))
        return
    used = Path(restored["backup"]).name if restored["backup"] else "–"
    write(tell(code, language(), **{**restored, "backup": used}))
    for path in restored["set_aside"]:
        note(tell("archive_set_aside", language(), path=path))
    if restored["lost_lines"]:
        note(paint(tell("archive_lost_lines", language(), count=restored["lost_lines"]), YELLOW, sys.stderr))
