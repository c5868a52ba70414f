"""The step that writes the next session and its plots, as a draft that nobody reads yet."""

from __future__ import annotations

from typing import Any

from nodes.summarize.carrying import carry_turns, load_scene
from nodes.summarize.material import read_material
from nodes.summarize.state import SummaryState
from personalab.services import Services
from personalab.story.lines import Metadata
from personalab.story.summary import Carried, PlotPoint, opening_lines
from personalab.tasks import run_uncancellable


async def store_summary(state: SummaryState, *, services: Services) -> dict[str, Any]:
    """Write both files; until the instance is switched they change nothing."""
    instance_id, fresh = state.get("instance_id", ""), state.get("new_session_id", "")
    points = [PlotPoint.read(data) for data in state.get("points", [])]
    counter = await services.counter()
    scene = await load_scene(services, instance_id)

    def write() -> Carried:
        material = read_material(services, instance_id, last_turn=state.get("last_turn"))
        first = Metadata(instance_id, fresh, services.now(), material.instance.current_session_id)
        carried = carry_turns(scene, material, points, counter.count)
        before = material.transcript.summaries()
        lines = opening_lines(first, points, carried.turns, material.config.summary_order, before)
        services.summaries.write_draft(instance_id, fresh, lines, points)
        return carried

    carried = await run_uncancellable(write)
    behind = [turn.number for turn in carried.left_behind]
    return {"kept_turns": len(carried.turns), "left_behind": behind}
