"""Look up the past, when the input asks for it or surely means it."""

from __future__ import annotations

from typing import Any

from nodes.chat_turn.saying import Say
from nodes.chat_turn.state import TurnState
from personalab.errors import PersonaLabError
from personalab.ports import EventLibrary, TokenCounter
from personalab.storage.turns import Scene
from personalab.story.events import Notice
from personalab.story.prompt import window_start
from personalab.story.recall import Search, choose, plan_lookup, recalled_item, turn_event


async def recall_history(
    state: TurnState, *, scene: Scene, library: EventLibrary, counter: TokenCounter, say: Say
) -> dict[str, Any]:
    """Return what is recalled; a library that cannot be used recalls nothing and is reported."""
    lookup = plan_lookup(scene.user_input, scene.data.preferences.recall)
    if lookup is None:
        return {"recalled": []}
    try:
        first = await _index_forgotten(scene, library, counter)
        search = Search(
            query=lookup.query,
            kinds=lookup.kinds,
            limit=lookup.limit,
            instance_id=scene.instance.instance_id,
            skip_session=scene.instance.current_session_id,
            skip_from=first,
        )
        hits = choose(await library.search(search), lookup)
    except PersonaLabError as error:
        say.warn([Notice("recall_unavailable", {"reason": error.message(say.language)})])
        return {"recalled": []}
    return {"recalled": [recalled_item(hit, scene.data.templates, say.language) for hit in hits]}


async def _index_forgotten(scene: Scene, library: EventLibrary, counter: TokenCounter) -> int:
    """Make turns findable that no longer fit the prompt; return the number of the first that does."""
    config, turns = scene.data.preferences.config, scene.transcript.turns
    if config.conversation_load_all:
        return 0
    start = window_start(turns, scene.data.templates, counter.count, config.conversation_max_tokens)
    instance = scene.instance
    place = (
        instance.instance_id,
        instance.current_session_id,
        instance.character_id,
        instance.background_id or "",
    )
    events = {event.event_id: event for old in turns[:start] if (event := turn_event(old, *place)).text}
    missing = await library.missing(instance.instance_id, list(events))
    if missing:
        await library.write([events[event_id] for event_id in missing])
    return turns[start].number
