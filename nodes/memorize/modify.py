"""The step that asks what in the conversation is worth remembering."""

from __future__ import annotations

from typing import Any

from nodes.memorize.state import MemorizeState
from nodes.memorize.subject import Subject
from personalab.memory.pipeline import modify_messages, stage_result
from personalab.memory.records import CONTENT_TYPES
from personalab.ports import Clock


async def modify(state: MemorizeState, *, subject: Subject, now: Clock) -> dict[str, Any]:
    """Find the facts; those that rest on no message are dropped."""
    said = await subject.said()
    shown = await subject.shown(CONTENT_TYPES, said.text)
    asked, reader = modify_messages(said.text, shown.text(), subject.templates), subject.reader
    answered, usage = await subject.ask(asked, reader.findings, reader.findings_schema())
    findings = answered.value
    return {
        "facts": [fact.fields() for fact in findings.facts],
        "dropped": [dropped.fields() for dropped in (*said.dropped(), *findings.dropped)],
        "usage": dict(answered.usage) if answered.usage else None,
        "result": {
            "modification_result": findings.text(),
            "modification_metadata": {
                **stage_result("modify", now(), usage),
                "raw_llm_response": answered.raw,
                **({"truncated": True} if said.cut else {}),
            },
        },
    }
