"""What is known about the player is told within its room, and no entry hides the others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.errors import BadRecord
from personalab.memory.changes import Operation, revise
from personalab.memory.records import Memory, MemoryEntry, check_name, empty_memory, new_id
from personalab.memory.search import player_text

NOW = "2025-10-16T10:30:00Z"
TEMPLATES = {"player_memory_events": "events:\n"}


def _memory(*texts: str) -> Memory:
    operations = [Operation("add", "profile", text) for text in texts]
    return revise(empty_memory(new_id(), "agent", "user", NOW), operations, NOW, origin="edit").memory


def test_a_long_newest_entry_is_cut_and_does_not_hide_the_others() -> None:
    told = player_text(_memory("is a doctor", "likes tea", "x" * 2_000), [], TEMPLATES, len, 200)
    first, second, third = told.split("\n")
    assert (first, second) == ("- is a doctor", "- likes tea")
    assert third.startswith("- xxx")
    assert third.endswith("x…")
    assert len(told) <= 120


def test_an_entry_without_room_lets_shorter_ones_pass() -> None:
    texts = ["short", "y" * 40, "z" * 40, "w" * 40]
    told = player_text(_memory(*texts), [], TEMPLATES, len, 200)
    assert told == f"- short\n- {'z' * 40}\n- {'w' * 40}"


def test_a_very_long_list_is_not_looked_through_for_a_last_gap() -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    told = player_text(_memory(*(f"fact number {n}" for n in range(500))), [], TEMPLATES, count, 200)
    assert "fact number 499" in told
    assert len(counted) < 50


@given(st.lists(st.text(min_size=1, max_size=300), max_size=8), st.integers(50, 400))
def test_whatever_is_known_its_room_is_kept(texts: list[str], budget: int) -> None:
    memory = _memory(*texts)
    events = [MemoryEntry(new_id(), "event", text, place, NOW, NOW, ()) for place, text in enumerate(texts)]
    heading = len("events:\n")
    assert len(player_text(memory, events, TEMPLATES, len, budget)) <= budget + heading


@pytest.mark.parametrize("name", ["李\u3000雷", "Ana\u00a0Maria", "a b"])
def test_a_name_may_have_any_space(name: str) -> None:
    assert check_name({"user_id": name}, "user_id") == name


@pytest.mark.parametrize("name", ["a\nb", "a\x07b", "a\u200bb", "a\u2028b"])
def test_a_name_with_what_nobody_sees_is_refused(name: str) -> None:
    with pytest.raises(BadRecord, match="control or invisible"):
        check_name({"user_id": name}, "user_id")
