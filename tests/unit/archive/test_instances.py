"""Tests of conversion between stories and Veloca files, including files that another program changed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.archive.instances import (
    InstanceFiles,
    LibraryEntry,
    archive_of,
    carries_instance,
    instance_of,
    is_other_file,
    sessions_of,
)
from personalab.archive.veloca import check_archive
from personalab.archive.veloca_lines import SessionLines
from personalab.errors import BadRecord, UserError
from personalab.story.transcript import NO_REPLY, AssistantLine, Line, Metadata, OtherLine, Summary, UserLine
from tests.support.archive.random_instances import STATE, again, instances

BEGUN = "2025-10-16T10:30:00Z"


def turn(number: int, said: str, answered: str, *, second: int = 0) -> list[Line]:
    """Make a turn's two lines."""
    when = f"2025-10-16T10:31:{second:02}Z"
    return [UserLine(said, number, when), AssistantLine(answered, number, when)]


def story() -> InstanceFiles:
    """Make a story of two sessions: the second took over the last turn of the first."""
    first = [
        Metadata("inst_001", "sess_001", BEGUN),
        AssistantLine("Welcome.", 0, BEGUN),
        *turn(1, "one", "first", second=1),
        UserLine("two", 2, "2025-10-16T10:31:02Z", {"request_id": "r"}),
        AssistantLine(NO_REPLY, 2, "2025-10-16T10:31:03Z", empty=True),
        AssistantLine("second, ha", 2, "2025-10-16T10:31:04Z", interrupted=True),
        AssistantLine("second", 2, ""),
        OtherLine({"type": "later"}),
        *turn(3, "three", "third", second=5),
    ]
    second = [
        Metadata("inst_001", "sess_002", BEGUN, "sess_001"),
        Summary("They counted.", {"turns": [1, 2]}),
        Summary("To two."),
        *turn(1, "three", "third", second=5),
        *turn(2, "four", "fourth", second=6),
    ]
    return InstanceFiles(
        {**STATE, "current_session_id": "sess_002"},
        {"base_persona": "A counter.", "evolved_persona": "", "name": "Sera"},
        (SessionLines("sess_001", tuple(first)), SessionLines("sess_002", tuple(second))),
        {"sessions/sess_002.plots.json": {"points": []}},
        {"sessions/sess_001.torn": b"\xff\x00torn", "note.txt": "笔记".encode()},
        LibraryEntry(
            "char_a", {"name": "Sera", "base_persona": "A counter."}, {"lorebook.json": {"entries": []}}
        ),
        None,
    )


def by_text(doc: dict[str, Any], text: str) -> list[dict[str, Any]]:
    """Find entries by their text."""
    return [entry for entry in doc["entries"] if entry["message"] == text]


def texts_of(session: SessionLines) -> list[str]:
    """Give what is said in a session."""
    return [line.content for line in session.lines if isinstance(line, UserLine | AssistantLine)]


# --- out


def test_a_story_is_a_sound_veloca_file_with_the_exact_fields() -> None:
    doc = archive_of(story())
    assert check_archive(doc) == []
    assert set(doc) == {"sessions", "entries", "compacted_dialogues", "personalab"}
    assert set(doc["sessions"][0]) == {"session_id", "name", "status", "create_at", "personalab"}
    assert doc["sessions"][0]["name"] == "Sera · inst_001 · sess_001"
    assert doc["sessions"][0]["create_at"] == "2025-10-16T10:30:00.000Z"
    (entry,) = by_text(doc, "one")
    assert {
        name: value for name, value in entry.items() if name not in ("entry_id", "session_id", "personalab")
    } == {
        "message": "one",
        "role": "user",
        "token_consumption": 0,
        "status": 0,
        "tools": None,
        "create_at": "2025-10-16T10:31:01.000Z",
        "is_compaction": 0,
    }
    assert [entry["message"] for entry in doc["entries"]][:3] == ["Welcome.", "one", "first"]


def test_tries_that_do_not_count_are_unused() -> None:
    doc = archive_of(story())
    assert [by_text(doc, text)[0]["status"] for text in (NO_REPLY, "second, ha", "second")] == [1, 1, 0]


def test_a_line_without_a_time_has_its_neighbours() -> None:
    assert by_text(archive_of(story()), "second")[0]["create_at"] == "2025-10-16T10:31:04.000Z"


def test_what_a_summary_stands_for_is_compacted_and_what_was_taken_over_is_not() -> None:
    doc = archive_of(story())
    assert [entry["is_compaction"] for entry in by_text(doc, "one") + by_text(doc, "second")] == [0, 0]
    assert [entry["is_compaction"] for entry in by_text(doc, "three") + by_text(doc, "third")] == [1, 1, 1, 1]
    assert by_text(doc, "fourth")[0]["is_compaction"] == 1


def test_a_turn_that_the_next_session_answers_is_not_compacted() -> None:
    asked = UserLine("four?", 4, "2025-10-16T10:31:07Z")
    older = SessionLines("sess_001", (*story().sessions[0].lines, asked))
    newer = SessionLines(
        "sess_002",
        (
            *story().sessions[1].lines[:5],
            UserLine("four?", 2, "2025-10-16T10:31:07Z"),
            AssistantLine("Four.", 2, "2025-10-16T10:31:08Z"),
        ),
    )
    doc = archive_of(replace(story(), sessions=(older, newer)))
    assert [entry["is_compaction"] for entry in by_text(doc, "four?") + by_text(doc, "three")] == [1, 1, 1, 1]
    assert by_text(doc, "two")[0]["is_compaction"] == 0


def test_a_draft_that_nobody_plays_compacts_nothing() -> None:
    doc = archive_of(replace(story(), state={**STATE, "current_session_id": "sess_001"}))
    assert {entry["is_compaction"] for entry in doc["entries"]} == {1}


@pytest.mark.parametrize("summary_first", [True, False])
def test_a_summary_is_triggered_by_the_first_entry_that_is_still_seen(summary_first: bool) -> None:
    files = story()
    metadata, one, two, *said = files.sessions[1].lines
    lines = files.sessions[1].lines if summary_first else (metadata, *said[:2], one, two, *said[2:])
    doc = archive_of(replace(files, sessions=(files.sessions[0], SessionLines("sess_002", lines))))
    assert [dialogue["summary"] for dialogue in doc["compacted_dialogues"]] == ["They counted.", "To two."]
    trigger = by_text(doc, "three")[1]["entry_id"]
    assert {dialogue["trigger_entry_id"] for dialogue in doc["compacted_dialogues"]} == {trigger}
    assert set(doc["compacted_dialogues"][0]) == {
        "entry_id",
        "trigger_entry_id",
        "summary",
        "create_at",
        "status",
        "personalab",
    }


def test_a_summary_in_the_middle_is_triggered_by_what_follows_it() -> None:
    lines = (
        Metadata("inst_001", "sess_001", BEGUN),
        *turn(1, "a", "b"),
        Summary("So far"),
        *turn(2, "c", "d"),
    )
    doc = archive_of(replace(story(), sessions=(SessionLines("sess_001", lines),)))
    assert doc["compacted_dialogues"][0]["trigger_entry_id"] == by_text(doc, "c")[0]["entry_id"]


def test_a_summary_that_nothing_follows_is_triggered_by_the_last_entry_before_it() -> None:
    files = story()
    bare = SessionLines("sess_002", files.sessions[1].lines[:3])
    doc = archive_of(replace(files, sessions=(files.sessions[0], bare)))
    assert check_archive(doc) == []
    assert doc["compacted_dialogues"][0]["trigger_entry_id"] == by_text(doc, "third")[0]["entry_id"]
    alone = replace(files, sessions=(bare,))
    assert archive_of(alone)["compacted_dialogues"] == []
    assert instance_of(archive_of(alone)) == alone


def test_the_same_story_has_the_same_ids_and_another_one_has_others() -> None:
    doc = archive_of(story())
    assert archive_of(story()) == doc
    grown = story()
    grown = replace(
        grown,
        sessions=(
            grown.sessions[0],
            SessionLines("sess_002", (*grown.sessions[1].lines, *turn(3, "5", "fifth"))),
        ),
    )
    known = {entry["entry_id"] for entry in doc["entries"]}
    assert known < {entry["entry_id"] for entry in archive_of(grown)["entries"]}
    other = archive_of(replace(story(), state={**story().state, "instance_id": "inst_002"}))
    assert not known & {entry["entry_id"] for entry in other["entries"]}


def test_usage_and_tool_calls_that_a_line_tells_are_told() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    lines = (
        Metadata("inst_001", "sess_001", BEGUN),
        AssistantLine("a", 0, BEGUN, extra={"usage": {"total_tokens": 12}}),
        AssistantLine(
            "b", 1, BEGUN, extra={"veloca": {"tools": {"tool_calls": [call]}, "token_consumption": 3}}
        ),
        AssistantLine(
            "c", 2, BEGUN, extra={"veloca": {"tools": {"tool_calls": "x"}, "token_consumption": -1}}
        ),
    )
    doc = archive_of(replace(story(), sessions=(SessionLines("sess_001", lines),)))
    assert check_archive(doc) == []
    assert [entry["token_consumption"] for entry in doc["entries"]] == [12, 3, 0]
    assert [entry["tools"] for entry in doc["entries"]] == [None, {"tool_calls": [call]}, None]


# --- and back


def test_a_story_comes_back_as_it_was() -> None:
    doc = json.loads(json.dumps(archive_of(story())))
    assert carries_instance(doc)
    assert instance_of(doc) == story()


@given(instances())
def test_whatever_is_in_a_story_comes_back(files: InstanceFiles) -> None:
    files = replace(files, sessions=tuple(again(session) for session in files.sessions))
    doc = json.loads(json.dumps(archive_of(files)))
    assert check_archive(doc) == []
    assert instance_of(doc) == files


def test_what_another_program_edited_is_edited() -> None:
    doc = json.loads(json.dumps(archive_of(story())))
    by_text(doc, "one")[0]["message"] = "ONE"
    by_text(doc, NO_REPLY)[0]["message"] = "an answer after all"
    doc["compacted_dialogues"][0]["summary"] = "Counted."
    files = instance_of(doc)
    assert "ONE" in texts_of(files.sessions[0])
    answered = [
        line for line in files.sessions[0].lines if isinstance(line, AssistantLine) and line.turn == 2
    ]
    assert (answered[0].content, answered[0].empty) == ("an answer after all", False)
    assert [line.content for line in files.sessions[1].lines if isinstance(line, Summary)] == [
        "Counted.",
        "To two.",
    ]


def test_what_another_program_deleted_is_gone() -> None:
    doc = json.loads(json.dumps(archive_of(story())))
    by_text(doc, "first")[0]["status"] = 1
    doc["entries"].remove(by_text(doc, "third")[0])
    doc["compacted_dialogues"][1]["status"] = 1
    files = instance_of(doc)
    assert texts_of(files.sessions[0]) == [
        "Welcome.",
        "one",
        "two",
        NO_REPLY,
        "second, ha",
        "second",
        "three",
    ]
    assert [line.content for line in files.sessions[1].lines if isinstance(line, Summary)] == [
        "They counted."
    ]


def test_what_another_program_added_stands_where_it_was_added() -> None:
    doc = json.loads(json.dumps(archive_of(story())))
    last = doc["entries"][-1]
    middle = doc["entries"].index(by_text(doc, "first")[0])
    new = {**last, "role": "user", "message": "five", "entry_id": "00000000-0000-4000-8000-000000000001"}
    del new["personalab"]
    reply = {
        **new,
        "role": "assistant",
        "message": "fifth",
        "entry_id": "00000000-0000-4000-8000-000000000002",
    }
    between = {**reply, "message": "aside", "entry_id": "00000000-0000-4000-8000-000000000003"}
    doc["entries"] += [new, reply]
    doc["entries"].insert(middle + 1, {**between, "session_id": doc["sessions"][0]["session_id"]})
    summary = {**doc["compacted_dialogues"][0], "summary": "Up to four", "trigger_entry_id": new["entry_id"]}
    del summary["personalab"]
    doc["compacted_dialogues"].append({**summary, "entry_id": "00000000-0000-4000-8000-000000000004"})
    files = instance_of(doc)
    assert texts_of(files.sessions[0])[:4] == ["Welcome.", "one", "first", "aside"]
    tail = files.sessions[1].lines[-3:]
    assert isinstance(tail[0], Summary)
    assert tail[0].content == "Up to four"
    assert [(line.content, line.turn) for line in tail[1:] if isinstance(line, UserLine | AssistantLine)] == [
        ("five", 3),
        ("fifth", 3),
    ]


def test_sessions_that_another_program_deleted_or_added() -> None:
    doc = json.loads(json.dumps(archive_of(story())))
    doc["sessions"][1]["status"] = 1
    fresh = {**doc["sessions"][0], "session_id": "00000000-0000-4000-8000-000000000009", "name": "New"}
    del fresh["personalab"]
    entry = {
        **doc["entries"][0],
        "entry_id": "00000000-0000-4000-8000-000000000008",
        "message": "Hi",
        "role": "user",
    }
    del entry["personalab"]
    doc["sessions"].append(fresh)
    doc["entries"].append({**entry, "session_id": fresh["session_id"]})
    files = instance_of(doc)
    assert [session.session_id for session in files.sessions] == ["sess_001", "sess_002"]
    assert texts_of(files.sessions[1]) == ["Hi"]
    metadata = files.sessions[1].metadata
    assert metadata is not None
    assert (metadata.instance_id, metadata.session_id) == ("inst_001", "sess_002")
    assert files.state["current_session_id"] == "sess_002"


def test_a_file_whose_sessions_are_all_deleted_has_no_story() -> None:
    doc = archive_of(story())
    for session in doc["sessions"]:
        session["status"] = 1
    with pytest.raises(BadRecord) as caught:
        instance_of(doc)
    assert caught.value.code == "nothing_in_archive"


def put(doc: Any, way: Sequence[str | int], value: object) -> None:
    """Put a value at a place inside a document."""
    for name in way[:-1]:
        doc = doc[name]
    doc[way[-1]] = value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("sessions", {}),
        ("entries/0", []),
        ("entries/0/session_id", "../x"),
        ("entries/0/role", "narrator"),
        ("compacted_dialogues/0/summary", 5),
        ("sessions/0/personalab/session_id", "../../etc"),
        ("sessions/0/personalab/session_id", ".new-x"),
        ("sessions/0/personalab/session_id", "SESS_002"),
        ("personalab/instance", []),
        ("personalab/instance/instance_id", "../x"),
        ("personalab/instance/current_session_id", "a/b"),
        ("personalab/character_state", {"base_persona": 5}),
        ("personalab/documents", {"../x.json": {}}),
        ("personalab/documents", {"instance_state.json": {}}),
        ("personalab/documents", {"sessions/sess_009.jsonl": {}}),
        ("personalab/documents", {"x.json": []}),
        ("personalab/pieces", {".lock": {"text": ""}}),
        ("personalab/pieces", {"sessions/../x": {"text": ""}}),
        ("personalab/pieces", {"x": {"base64": "!"}}),
        ("personalab/pieces", {"x": {"text": 5}}),
        ("personalab/pieces", []),
        ("personalab/character", {"id": "../x", "definition": {}}),
        ("personalab/character", {"id": "x", "definition": []}),
        ("personalab/character", []),
    ],
    ids=range(24),
)
def test_a_file_that_was_tampered_with_is_refused(path: str, value: object) -> None:
    doc = json.loads(json.dumps(archive_of(story())))
    put(doc, [int(name) if name.isdigit() else name for name in path.split("/")], value)
    with pytest.raises(UserError) as caught:
        instance_of(doc)
    assert str(caught.value)
    assert caught.value.message("zh")


@pytest.mark.parametrize("junk", [None, 5, [], {}, {"line": "x"}, {"line": 1, "fields": {"turn": -1}}])
def test_a_mark_that_was_broken_costs_nobody_their_words(junk: object) -> None:
    doc = json.loads(json.dumps(archive_of(story())))
    for entry in doc["entries"]:
        entry["personalab"] = junk
    assert texts_of(instance_of(doc).sessions[1]) == ["three", "third", "four", "fourth"]


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/",
        "..",
        "a/b",
        "sessions/",
        "sessions/a/b",
        "x\x00",
        "a\\b",
        "CON:",
        "x ",
        ".x",
        "\ud800",
        "a" * 201,
    ],
)
def test_names_that_lead_elsewhere_are_none_of_a_storys_files(name: str) -> None:
    assert not is_other_file(name)
    assert is_other_file("persona_history.json")
    assert is_other_file("sessions/sess_001.jsonl.aside1")


# --- files of another program


def foreign() -> dict[str, Any]:
    """Make a Veloca file as the source describes it."""
    session = "550e8400-e29b-41d4-a716-446655440000"
    calls = {"tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}
    said = [
        ("system", "Be kind."),
        ("user", "天气？"),
        ("assistant", "晴。"),
        ("user", "谢谢"),
        ("assistant", "不客气"),
    ]
    return {
        "sessions": [
            {
                "session_id": session,
                "name": "我的会话",
                "status": 0,
                "create_at": "2024-01-01T00:00:00.000Z",
                "x": 1,
            },
            {
                "name": "gone",
                "status": 1,
                "create_at": "2024-01-01T00:00:00.000Z",
                "session_id": session[:-1] + "1",
            },
        ],
        "entries": [
            {
                "entry_id": f"660e8400-e29b-41d4-a716-44665544000{number}",
                "session_id": session,
                "message": text,
                "role": role,
                "token_consumption": number,
                "status": 0,
                "tools": calls if text == "晴。" else None,
                "create_at": f"2024-01-01T00:00:0{number}.500Z",
                "is_compaction": 1,
            }
            for number, (role, text) in enumerate(said)
        ],
        "compacted_dialogues": [],
    }


def test_conversations_of_another_program_become_sessions() -> None:
    (found,) = sessions_of(foreign())
    assert (found.name, found.created_at) == ("我的会话", "2024-01-01T00:00:00Z")
    assert not carries_instance(foreign())
    (session,) = found.sessions("inst_007")
    assert [type(line) for line in session.lines][:3] == [Metadata, OtherLine, UserLine]
    assert [(line.turn, line.timestamp) for line in session.lines if isinstance(line, AssistantLine)] == [
        (1, "2024-01-01T00:00:02Z"),
        (2, "2024-01-01T00:00:04Z"),
    ]
    reply = session.lines[3]
    assert isinstance(reply, AssistantLine)
    assert reply.extra["veloca"]["tools"]["tool_calls"][0]["function"]["name"] == "f"
    assert reply.extra["veloca"]["token_consumption"] == 2


def test_what_another_program_writes_loosely_is_read_as_it_was_meant() -> None:
    doc = foreign()
    doc["entries"][1] |= {"status": "0", "token_consumption": "12", "is_compaction": None}
    doc["entries"][2] |= {"create_at": "2024-01-01 00:00:02"}
    (found,) = sessions_of(doc)
    (session,) = found.sessions("inst_007")
    (plain,) = sessions_of(foreign())
    assert texts_of(session) == texts_of(plain.sessions("inst_007")[0])


def test_what_was_compacted_elsewhere_is_an_older_session_here() -> None:
    doc = foreign()
    trigger = doc["entries"][3]["entry_id"]
    live = {
        "entry_id": "770e8400-e29b-41d4-a716-446655440002",
        "trigger_entry_id": trigger,
        "summary": "问了天气。",
        "create_at": "2024-01-01T00:10:00.000Z",
        "status": 0,
    }
    undone = {**live, "entry_id": "770e8400-e29b-41d4-a716-446655440003", "summary": "旧", "status": 1}
    doc["compacted_dialogues"] = [undone, live]
    (found,) = sessions_of(doc)
    older, newer = found.sessions("inst_007")
    assert texts_of(older) == ["天气？", "晴。"]
    assert newer.metadata is not None
    assert newer.metadata.continued_from == "sess_001"
    assert [line.content for line in newer.lines if isinstance(line, Summary)] == ["问了天气。"]
    assert texts_of(newer) == ["谢谢", "不客气"]


def test_an_entry_that_is_not_used_is_kept_and_never_used() -> None:
    doc = foreign()
    doc["entries"][1]["status"] = 1
    (found,) = sessions_of(doc)
    assert texts_of(found.sessions("i")[0]) == ["晴。", "谢谢", "不客气"]
    assert any(isinstance(line, OtherLine) and "天气" in str(line.data) for line in found.lines)


def test_a_file_of_another_program_is_no_story_by_itself() -> None:
    with pytest.raises(BadRecord) as caught:
        instance_of(foreign())
    assert caught.value.code == "character_needed"


def places(value: Any, way: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """List the ways to every value inside a value."""
    inner: list[tuple[str | int, Any]]
    if isinstance(value, dict):
        inner = list(cast("dict[str | int, Any]", value).items())
    elif isinstance(value, list):
        inner = list(enumerate(cast("list[Any]", value)))
    else:
        return [way]
    return [way, *(found for name, part in inner for found in places(part, (*way, name)))]


PLACES = [way for way in places(archive_of(story())) if way]
REPLACEMENTS: list[Any] = [None, True, -1, 10**20, 1.5, "", "\ud800", "../x", [], {}, [[]], {"": {}}]


@given(st.sampled_from(PLACES), st.sampled_from(REPLACEMENTS))
def test_no_broken_file_breaks_the_reader(way: tuple[str | int, ...], value: object) -> None:
    doc = json.loads(json.dumps(archive_of(story())))
    put(doc, way, value)
    for read in (instance_of, sessions_of):
        with contextlib.suppress(UserError):
            read(doc)
