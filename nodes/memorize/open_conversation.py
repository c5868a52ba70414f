"""The step that saves the conversation, or finds a saved one; one that was learned from before needs no model."""

from __future__ import annotations

from typing import Any

from nodes.memorize.state import MemorizeState
from personalab.errors import NotFound, UserError
from personalab.memory.records import read_request
from personalab.services import Services
from personalab.story.records import check_given


async def open_conversation(state: MemorizeState, *, services: Services) -> dict[str, Any]:
    """Save the conversation before any model is asked about it."""
    request, conversation_id = state.get("request"), state.get("conversation_id")
    if request is not None:
        found = await services.memories.save_conversation(read_request(request, services.now()))
    else:
        named = check_given(conversation_id or None, "conversation_id")
        found = await services.memories.conversation(named)
        if found is None:
            raise NotFound("no_conversation", conversation_id=named[:80])
    if not found.messages:
        raise UserError("empty_conversation", conversation_id=found.conversation_id)
    learned = found.is_learned and not state.get("again")
    return {
        "conversation_id": found.conversation_id,
        "agent_id": found.agent_id,
        "user_id": found.user_id,
        "memory_id": found.memory_id or "",
        "pipeline_result": dict(found.pipeline_result) if found.pipeline_result else None,
        "anew": bool(state.get("again")),
        "status": "unchanged" if learned else "running",
    }
