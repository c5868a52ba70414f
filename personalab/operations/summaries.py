"""Undo of a summary."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from personalab.errors import UserError
from personalab.services import Services
from personalab.story.records import InstanceState, check_id
from personalab.story.summary import UNDONE, switch_session
from personalab.story.transcript import taken_over
from personalab.tasks import complete

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
    async with services.leases.holding(instance_id, "undo-summary", wait=wait) as lease:
        ports = services.story_ports
        state = await ports.stories.instance(instance_id)
        current = state.current_session_id
        before = await ports.sessions.previous(instance_id, current)
        if before is None:
            raise UserError("nothing_to_undo", instance_id=instance_id, session_id=current)
        older = await ports.sessions.transcript(instance_id, before)
        newer = await ports.sessions.transcript(instance_id, current)
        note = {UNDONE: {"session_id": before, "turn": older.last.number if older.last else 0}}
        # The events first: after a crash in between, the undo can be repeated, and they are withdrawn again.
        await _withdraw(services, state, before)

        async def switch() -> tuple[InstanceState, str]:
            fresh = await switch_session(
                ports.stories, lease.lock, instance_id, before, expected=current, note=note
            )
            return fresh, await ports.sessions.set_aside(instance_id, current, lease.lock)

        fresh, aside = await complete(switch())
        return Undone(fresh, len(newer.turns) - taken_over(newer.turns, older), aside)


async def _withdraw(services: Services, state: InstanceState, before: str) -> None:
    """Take the events of the summary out of the library; the turns of the session it was of stay findable."""
    place, library = state.instance_id, services.library
    try:
        await library.remove(place, session_id=state.current_session_id)
        await library.remove(place, session_id=before, kinds=("summary", "plot"))
    except Exception as error:  # noqa: BLE001 (the library is derived: reindex mends it)
        _log.warning("the event library still has the events of an undone summary", exc_info=error)
