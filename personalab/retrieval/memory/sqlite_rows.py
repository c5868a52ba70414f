"""Conversion between records and rows of SQLite, with unreadable rows set aside."""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, cast

from personalab.errors import BadRecord, Reason
from personalab.memory.changes import Change, Origin, Step
from personalab.memory.records import ContentType, Conversation, MemoryEntry, clean_json
from personalab.retrieval.memory.rows import Broken, Row, Table

ENTRIES = "SELECT content_id, content_type, content_text, position, content_data FROM memory_contents"
CONVERSATIONS = (
    "SELECT conversation_id, agent_id, user_id, created_at, memory_id, session_id, pipeline_result,"
    " conversation_data FROM conversations"
)
CHANGES = (
    "SELECT change_id, memory_id, version, at, origin, steps, conversation_id, undoes FROM memory_changes"
)
_WHOLE: dict[Table, str] = {
    "memory_contents": "SELECT * FROM memory_contents WHERE content_id = ?",
    "conversations": "SELECT * FROM conversations WHERE conversation_id = ?",
    "memory_changes": "SELECT * FROM memory_changes WHERE change_id = ?",
}
_DELETE: dict[Table, str] = {
    "memory_contents": "DELETE FROM memory_contents WHERE content_id = ?",
    "conversations": "DELETE FROM conversations WHERE conversation_id = ?",
    "memory_changes": "DELETE FROM memory_changes WHERE change_id = ?",
}
_LISTED = (
    "(SELECT json_group_array(content_text) FROM (SELECT content_text FROM memory_contents"
    " WHERE memory_id = ?1 AND content_type = ?2 ORDER BY position, content_id))"
)
_LIST: dict[ContentType, str] = {
    "profile": f"UPDATE memories SET profile_content = {_LISTED} WHERE memory_id = ?1",  # noqa: S608 (constants)
    "event": f"UPDATE memories SET event_content = {_LISTED} WHERE memory_id = ?1",  # noqa: S608 (constants)
    "mind": f"UPDATE memories SET mind_content = {_LISTED} WHERE memory_id = ?1",  # noqa: S608 (constants)
}

_log = logging.getLogger("personalab.memory")


def worded(value: object) -> str:
    """Write a JSON value."""
    return json.dumps(clean_json(value), ensure_ascii=False, separators=(",", ":"))


def entry_row(memory_id: str, entry: MemoryEntry) -> Row:
    """Return an entry's columns: id, memory, type, position, text, data."""
    data = {
        "created_at": entry.created_at,
        "updated_at": entry.updated_at,
        "sources": [source.fields() for source in entry.sources],
    }
    return entry.content_id, memory_id, entry.content_type, entry.position, entry.text, worded(data)


def read_entry(row: Row) -> MemoryEntry:
    """Read an entry from a row of ``ENTRIES``."""
    content_id, content_type, text, position, data = row
    told = {"content_id": content_id, "content_type": content_type, "text": text, "position": position}
    return MemoryEntry.read({**_object(data), **told})


def read_conversation(row: Row) -> Conversation:
    """Read a conversation from a row of ``CONVERSATIONS``."""
    names = ("conversation_id", "agent_id", "user_id", "created_at", "memory_id", "session_id")
    told = dict(zip(names, row[:6], strict=True))
    result = None if row[6] is None else _object(row[6])
    return Conversation.read({**_object(row[7]), **told, "pipeline_result": result})


def read_change(row: Row) -> Change:
    """Read a change from a row of ``CHANGES``."""
    change_id, memory_id, version, at, origin, steps, conversation_id, undoes = row
    read = tuple(Step.read(step) for step in json.loads(steps))
    return Change(
        str(change_id), str(memory_id), int(version), str(at), cast("Origin", origin), read,
        conversation_id, undoes,
    )  # fmt: skip


def _object(text: Any) -> Mapping[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise BadRecord("bad_record", field="data", reason=Reason("not_object"))
    return cast("dict[str, Any]", found)


def set_aside(connection: sqlite3.Connection, broken: Iterable[Broken]) -> None:
    """Move rows that cannot be read out of the way; none is lost."""
    for found in broken:
        cursor = connection.execute(_WHOLE[found.table], [found.row_id])
        row = cursor.fetchone()
        if row is None:
            continue
        whole = dict(zip([column[0] for column in cursor.description], row, strict=True))
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        kept = json.dumps(whole, ensure_ascii=False, default=repr)
        connection.execute(
            "INSERT INTO set_aside (at, table_name, row_id, reason, row) VALUES (?, ?, ?, ?, ?)",
            [now, found.table, found.row_id, str(found.reason)[:200], kept],
        )
        connection.execute(_DELETE[found.table], [found.row_id])
        memory_id = str(whole["memory_id"])
        touch(connection, memory_id)
        if found.table == "memory_contents":
            list_entries(connection, memory_id, _LIST)
        _log.warning("a row of %s was set aside: %s: %s", found.table, found.row_id, found.reason)


def list_entries(connection: sqlite3.Connection, memory_id: str, types: Iterable[ContentType]) -> None:
    """Update a memory's lists of strings from its entries."""
    for content_type in types:
        connection.execute(_LIST[content_type], [memory_id, content_type])


def touch(connection: sqlite3.Connection, memory_id: str) -> None:
    """Notify all processes that a memory's entries and conversations may have changed."""
    query = "UPDATE memory_stamps SET entries_stamp = ?1, conversations_stamp = ?1 WHERE memory_id = ?2"
    connection.execute(query, [new_stamp(connection), memory_id])


def new_stamp(connection: sqlite3.Connection) -> int:
    """Make a number that was never used before."""
    found = connection.execute("SELECT value FROM meta WHERE name = 'stamp'").fetchone()
    stamp = max(time.time_ns(), int(found[0]) + 1 if found else 0)
    connection.execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('stamp', ?)", [stamp])
    return stamp
