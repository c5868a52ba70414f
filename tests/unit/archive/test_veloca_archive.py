"""The records of a Veloca archive, and what may stand in one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.archive.veloca import (
    ArchiveEntry,
    ArchiveSession,
    CompactedDialogue,
    check_archive,
    new_id,
    to_milliseconds,
)
from personalab.archive.veloca_archive import (
    MAX_RECORD_BYTES,
    Archive,
    EntryFilter,
    changed,
    check_fresh,
    encode_records,
    made,
)
from personalab.errors import BadRecord, NotFound

SOURCE: dict[str, Any] = {
    "sessions": [
        {
            "session_id": "550e8400-e29b-41d4-a716-446655440000",
            "name": "我的第一个会话",
            "status": 0,
            "create_at": "2024-01-01T00:00:00.000Z",
        }
    ],
    "entries": [
        {
            "entry_id": "660e8400-e29b-41d4-a716-446655440001",
            "session_id": "550e8400-e29b-41d4-a716-446655440000",
            "message": "北京今天天气怎么样？",
            "role": "user",
            "token_consumption": 12,
            "status": 0,
            "tools": None,
            "create_at": "2024-01-01T00:00:00.000Z",
            "is_compaction": 1,
        },
        {
            "entry_id": "660e8400-e29b-41d4-a716-446655440010",
            "session_id": "550e8400-e29b-41d4-a716-446655440000",
            "message": "",
            "role": "assistant",
            "token_consumption": 30,
            "status": 0,
            "tools": {
                "tool_calls": [
                    {
                        "id": "call_123",
                        "type": "function",
                        "function": {"name": "function_name", "arguments": '{"param":"value"}'},
                    }
                ]
            },
            "create_at": "2024-01-01T00:00:01.000Z",
            "is_compaction": 1,
        },
    ],
    "compacted_dialogues": [
        {
            "entry_id": "770e8400-e29b-41d4-a716-446655440002",
            "trigger_entry_id": "660e8400-e29b-41d4-a716-446655440010",
            "summary": "用户询问了天气情况，助手提供了北京的天气信息。",
            "create_at": "2024-01-01T00:10:00.000Z",
            "status": 0,
        }
    ],
}
TIME = "2024-01-01T00:00:00.000Z"
SESSION = SOURCE["sessions"][0]["session_id"]


def source() -> dict[str, Any]:
    return json.loads(json.dumps(SOURCE))


# --- records and documents


def test_the_sources_own_example_is_read_and_written_as_it_is() -> None:
    archive = Archive(SOURCE)
    assert archive.document() == SOURCE
    assert json.loads(archive.dump()) == SOURCE
    assert list(archive.document()["entries"][0]) == list(SOURCE["entries"][0])
    assert check_archive(SOURCE) == []


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
unknown = st.dictionaries(st.text().filter(lambda name: name not in str(SOURCE)), json_values, max_size=3)


@given(unknown, unknown, unknown, unknown)
def test_fields_that_nobody_knows_survive_reading_and_writing(
    root: dict[str, Any], session: dict[str, Any], entry: dict[str, Any], dialogue: dict[str, Any]
) -> None:
    doc = {**source(), **root}
    doc["sessions"][0] |= session
    doc["entries"][0] |= entry
    doc["compacted_dialogues"][0] |= dialogue
    again = json.loads(Archive(doc).dump())
    assert again == doc
    assert Archive(again).dump() == Archive(doc).dump()


def test_what_is_no_record_stays_where_it_is_and_is_nobodys() -> None:
    doc = source()
    twin = {**doc["entries"][0], "message": "the same id again"}
    doc["entries"] = ["text", doc["entries"][0], {"entry_id": 7}, twin, doc["entries"][1]]
    archive = Archive(doc)
    assert archive.document() == doc
    assert [entry.message for entry in archive.entries()] == ["北京今天天气怎么样？", ""]


@pytest.mark.parametrize(
    ("array", "field", "value", "reason"),
    [
        ("sessions", "session_id", "no uuid", "it is not a UUID"),
        ("sessions", "name", 7, "it is not a text"),
        ("sessions", "status", 2, "it must be one of 0, 1"),
        ("sessions", "status", True, "it must be one of 0, 1"),
        ("sessions", "create_at", "yesterday", "it is not a time in ISO 8601"),
        ("sessions", "create_at", "2024-13-01T00:00:00.000Z", "it is not a time in ISO 8601"),
        ("entries", "session_id", "00000000-0000-4000-8000-000000000000", "there is no such session"),
        ("entries", "role", "king", "it must be one of user, assistant, system"),
        ("entries", "role", [], "it must be one of user, assistant, system"),
        ("entries", "token_consumption", -1, "it is not a number of 0 or more"),
        ("entries", "token_consumption", 10**400, "it is not a number of 0 or more"),
        ("entries", "token_consumption", "12", "it is not a number of 0 or more"),
        ("entries", "tools", [], "it is not an object"),
        ("entries", "tools", {"tool_calls": {}}, "it is not a list"),
        ("entries", "tools", {"tool_calls": []}, "it must have 1 to 128 calls"),
        ("entries", "tools", {"tool_calls": [{"id": "a", "type": "function"}]}, "it is not an object"),
        ("entries", "is_compaction", None, "it must be one of 0, 1"),
        ("compacted_dialogues", "summary", None, "it is not a text"),
        ("compacted_dialogues", "trigger_entry_id", SESSION, "there is no such entry"),
    ],
)
def test_a_field_that_is_wrong_is_named_with_its_place(
    array: str, field: str, value: object, reason: str
) -> None:
    doc = source()
    doc[array][0][field] = value
    [problem] = [found for found in check_archive(doc) if f"{array}[0]." in str(found.params["field"])]
    assert field.split("_")[0] in str(problem.params["field"])
    assert str(problem.params["reason"]) == reason
    assert reason in problem.message("en")
    assert reason not in problem.message("zh")


@pytest.mark.parametrize("arguments", ["", "{", "not json", "{'a': 1}"])
def test_arguments_of_a_tool_call_are_json_text(arguments: str) -> None:
    doc = source()
    call = doc["entries"][1]["tools"]["tool_calls"][0]
    call["function"]["arguments"] = arguments
    [problem] = check_archive(doc)
    assert problem.params["field"] == "entries[1].tools.tool_calls[0].function.arguments"
    assert [entry.tools for entry in Archive(doc).entries()][1] == {"tool_calls": [call]}


@pytest.mark.parametrize("doc", [None, 7, "text", [], {}, {"hello": 1}, {"sessions": {}}, {"entries": None}])
def test_other_json_is_no_archive(doc: object) -> None:
    assert len(check_archive(doc)) == 1
    with pytest.raises(BadRecord):
        Archive(doc if doc is not None else [])


def test_an_array_that_is_missing_is_empty() -> None:
    assert Archive({"sessions": SOURCE["sessions"]}).document() == {
        "sessions": SOURCE["sessions"],
        "entries": [],
        "compacted_dialogues": [],
    }


def test_ids_that_are_not_unique_are_reported_once_for_each() -> None:
    doc = source()
    doc["sessions"] *= 3
    assert [problem.params["field"] for problem in check_archive(doc)] == [
        "sessions[1].session_id",
        "sessions[2].session_id",
    ]


def test_a_document_with_endless_faults_is_reported_in_short() -> None:
    assert len(check_archive({"entries": [None] * 5_000})) == 1_000


@pytest.mark.parametrize(
    ("given_time", "written"),
    [
        ("2024-01-01T00:00:00Z", TIME),
        ("2024-01-01T08:00:00+08:00", TIME),
        ("2024-01-01T00:00:00.123456Z", "2024-01-01T00:00:00.123Z"),
        ("2024-01-01T00:00:00", TIME),
    ],
)
def test_times_are_written_in_utc_with_milliseconds(given_time: str, written: str) -> None:
    assert to_milliseconds(given_time) == written


@pytest.mark.parametrize("wrong", ["", "now", "2024-01-01", "0001-01-01T00:00:00+14:00", 7, None])
def test_what_is_no_time_is_refused(wrong: Any) -> None:
    with pytest.raises(BadRecord):
        to_milliseconds(wrong)


# --- what may be written


def an_entry(**fields: Any) -> dict[str, Any]:
    return {
        "entry_id": new_id(),
        "session_id": SESSION,
        "message": "说",
        "role": "user",
        "token_consumption": 0,
        "status": 0,
        "tools": None,
        "create_at": TIME,
        "is_compaction": 1,
        **fields,
    }


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"message": "x" * 1_000_001}, "field_too_long"),
        ({"message": 7}, "field_wrong"),
        ({"role": "tool"}, "field_wrong"),
        ({"tools": {"tool_calls": []}}, "field_wrong"),
        ({"tools": {}}, "field_wrong"),
        ({"mine": float("nan")}, "field_wrong"),
        ({"mine": float("inf")}, "field_wrong"),
        ({"mine": object()}, "field_wrong"),
        ({"mine": nested(62)}, "too_deep"),
        ({"mine": nested(100_000)}, "field_wrong"),
        ({"mine": "x" * MAX_RECORD_BYTES}, "too_large"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_what_must_not_stand_in_an_archive_is_not_written(fields: dict[str, Any], code: str) -> None:
    with pytest.raises(BadRecord) as raised:
        made("entries", an_entry(**fields))
    assert raised.value.code == code


def test_the_deepest_value_that_is_written_can_be_read_again() -> None:
    from personalab.archive.foreign_files import load_json

    archive = Archive(SOURCE)
    archive.put_records([made("entries", an_entry(mine=nested(61)))])
    assert load_json(archive.dump()) == archive.document()


def test_a_record_is_apart_from_the_objects_it_was_made_of() -> None:
    mine = {"list": [1]}
    record = made("entries", an_entry(), {"mine": mine})
    mine["list"].append(2)
    assert record.extra == {"mine": {"list": [1]}}


def test_half_characters_are_kept_and_a_pair_of_them_is_one() -> None:
    record = made("entries", an_entry(message="\ud800 \ud83d\ude00"))
    assert isinstance(record, ArchiveEntry)
    assert record.message == "\ud800 😀"
    archive = Archive(SOURCE)
    archive.put_records([record])
    assert Archive(json.loads(archive.dump())).entry(record.entry_id) == record


def test_an_extra_field_cannot_pose_as_one_of_the_records_own() -> None:
    with pytest.raises(BadRecord, match="status"):
        made("sessions", SOURCE["sessions"][0], {"status": 1})


@pytest.mark.parametrize("name", ["entry_id", "session_id"])
def test_ids_cannot_be_changed(name: str) -> None:
    record = ArchiveEntry.read(SOURCE["entries"][0])
    with pytest.raises(BadRecord) as raised:
        changed(record, {name: new_id()})
    assert raised.value.code == "archive_fixed_field"


def test_a_change_keeps_what_it_does_not_name() -> None:
    record = ArchiveSession.read({**SOURCE["sessions"][0], "mine": [1]})
    fresh = changed(record, {"name": "新的名字", "other": 2})
    assert fresh.fields() == {**record.fields(), "name": "新的名字", "other": 2}


def test_new_records_need_fresh_ids_and_something_to_belong_to() -> None:
    archive = Archive(SOURCE)
    session = ArchiveSession(new_id(), "新", 0, TIME)
    entry = ArchiveEntry.read(an_entry(session_id=session.session_id))
    check_fresh(archive, [session, entry, CompactedDialogue(new_id(), entry.entry_id, "s", TIME, 0)])
    with pytest.raises(NotFound):
        check_fresh(archive, [entry, session])
    with pytest.raises(NotFound):
        check_fresh(archive, [CompactedDialogue(new_id(), entry.entry_id, "s", TIME, 0)])
    for twice in ([session, session], [ArchiveSession.read(SOURCE["sessions"][0])]):
        with pytest.raises(BadRecord) as raised:
            check_fresh(archive, twice)
        assert raised.value.code == "archive_id_taken"


def test_a_deleted_session_takes_no_new_entries() -> None:
    archive = Archive(SOURCE)
    archive.put_records([replace(archive.session(SESSION), status=1)])
    with pytest.raises(BadRecord) as raised:
        check_fresh(archive, [ArchiveEntry.read(an_entry())])
    assert raised.value.code == "archive_session_deleted"


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1), st.text(max_size=3)), max_size=12))
def test_putting_the_same_records_again_changes_nothing(puts: list[tuple[int, int, str]]) -> None:
    sessions = [f"00000000-0000-4000-8000-{number:012}" for number in range(2)]
    lines = [
        encode_records(
            [
                ArchiveEntry.read(
                    an_entry(
                        entry_id=f"10000000-0000-4000-8000-{number:012}",
                        session_id=sessions[at],
                        message=text,
                    )
                )
            ]
        )
        for number, at, text in puts
    ]
    archive = Archive()

    def replayed() -> bytes:
        for line in lines:
            for values in json.loads(line).values():
                archive.put("entries", values)
        return archive.dump()

    assert replayed() == replayed()
    assert sorted(entry.entry_id for name in sessions for entry in archive.entries(name)) == sorted(
        entry.entry_id for entry in archive.entries()
    )


def test_entries_are_found_by_what_is_asked_of_them() -> None:
    hour = [
        ArchiveEntry.read(an_entry(message=f"第{n}时", create_at=f"2024-01-01T0{n}:00:00.000Z"))
        for n in range(5)
    ]
    entries = [*hour[:3], replace(hour[3], role="assistant"), replace(hour[4], status=1)]

    def found(**wanted: Any) -> list[str]:
        return [entry.message[1] for entry in EntryFilter(**wanted).apply(entries)]

    assert found() == ["0", "1", "2", "3"]
    assert found(status=None) == ["0", "1", "2", "3", "4"]
    assert found(role="assistant") == ["3"]
    assert found(contains="2时") == ["2"]
    assert found(since="2024-01-01T01:00:00Z", until="2024-01-01T11:00:00+08:00") == ["1", "2"]
    assert found(is_compaction=0) == []
