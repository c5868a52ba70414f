"""Terminal output for summaries of sessions and growth of personas: run, preview, history and undo."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from cli.memory import step_row
from cli.output import BOLD, DIM, GREEN, RED, masked, note, paint, warn, write, write_json
from cli.running import DONE, FAILED, language_of
from cli.texts import tell
from cli.turns import follow
from personalab.texts import Language

if TYPE_CHECKING:
    from nodes.summarize import SummaryInput
    from nodes.update_memory import UpdateInput
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
        _show_summary(result, language)
    for warning in result.get("warnings", []):
        warn(warning, language)
    return code


def _show_summary(result: dict[str, Any], language: Language) -> None:
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


async def undo_summary_and_show(services: Services, instance_id: str, *, as_json: bool) -> None:
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


# --- growth


_LOOKS = {"same": ("  ", DIM), "add": ("+ ", GREEN), "remove": ("- ", RED)}


async def grow(
    services: Services, instance_id: str, *, dry_run: bool, model: str | None, as_json: bool
) -> int:
    """Let the character grow by the last turns; with ``dry_run`` only show who it would become."""
    from graph.update_memory import stream_update

    language = await asyncio.to_thread(language_of, services)
    call: UpdateInput = {"instance_id": instance_id, "dry_run": dry_run}
    result, code = await follow(
        stream_update(services, call, model=model),
        lambda done, total: tell("growing", language, done=done, total=total),
    )
    if as_json:
        write_json(result)
    else:
        _show_growth(result, language)
        _show_learned(result, language)
    warnings = result.get("warnings", [])
    for warning in warnings:
        warn(warning, language)
    return code or (FAILED if any(found["category"] == "memory_not_learned" for found in warnings) else DONE)


def _show_growth(result: Mapping[str, Any], language: Language) -> None:
    if error := result.get("error"):
        note(str(error["message"]))
        return
    if result["status"] == "unchanged" or not result["changes"]:
        note(tell("not_grown", language))
        return
    _show_diff(result["diff"])
    write("")
    _show_changes(result["changes"])
    code = "growth_preview" if result["status"] == "preview" else "grown"
    count, revision = len(result["changes"]), result["revision"]
    note(tell(code, language, count=count, revision=revision, instance_id=result["instance_id"]))


def _show_learned(result: Mapping[str, Any], language: Language) -> None:
    learned = result.get("memory")
    if not learned or result.get("error"):
        return
    for step in learned["steps"]:
        write(step_row(step, language))
    code = "would_learn" if result["status"] == "preview" else "learned_turns"
    note(tell(code, language, turns=learned["turns"], count=len(learned["steps"])))
    if learned["left_out"]:
        note(tell("left_out_turns", language, count=learned["left_out"]))


def _show_diff(parts: Iterable[Mapping[str, str]]) -> None:
    for part in parts:
        sign, look = _LOOKS[part["op"]]
        write(paint(sign + masked(part["text"]), look))


def _show_changes(changes: Iterable[Mapping[str, Any]]) -> None:
    for change in changes:
        turns = ", ".join(map(str, change["turns"]))
        write(f"• {masked(change['change'])} {paint(f'[{turns}]', DIM)}")


async def show_history(services: Services, instance_id: str, *, as_json: bool) -> None:
    """Show every change that led to who the character is."""
    from personalab.operations.personas import persona_history
    from personalab.story.persona import diff

    language = await asyncio.to_thread(language_of, services)
    found = await persona_history(services, instance_id)
    if as_json:
        write_json(found)
        return
    if not found["revisions"] and not found["evolved_persona"]:
        write(tell("no_growth", language))
    for revision in found["revisions"]:
        heading = tell("revision", language, revision=revision["revision"])
        source = (
            tell("edited_revision", language) if revision.get("by") == "hand" else revision.get("model", "")
        )
        origin = masked(" ".join((revision["time"], str(source))))
        write(f"{paint(heading, BOLD)} {paint(origin, DIM)}")
        _show_diff(cast("Any", diff(revision["before"], revision["after"])))
        _show_changes(revision.get("changes", []))
        write("")
    if not found["revisions"] and found["evolved_persona"]:
        write(masked(found["evolved_persona"]))
    if found["edited_by_hand"]:
        note(tell("edited_since", language, revision=found["revision"]))
    if found["withdrawn"]:
        note(tell("withdrawn_revisions", language, count=len(found["withdrawn"])))


async def undo_growth_and_show(services: Services, instance_id: str, *, as_json: bool) -> None:
    """Undo the last change of the character."""
    from personalab.operations.personas import undo_persona
    from personalab.story.persona_history import revision_of

    language = await asyncio.to_thread(language_of, services)
    state = await undo_persona(services, instance_id)
    revision = revision_of(state)
    if as_json:
        write_json(
            {"instance_id": instance_id, "revision": revision, "evolved_persona": state.evolved_persona}
        )
        return
    write(masked(state.evolved_persona) or tell("no_growth", language))
    note(tell("growth_undone", language, revision=revision))
