"""Terminal output and commands for summarizing a session and undoing a summary."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from cli.following import follow
from cli.output import BOLD, DIM, masked, note, paint, warn, write, write_json
from cli.running import language_of
from cli.texts import tell
from personalab.texts import Language

if TYPE_CHECKING:
    from nodes.summarize import SummaryInput
    from personalab.services import Services


async def summarise(
    services: Services, instance_id: str, *, dry_run: bool, model: str | None, as_json: bool
) -> int:
    """Summarise the current session, with progress; with ``dry_run`` only show what it would become."""
    from graph.summarize import stream_summary

    language = await asyncio.to_thread(language_of, services)
    call: SummaryInput = {"instance_id": instance_id, "dry_run": dry_run}
    result, code = await follow(
        stream_summary(services, call, model=model),
        lambda done, total: tell("summarising", language, done=done, total=total),
    )
    if as_json:
        write_json(result)
    else:
        _show(result, language)
    for warning in result.get("warnings", []):
        warn(warning, language)
    return code


def _show(result: dict[str, Any], language: Language) -> None:
    if error := result.get("error"):
        note(str(error["message"]))
        return
    for point in result.get("points", []):
        first, last = point["turns"]
        write(f"{paint(masked(point['summary']), BOLD)} {paint(f'[{first}–{last}]', DIM)}")
        if result["status"] == "preview":
            write(f"{paint(masked(point['plot']), DIM)}\n")
    code = "summary_preview" if result["status"] == "preview" else "summary_done"
    note(
        tell(
            code,
            language,
            count=len(result.get("points", [])),
            old=result["session_id"],
            new=result["new_session_id"],
            kept=result.get("kept_turns", 0),
            instance_id=result["instance_id"],
        )
    )


async def take_back(services: Services, instance_id: str, *, as_json: bool) -> None:
    """Undo the last summary."""
    from personalab.operations.summaries import undo_summary

    language = await asyncio.to_thread(language_of, services)
    undone = await undo_summary(services, instance_id)
    told = {"session_id": undone.current_session_id, "turns": undone.turns, "aside": undone.aside}
    if as_json:
        write_json({"instance_id": instance_id, **told})
        return
    write(tell("summary_undone", language, **told))
    if undone.turns:
        note(tell("turns_aside", language, **told))
