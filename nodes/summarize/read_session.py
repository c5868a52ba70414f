"""The step that reads the session, and refuses one in which nothing has happened."""

from __future__ import annotations

import asyncio
from typing import Any

from nodes.summarize.carrying import carry_turns, load_scene
from nodes.summarize.material import SummaryMaterial, read_material
from nodes.summarize.state import SummaryState
from personalab.errors import UserError
from personalab.ports import SessionStore
from personalab.services import Services
from personalab.story.summary import next_session_id
from personalab.story.transcript import taken_over


async def read_session(state: SummaryState, *, services: Services) -> dict[str, Any]:
    """Find what there is to tell, and name the session that will follow.

    A session without news is summarised only to leave turns behind that are too long for any prompt.
    """
    instance_id = state.get("instance_id", "")
    material = await read_material(services.story_ports, instance_id)
    session_id = material.instance.current_session_id
    counter = await services.counter()
    scene = await load_scene(services, instance_id)
    carried = await asyncio.to_thread(carry_turns, scene, material, (), counter.count)
    news = await _has_news(services.story_ports.sessions, material)
    if not news and not carried.left_behind:
        raise UserError("nothing_to_summarize", instance_id=instance_id, session_id=session_id)
    last = material.transcript.last
    return {
        "preview": bool(state.get("dry_run")),
        "session_id": session_id,
        "new_session_id": next_session_id(session_id),
        "last_turn": last.number if last else 0,
        "has_news": news,
        "kept_turns": len(carried.turns),
    }


async def _has_news(sessions: SessionStore, material: SummaryMaterial) -> bool:
    """Return whether anything happened that the session did not take over from the previous one."""
    instance_id, session_id = material.instance.instance_id, material.instance.current_session_id
    fresh = material.transcript.turns
    before = await sessions.previous(instance_id, session_id)
    if before is not None:
        older = await sessions.transcript(instance_id, before, open_reply=True)
        fresh = fresh[taken_over(fresh, older) :]
    return any(turn.user is not None and turn.answer is not None for turn in fresh)
