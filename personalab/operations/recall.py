"""Search of a story's events on request."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Literal

from personalab.errors import UserError
from personalab.services import Services
from personalab.story.recall import (
    Kind,
    RecallQuery,
    StoryEvent,
    distinct,
    plan_lookup,
    recalled_item,
    turn_event,
    with_evidence,
)
from personalab.story.records import check_id

Depth = Literal["auto", "summaries", "plots", "turns"]
NEWEST_TURNS = 500
_KINDS: dict[Depth, tuple[Kind, ...]] = {"summaries": ("summary",), "plots": ("plot",), "turns": ("turn",)}


async def look_up(
    services: Services, instance_id: str, query: str, depth: Depth = "auto", limit: int = 10
) -> list[dict[str, Any]]:
    """Search an instance's events, best first; ``auto`` chooses the depth as a turn would."""
    check_id(instance_id, "instance_id")
    if not query.strip():
        raise UserError("blank_input")
    await asyncio.to_thread(services.stories.instance, instance_id)
    preferences = await asyncio.to_thread(services.preferences.read)
    reader = preferences.config.language
    templates, _ = await asyncio.to_thread(services.preferences.templates, preferences.config.prompt_language)
    lookup = plan_lookup(query, replace(preferences.recall, trigger="always"))
    kinds = _KINDS.get(depth) or (lookup.kinds if lookup else ("summary", "turn"))
    words = lookup.query if lookup else query
    if "turn" in kinds:
        await _index_newest(services, instance_id)
    found = await services.library.search(RecallQuery(words, kinds, limit, instance_id))
    hits = distinct(with_evidence(found))
    return [recalled_item(hit, templates, reader) for hit in hits]


async def _index_newest(services: Services, instance_id: str) -> None:
    """Make the newest turns of the current session findable; in a turn they stand in the prompt, here they don't."""

    def newest() -> dict[str, StoryEvent]:
        state = services.stories.instance(instance_id)
        place = (instance_id, state.current_session_id, state.character_id, state.background_id or "")
        turns = services.stories.session(instance_id, state.current_session_id).transcript.turns
        events = [turn_event(turn, *place) for turn in turns[-NEWEST_TURNS:] if turn.replies]
        return {event.event_id: event for event in events if event.text}

    events = await asyncio.to_thread(newest)
    if missing := await services.library.missing(instance_id, list(events)):
        await services.library.write([events[event_id] for event_id in missing])
