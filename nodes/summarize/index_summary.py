"""The step that indexes the points.

The index is derived data, so a failure is reported and does not stop the summary.
"""

from __future__ import annotations

import logging
from typing import Any

from nodes.summarize.material import read_material
from nodes.summarize.state import SummaryState
from personalab.errors import PersonaLabError
from personalab.i18n import ABOUT
from personalab.services import Services
from personalab.story.events import Notice
from personalab.story.recall import point_events, turn_event
from personalab.story.summary import PlotPoint

_log = logging.getLogger("personalab.summary")


async def index_summary(state: SummaryState, *, services: Services) -> dict[str, Any]:
    """Write the session's points into the library, in place of what an earlier try left there; turns if need be."""
    material = await read_material(
        services.story_ports, state.get("instance_id", ""), last_turn=state.get("last_turn")
    )
    instance = material.instance
    background = instance.background_id or ""
    place = (instance.instance_id, instance.current_session_id, instance.character_id)
    points = [PlotPoint.read(data) for data in state.get("points", [])]
    told = [(point.summary, point.plot, (point.first_turn, point.last_turn)) for point in points]
    events = point_events(told, *place, background)
    if not state.get("turns_indexed"):
        turns = (turn_event(turn, *place, background) for turn in material.transcript.turns)
        events += [event for event in turns if event.text]
    session = instance.current_session_id
    notices: list[Notice] = []
    if behind := state.get("left_behind"):
        turns = ABOUT.say("comma", material.config.language).join(map(str, behind))
        notices.append(Notice("turns_left_behind", {"turns": turns, "session_id": session}))
    try:
        await services.library.remove(instance.instance_id, session_id=session, kinds=("summary", "plot"))
        await services.library.write(events)
    except Exception as error:  # noqa: BLE001 (an error of any library must not fail a summary)
        _log.warning("the event library could not take the summary", exc_info=error)
        reason = error if isinstance(error, PersonaLabError) else type(error).__name__
        notices.append(Notice("summary_not_indexed", {"reason": reason}))
    return {"warnings": [dict(notice.event(None, material.config.language)) for notice in notices]}
