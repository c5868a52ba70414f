"""The step that writes the next session and its plots, as a draft that nobody reads yet."""

from __future__ import annotations

import asyncio
from typing import Any

from nodes.summarize.carrying import carry_turns, load_scene
from nodes.summarize.material import read_material
from nodes.summarize.state import SummaryState
from personalab.leases import Lease
from personalab.services import Services
from personalab.story.summary import PlotPoint, opening_lines
from personalab.story.transcript import Metadata


async def store_summary(state: SummaryState, *, services: Services, lease: Lease) -> dict[str, Any]:
    """Write the session and its plots; until the story is switched to it they change nothing."""
    instance_id, fresh = state.get("instance_id", ""), state.get("new_session_id", "")
    points = [PlotPoint.read(data) for data in state.get("points", [])]
    counter = await services.counter()
    scene = await load_scene(services, instance_id)
    ports = services.story_ports
    material = await read_material(ports, instance_id, last_turn=state.get("last_turn"))
    carried = await asyncio.to_thread(carry_turns, scene, material, points, counter.count)
    first = Metadata(instance_id, fresh, services.now(), material.instance.current_session_id)
    before = material.transcript.summaries()
    lines = opening_lines(first, points, carried.turns, material.config.summary_order, before)
    await ports.sessions.create(instance_id, fresh, lines, points, lease.lock)
    behind = [turn.number for turn in carried.left_behind]
    return {"kept_turns": len(carried.turns), "left_behind": behind}
