"""The history of a character's persona in a story, and undo of the last change."""

from __future__ import annotations

import asyncio
from typing import Any

from personalab.services import Services
from personalab.story.ids import check_id
from personalab.story.instance import CharacterState
from personalab.story.persona_history import edited_by_hand, revision_of
from personalab.tasks import run_uncancellable


async def persona_history(services: Services, instance_id: str) -> dict[str, Any]:
    """List the changes that led to who the character is, the oldest first, and those that were withdrawn."""
    check_id(instance_id, "instance_id")
    state, history = await asyncio.to_thread(services.personas.read, instance_id)
    number = revision_of(state)
    return {
        "instance_id": instance_id,
        "revision": number,
        "base_persona": state.base_persona,
        "evolved_persona": state.evolved_persona,
        "edited_by_hand": edited_by_hand(state, history),
        "revisions": [revision.fields() for revision in history.counting(number)],
        "withdrawn": [revision.fields() for revision in history.set_aside(number)],
    }


async def undo_persona(services: Services, instance_id: str) -> CharacterState:
    """Restore a character's persona before the last change; an edit by hand since then is that change."""
    check_id(instance_id, "instance_id")
    wait = services.settings.busy_seconds
    async with services.leases.holding(instance_id, "undo-memory", wait=wait):
        return await run_uncancellable(lambda: services.personas.undo(instance_id, services.now()))
