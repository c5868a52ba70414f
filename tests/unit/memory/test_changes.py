"""A memory changes only by what it is told, keeps what stood there before, and can go back."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from personalab.memory.changes import (
    MAX_SOURCES,
    VERBS,
    Change,
    MemoryRevision,
    Operation,
    Step,
    revise,
    same_words,
    undo,
)
from personalab.memory.records import CONTENT_TYPES, Memory, empty_memory, new_id

NOW, LATER = "2025-10-16T10:30:00Z", "2025-10-16T11:30:00Z"
TALK, TALK_2 = new_id(), new_id()


def _memory() -> Memory:
    return empty_memory(new_id(), "agent", "user", NOW)


def _learn(memory: Memory, *operations: Operation, talk: str | None = TALK) -> MemoryRevision:
    return revise(memory, operations, LATER, origin="memorize", conversation_id=talk)


def _add(text: str, *messages: int, kind: Any = "profile") -> Operation:
    return Operation("add", kind, text, reason="said so", messages=messages or (0,))


def test_a_fact_is_added_with_its_source_and_its_reason() -> None:
    revised = _learn(_memory(), _add("用户是医生", 0, 2))
    (entry,) = revised.memory.of("profile")
    assert (entry.text, entry.sources[0].conversation_id, entry.sources[0].messages) == (
        "用户是医生",
        TALK,
        (0, 2),
    )
    assert revised.change is not None
    (step,) = revised.change.steps
    assert (step.verb, step.reason, revised.memory.version) == ("add", "said so", 1)


def test_the_same_fact_said_again_is_not_stored_twice_and_gains_a_source() -> None:
    first = _learn(_memory(), _add("The user likes tea.", 0)).memory
    again = _learn(first, _add("the user likes  TEA", 3), talk=TALK_2)
    (entry,) = again.memory.of("profile")
    assert entry.text == "The user likes tea."
    assert [source.conversation_id for source in entry.sources] == [TALK, TALK_2]
    assert again.change is not None
    assert again.change.steps[0].verb == "cite"


def test_the_same_operations_on_the_same_conversation_change_nothing() -> None:
    operations = [_add("用户是医生", 0), _add("用户去了海边", 1, kind="event")]
    first = _learn(_memory(), *operations)
    second = _learn(first.memory, *operations)
    assert second.change is None
    assert second.memory == first.memory


def test_a_contradiction_replaces_the_fact_in_its_place_and_keeps_the_old_one_in_the_change() -> None:
    known = _learn(_memory(), _add("用户住在北京", 0), _add("用户喜欢猫", 1)).memory
    old = known.of("profile")[0]
    wish = Operation("replace", "profile", "用户住在上海", old.content_id, "搬家了", (4,))
    revised = _learn(known, wish, talk=TALK_2)
    assert revised.memory.texts("profile") == ["用户住在上海", "用户喜欢猫"]
    assert revised.change is not None
    (step,) = revised.change.steps
    assert step.before == old
    assert (step.verb, step.reason) == ("replace", "搬家了")
    assert step.after is not None
    assert [source.messages for source in step.after.sources] == [(0,), (4,)]


def test_replacing_a_fact_by_one_that_is_known_leaves_one_of_them() -> None:
    known = _learn(_memory(), _add("用户住在北京", 0), _add("用户住在上海", 1)).memory
    wish = Operation("replace", "profile", "用户住在上海。", known.of("profile")[0].content_id, "", (4,))
    assert _learn(known, wish, talk=TALK_2).memory.texts("profile") == ["用户住在上海"]


def test_an_entry_that_someone_removed_does_not_come_back_by_being_replaced() -> None:
    known = _learn(_memory(), _add("用户住在北京", 0)).memory
    gone = known.entries[0].content_id
    emptied = revise(known, [Operation("remove", "profile", "", gone)], LATER, origin="edit").memory
    revised = _learn(
        emptied,
        Operation("replace", "profile", "用户住在北京海淀", gone, "", (1,)),
        Operation("remove", "profile", "", gone, "", (1,)),
    )
    assert revised.change is None
    assert revised.memory.entries == ()


def test_what_a_person_words_differently_keeps_its_sources() -> None:
    known = _learn(_memory(), _add("用户住在北京", 0, 2)).memory
    wish = Operation("replace", "profile", "用户住在北京海淀", known.entries[0].content_id)
    edited = revise(known, [wish], LATER, origin="edit").memory
    assert edited.texts("profile") == ["用户住在北京海淀"]
    assert edited.entries[0].sources == known.entries[0].sources


def test_an_entry_that_is_replaced_again_and_again_keeps_its_newest_sources() -> None:
    memory = _learn(_memory(), _add("第0版", 0)).memory
    talks = [new_id() for _ in range(MAX_SOURCES + 5)]
    for number, talk in enumerate(talks, 1):
        wish = Operation(
            "replace", "profile", f"第{number}版", memory.entries[0].content_id, "", (number % 3,)
        )
        memory = _learn(memory, wish, talk=talk).memory
    assert [source.conversation_id for source in memory.entries[0].sources] == talks[-MAX_SOURCES:]


def test_a_person_may_mend_a_comma_that_a_model_may_not() -> None:
    known = _learn(_memory(), _add("the user, a doctor", 0)).memory
    wish = Operation("replace", "profile", "The user: a doctor!", known.entries[0].content_id, "", (1,))
    assert _learn(known, wish).memory.texts("profile") == ["the user, a doctor"]
    mended = revise(known, [wish], LATER, origin="edit")
    assert mended.memory.texts("profile") == ["The user: a doctor!"]


_TEXTS = st.sampled_from(["a", "b", "c", "A ", "b.", "d e", "de", "用户", "用 户", "…", "!"])
_KINDS = st.sampled_from(CONTENT_TYPES)
_NUMBERS = st.lists(st.integers(0, 5), min_size=1, max_size=3).map(tuple)


@st.composite
def _operations(draw: st.DrawFn, memory: Memory) -> list[Operation]:
    made: list[Operation] = []
    known = [entry.content_id for entry in memory.entries] or [new_id()]
    for _ in range(draw(st.integers(1, 4))):
        verb = draw(st.sampled_from(VERBS))
        target = "" if verb == "add" else draw(st.sampled_from(known))
        text = "" if verb == "remove" else draw(_TEXTS)
        entry = memory.entry(target)
        kind = entry.content_type if entry else draw(_KINDS)
        made.append(Operation(verb, kind, text, target, "why", draw(_NUMBERS)))
    return made


@given(st.data())
def test_whatever_is_done_no_fact_stands_twice_and_every_change_can_be_taken_back(
    data: st.DataObject,
) -> None:
    memory = _memory()
    done: list[tuple[Memory, Change]] = []
    for _ in range(data.draw(st.integers(1, 6))):
        before = memory
        talk = data.draw(st.sampled_from([TALK, TALK_2]))
        revised = _learn(memory, *data.draw(_operations(memory)), talk=talk)
        memory = revised.memory
        if revised.change is None:
            assert memory == before
            continue
        assert memory.version == before.version + 1
        done.append((before, revised.change))
        for kind in CONTENT_TYPES:
            words = [same_words(text) for text in memory.texts(kind)]
            assert len(words) == len(set(words))
        assert {entry.content_id for entry in memory.entries} == set(_replayed(before, revised.change))
    for before, change in reversed(done):
        memory = undo(memory, change, LATER).memory
        assert {entry.content_id: entry.text for entry in memory.entries} == {
            entry.content_id: entry.text for entry in before.entries
        }


def _replayed(memory: Memory, change: Change) -> set[str]:
    ids = {entry.content_id for entry in memory.entries}
    for step in change.steps:
        if step.before:
            ids.discard(step.before.content_id)
        if step.after:
            ids.add(step.after.content_id)
    return ids


@given(st.data())
def test_a_change_survives_being_written_and_read(data: st.DataObject) -> None:
    revised = _learn(_memory(), *data.draw(_operations(_memory())))
    for step in revised.change.steps if revised.change else ():
        assert Step.read(step.fields()) == step


def test_undo_leaves_alone_what_changed_since() -> None:
    first = _learn(_memory(), _add("用户是医生", 0))
    assert first.change is not None
    entry = first.memory.entries[0]
    edited = revise(
        first.memory,
        [Operation("replace", "profile", "用户是护士", entry.content_id)],
        LATER,
        origin="edit",
    )
    assert undo(edited.memory, first.change, LATER).memory.texts("profile") == ["用户是护士"]
