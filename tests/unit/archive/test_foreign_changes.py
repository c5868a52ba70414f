"""Tests that another program's changes to our records survive import and export."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.archive.instances import ROOT_FILE, InstanceFiles, archive_of, instance_of
from personalab.archive.veloca import check_archive
from personalab.archive.veloca_lines import SessionLines
from personalab.errors import BadRecord
from personalab.storage.veloca import VelocaStore
from personalab.story.transcript import AssistantLine, Line, Metadata, Summary, UserLine
from tests.support.archive.random_instances import STATE, again, instances
from tests.support.archive.random_lines import values

NOW = "2025-10-16T10:30:00Z"
CALLS = {"tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}
LINES: tuple[Line, ...] = (
    Metadata("inst_001", "sess_001", NOW),
    AssistantLine("Welcome.", 0, NOW),
    UserLine("one", 1, "2025-10-16T10:31:00Z", {"request_id": "r"}),
    AssistantLine("tried", 1, "2025-10-16T10:31:01Z"),
    AssistantLine("first", 1, "2025-10-16T10:31:02Z", extra={"usage": {"total_tokens": 9}}),
    UserLine("two", 2, "2025-10-16T10:32:00Z"),
    AssistantLine("second", 2, ""),
    UserLine("three", 3, "2025-10-16T10:33:00Z"),
    AssistantLine("third", 3, "2025-10-16T10:33:01Z"),
)


def story(lines: Sequence[Line] = LINES) -> InstanceFiles:
    """Make a story of one session."""
    persona = {"base_persona": "", "evolved_persona": ""}
    return InstanceFiles(STATE, persona, (SessionLines("sess_001", tuple(lines)),))


def as_text(files: InstanceFiles) -> Any:
    """Make a story's Veloca file, as another program reads it."""
    return json.loads(json.dumps(archive_of(files)))


def without_marks(doc: Any) -> dict[str, Any]:
    """Leave out what another program has no use for."""
    arrays = ("sessions", "entries", "compacted_dialogues")
    rows = {
        name: [{k: v for k, v in row.items() if k != "personalab"} for row in doc[name]] for name in arrays
    }
    return {**{name: value for name, value in doc.items() if name != "personalab"}, **rows}


def changed() -> Any:
    """Make a file in which every kind of record was changed."""
    summed = (LINES[0], Summary("Before.", {"turns": [1, 2]}), *LINES[1:])
    doc = as_text(story(summed))
    doc["entries"][1] |= {"token_consumption": 77, "rating": 5, "tools": CALLS}
    doc["entries"][3] |= {"token_consumption": 0, "create_at": "2025-10-16T10:31:09.250Z"}
    doc["sessions"][0] |= {"name": "renamed", "color": "red", "create_at": "2025-10-16T10:30:00.500Z"}
    doc["compacted_dialogues"][0] |= {"by": "them", "create_at": "2025-11-01T00:00:00.000Z"}
    return {**doc, "mine": {"a": 1}}


def test_what_was_changed_in_records_goes_out_again() -> None:
    doc = changed()
    files = instance_of(doc)
    said = files.sessions[0].lines
    assert cast("UserLine", said[3]).extra["veloca"] == {"token_consumption": 77, "rating": 5, "tools": CALLS}
    assert cast("UserLine", said[3]).extra["request_id"] == "r"
    assert cast("AssistantLine", said[5]).timestamp == "2025-10-16T10:31:09Z"
    assert files.documents == {ROOT_FILE: {"mine": {"a": 1}}}
    out = as_text(files)
    assert without_marks(out) == without_marks(doc)
    assert check_archive(out) == []
    assert instance_of(out) == files


def test_what_was_taken_back_is_gone() -> None:
    out = as_text(instance_of(changed()))
    del out["entries"][1]["rating"], out["sessions"][0]["color"], out["compacted_dialogues"][0]["by"]
    del out["mine"]
    out["entries"][1]["tools"] = None
    files = instance_of(out)
    assert without_marks(as_text(files)) == without_marks(out)
    assert files.documents == {}
    assert all("rating" not in str(line) and "red" not in str(line) for line in files.sessions[0].lines)


def test_tool_calls_that_break_the_format_are_kept_and_not_written() -> None:
    doc = as_text(story())
    doc["entries"][1]["tools"] = {"tool_calls": []}
    files = instance_of(doc)
    assert cast("UserLine", files.sessions[0].lines[2]).extra["veloca"] == {"tools": {"tool_calls": []}}
    assert check_archive(archive_of(files)) == []
    assert instance_of(as_text(files)) == files


def test_a_document_that_would_take_the_place_of_our_fields_stays_a_document() -> None:
    roots: list[dict[str, Any]] = [{}, {"entries": 1}, {"personalab": {}, "x": 1}]
    for root in roots:
        files = replace(story(), documents={ROOT_FILE: root})
        assert instance_of(as_text(files)) == files


def test_what_a_session_of_another_program_has_goes_out_again() -> None:
    doc = as_text(story())
    session = {**doc["sessions"][0], "session_id": str(uuid.UUID(int=5, version=4)), "name": "Theirs", "x": 1}
    entry = {**doc["entries"][1], "entry_id": str(uuid.UUID(int=6, version=4)), "y": [2]}
    del session["personalab"], entry["personalab"]
    doc["sessions"].append(session)
    doc["entries"].append(
        {**entry, "session_id": session["session_id"], "create_at": "2025-10-17T00:00:00.750Z"}
    )
    out = as_text(instance_of(doc))
    assert (out["sessions"][1]["name"], out["sessions"][1]["x"]) == ("Theirs", 1)
    assert (out["entries"][-1]["y"], out["entries"][-1]["create_at"]) == ([2], "2025-10-17T00:00:00.750Z")


# --- a compaction made elsewhere


@pytest.fixture
def compacted(tmp_path: Path) -> Any:
    """Give a story's file after the store of archives summed up what stands before its last turn."""
    path = tmp_path / "archive.json"
    doc = as_text(story())
    path.write_text(json.dumps(doc), encoding="utf-8")
    with VelocaStore(path) as store:
        trigger = next(entry for entry in doc["entries"] if entry["message"] == "three")
        store.compact(doc["sessions"][0]["session_id"], "They counted.", trigger["entry_id"])
    return json.loads(path.read_text(encoding="utf-8"))


def seen(doc: Any) -> list[tuple[str, int, int]]:
    """Give text, status and compaction of each entry."""
    return [(entry["message"], entry["status"], entry["is_compaction"]) for entry in doc["entries"]]


def test_a_compaction_made_elsewhere_is_a_summary_here_and_the_same_compaction_there(compacted: Any) -> None:
    files = instance_of(compacted)
    (session,) = files.sessions
    assert [line.content for line in session.lines if isinstance(line, Summary)] == ["They counted."]
    assert isinstance(session.lines[7], Summary)
    assert len(session.lines) == len(LINES) + 1
    out = as_text(files)
    assert seen(out) == seen(compacted)
    assert [compaction for *_, compaction in seen(out)] == [
        0,
        0,
        1,
        0,
        0,
        0,
        1,
        1,
    ]  # an unused try is not compacted
    (dialogue,) = out["compacted_dialogues"]
    trigger = next(entry for entry in out["entries"] if entry["entry_id"] == dialogue["trigger_entry_id"])
    assert (dialogue["summary"], trigger["message"]) == ("They counted.", "three")
    assert dialogue["create_at"] == compacted["compacted_dialogues"][0]["create_at"]
    assert instance_of(out) == files


def test_such_a_compaction_can_be_undone_there_after_it_was_here(compacted: Any, tmp_path: Path) -> None:
    path = tmp_path / "again.json"
    path.write_text(json.dumps(archive_of(instance_of(compacted))), encoding="utf-8")
    with VelocaStore(path) as store:
        (dialogue,) = store.dialogues()
        store.undo_compaction(dialogue.entry_id)
    assert instance_of(json.loads(path.read_text(encoding="utf-8"))) == story()


def test_without_its_summary_nothing_stays_compacted(compacted: Any) -> None:
    files = instance_of(compacted)
    lines = [line for line in files.sessions[0].lines if not isinstance(line, Summary)]
    out = as_text(replace(files, sessions=(SessionLines("sess_001", tuple(lines)),)))
    assert {compaction for *_, compaction in seen(out)} == {1}


# --- whatever there is

TOKENS = st.integers(0, 2**53)
NAMES = st.sampled_from(["rating", "颜色", "x"])


@given(instances(), st.data())
def test_whatever_another_program_wrote_into_a_story_goes_out_again(
    files: InstanceFiles, data: st.DataObject
) -> None:
    files = replace(files, sessions=tuple(again(session) for session in files.sessions))
    doc = as_text(files)
    for entry in doc["entries"]:
        if data.draw(st.booleans()):
            entry["token_consumption"] = data.draw(TOKENS)
            entry["tools"] = data.draw(st.sampled_from([None, CALLS]))
            entry[data.draw(NAMES)] = data.draw(values)
    for session, lines in zip(doc["sessions"], files.sessions, strict=True):
        if lines.metadata is not None and data.draw(st.booleans()):
            session |= {"name": data.draw(st.text(max_size=5)), data.draw(NAMES): data.draw(values)}
    for dialogue in doc["compacted_dialogues"]:
        if data.draw(st.booleans()):
            dialogue |= {"create_at": "2025-11-01T00:00:00.125Z", data.draw(NAMES): data.draw(values)}
    doc |= data.draw(st.dictionaries(NAMES, values, max_size=2))
    found = instance_of(json.loads(json.dumps(doc)))
    out = as_text(found)
    assert without_marks(out) == without_marks(doc)
    assert check_archive(out) == []
    assert instance_of(out) == found


@pytest.mark.parametrize("background", ["../../x", "a/b", ".", "con", " "])
def test_a_background_that_is_no_id_is_refused(background: str) -> None:
    doc = as_text(story())
    doc["personalab"]["instance"]["background_id"] = background
    with pytest.raises(BadRecord) as caught:
        instance_of(doc)
    assert caught.value.params["field"] == "personalab.instance.background_id"
