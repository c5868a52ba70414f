"""The step that gets the new persona from the model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from nodes.asking import Asker
from nodes.summarize.material import read_material
from nodes.update_memory.state import UpdateState
from personalab.leases import Lease
from personalab.ports import ReplyModel, TokenCounter
from personalab.services import Services
from personalab.story.persona import (
    diff,
    evolution_schema,
    evolve_messages,
    read_evolution,
    turns_to_learn_from,
)

Tell = Callable[[int, int], None]


async def evolve_persona(
    state: UpdateState,
    *,
    services: Services,
    lease: Lease,
    model: ReplyModel,
    counter: TokenCounter,
    tell: Tell,
) -> dict[str, Any]:
    """Ask for the new persona; an unusable answer is requested once more, then refused."""
    material = await read_material(
        services.story_ports, state.get("instance_id", ""), last_turn=state.get("last_turn")
    )
    turns = turns_to_learn_from(material.transcript)
    base, old = material.character.base_persona, state.get("before", "")
    budget = material.config.max_total_tokens // 2
    tell(0, 1)
    asked = await asyncio.to_thread(
        evolve_messages, base, old, turns, material.templates, counter.count, budget
    )
    asker = Asker(
        model,
        material.templates["json_repair"],
        refusal="provider.bad_persona",
        stop_asked=lease.stop_requested,
    )
    shown = {turn.number for turn in turns}
    read = partial(read_evolution, shown=shown, base=base, old=old, language=material.language)
    found = (await asker.ask(asked, read, evolution_schema(shown))).value
    tell(1, 1)
    return {
        "evolved_persona": found.evolved_persona,
        "changes": [change.fields() for change in found.changes],
        "diff": await asyncio.to_thread(diff, old, found.evolved_persona),
        "model": model.name,
        "usage": dict(asker.usage) if asker.usage else None,
    }
