"""Look up the past, when the input asks for it or surely means it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from nodes.chat_turn.assemble_prompt import is_quick
from nodes.chat_turn.state import TurnEmitter, TurnState
from personalab.errors import PersonaLabError
from personalab.ports import EventLibrary, TokenCounter
from personalab.story.events import Notice
from personalab.story.open_turn import Scene
from personalab.story.prompt import window_start
from personalab.story.recall import (
    PromptTexts,
    RecallQuery,
    StoryEvent,
    choose,
    plan_lookup,
    recalled_item,
    turn_event,
)

_log = logging.getLogger("personalab.turn")


async def recall_history(
    state: TurnState,
    *,
    scene: Scene,
    library: EventLibrary,
    counter: TokenCounter,
    emitter: TurnEmitter,
    index: bool = True,
) -> dict[str, Any]:
    """Return what is recalled; a library that cannot be used recalls nothing and is reported.

    With ``index``, turns that no longer fit the prompt are made findable first.
    """
    lookup = plan_lookup(scene.user_input, scene.data.preferences.recall)
    if lookup is None:
        return {"recalled": []}
    try:
        if scene.data.preferences.config.conversation_load_all:
            first, forgotten, in_prompt = 0, {}, PromptTexts(scene.transcript.turns)
        elif is_quick(scene, counter):
            first, forgotten, in_prompt = _divided(scene, counter)
        else:
            first, forgotten, in_prompt = await asyncio.to_thread(_divided, scene, counter)
        if index and (missing := await library.missing(scene.instance.instance_id, list(forgotten))):
            await library.write([forgotten[event_id] for event_id in missing])
        search = RecallQuery(
            query=lookup.query,
            kinds=lookup.kinds,
            limit=lookup.limit,
            instance_id=scene.instance.instance_id,
            skip_session=scene.instance.current_session_id,
            skip_from=first,
            in_prompt=in_prompt,
        )
        hits = choose(await library.search(search), lookup)
    except Exception as error:  # noqa: BLE001 (a library never fails a turn, whoever wrote it)
        emitter.warn([library_notice(error)])
        return {"recalled": []}
    return {"recalled": [recalled_item(hit, scene.data.templates, emitter.language) for hit in hits]}


def library_notice(error: Exception) -> Notice:
    """Report a library that could not be used."""
    if not isinstance(error, PersonaLabError):
        _log.error("the event library failed in an unexpected way", exc_info=error)
        return Notice("recall_unavailable", {"reason": type(error).__name__})
    return Notice("recall_unavailable", {"reason": error})


def _divided(scene: Scene, counter: TokenCounter) -> tuple[int, dict[str, StoryEvent], PromptTexts]:
    """Find the number of the first turn that is in the prompt, the turns before it, and the prompt's texts."""
    config, turns = scene.data.preferences.config, scene.transcript.turns
    start = window_start(turns, scene.data.templates, counter.count, config.conversation_max_tokens)
    instance = scene.instance
    place = (
        instance.instance_id,
        instance.current_session_id,
        instance.character_id,
        instance.background_id or "",
    )
    events = (turn_event(old, *place) for old in turns[:start])
    forgotten = {event.event_id: event for event in events if event.text}
    return turns[start].number, forgotten, PromptTexts(turns[start:])
