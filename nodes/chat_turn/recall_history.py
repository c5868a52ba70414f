"""Look up the past, when the input asks for it or surely means it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from nodes.chat_turn.saying import Say
from nodes.chat_turn.state import TurnState
from personalab.errors import PersonaLabError
from personalab.ports import EventLibrary, TokenCounter
from personalab.storage.turns import Scene
from personalab.story.events import Notice
from personalab.story.prompt import window_start
from personalab.story.recall import Search, StoryEvent, choose, plan_lookup, recalled_item, turn_event

_log = logging.getLogger("personalab.turn")
_QUICK_TURNS = 500
"""So many turns can be gone through without keeping others waiting."""


async def recall_history(
    state: TurnState,
    *,
    scene: Scene,
    library: EventLibrary,
    counter: TokenCounter,
    say: Say,
    index: bool = True,
) -> dict[str, Any]:
    """Return what is recalled; a library that cannot be used recalls nothing and is reported.

    With ``index``, turns that no longer fit the prompt are made findable first.
    """
    lookup = plan_lookup(scene.user_input, scene.data.preferences.recall)
    if lookup is None:
        return {"recalled": []}
    try:
        many = len(scene.transcript.turns) > _QUICK_TURNS
        first, forgotten = (
            await asyncio.to_thread(_forgotten, scene, counter) if many else _forgotten(scene, counter)
        )
        if index and (missing := await library.missing(scene.instance.instance_id, list(forgotten))):
            await library.write([forgotten[event_id] for event_id in missing])
        search = Search(
            query=lookup.query,
            kinds=lookup.kinds,
            limit=lookup.limit,
            instance_id=scene.instance.instance_id,
            skip_session=scene.instance.current_session_id,
            skip_from=first,
        )
        hits = choose(await library.search(search), lookup)
    except Exception as error:  # noqa: BLE001 (a library never fails a turn, whoever wrote it)
        say.warn([library_notice(error, say)])
        return {"recalled": []}
    return {"recalled": [recalled_item(hit, scene.data.templates, say.language) for hit in hits]}


def library_notice(error: Exception, say: Say) -> Notice:
    """Report a library that could not be used."""
    if not isinstance(error, PersonaLabError):
        _log.error("the event library failed in an unexpected way", exc_info=error)
        return Notice("recall_unavailable", {"reason": type(error).__name__})
    return Notice("recall_unavailable", {"reason": error.message(say.language)})


def _forgotten(scene: Scene, counter: TokenCounter) -> tuple[int, dict[str, StoryEvent]]:
    """Find the number of the first turn that is in the prompt, and the turns before it."""
    config, turns = scene.data.preferences.config, scene.transcript.turns
    if config.conversation_load_all:
        return 0, {}
    start = window_start(turns, scene.data.templates, counter.count, config.conversation_max_tokens)
    instance = scene.instance
    place = (
        instance.instance_id,
        instance.current_session_id,
        instance.character_id,
        instance.background_id or "",
    )
    events = (turn_event(old, *place) for old in turns[:start])
    return turns[start].number, {event.event_id: event for event in events if event.text}
