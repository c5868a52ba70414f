"""The last step: it saves the new persona with its history."""

from __future__ import annotations

from typing import Any

from nodes.summarize.material import read_material
from nodes.update_memory.state import UpdateState
from personalab.errors import UserError
from personalab.leases import Lease
from personalab.ports import Clock, StoryPorts
from personalab.story.persona_history import grow_persona, revision_of


async def save_persona(state: UpdateState, *, ports: StoryPorts, lease: Lease, now: Clock) -> dict[str, Any]:
    """Save the new persona, unless only a preview is wanted or nothing has changed."""
    instance_id = state.get("instance_id", "")
    material = await read_material(ports, instance_id, last_turn=state.get("last_turn"))
    if material.instance.current_session_id != state.get("session_id"):
        raise UserError("session_switched", session_id=material.instance.current_session_id)
    if state.get("preview") or not state.get("changes"):
        return {"status": "preview" if state.get("preview") else "unchanged"}
    why = {name: state.get(name) for name in ("changes", "session_id", "turns", "model")}
    text, before = state.get("evolved_persona", ""), state.get("before", "")
    fresh = await grow_persona(ports.stories, lease.lock, instance_id, text, why, now(), expected=before)
    return {"revision": revision_of(fresh), "status": "done"}
