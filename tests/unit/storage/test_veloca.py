"""A Veloca archive keeps what it is given, in a file that any program can read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from personalab.archive.veloca import check_archive, new_id
from personalab.archive.veloca_archive import EntryFilter
from personalab.errors import BadRecord, NotFound, UserError
from personalab.storage.veloca import VelocaStore
from tests.support.storage.veloca_looking import beside, in_file, opened, talk
from tests.unit.archive.test_veloca_archive import SOURCE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "veloca-storage.json"


# --- records


def test_what_is_created_is_found_in_the_sources_words(path: Path) -> None:
    tools = SOURCE["entries"][1]["tools"]
    with opened(path) as store:
        session = store.create_session("夜谈", extra={"colour": "blue"})
        entry = store.create_entry(
            session.session_id, "assistant", "查一下", token_consumption=7, tools=tools
        )
    doc = json.loads(path.read_text("utf-8"))
    assert doc == {
        "sessions": [
            {
                "session_id": session.session_id,
                "name": "夜谈",
                "status": 0,
                "create_at": "2025-10-16T10:30:00.000Z",
                "colour": "blue",
            }
        ],
        "entries": [
            {
                "entry_id": entry.entry_id,
                "session_id": session.session_id,
                "message": "查一下",
                "role": "assistant",
                "token_consumption": 7,
                "status": 0,
                "tools": tools,
                "create_at": "2025-10-16T10:30:00.000Z",
                "is_compaction": 1,
            }
        ],
        "compacted_dialogues": [],
    }
    assert len(session.session_id) == 36
    assert check_archive(doc) == []


def test_the_clock_tells_milliseconds(path: Path) -> None:
    with VelocaStore(path) as store:
        made = store.create_session("s").create_at
    assert len(made) == len("2024-01-01T00:00:00.000Z")
    assert made[-5] == "."
    assert made.endswith("Z")


def test_records_are_changed_and_deleted_softly(path: Path) -> None:
    with opened(path) as store:
        session_id = talk(store, "一", "二")
        [first, second] = store.entries(session_id)
        store.update_entry(first.entry_id, message="壹", mine={"a": 1})
        store.delete_entry(second.entry_id)
        store.update_session(session_id, name="改名")
    with opened(path) as store:
        assert [(entry.message, entry.extra) for entry in store.entries()] == [("壹", {"mine": {"a": 1}})]
        assert store.entry(second.entry_id).status == 1
        assert store.session(session_id).name == "改名"
        assert len(store.entries(session_id, EntryFilter(status=None))) == 2
        store.update_entry(second.entry_id, status=0)
        assert len(store.entries(session_id)) == 2
        store.delete_session(session_id)
        assert store.sessions() == []
        assert len(store.sessions(status=None)) == 1
        with pytest.raises(BadRecord):
            store.create_entry(session_id, "user", "三")
        with pytest.raises(BadRecord):
            store.context(session_id)
    assert in_file(path) == ["壹", "二"]


def test_lists_are_cut_and_filtered(path: Path) -> None:
    with opened(path) as store:
        one, two = talk(store, *"abcde"), talk(store, "f")
        assert [entry.message for entry in store.entries(one, offset=1, limit=2)] == ["b", "c"]
        assert [entry.message for entry in store.entries(wanted=EntryFilter(contains="F"))] == ["f"]
        assert [session.session_id for session in store.sessions(contains="会")] == [one, two]
        assert store.sessions(contains="无") == []
        with pytest.raises(NotFound):
            store.entries(new_id())
        with pytest.raises(BadRecord, match="offset"):
            store.entries(one, offset=-1)
        with pytest.raises(BadRecord, match="limit"):
            store.entries(one, limit=-1)


def test_tokens_are_summed_over_the_entries_in_use(path: Path) -> None:
    with opened(path) as store:
        session_id = talk(store)
        other = talk(store)
        made = [
            store.create_entry(session_id, "user", str(n), token_consumption=10**n).entry_id for n in range(5)
        ]
        store.create_entry(other, "user", "x", token_consumption=3)
        store.delete_entry(made[1])
        store.compact(session_id, "短", made[4])
        assert store.token_consumption(session_id) == 11_101
        assert store.token_consumptions() == {session_id: 11_101, other: 3}
        store.delete_session(other)
        assert store.token_consumptions() == {session_id: 11_101}


def test_what_is_refused_changes_nothing(path: Path) -> None:
    with opened(path) as store:
        session_id = talk(store, "一")
        [entry] = store.entries()
        before = store.document()
        journal = beside(path, "journal").read_bytes()
        refused: list[Any] = [
            lambda: store.create_session("x" * 1_001),
            lambda: store.create_session("s", session_id="mine"),
            lambda: store.create_session("s", session_id=session_id),
            lambda: store.create_session("s", create_at="soon"),
            lambda: store.create_entry(new_id(), "user", "x"),
            lambda: store.create_entry(session_id, "user", "x", entry_id=entry.entry_id),
            lambda: store.create_entry(session_id, "user", "x", tools={"tool_calls": [{}]}),
            lambda: store.create_dialogue(new_id(), "s"),
            lambda: store.update_entry(entry.entry_id, session_id=new_id()),
            lambda: store.update_entry(entry.entry_id, role="king"),
            lambda: store.update_entry(new_id(), message="x"),
            lambda: store.undo_compaction(new_id()),
            lambda: store.compact(session_id, "s"),
        ]
        for attempt in refused:
            with pytest.raises(UserError):
                attempt()
        store.update_entry(entry.entry_id, message="一")
        assert store.document() == before
        assert beside(path, "journal").read_bytes() == journal


def test_many_records_are_added_all_or_none(path: Path) -> None:
    with opened(path) as store, opened(path.with_name("other.json")) as other:
        session_id = talk(store, "一", "二")
        records = [*store.sessions(), *store.entries()]
        other.add(records)
        assert other.document() == store.document()
        with pytest.raises(BadRecord):
            other.add([*(other.sessions()), records[0]])
        assert len(other.sessions()) == 1
        assert other.session(session_id).name == "会话"


# --- compaction


def test_a_compaction_and_its_undo_are_one_line_each(path: Path) -> None:
    with opened(path) as store:
        session_id = talk(store, *"abcdefgh")

        def lines() -> int:
            return beside(path, "journal").read_bytes().count(b"\n")

        before = lines()
        material = store.compaction_material(session_id)
        assert [entry.message for entry in material.entries] == ["a", "b", "c", "d"]
        dialogue = store.compact(session_id, "摘要", material=material)
        assert lines() == before + 1
        assert [m["content"] for m in store.context(session_id).messages()] == ["摘要", *"efgh"]
        assert store.dialogues(session_id) == [dialogue]
        store.undo_compaction(dialogue.entry_id)
        assert lines() == before + 2
        assert [m["content"] for m in store.context(session_id).messages()] == [*"abcdefgh"]
        assert store.dialogues(session_id) == []
        assert store.dialogues(session_id, status=None)[0].status == 1
    assert check_archive(json.loads(path.read_bytes())) == []


def test_a_summary_of_what_was_changed_meanwhile_is_not_written(path: Path) -> None:
    with opened(path) as store:
        session_id = talk(store, *"abcdefgh")
        material = store.compaction_material(session_id)
        store.update_entry(material.entries[0].entry_id, message="A")
        with pytest.raises(UserError) as raised:
            store.compact(session_id, "摘要", material=material)
        assert raised.value.code == "archive_changed"
        fresh = store.compaction_material(session_id)
        store.create_entry(session_id, "user", "later words do not matter")
        store.compact(session_id, "摘要", material=fresh)


def test_a_summary_can_be_mended_but_its_status_is_the_undos(path: Path) -> None:
    with opened(path) as store:
        session_id = talk(store, *"abcdefgh")
        dialogue = store.compact(session_id, "摘要")
        assert store.update_dialogue(dialogue.entry_id, summary="更好").summary == "更好"
        with pytest.raises(BadRecord):
            store.update_dialogue(dialogue.entry_id, status=1)
        store.delete_dialogue(dialogue.entry_id)
        assert len(store.context(session_id).entries) == 8
