"""Lay out where the story stands, and remind the model when it has lost sight of it."""

from __future__ import annotations

from typing import Any

from nodes.chat_turn.recall_history import library_notice
from nodes.chat_turn.state import TurnEmitter, TurnState
from personalab.ports import EventLibrary
from personalab.story.director import (
    CURRENT_EVENTS,
    REFERENCE_EVENTS,
    current_point,
    mark_outline,
    needs_reminder,
    reminder_query,
    reminder_values,
)
from personalab.story.open_turn import Scene
from personalab.story.recall import Hit, RecallQuery, shown_text
from personalab.story.records import OutlinePoint


async def prepare_director(
    state: TurnState, *, scene: Scene, library: EventLibrary, emitter: TurnEmitter
) -> dict[str, Any]:
    """Return the outline with its statuses and, past the threshold, the reminder; nothing when switched off."""
    data, plot = scene.data, scene.instance.plot_state
    point = current_point(data.background, plot)
    if not data.preferences.director.enabled or point is None:
        return {"director": None}
    director: dict[str, Any] = {"outline": mark_outline(data.background, plot), "reminder": None}
    if needs_reminder(plot, data.preferences.config.rag_fallback_threshold):
        current: list[str] = []
        reference: list[str] = []
        try:
            current = _texts(scene, await library.search(_search(scene, point, others=False)))
            reference = _texts(scene, await library.search(_search(scene, point, others=True)))
        except Exception as error:  # noqa: BLE001 (a library never fails a turn, whoever wrote it)
            emitter.warn([library_notice(error)])
        director["reminder"] = reminder_values(point, current, reference, data.templates)
    return {"director": director}


def _search(scene: Scene, point: OutlinePoint, *, others: bool) -> RecallQuery:
    return RecallQuery(
        query=reminder_query(point),
        kinds=("summary",),
        limit=REFERENCE_EVENTS if others else CURRENT_EVENTS,
        instance_id=scene.instance.instance_id,
        others=others,
        character_id=scene.instance.character_id,
        background_id=scene.instance.background_id or "",
    )


def _texts(scene: Scene, hits: list[Hit]) -> list[str]:
    return [shown_text(hit.event, scene.data.templates) for hit in hits]
