"""Look up what the character knows about the player, and which of it fits this turn."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from nodes.chat_turn.state import TurnEmitter
from personalab.errors import PersonaLabError, Reason
from personalab.memory.records import Memory, MemoryEntry
from personalab.memory.search import CONFIDENT, MemorySearch, player_text
from personalab.ports import MemoryStore, TokenCounter
from personalab.story.events import Notice
from personalab.story.open_turn import Scene

_log = logging.getLogger("personalab.turn")
_QUICK = 50
"""So many entries can be counted without keeping others waiting."""
_NEWEST = 200
"""So many entries of each list are looked at for the prompt: it has room for fewer."""
_SECONDS = 10.0
"""No turn waits longer for the store: its embedder may have to be read first."""


async def recall_player(
    scene: Scene,
    *,
    memories: MemoryStore,
    counter: TokenCounter,
    emitter: TurnEmitter,
    seconds: float = _SECONDS,
) -> dict[str, Any]:
    """Return the section's text, empty where nothing is known; a store that cannot be used is reported."""
    module = scene.data.preferences.memory
    if not module.enabled:
        return {"player": ""}
    memory: Memory | None = None
    events: list[MemoryEntry] = []
    try:
        async with asyncio.timeout(seconds):
            memory = await memories.memory(scene.instance.character_id, module.user_id, newest=_NEWEST)
            if memory is not None and memory.of("event"):
                events = await _events(scene, memories)
    except Exception as error:  # noqa: BLE001 (a store never fails a turn, whoever wrote it)
        emitter.warn([_notice(error, emitter)])
    if memory is None or not memory.entries:
        return {"player": ""}
    arguments = (memory, events, scene.data.templates, counter.count, module.max_tokens)
    if len(memory.entries) > _QUICK:
        return {"player": await asyncio.to_thread(player_text, *arguments)}
    return {"player": player_text(*arguments)}


async def _events(scene: Scene, memories: MemoryStore) -> list[MemoryEntry]:
    """Find the events that fit what was just said."""
    module = scene.data.preferences.memory
    if not module.n_events or not scene.user_input.strip():
        return []
    place = (scene.instance.character_id, module.user_id)
    search = MemorySearch(scene.user_input[:2_000], *place, module.n_events, ("event",))
    return [hit.entry for hit in await memories.search(search) if hit.confidence >= CONFIDENT]


def _notice(error: Exception, emitter: TurnEmitter) -> Notice:
    if isinstance(error, PersonaLabError):
        return Notice("memory_unavailable", {"reason": error})
    if isinstance(error, TimeoutError):
        return Notice("memory_unavailable", {"reason": Reason("memory_slow", seconds=_SECONDS)})
    _log.error("the memory store failed in an unexpected way", exc_info=error)
    return Notice("memory_unavailable", {"reason": type(error).__name__})
