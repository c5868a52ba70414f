"""Rebuilding the event library from the session files alone, and the search index of memories."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from personalab.errors import PersonaLabError, StorageError, reason_of
from personalab.services import Services
from personalab.story.recall import StoryEvent, point_events, turn_event
from personalab.story.records import InstanceState
from personalab.story.transcript import MAX_TURN

BATCH = 1_000
Progress = Callable[[int, int, str], None]
"""Callback with the instances done, their number, and the current one with its events so far."""


@dataclass(slots=True)
class Rebuilt:
    """What a rebuild wrote, and what it had to leave out."""

    counts: dict[str, int] = field(default_factory=lambda: {"summary": 0, "plot": 0, "turn": 0, "memory": 0})
    skipped: list[PersonaLabError] = field(default_factory=list[PersonaLabError])


async def reindex(services: Services, progress: Progress = lambda done, total, name: None) -> Rebuilt:
    """Rebuild the index; a file that cannot be read is skipped and listed."""
    rebuilt = Rebuilt()
    await services.library.reset()
    listed = await asyncio.to_thread(services.stories.all_instances)
    for done, entry in enumerate(listed):
        if isinstance(entry.record, InstanceState):

            def show(events: int, done: int = done, name: str = entry.entry_id) -> None:
                progress(done, len(listed), f"{name} ({events})" if events else name)

            if (error := await _tried(services, entry.record, rebuilt, show)) is not None:
                rebuilt.skipped.append(error)
        elif entry.error is not None:
            rebuilt.skipped.append(entry.error)
    await _write_memories(services, rebuilt, progress)
    progress(len(listed), len(listed), "")
    return rebuilt


async def _write_memories(services: Services, rebuilt: Rebuilt, progress: Progress) -> None:
    """Rebuild the search index of memories, too; an unusable store is listed."""
    try:
        rebuilt.counts["memory"] = await services.memories.reindex(
            lambda done, total: progress(done, total, "memory")
        )
    except PersonaLabError as error:
        rebuilt.skipped.append(error)


async def _tried(
    services: Services, instance: InstanceState, rebuilt: Rebuilt, show: Callable[[int], None]
) -> PersonaLabError | None:
    """Write an instance's events; what no index can hold costs its own story, and no other."""
    try:
        await _write_instance(services, instance, rebuilt, show)
    except StorageError as error:
        if error.code != "library_unreadable":
            raise  # a full disk is not the story's fault
        reason = reason_of(error)
    except (ArithmeticError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"[:200]
    else:
        return None
    return StorageError("story_not_indexed", instance_id=instance.instance_id, reason=reason)


async def _write_instance(
    services: Services, instance: InstanceState, rebuilt: Rebuilt, show: Callable[[int], None]
) -> None:
    """Write an instance's events in large batches, whatever the size of its sessions."""
    waiting: list[StoryEvent] = []
    written = 0
    show(written)
    for session_id in await asyncio.to_thread(services.stories.session_ids, instance.instance_id):
        try:
            waiting += await asyncio.to_thread(session_events, services, instance, session_id)
        except PersonaLabError as error:
            rebuilt.skipped.append(error)
        while len(waiting) >= BATCH:
            await _write(services, waiting[:BATCH], rebuilt)
            del waiting[:BATCH]
            written += BATCH
            show(written)
    await _write(services, waiting, rebuilt)


async def _write(services: Services, events: list[StoryEvent], rebuilt: Rebuilt) -> None:
    await services.library.write(events)
    for event in events:
        rebuilt.counts[event.kind] += 1


def session_events(services: Services, instance: InstanceState, session_id: str) -> list[StoryEvent]:
    """Collect what a session file makes findable: its turns, and the summaries of the session before it.

    The points with their plots stand in a file beside it. Where there is none, a summary line may name the turns it
    covers (``turns``) and carry its plot (``plot``) itself.
    """
    transcript = services.stories.session(instance.instance_id, session_id, keep=False).transcript
    background = instance.background_id or ""
    place = (instance.instance_id, session_id, instance.character_id, background)
    before = services.stories.session_before(instance.instance_id, session_id)
    if before == instance.current_session_id:
        return []  # a draft, or a session that was undone: it is not read until the story continues in it
    events = [event for turn in transcript.turns if (event := turn_event(turn, *place)).text]
    points: list[tuple[str, str | None, tuple[int, int] | None]] = [
        (point.summary, point.plot, _turns([point.first_turn, point.last_turn], first=0))
        for point in services.stories.plot_points(instance.instance_id, session_id)
    ] or [
        (note.content, _text(note.extra.get("plot")), _turns(note.extra.get("turns")))
        for note in transcript.summaries()
    ]
    if points and before:
        events += point_events(points, instance.instance_id, before, instance.character_id, background)
    return events


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _turns(value: object, first: int = 1) -> tuple[int, int] | None:
    """Take the turns a point covers, if they are such; a stranger's file may say anything."""
    match value:
        case [int(begin), int(end)] if first <= begin <= end <= MAX_TURN:
            return begin, end
        case _:
            return None
