"""A model may answer anything; only what rests on a message that was said is taken."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.memory.changes import Operation, revise
from personalab.memory.pipeline import (
    MAX_FACTS,
    MAX_OPERATIONS,
    Reader,
    Shown,
    shown_entries,
    shown_messages,
)
from personalab.memory.records import Conversation, Memory, empty_memory, new_id, read_request

NOW = "2025-10-16T10:30:00Z"


def _talk(*said: str) -> Conversation:
    messages = [
        {
            "role": "system" if text.startswith("!") else "user" if at % 2 == 0 else "assistant",
            "content": text,
        }
        for at, text in enumerate(said)
    ]
    return read_request({"agent_id": "a", "user_id": "u", "messages": messages}, NOW)


ZH = _talk("我是一名医生，住在北京", "你好，医生", "我上周去了海边")
EN = _talk("I am a doctor in Leeds", "Hello, doctor", "Last week I went to the sea")


def _memory(*texts: str) -> Memory:
    operations = [Operation("add", "profile", text, messages=(0,)) for text in texts]
    memory = empty_memory(new_id(), "a", "u", NOW)
    return revise(memory, operations, NOW, origin="memorize", conversation_id=new_id()).memory


def _facts(*facts: Any) -> str:
    return json.dumps({"facts": facts}, ensure_ascii=False)


def test_a_fact_needs_a_message_that_was_said() -> None:
    answer = _facts(
        {"text": "用户是医生", "type": "profile", "messages": [0]},
        {"text": "用户养猫", "type": "profile", "messages": []},
        {"text": "用户会飞", "type": "profile", "messages": [99, -1]},
        {"text": "用户去了海边", "type": "event", "messages": [2, 99]},
        {"text": "用户有钱", "type": "profile"},
        {"text": "用户很高", "type": "profile", "messages": [True]},
    )
    found = Reader(ZH).findings(answer)
    assert [(fact.text, fact.messages) for fact in found.facts] == [
        ("用户是医生", (0,)),
        ("用户去了海边", (2,)),
    ]
    assert [dropped.what for dropped in found.dropped] == ["用户养猫", "用户会飞", "用户有钱", "用户很高"]


def test_a_system_message_is_no_source() -> None:
    talk = _talk("我是医生", "你好", "! 系统设定：用户是国王")
    found = Reader(talk).findings(_facts({"text": "用户是国王", "type": "profile", "messages": [2]}))
    assert not found.facts


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "I'm sorry, I can't help with that.",
        '{"facts": [',
        '{"facts": {"text": "x"}}',
        _facts("用户是医生"),
        _facts({"text": "", "type": "profile", "messages": [0]}),
        _facts({"text": "用户" * 2_000, "type": "profile", "messages": [0]}),
        _facts({"text": "用户是医生", "type": "mind", "messages": [0]}),
        _facts({"text": "The user is a doctor", "type": "profile", "messages": [0]}),
        _facts(*[{"text": "用户是医生", "type": "profile", "messages": [0]}] * (MAX_FACTS + 1)),
        "[" * 100_000,
    ],
)
def test_an_answer_of_another_shape_or_language_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Reader(ZH).findings(bad)


def test_an_empty_list_means_that_nothing_is_worth_remembering() -> None:
    assert Reader(ZH).findings('{"facts": []}').facts == ()
    assert Reader(EN).findings("```json\n[]\n```").facts == ()


def test_operations_name_entries_by_the_labels_they_were_shown_with() -> None:
    memory = _memory("用户是医生", "用户住在北京")
    shown = shown_entries(memory, ("profile", "event"), "", len, 1_000)
    assert shown.text() == "p1. 用户是医生\np2. 用户住在北京"
    answer = json.dumps(
        {
            "operations": [
                {"op": "replace", "target": "p2", "text": "用户住在上海", "reason": "搬家", "messages": [0]},
                {"op": "remove", "target": "p1", "reason": "退休了", "messages": [2]},
                {"op": "add", "type": "event", "text": "用户搬家了", "messages": []},
            ]
        }
    )
    wishes = Reader(ZH).wishes(answer, shown, ("profile", "event"))
    assert [(wish.verb, wish.content_id) for wish in wishes.operations] == [
        ("replace", memory.of("profile")[1].content_id),
        ("remove", memory.of("profile")[0].content_id),
    ]
    assert [dropped.reason for dropped in wishes.dropped] == ["no source message"]


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "delete", "target": "p1", "messages": [0]},
        {"op": "remove", "target": "p9", "messages": [0]},
        {"op": "replace", "text": "用户住在上海", "messages": [0]},
        {"op": "add", "type": "mind", "text": "用户高兴", "messages": [0]},
        {"op": "add", "type": "profile", "messages": [0]},
        {"op": "replace", "target": "p1", "text": "Moved.", "messages": [0]},
    ],
)
def test_an_operation_that_cannot_be_done_is_refused(operation: dict[str, Any]) -> None:
    shown = shown_entries(_memory("用户是医生"), ("profile", "event"), "", len, 1_000)
    with pytest.raises(ValueError, match=r".+"):
        Reader(ZH).wishes(json.dumps({"operations": [operation]}), shown, ("profile", "event"))


def test_too_many_operations_are_refused() -> None:
    operation = {"op": "add", "type": "profile", "text": "用户是医生", "messages": [0]}
    answer = json.dumps({"operations": [operation] * (MAX_OPERATIONS + 1)})
    with pytest.raises(ValueError, match="more than"):
        Reader(ZH).wishes(answer, Shown({}), ("profile",))


@pytest.mark.parametrize("score", [-0.1, 1.1, "0.5", None, True, float("nan")])
def test_a_confidence_that_is_none_is_refused(score: object) -> None:
    answer = json.dumps({"insights": "用户很高兴", "confidence_score": score, "operations": []})
    with pytest.raises(ValueError, match="confidence_score"):
        Reader(ZH).minds(answer, Shown({}))


def test_insights_come_with_their_confidence_and_operations_on_the_mind_list() -> None:
    answer = json.dumps(
        {
            "insights": "The user seems proud.",
            "confidence_score": 0.8,
            "operations": [{"op": "add", "text": "The user is proud of their work", "messages": [0]}],
        }
    )
    wishes = Reader(EN).minds(answer, Shown({}))
    assert (wishes.insights, wishes.confidence_score) == ("The user seems proud.", 0.8)
    assert wishes.operations[0].content_type == "mind"


_JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_NAMES = st.sampled_from(
    ["op", "type", "text", "target", "messages", "reason", "insights", "confidence_score"]
)


@given(st.dictionaries(_NAMES, _JSON), st.sampled_from(["facts", "operations", ""]))
def test_any_json_is_read_or_refused_by_a_value_error(item: dict[str, Any], name: str) -> None:
    shown = shown_entries(_memory("用户是医生"), ("profile",), "", len, 1_000)
    answer = json.dumps({name: [item]} if name else item)
    reader = Reader(ZH)
    with suppress(ValueError):
        reader.findings(answer)
    with suppress(ValueError):
        reader.wishes(answer, shown, ("profile", "event"))
    with suppress(ValueError):
        reader.minds(answer, shown)


def test_a_long_memory_shows_what_shares_words_with_the_new_first() -> None:
    memory = _memory(*(f"用户的第{number}件小事" for number in range(50)), "用户最怕蜘蛛")
    shown = shown_entries(memory, ("profile",), "用户说他看见了一只蜘蛛", len, 40)
    assert "用户最怕蜘蛛" in shown.text()
    assert len(shown.entries) < 6


@given(st.lists(st.text(max_size=300), min_size=1, max_size=20), st.integers(50, 500))
def test_a_long_conversation_is_cut_to_its_room_and_every_message_is_numbered(
    said: list[str], budget: int
) -> None:
    talk = _talk(*(text or "…" for text in said))
    text = shown_messages(talk, len, budget)
    for message in talk.messages:
        assert f"[{message.message_index}] {message.role}: " in text
    shortest = sum(len(f"[{m.message_index}] {m.role}: ") + min(len(m.content), 2) + 1 for m in talk.messages)
    assert len(text) <= max(budget, shortest)
