"""Undo of a summary."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from personalab.errors import UserError
from personalab.services import Services
from personalab.story.care import UNDONE
from personalab.story.ids import check_id
from personalab.story.instance import InstanceState
from personalab.story.transcript import taken_over
from personalab.tasks import run_uncancellable

_log = logging.getLogger("personalab.summary")


@dataclass(frozen=True, slots=True)
class Undone:
    """A summary that was taken back, and what was said since."""

    instance: InstanceState
    turns: int
    """How many turns came after the summary."""
    aside: str
    """Where they are kept."""

    @property
    def current_session_id(self) -> str:
        """The session that the story goes on in."""
        return self.instance.current_session_id


async def undo_summary(services: Services, instance_id: str) -> Undone:
    """Make the session before the summary current again; the one after it is set aside, its events withdrawn."""
    check_id(instance_id, "instance_id")
    wait = services.settings.busy_seconds
    async with services.leases.holding(instance_id, "undo-summary", wait=wait):
        state, before = await asyncio.to_thread(_session_before, services, instance_id)
        # The events first: after a crash in between, the undo can be repeated, and they are withdrawn again.
        await _withdraw(services, state, before)

        def undo() -> Undone:
            current = state.current_session_id
            older = services.stories.session(instance_id, before).transcript
            newer = services.stories.session(instance_id, current).transcript
            since = len(newer.turns) - taken_over(newer.turns, older)
            note = {UNDONE: {"session_id": before, "turn": older.last.number if older.last else 0}}
            fresh = services.summaries.switch(instance_id, before, expected=current, note=note)
            return Undone(fresh, since, services.summaries.set_aside(instance_id, current))

        return await run_uncancellable(undo)


def _session_before(services: Services, instance_id: str) -> tuple[InstanceState, str]:
    state = services.stories.instance(instance_id)
    current = state.current_session_id
    before = services.stories.session_before(instance_id, current)
    if before is None:
        raise UserError("nothing_to_undo", instance_id=instance_id, session_id=current)
    return state, before


async def _withdraw(services: Services, state: InstanceState, before: str) -> None:
    """Take the events of the summary out of the library; the turns of the session it was of stay findable."""
    place, library = state.instance_id, services.library
    try:
        await library.remove(place, session_id=state.current_session_id)
        await library.remove(place, session_id=before, kinds=("summary", "plot"))
    except Exception as error:  # noqa: BLE001 (the library is derived: reindex mends it)
        _log.warning("the event library still has the events of an undone summary", exc_info=error)
