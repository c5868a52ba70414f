"""Speech and reasoning are distinguished in every shape that providers send, and keep their order."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessageChunk

from personalab.providers.langchain_source import parts_of
from personalab.providers.openai_source import EventReader
from personalab.providers.provider_model import content_parts, field_reasoning

REASONING_BLOCKS = [
    {"type": "thinking", "thinking": "T"},
    {"type": "thinking", "thinking": [{"type": "text", "text": "T"}]},
    {"type": "reasoning", "reasoning": "T"},
    {"type": "reasoning", "text": "T"},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "T"}]},
    {"type": "reasoning_content", "text": "T"},
    {"type": "reasoning_content", "reasoning_content": {"text": "T"}},
    {"type": "reasoning_text", "text": "T"},
    {"type": "thought", "text": "T"},
]
OTHER_BLOCKS = [
    {"type": "redacted_thinking", "data": "zzz"},
    {"type": "tool_use", "text": "zzz"},
    {"type": "thinking_signature", "text": "zzz"},
    {"text": "zzz"},
]


def event(**delta: object) -> bytes:
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode() + b"\n\n"


def read(*events: bytes) -> list[tuple[str, str]]:
    """Return the text and the reasoning of each piece of what came in one packet."""
    reader = EventReader()
    reader.feed(b"".join(events))
    return [(piece.text, piece.reasoning) for piece in reader.pieces()]


@pytest.mark.parametrize("block", REASONING_BLOCKS, ids=json.dumps)
def test_reasoning_blocks_are_reasoning_from_both_sources(block: dict[str, Any]) -> None:
    content = [block, {"type": "text", "text": "hi"}]
    assert read(event(content=content)) == [("", "T"), ("hi", "")]
    assert list(parts_of(AIMessageChunk(content=content))) == [(True, "T"), (False, "hi")]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("block", OTHER_BLOCKS, ids=json.dumps)
def test_blocks_of_other_types_are_not_shown(block: dict[str, Any]) -> None:
    content = [block, {"type": "output_text", "text": "hi"}]
    assert list(content_parts(content)) == [(False, "hi")]
    assert read(event(content=content)) == [("hi", "")]


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning_content": "T"},
        {"reasoning_content": None, "reasoning": "T"},
        {"reasoning": "T", "reasoning_details": [{"type": "reasoning.text", "text": "T"}]},
        {"reasoning_details": [{"type": "reasoning.text", "text": "T"}]},
        {"reasoning_details": [{"type": "reasoning.summary", "summary": "T"}]},
    ],
    ids=json.dumps,
)
def test_reasoning_beside_the_content_is_read_once(fields: dict[str, Any]) -> None:
    assert field_reasoning(fields) == "T"
    assert read(event(content=None, **fields)) == [("", "T")]


def test_order_is_kept_within_one_packet() -> None:
    events = (
        event(content="<think>X</think>"),
        event(reasoning_content="Y"),
        event(content="H"),
        event(content="i"),
    )
    assert read(*events) == [("<think>X</think>", ""), ("", "Y"), ("Hi", "")]
