"""The step that asks how the facts change the profile and the events."""

from __future__ import annotations

from functools import partial
from typing import Any

from nodes.memorize.state import MemorizeState
from nodes.memorize.subject import Subject, used
from personalab.memory.changes import revise
from personalab.memory.pipeline import Fact, llm_usage, stage_result, update_messages
from personalab.memory.records import ContentType
from personalab.ports import Clock

_TYPES: tuple[ContentType, ...] = ("profile", "event")


async def update(state: MemorizeState, *, subject: Subject, now: Clock) -> dict[str, Any]:
    """Get the operations that code will apply; without findings no model is asked."""
    facts = [Fact.of(fact) for fact in state.get("facts", [])]
    result = dict(state.get("result", {}))
    if not facts:
        usage = llm_usage(0, 0, estimated=False)
        return {"operations": [], "result": {**result, "update_result": _told(False, "", now(), usage)}}
    shown = await subject.shown(_TYPES, "\n".join(fact.text for fact in facts))
    asked = update_messages((await subject.said()).text, shown, facts, subject.templates)
    reader = subject.reader
    answered, usage = await subject.ask(
        asked, partial(reader.wishes, shown=shown, types=_TYPES), reader.wishes_schema(shown, _TYPES)
    )
    wishes = answered.value
    revised = revise(
        subject.memory,
        wishes.operations,
        now(),
        origin="memorize",
        conversation_id=subject.conversation.conversation_id,
    )
    told = _told(revised.change is not None, answered.raw, now(), usage)
    return {
        "operations": [operation.fields() for operation in wishes.operations],
        "dropped": [*state.get("dropped", []), *(dropped.fields() for dropped in wishes.dropped)],
        "result": {**result, "update_result": told},
        "usage": used(state, answered.usage),
    }


def _told(updated: bool, raw: str, now: str, usage: dict[str, Any]) -> dict[str, Any]:
    return {
        "profile_updated": updated,
        "raw_llm_response": raw,
        "metadata": stage_result("update", now, usage),
    }
