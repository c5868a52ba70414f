"""The step that reads the session, and refuses one in which nothing has happened."""

from __future__ import annotations

import asyncio
from typing import Any

from nodes.summarize.carrying import carry_turns, load_scene
from nodes.summarize.material import SummaryMaterial, read_material
from nodes.summarize.state import SummaryState
from personalab.errors import UserError
from personalab.services import Services
from personalab.story.transcript import taken_over


async def read_session(state: SummaryState, *, services: Services) -> dict[str, Any]:
    """Find what there is to tell, and name the session that will follow.

    A session without news is summarised only to leave turns behind that are too long for any prompt.
    """
    instance_id = state.get("instance_id", "")
    material = await asyncio.to_thread(read_material, services, instance_id)
    session_id = material.instance.current_session_id
    counter = await services.counter()
    scene = await load_scene(services, instance_id)
    carried = await asyncio.to_thread(carry_turns, scene, material, (), counter.count)
    news = await asyncio.to_thread(_has_news, services, material)
    if not news and not carried.left_behind:
        raise UserError("nothing_to_summarize", instance_id=instance_id, session_id=session_id)
    last = material.transcript.last
    return {
        "preview": bool(state.get("dry_run")),
        "session_id": session_id,
        "new_session_id": services.summaries.next_session_id(session_id),
        "last_turn": last.number if last else 0,
        "has_news": news,
        "kept_turns": len(carried.turns),
    }


def _has_news(services: Services, material: SummaryMaterial) -> bool:
    """Return whether anything happened that the session did not take over from the previous one."""
    transcript = material.transcript
    instance = material.instance
    before = services.stories.session_before(instance.instance_id, instance.current_session_id)
    fresh = transcript.turns
    if before is not None:
        older = services.stories.session(instance.instance_id, before).view()
        fresh = fresh[taken_over(fresh, older) :]
    return any(turn.user is not None and turn.answer is not None for turn in fresh)
