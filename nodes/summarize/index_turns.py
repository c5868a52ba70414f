"""The step that indexes the session's turns while the model is still writing.

The turns are final, whatever the model answers.
"""

from __future__ import annotations

import logging

from nodes.summarize.material import read_material
from nodes.summarize.state import SummaryState
from personalab.services import Services
from personalab.story.recall import turn_event

_log = logging.getLogger("personalab.summary")
_AT_ONCE = 50
"""Number of turns written before other tasks may run: Chroma blocks the interpreter meanwhile."""


async def index_turns(state: SummaryState, *, services: Services) -> bool:
    """Write the turns into the library; tell whether that is done, for otherwise it is tried again later."""
    try:
        material = await read_material(
            services.story_ports, state.get("instance_id", ""), last_turn=state.get("last_turn")
        )
        instance = material.instance
        place = (
            instance.instance_id,
            instance.current_session_id,
            instance.character_id,
            instance.background_id or "",
        )
        events = [event for turn in material.transcript.turns if (event := turn_event(turn, *place)).text]
        for at in range(0, len(events), _AT_ONCE):
            await services.library.write(events[at : at + _AT_ONCE])
    except Exception as error:  # noqa: BLE001 (an error of any library must not fail a summary)
        _log.warning("the event library could not take the turns yet", exc_info=error)
        return False
    return True
