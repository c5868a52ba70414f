"""A summary stands for what was said before its trigger, and an undo brings exactly that back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.archive.veloca import (
    COMPACTED,
    NOT_COMPACTED,
    ArchiveEntry,
    ArchiveSession,
    CompactedDialogue,
    new_id,
)
from personalab.archive.veloca_archive import MAX_RECORD_BYTES, Archive, changed
from personalab.archive.veloca_compaction import (
    KEPT_ENTRIES,
    CompactionMaterial,
    compacted,
    context_of,
    material_of,
    undone,
)
from personalab.errors import BadRecord, NotFound
from tests.unit.archive.test_veloca_archive import SESSION, TIME, an_entry


class Talk:
    """A session with entries that are called by their number."""

    def __init__(self, count: int) -> None:
        self.archive = Archive()
        self.archive.put_records([ArchiveSession(SESSION, "s", 0, TIME)])
        self.ids: list[str] = []
        for _ in range(count):
            self.say()

    def say(self) -> None:
        role = "assistant" if len(self.ids) % 2 else "user"
        entry = ArchiveEntry.read(an_entry(message=str(len(self.ids)), role=role))
        self.ids.append(entry.entry_id)
        self.archive.put_records([entry])

    def compact(self, trigger: int | None, summary: str) -> str:
        found = material_of(self.archive, SESSION, None if trigger is None else self.ids[trigger])
        dialogue_id = new_id()
        self.archive.put_records(compacted(found, summary, dialogue_id, TIME))
        return dialogue_id

    def undo(self, dialogue_id: str) -> None:
        self.archive.put_records(undone(self.archive, dialogue_id))

    def flag(self, number: int, **fields: Any) -> None:
        self.archive.put_records([replace(self.archive.entry(self.ids[number]), **fields)])

    @property
    def seen(self) -> list[str]:
        return [message["content"] for message in context_of(self.archive, SESSION).messages()]

    @property
    def hidden(self) -> list[str]:
        return [entry.message for entry in self.archive.entries() if entry.is_compaction == COMPACTED]


def test_a_compaction_shows_its_summary_and_then_the_entries_from_the_trigger_on() -> None:
    talk = Talk(6)
    talk.compact(4, "开头")
    assert talk.seen == ["开头", "4", "5"]
    assert talk.hidden == ["0", "1", "2", "3"]
    [first, *rest] = context_of(talk.archive, SESSION).messages()
    assert first == {"role": "system", "content": "开头", "tools": None}
    assert [message["role"] for message in rest] == ["user", "assistant"]


def test_a_later_compaction_tells_the_earlier_summary_and_supersedes_it() -> None:
    talk = Talk(8)
    first = talk.compact(2, "一")
    found = material_of(talk.archive, SESSION, talk.ids[6])
    assert [summary.summary for summary in found.summaries] == ["一"]
    assert [entry.message for entry in found.entries] == ["2", "3", "4", "5"]
    second = talk.compact(6, "一二")
    assert talk.seen == ["一二", "6", "7"]
    talk.undo(second)
    assert talk.seen == ["一", "2", "3", "4", "5", "6", "7"]
    talk.undo(first)
    assert talk.seen == [str(number) for number in range(8)]
    assert talk.hidden == []


def test_an_earlier_compaction_can_be_undone_first() -> None:
    talk = Talk(8)
    first = talk.compact(2, "一")
    second = talk.compact(6, "一二")
    talk.undo(first)
    assert talk.seen == ["一二", "6", "7"]
    assert talk.hidden == [str(number) for number in range(6)]
    talk.undo(second)
    assert talk.seen == [str(number) for number in range(8)]


def test_an_undo_brings_back_only_what_the_compaction_took() -> None:
    talk = Talk(6)
    talk.flag(1, is_compaction=COMPACTED)
    talk.flag(2, status=1)
    made_id = talk.compact(4, "开头")
    talk.undo(made_id)
    assert talk.hidden == ["1"]
    assert talk.seen == ["0", "3", "4", "5"]


def test_an_undo_brings_back_what_no_other_summary_tells() -> None:
    talk = Talk(12)
    talk.flag(1, status=1)
    first = talk.compact(6, "一")
    talk.flag(1, status=0)
    before = material_of(talk.archive, SESSION, talk.ids[8])
    assert [entry.message for entry in before.entries] == ["1", "6", "7"]
    talk.undo(talk.compact(8, "一二"))
    assert material_of(talk.archive, SESSION, talk.ids[8]) == before
    second = talk.compact(8, "一二")
    third = talk.compact(10, "一二三")
    talk.undo(second)
    assert talk.hidden == [str(number) for number in range(10)], "the third tells what the second told"
    talk.undo(third)
    assert material_of(talk.archive, SESSION, talk.ids[8]) == before
    talk.undo(first)
    assert talk.hidden == []


def test_a_summary_of_the_same_trigger_does_not_tell_what_the_other_told() -> None:
    talk = Talk(8)
    talk.flag(1, status=1)
    first = talk.compact(4, "甲")
    talk.flag(1, status=0)
    second = talk.compact(4, "乙")
    talk.undo(first)
    assert talk.hidden == ["1"]
    talk.undo(second)
    assert talk.hidden == []


def test_an_undo_of_another_programs_compaction_brings_back_all_before_its_trigger() -> None:
    talk = Talk(4)
    for number in range(2):
        talk.flag(number, is_compaction=COMPACTED)
    dialogue = CompactedDialogue(new_id(), talk.ids[2], "别处", TIME, 0)
    talk.archive.put_records([dialogue])
    assert talk.seen == ["别处", "2", "3"]
    talk.undo(dialogue.entry_id)
    assert talk.seen == ["0", "1", "2", "3"]


def test_what_a_summary_stands_for_may_be_more_than_a_record_may_hold() -> None:
    entries = tuple(ArchiveEntry.read(an_entry()) for _ in range(10))
    many = entries * (MAX_RECORD_BYTES // 350)
    found = compacted(CompactionMaterial(SESSION, entries[0].entry_id, many, ()), "长", new_id(), TIME)[-1]
    assert len(str(found.extra["personalab"])) > MAX_RECORD_BYTES
    assert changed(found, {"summary": "很长"}).extra == found.extra
    with pytest.raises(BadRecord):
        changed(found, {"note": "x" * MAX_RECORD_BYTES})
    with pytest.raises(BadRecord):
        changed(found, {"personalab": {"compacted": ["x" * MAX_RECORD_BYTES]}})


def test_several_summaries_of_the_same_trigger_are_all_shown_in_their_order() -> None:
    talk = Talk(4)
    talk.archive.put_records(
        [CompactedDialogue(new_id(), talk.ids[2], text, TIME, 0) for text in ("甲", "乙", "丙")]
    )
    assert talk.seen == ["甲", "乙", "丙", "2", "3"]


def test_without_a_trigger_the_last_exchanges_stay() -> None:
    talk = Talk(9)
    found = material_of(talk.archive, SESSION)
    assert found.trigger_entry_id == talk.ids[4], "the first that stays is the user's"
    talk.compact(None, "前面")
    assert talk.seen == ["前面", "4", "5", "6", "7", "8"]
    with pytest.raises(BadRecord) as raised:
        Talk(KEPT_ENTRIES).compact(None, "短")
    assert raised.value.code == "archive_nothing_to_compact"


def test_without_a_trigger_and_a_user_the_last_few_stay() -> None:
    talk = Talk(9)
    for number in range(9):
        talk.flag(number, role="assistant")
    talk.compact(None, "独白")
    assert talk.seen == ["独白", "5", "6", "7", "8"]


def test_what_cannot_be_compacted_is_refused_in_words() -> None:
    talk = Talk(8)
    other = ArchiveSession(new_id(), "别的", 0, TIME)
    foreign = ArchiveEntry.read(an_entry(session_id=other.session_id))
    talk.archive.put_records([other, foreign])
    talk.flag(5, status=1)
    talk.compact(4, "一")

    def code(trigger: str) -> str:
        with pytest.raises((BadRecord, NotFound)) as raised:
            material_of(talk.archive, SESSION, trigger)
        return raised.value.code

    assert code(talk.ids[4]) == "archive_nothing_to_compact"
    assert code(talk.ids[5]) == "archive_trigger_deleted"
    assert code(talk.ids[2]) == "archive_trigger_early"
    assert code(foreign.entry_id) == "archive_trigger_other"
    assert code(new_id()) == "archive_no_record"
    with pytest.raises(BadRecord, match="blank"):
        talk.compact(6, " \n")


def test_a_compaction_is_undone_once() -> None:
    talk = Talk(6)
    made_id = talk.compact(4, "一")
    talk.undo(made_id)
    with pytest.raises(BadRecord) as raised:
        talk.undo(made_id)
    assert raised.value.code == "archive_already_undone"
    assert talk.seen == [str(number) for number in range(6)]


def test_a_trigger_that_is_deleted_later_still_marks_its_place() -> None:
    talk = Talk(6)
    made_id = talk.compact(4, "一")
    talk.flag(4, status=1)
    assert talk.seen == ["一", "5"]
    talk.undo(made_id)
    assert talk.seen == ["0", "1", "2", "3", "5"]


def test_a_dialogue_whose_trigger_is_nowhere_belongs_to_no_session() -> None:
    talk = Talk(2)
    stray = CompactedDialogue(new_id(), new_id(), "孤", TIME, 0)
    talk.archive.put_records([stray])
    assert talk.seen == ["0", "1"]
    talk.undo(stray.entry_id)
    assert talk.archive.dialogue(stray.entry_id).status == 1


@given(st.lists(st.sampled_from(["say", "compact", "undo", "delete"]) | st.integers(0, 30), max_size=40))
def test_whatever_is_compacted_and_undone_all_comes_back_in_the_end(steps: list[str | int]) -> None:
    talk = Talk(4)
    live: list[str] = []
    chosen = 0
    for step in steps:
        try:
            match step:
                case "say":
                    talk.say()
                case "compact":
                    live.append(talk.compact(chosen % len(talk.ids), f"总{len(live)}"))
                case "undo" if live:
                    talk.undo(live.pop(chosen % len(live)))
                case "delete":
                    talk.flag(chosen % len(talk.ids), status=1)
                case int():
                    chosen = step
                case _:
                    pass
        except BadRecord:
            pass
        shown = context_of(talk.archive, SESSION)
        in_use = [entry for entry in talk.archive.entries() if entry.status == 0]
        assert bool(shown.summaries) == bool(live)
        assert list(shown.entries) == in_use[len(in_use) - len(shown.entries) :], (
            "the last ones, without a gap"
        )
    for dialogue_id in live:
        talk.undo(dialogue_id)
    assert {entry.is_compaction for entry in talk.archive.entries()} == {NOT_COMPACTED}
    assert len(context_of(talk.archive, SESSION).entries) == len(
        [entry for entry in talk.archive.entries() if entry.status == 0]
    )
