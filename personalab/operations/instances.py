"""How is a story begun, moved to another background, and read back?"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from personalab.operations.reading import turn_lines
from personalab.services import Services
from personalab.storage.leases import unbroken
from personalab.story.ids import check_id
from personalab.story.instance import InstanceState
from personalab.story.lines import line_fields

PAGE_TURNS = 50


async def new_instance(
    services: Services, character_id: str, background_id: str | None = None, instance_id: str | None = None
) -> InstanceState:
    """Begin a story with a character, in a background or in none."""
    if instance_id is not None:
        check_id(instance_id, "instance_id")

    def make() -> InstanceState:
        character = services.stories.character(character_id)
        background = services.stories.background(background_id) if background_id is not None else None
        return services.stories.create_instance(character, background, instance_id, services.now())

    return await asyncio.to_thread(make)


async def switch_background(services: Services, instance_id: str, background_id: str | None) -> InstanceState:
    """Move a story to another background (or to none); where it stands in its plot is kept."""
    check_id(instance_id, "instance_id")
    if background_id is not None:
        await asyncio.to_thread(services.stories.background, background_id)
    wait = services.settings.busy_seconds
    async with services.leases.holding(instance_id, "switch-background", wait=wait):

        def save() -> InstanceState:
            state = replace(services.stories.instance(instance_id), background_id=background_id)
            services.stories.save_instance(state)
            return state

        return await unbroken(save)


@dataclass(frozen=True, slots=True)
class Page:
    """Some turns of a session, in order; ``older`` is the turn to go on from, or ``None`` at the beginning."""

    instance_id: str
    session_id: str
    continued_from: str | None
    entries: list[dict[str, Any]]
    older: int | None


async def read_session(
    services: Services,
    instance_id: str,
    session_id: str | None = None,
    *,
    before: int | None = None,
    count: int = PAGE_TURNS,
) -> Page:
    """Read a session's newest turns, or those before a turn; what is being written is shown as far as it is."""
    check_id(instance_id, "instance_id")

    def read() -> Page:
        chosen = session_id
        if chosen is None:
            chosen = services.stories.instance(instance_id).current_session_id
        transcript = services.stories.session(instance_id, chosen).view()
        turns = transcript.turns if before is None else [t for t in transcript.turns if t.number < before]
        shown = turns[-count:] if count > 0 else []
        entries = [entry for turn in shown for entry in turn_lines(turn)]
        if before is None:
            entries += [line_fields(note) for note in transcript.trailing]
        older = shown[0].number if shown and len(turns) > len(shown) else None
        continued = transcript.metadata.continued_from if transcript.metadata else None
        return Page(instance_id, chosen, continued, entries, older)

    return await asyncio.to_thread(read)
