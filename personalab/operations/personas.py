"""The history of a character's persona in a story, and undo of the last change."""

from __future__ import annotations

from typing import Any

from personalab.services import Services
from personalab.story.persona_history import edited_by_hand, revision_of, undo_growth
from personalab.story.records import CharacterState, check_id


async def persona_history(services: Services, instance_id: str) -> dict[str, Any]:
    """List the changes that led to who the character is, the oldest first, and those that were withdrawn."""
    check_id(instance_id, "instance_id")
    state, history = await services.story_ports.stories.persona(instance_id)
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
    async with services.leases.holding(instance_id, "undo-memory", wait=wait) as lease:
        return await undo_growth(services.story_ports.stories, lease.lock, instance_id, services.now())
