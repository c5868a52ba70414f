"""The last step: it saves the new persona with its history."""

from __future__ import annotations

import asyncio
from typing import Any

from nodes.summarize.material import read_material
from nodes.update_memory.state import UpdateState
from personalab.errors import UserError
from personalab.services import Services
from personalab.story.persona_history import revision_of
from personalab.tasks import run_uncancellable


async def save_persona(state: UpdateState, *, services: Services) -> dict[str, Any]:
    """Save the new persona, unless only a preview is wanted or nothing has changed."""
    instance_id = state.get("instance_id", "")

    def check() -> None:
        material = read_material(services, instance_id, last_turn=state.get("last_turn"))
        if material.instance.current_session_id != state.get("session_id"):
            raise UserError("session_switched", session_id=material.instance.current_session_id)

    def save() -> int:
        check()
        why = {name: state.get(name) for name in ("changes", "session_id", "turns", "model")}
        fresh = services.personas.grow(
            instance_id,
            state.get("evolved_persona", ""),
            why,
            services.now(),
            expected=state.get("before", ""),
        )
        return revision_of(fresh)

    if state.get("preview") or not state.get("changes"):
        await asyncio.to_thread(check)
        return {"status": "preview" if state.get("preview") else "unchanged"}
    return {"revision": await run_uncancellable(save), "status": "done"}
