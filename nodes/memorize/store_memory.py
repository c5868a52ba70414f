"""The step that changes the memory and stores the pipeline's result, in one transaction.

If a stage failed, only the failure is stored.
"""

from __future__ import annotations

from typing import Any

from nodes.memorize.state import MemorizeState
from nodes.memorize.subject import Subject
from personalab.errors import Busy
from personalab.memory.changes import MemoryRevision, Operation, revise
from personalab.memory.pipeline import pipeline_metadata
from personalab.memory.records import Conversation, clean_json
from personalab.operations.learning import tries_of
from personalab.ports import LearnedBefore
from personalab.services import Services

UNUSABLE = "provider.unusable_answer"
"""What a conversation fails with that no answer fits; anything else may be over next time."""
_TRIES = 8
"""Maximum attempts when the memory changes concurrently."""


async def store_memory(state: MemorizeState, *, subject: Subject, services: Services) -> dict[str, Any]:
    """Apply the operations to the current memory, and store both in one step."""
    conversation, failure = subject.conversation, state.get("failure")
    operations = [Operation.of(operation) for operation in state.get("operations", [])] if not failure else []
    memory = subject.memory
    for _ in range(_TRIES):
        revised = revise(
            memory,
            operations,
            services.now(),
            origin="memorize",
            conversation_id=conversation.conversation_id,
        )
        result = _result(state, subject, revised, services.now())
        try:
            kept = await services.memories.commit(
                revised,
                conversation_id=conversation.conversation_id,
                result=result,
                again=state.get("anew", False),
            )
        except LearnedBefore:
            return await _learned_before(state, conversation, services)
        if kept:
            steps = [step.fields() for step in revised.change.steps] if revised.change else []
            return {"status": "error" if failure else "done", "steps": steps, "pipeline_result": result}
        memory = await services.memories.memory(conversation.agent_id, conversation.user_id) or memory
    raise Busy("memory_busy", agent_id=conversation.agent_id, user_id=conversation.user_id)


async def _learned_before(
    state: MemorizeState, conversation: Conversation, services: Services
) -> dict[str, Any]:
    """Keep what someone else has learned meanwhile, and the success recorded there, unchanged."""
    found = await services.memories.conversation(conversation.conversation_id)
    result = dict(found.pipeline_result) if found and found.pipeline_result else None
    return {"status": "error" if state.get("failure") else "unchanged", "pipeline_result": result}


def _result(state: MemorizeState, subject: Subject, revised: MemoryRevision, now: str) -> dict[str, Any]:
    result = dict(state.get("result", {}))
    if dropped := state.get("dropped"):
        result["dropped"] = dropped
    if failure := state.get("failure"):
        tries = tries_of(subject.conversation) + (failure["code"] == UNUSABLE)
        result["error"] = {**failure, "tries": tries}
    changed = revised.change.steps if revised.change else ()
    updated = any(step.entry.content_type != "mind" for step in changed)
    if "update_result" in result:
        result["update_result"] = {**result["update_result"], "profile_updated": updated}
    result["pipeline_metadata"] = pipeline_metadata(
        now,
        subject.conversation,
        subject.model.name,
        profile_updated=updated,
        truncated="truncated" in result.get("modification_metadata", {}),
    )
    return clean_json(result)
