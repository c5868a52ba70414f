"""What other programs write is read where it can mean one thing, and written back as it came."""

from __future__ import annotations

import json
from typing import Any

import pytest

from personalab.archive.veloca import check_archive
from personalab.archive.veloca_archive import Archive, EntryFilter, changed
from personalab.archive.veloca_compaction import compacted, context_of, material_of
from tests.unit.archive.test_veloca_archive import SESSION, TIME, an_entry, source

CALL = {"tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}
READ: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"message": None, "tools": CALL, "role": "assistant"}, {"message": ""}),
    ({"tools": []}, {"tools": None}),
    ({"token_consumption": "12"}, {"token_consumption": 12}),
    ({"status": "1"}, {"status": 1}),
    ({"status": None, "is_compaction": None}, {"status": 0, "is_compaction": 1}),
    ({"is_compaction": "0"}, {"is_compaction": 0}),
    ({"create_at": "2024-01-01 10:00:00"}, {"create_at": "2024-01-01T10:00:00"}),
    ({"create_at": 1704067200000}, {"create_at": "2024-01-01T00:00:00.000+00:00"}),
]


def with_entry(**fields: Any) -> dict[str, Any]:
    return {**source(), "entries": [an_entry(**fields)], "compacted_dialogues": []}


@pytest.mark.parametrize(("written", "meant"), READ, ids=range(len(READ)))
def test_what_can_mean_one_thing_is_read_as_that_and_kept_as_it_came(
    written: dict[str, Any], meant: dict[str, Any]
) -> None:
    doc = with_entry(**written)
    archive = Archive(doc)
    [entry] = archive.entries()
    assert {name: entry.fields()[name] for name in meant} == meant
    assert archive.unread() == 0
    assert json.loads(archive.dump()) == doc
    assert list(EntryFilter(status=None, since="2023-01-01T00:00:00Z").apply(archive.entries())) == [entry]


@pytest.mark.parametrize(
    "fields",
    [
        {"role": "tool"},
        {"message": None},
        {"message": None, "tools": []},
        {"token_consumption": "a lot"},
        {"token_consumption": []},
        {"status": "7"},
        {"status": True},
        {"create_at": 1704067200},
        {"create_at": "2024-01-01 noon"},
        {"create_at": 1e300},
    ],
    ids=range(10),
)
def test_what_can_mean_nothing_or_many_things_is_kept_and_counted(fields: dict[str, Any]) -> None:
    doc = with_entry(**fields)
    archive = Archive(doc)
    assert (list(archive.entries()), archive.unread()) == ([], 1)
    assert json.loads(archive.dump()) == doc
    assert len(check_archive(doc)) == 1


def test_a_record_that_is_changed_is_written_as_the_format_has_it() -> None:
    archive = Archive(with_entry(token_consumption="12", status="0", is_compaction=None))
    [entry] = archive.entries()
    archive.put_records([changed(entry, {"message": "new"})])
    [written] = archive.document()["entries"]
    assert (written["token_consumption"], written["status"], written["is_compaction"]) == (12, 0, 1)
    assert check_archive(archive.document()) == []


def test_what_came_otherwise_is_compacted_too() -> None:
    doc = with_entry(is_compaction=None)
    doc["entries"].append(an_entry())
    archive = Archive(doc)
    found = material_of(archive, SESSION, doc["entries"][1]["entry_id"])
    archive.put_records(compacted(found, "摘要", SESSION, TIME))
    again = Archive(json.loads(archive.dump()))
    assert [entry.is_compaction for entry in again.entries()] == [0, 1]
    assert len(context_of(again, SESSION).entries) == 1


def test_an_array_that_is_null_is_empty() -> None:
    assert Archive({**source(), "compacted_dialogues": None}).document()["compacted_dialogues"] == []
