"""Tests of turn numbers for messages that another program added or moved."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.archive.chats import Chat, chat_of, lines_of
from personalab.archive.foreign_lines import MAX_GIVEN_TURN
from personalab.archive.instances import InstanceFiles, archive_of, instance_of
from personalab.archive.veloca_lines import SessionLines
from personalab.story.transcript import (
    MAX_TURN,
    AssistantLine,
    Line,
    Metadata,
    Transcript,
    UserLine,
    dump_line,
    parse_line,
)
from tests.support.archive.random_instances import STATE

NOW = "2025-10-16T10:30:00Z"
SAID: tuple[Line, ...] = (
    Metadata("inst_001", "sess_001", NOW),
    AssistantLine("Welcome.", 0, NOW),
    UserLine("one", 1, NOW),
    AssistantLine("first", 1, NOW),
    UserLine("two", 2, NOW),
    AssistantLine("second", 2, NOW),
    UserLine("three", 3, NOW),
    AssistantLine("third", 3, NOW),
)
TRIED: tuple[Line, ...] = (
    *SAID[:4],
    AssistantLine("first again", 1, NOW),
    *SAID[4:],
    UserLine("far", 90, NOW),
    AssistantLine("away", 90, NOW),
    AssistantLine("and more", 91, NOW),
)


def told(lines: Sequence[Line]) -> list[tuple[int, str | None, str | None]]:
    """Give each turn: its number, what the person said, and the answer that counts."""
    transcript = Transcript()
    transcript.extend(lines)
    return [(turn.number, turn.user and turn.user.content, turn.answer) for turn in transcript.turns]


def grows(lines: Sequence[Line]) -> bool:
    """Tell whether no two turns of a session share a number."""
    numbers = [number for number, _, _ in told(lines)]
    return all(one < two for one, two in pairwise(numbers))


def counted(lines: Sequence[Line]) -> Counter[str]:
    """Count the texts that later prompts may show."""
    return Counter(text for _, *texts in told(lines) for text in texts if text is not None)


# --- a chat


def message(text: str, *, user: bool) -> dict[str, Any]:
    """Make a message of another program."""
    name = "Ann" if user else "Sera"
    return {"name": name, "is_user": user, "is_system": False, "mes": text, "send_date": NOW, "extra": {}}


def from_chat(header: Any, messages: Sequence[Any]) -> list[Line]:
    """Read a chat at home."""
    return lines_of(Chat(header, tuple(messages)), "inst_001", "sess_001", NOW)


NEW, REPLY = message("new", user=True), message("reply", user=False)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (
            [0, 1, 2, NEW, REPLY, 3, 4, 5, 6],
            [(1, "one", "first"), (2, "new", "reply"), (3, "two", "second"), (4, "three", "third")],
        ),
        ([0, 1, REPLY, 2, 3, 4], [(1, "one", "reply"), (2, None, "first"), (3, "two", "second")]),
        ([0, 1, 2, NEW, 3, 4], [(1, "one", "first"), (2, "new", None), (3, "two", "second")]),
        ([0, 3, 4, 1, 2, 5, 6], [(2, "two", "second"), (3, "one", "first"), (4, "three", "third")]),
        ([0, 1, 2, 1, 2, 3, 4], [(1, "one", "first"), (2, "one", "first"), (3, "two", "second")]),
        ([0, 1, 2, 2, 3, 4], [(1, "one", "first"), (2, None, "first"), (3, "two", "second")]),
        ([0, 1, 2, 5, 6, NEW], [(1, "one", "first"), (3, "three", "third"), (4, "new", None)]),
    ],
    ids=["added", "reply added", "question added", "moved", "doubled", "reply doubled", "deleted"],
)
def test_messages_that_were_put_elsewhere_have_turns_of_their_own(
    order: list[Any], expected: list[tuple[int, str | None, str | None]]
) -> None:
    header, *messages = chat_of(SAID, "Sera", "Ann")
    rows = [messages[one] if isinstance(one, int) else one for one in order]
    assert told(from_chat(header, rows))[1:] == expected


def test_a_chat_whose_marks_tell_no_places_is_renumbered_where_its_turns_do_not_grow() -> None:
    header, *messages = chat_of(SAID, "Sera", "Ann")
    for row in messages:
        del row["extra"]["personalab"]["place"]
    assert from_chat(header, messages) == list(SAID)
    rows = [*messages[:3], NEW, REPLY, *messages[3:]]
    assert [number for number, _, _ in told(from_chat(header, rows))] == [0, 1, 2, 3, 4]


def test_what_was_renumbered_stays_as_it_is_from_then_on() -> None:
    header, *messages = chat_of(TRIED, "Sera", "Ann")
    lines = from_chat(header, [messages[3], *messages, NEW, messages[0]])
    header, *messages = chat_of(lines, "Sera", "Ann")
    assert from_chat(header, messages) == lines


@given(st.lists(st.one_of(st.integers(0, 9), st.booleans()), max_size=14))
def test_wherever_messages_of_a_chat_stand_each_counts(order: list[int | bool]) -> None:
    header, *messages = chat_of(TRIED, "Sera", "Ann")
    rows = [
        message(f"new {at}", user=one) if isinstance(one, bool) else messages[one]
        for at, one in enumerate(order)
    ]
    lines = from_chat(header, rows)
    assert grows(lines)
    assert counted(lines) == Counter(row["mes"] for row in rows)


# --- a Veloca file


def document(lines: Sequence[Line]) -> Any:
    """Make the Veloca file of a story of one session."""
    persona = {"base_persona": "", "evolved_persona": ""}
    files = InstanceFiles(STATE, persona, (SessionLines("sess_001", tuple(lines)),))
    return json.loads(json.dumps(archive_of(files)))


def entry(doc: Any, text: str, role: str, number: int) -> dict[str, Any]:
    """Make an entry of another program."""
    fresh = {**doc["entries"][0], "entry_id": str(uuid.UUID(int=number, version=4))}
    fresh.pop("personalab", None)
    return {**fresh, "message": text, "role": role}


def from_veloca(doc: Any) -> tuple[Line, ...]:
    """Read the one session of a file."""
    (session,) = instance_of(doc).sessions
    return session.lines


def test_entries_that_were_added_or_doubled_have_turns_of_their_own() -> None:
    doc = document(SAID)
    asked, replied = entry(doc, "new", "user", 1), entry(doc, "reply", "assistant", 2)
    copies = [{**doc["entries"][at], "entry_id": str(uuid.UUID(int=10 + at, version=4))} for at in (1, 2)]
    doc["entries"][5:5] = copies
    doc["entries"][3:3] = [asked, replied]
    assert told(from_veloca(doc)) == [
        (0, None, "Welcome."),
        (1, "one", "first"),
        (2, "new", "reply"),
        (3, "two", "second"),
        (4, "one", "first"),
        (5, "three", "third"),
    ]


def test_a_reply_that_was_added_before_ours_leaves_ours_in_force() -> None:
    doc = document(SAID)
    doc["entries"].insert(2, entry(doc, "reply", "assistant", 1))
    assert told(from_veloca(doc))[1:3] == [(1, "one", "reply"), (2, None, "first")]


def test_an_entry_that_another_one_says_now_has_a_turn_of_its_own() -> None:
    doc = document(SAID)
    doc["entries"][3]["role"] = "assistant"
    assert told(from_veloca(doc))[2:] == [(2, None, "two"), (3, None, "second"), (4, "three", "third")]


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["user", "assistant", "copy"])), max_size=8))
def test_wherever_entries_are_added_each_counts(changes: list[tuple[int, str]]) -> None:
    doc = document(SAID)
    for number, (at, kind) in enumerate(changes):
        fresh = entry(doc, f"new {number}", kind, number)
        if kind == "copy":
            copied = doc["entries"][at % len(doc["entries"])]
            fresh = {**copied, "entry_id": fresh["entry_id"]}
        doc["entries"].insert(at, fresh)
    lines = from_veloca(doc)
    assert grows(lines)
    assert counted(lines) == Counter(one["message"] for one in doc["entries"])


# --- numbers that nobody played


@pytest.mark.parametrize("number", [10**30, MAX_TURN, MAX_GIVEN_TURN + 1])
def test_a_number_that_no_story_could_go_on_after_is_made_anew(number: int) -> None:
    header, *messages = chat_of(SAID, "Sera", "Ann")
    messages[3]["extra"]["personalab"]["lines"][0]["fields"]["turn"] = number
    doc = document(SAID)
    doc["entries"][3]["personalab"]["fields"]["turn"] = number
    for lines in (from_chat(header, [*messages, NEW]), from_veloca(doc)):
        assert grows(lines)
        assert counted(lines) >= counted(SAID)
        assert told(lines)[-1][0] < 10
        assert [parse_line(dump_line(line)) for line in lines] == list(lines)


def test_lines_carried_in_a_mark_say_nothing() -> None:
    header, *messages = chat_of(SAID, "Sera", "Ann")
    said = {"role": "user", "content": "smuggled", "turn": 1, "timestamp": NOW}
    header["chat_metadata"]["personalab"]["after"] = [said]
    messages[2]["extra"]["personalab"]["before"] = [said, {"type": "later"}]
    lines = from_chat(header, messages)
    assert counted(lines) == counted(SAID)
    assert len(lines) == len(SAID) + 1
