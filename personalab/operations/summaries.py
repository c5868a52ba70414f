"""How is a summary taken back?"""

from __future__ import annotations

import asyncio
import logging

from personalab.errors import UserError
from personalab.services import Services
from personalab.storage.leases import unbroken
from personalab.story.ids import check_id
from personalab.story.instance import InstanceState
from personalab.story.recall import turn_event

_log = logging.getLogger("personalab.summary")


async def undo_summary(services: Services, instance_id: str) -> InstanceState:
    """Make the session before the summary current again; the one after it is set aside, its events withdrawn."""
    check_id(instance_id, "instance_id")
    wait = services.settings.busy_seconds
    async with services.leases.holding(instance_id, "undo-summary", wait=wait):
        state, before = await asyncio.to_thread(_session_before, services, instance_id)
        # The events first: whoever dies on the way can undo again, and then they are withdrawn again.
        await _withdraw(services, state, before)

        def undo() -> InstanceState:
            fresh = services.summaries.switch(instance_id, before, expected=state.current_session_id)
            services.summaries.set_aside(instance_id, state.current_session_id)
            return fresh

        return await unbroken(undo)


def _session_before(services: Services, instance_id: str) -> tuple[InstanceState, str]:
    state = services.stories.instance(instance_id)
    current = state.current_session_id
    metadata = services.stories.session(instance_id, current).transcript.metadata
    before = metadata.continued_from if metadata else None
    if before is None or before not in services.stories.session_ids(instance_id):
        raise UserError("nothing_to_undo", instance_id=instance_id, session_id=current)
    return state, before


async def _withdraw(services: Services, state: InstanceState, before: str) -> None:
    """Take the events of the summary out of the library; the turns of the session it was of stay findable."""
    transcript = services.stories.session(state.instance_id, before).transcript
    place = (state.instance_id, before, state.character_id, state.background_id or "")
    turns = [event for turn in transcript.turns if (event := turn_event(turn, *place)).text]
    try:
        await services.library.remove(state.instance_id, session_id=state.current_session_id)
        await services.library.remove(state.instance_id, session_id=before)
        await services.library.write(turns)
    except Exception as error:  # noqa: BLE001 (the library is derived: reindex mends it)
        _log.warning("the event library still has the events of an undone summary", exc_info=error)
