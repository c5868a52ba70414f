"""The step that asks what the person seems to think and feel."""

from __future__ import annotations

from functools import partial
from typing import Any

from nodes.memorize.state import MemorizeState
from nodes.memorize.subject import Subject, used
from personalab.memory.changes import Operation, revise
from personalab.memory.pipeline import mind_messages, stage_result
from personalab.ports import Clock


async def theory_of_mind(state: MemorizeState, *, subject: Subject, now: Clock) -> dict[str, Any]:
    """Get the insights and what they do to the mind list, in the light of the updated profile."""
    known = [Operation.of(operation) for operation in state.get("operations", [])]
    revised = revise(
        subject.memory,
        known,
        now(),
        origin="memorize",
        conversation_id=subject.conversation.conversation_id,
    )
    said = await subject.said()
    shown = await subject.shown(("mind",), said.text)
    profile = "\n".join(f"- {text}" for text in revised.memory.texts("profile")[-100:])
    asked = mind_messages(said.text, profile, shown, subject.templates)
    reader = subject.reader
    answered, usage = await subject.ask(asked, partial(reader.minds, shown=shown), reader.minds_schema(shown))
    wishes = answered.value
    told = {
        "insights": wishes.insights,
        "confidence_score": wishes.confidence_score,
        "raw_llm_response": answered.raw,
        "metadata": stage_result("theory_of_mind", now(), usage),
    }
    return {
        "operations": [
            *state.get("operations", []),
            *(operation.fields() for operation in wishes.operations),
        ],
        "dropped": [*state.get("dropped", []), *(dropped.fields() for dropped in wishes.dropped)],
        "result": {**state.get("result", {}), "mind_result": told},
        "usage": used(state, answered.usage),
    }
