"""Write the next session and its plots, as a draft that nobody reads yet."""

from __future__ import annotations

from typing import Any

from nodes.summarize.material import read_material
from nodes.summarize.state import SummaryState
from personalab.services import Services
from personalab.storage.leases import unbroken
from personalab.story.lines import Metadata
from personalab.story.summary import PlotPoint, last_turns, opening_lines


async def store_summary(state: SummaryState, *, services: Services) -> dict[str, Any]:
    """Write both files; until the instance is switched they change nothing."""
    instance_id, fresh = state.get("instance_id", ""), state.get("new_session_id", "")
    points = [PlotPoint.read(data) for data in state.get("points", [])]

    def write() -> int:
        material = read_material(services, instance_id, last_turn=state.get("last_turn"))
        first = Metadata(instance_id, fresh, services.now(), material.instance.current_session_id)
        kept = last_turns(material.transcript, material.config.summary_last_n_turns)
        lines = opening_lines(first, points, kept, material.config.summary_order)
        services.summaries.write_draft(instance_id, fresh, lines, points)
        return len(kept)

    return {"kept_turns": await unbroken(write)}
