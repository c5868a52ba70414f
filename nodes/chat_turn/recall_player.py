"""Look up what the character knows about the player, and which of it fits this turn."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from nodes.chat_turn.saying import Say
from personalab.errors import PersonaLabError
from personalab.memory.finding import MemorySearch
from personalab.memory.records import Entry
from personalab.memory.telling import CONFIDENT, player_text
from personalab.ports import MemoryStore, TokenCounter
from personalab.storage.turns import Scene
from personalab.story.events import Notice

_log = logging.getLogger("personalab.turn")
_QUICK = 50
"""So many entries can be counted without keeping others waiting."""


async def recall_player(
    scene: Scene, *, memories: MemoryStore, counter: TokenCounter, say: Say
) -> dict[str, Any]:
    """Return the section's text, empty where nothing is known; a store that cannot be used is reported."""
    module = scene.data.preferences.memory
    if not module.enabled:
        return {"player": ""}
    agent_id = scene.instance.character_id
    try:
        memory = await memories.memory(agent_id, module.user_id)
        if memory is None or not memory.entries:
            return {"player": ""}
        events: list[Entry] = []
        if module.n_events and scene.user_input.strip() and memory.of("event"):
            query = scene.user_input[:2_000]
            search = MemorySearch(query, agent_id, module.user_id, module.n_events, ("event",))
            events = [hit.entry for hit in await memories.search(search) if hit.confidence >= CONFIDENT]
    except Exception as error:  # noqa: BLE001 (a store never fails a turn, whoever wrote it)
        say.warn([_notice(error, say)])
        return {"player": ""}
    arguments = (memory, events, scene.data.templates, counter.count, module.max_tokens)
    if len(memory.entries) > _QUICK:
        return {"player": await asyncio.to_thread(player_text, *arguments)}
    return {"player": player_text(*arguments)}


def _notice(error: Exception, say: Say) -> Notice:
    if isinstance(error, PersonaLabError):
        return Notice("memory_unavailable", {"reason": error.message(say.language)})
    _log.error("the memory store failed in an unexpected way", exc_info=error)
    return Notice("memory_unavailable", {"reason": type(error).__name__})
