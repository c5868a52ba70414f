"""What would the next turn send? The same steps as a turn, without its lock and without writing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from nodes.chat_turn.assemble_prompt import assembled
from nodes.chat_turn.match_lorebooks import match_lorebooks
from nodes.chat_turn.prepare_director import prepare_director
from nodes.chat_turn.recall_history import recall_history
from nodes.chat_turn.recall_player import recall_player
from nodes.chat_turn.state import TurnEmitter, TurnState
from personalab.services import Services
from personalab.story.events import WarningEvent
from personalab.story.prompt import Prompt
from personalab.story.records import check_id


@dataclass(frozen=True, slots=True)
class Preview:
    """A prompt to look at, with what was recalled and called up for it, and what is odd about it."""

    turn: int
    prompt: Prompt
    tokens: dict[str, Any]
    recalled: list[dict[str, Any]]
    lore: list[dict[str, Any]]
    """Entries of lorebooks that were called up, why, and whether they had room."""
    warnings: list[WarningEvent]


async def preview_prompt(services: Services, instance_id: str, user_input: str = "…") -> Preview:
    """Assemble the prompt of the turn that would come next; it may be longer than its limit."""
    check_id(instance_id, "instance_id")
    scene = await services.turns.preview(instance_id, user_input, services.now())
    emitter = TurnEmitter(lambda event: None, scene)
    emitter.warn(scene.data.notices)
    counter, state = await services.counter(), TurnState()
    player, found, directed, matched = await asyncio.gather(
        recall_player(scene, memories=services.memories, counter=counter, emitter=emitter),
        recall_history(
            state, scene=scene, library=services.library, counter=counter, emitter=emitter, index=False
        ),
        prepare_director(state, scene=scene, library=services.library, emitter=emitter),
        match_lorebooks(scene, stories=services.story_ports.stories, counter=counter, emitter=emitter),
    )
    prompt = await assembled({**player, **found, **directed, **matched}, scene, counter)
    limit = scene.data.preferences.config.max_total_tokens
    tokens = {**prompt.token_report(limit), "encoding": counter.encoding}
    hits: list[dict[str, Any]] = matched["lore"]["hits"] if matched["lore"] else []
    return Preview(scene.number, prompt, tokens, found["recalled"], hits, scene.warnings)
