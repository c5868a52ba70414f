"""How does a terminal summarise a session, show it first, and take it back?"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from cli.output import BOLD, DIM, Progress, note, paint, visible, warn, write, write_json
from cli.running import DONE, language_of
from cli.texts import tell
from cli.turns import error_code
from personalab.texts import Language

if TYPE_CHECKING:
    from personalab.services import Services


async def summarise(
    services: Services, instance_id: str, *, dry_run: bool, model: str | None, as_json: bool
) -> int:
    """Summarise the current session, with progress; with ``dry_run`` only show what it would become."""
    from graph.summarize import stream_summary

    language = await asyncio.to_thread(language_of, services)
    progress, code = Progress(), DONE
    result: dict[str, Any] = {}
    call = {"instance_id": instance_id, "dry_run": dry_run}
    try:
        async with aclosing(stream_summary(services, cast("Any", call), model=model)) as stream:
            async for part in stream:
                event = cast("dict[str, Any]", part)
                match event.get("type"):
                    case "progress":
                        progress.show(tell("summarising", language, done=event["done"], total=event["total"]))
                    case "error":
                        code = error_code(event)
                    case None:
                        result = event
                    case _:
                        pass
    finally:
        progress.clear()
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
        write(f"{paint(visible(point['summary']), BOLD)} {paint(f'[{first}–{last}]', DIM)}")
        if result["status"] == "preview":
            write(f"{paint(visible(point['plot']), DIM)}\n")
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
    state = await undo_summary(services, instance_id)
    if as_json:
        write_json({"instance_id": instance_id, "session_id": state.current_session_id})
    else:
        write(tell("summary_undone", language, session_id=state.current_session_id))
