"""Conversion between records and rows of PostgreSQL, with unreadable rows set aside."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, LiteralString, cast

from personalab.errors import BadRecord, Reason
from personalab.memory.changes import Change, Step
from personalab.memory.records import CONTENT_TYPES, ContentType, Conversation, MemoryEntry, clean_json
from personalab.retrieval.memory.postgres_database import Connection
from personalab.retrieval.memory.rows import Broken, Row, Table

ENTRY: LiteralString = "content_id, content_type, content_text, position, content_data"
CREATED: LiteralString = """to_char(created_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"')"""
UPDATED: LiteralString = """to_char(updated_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"')"""
CONVERSATION: LiteralString = f"""
    conversation_id, agent_id, user_id, {CREATED}, memory_id, session_id, pipeline_result, conversation_data
"""
CHANGE: LiteralString = """
    change_id, memory_id, version, to_char(changed_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), origin, steps,
    conversation_id, undoes
"""
_LISTED: LiteralString = """(
    select coalesce(jsonb_agg(content_text order by position, content_id), '[]')
    from memory_contents where memory_id = %(memory_id)s and content_type = '{}'
)"""
_LIST: dict[ContentType, LiteralString] = {
    "profile": "profile_content = " + _LISTED.format("profile"),
    "event": "event_content = " + _LISTED.format("event"),
    "mind": "mind_content = " + _LISTED.format("mind"),
}
_MOVE: dict[Table, LiteralString] = {
    "memory_contents": "delete from memory_contents as gone where content_id = %s returning to_jsonb(gone)",
    "conversations": "delete from conversations as gone where conversation_id = %s returning to_jsonb(gone)",
    "memory_changes": "delete from memory_changes as gone where change_id = %s returning to_jsonb(gone)",
}
_TOUCH: LiteralString = """
    update memories set entries_stamp = nextval('memory_stamps'), conversations_stamp = nextval('memory_stamps'),
        conversation_count = (select count(*) from conversations where memory_id = %(memory_id)s)
    where memory_id = %(memory_id)s
"""

_log = logging.getLogger("personalab.memory")


def worded(value: object) -> str:
    """Write a JSON value."""
    return json.dumps(clean_json(value), ensure_ascii=False)


def entry_row(memory_id: str, entry: MemoryEntry) -> Row:
    """Return an entry's columns: id, memory, type, position, text, data."""
    data = {
        "created_at": entry.created_at,
        "updated_at": entry.updated_at,
        "sources": [source.fields() for source in entry.sources],
    }
    told = worded(data)
    return entry.content_id, memory_id, entry.content_type, entry.position, entry.text, told


def read_entry(row: Row) -> MemoryEntry:
    """Read an entry from the columns of ``ENTRY``."""
    content_id, content_type, text, position, data = row
    told = {"content_id": content_id, "content_type": content_type, "text": text, "position": position}
    return MemoryEntry.read({**_object(data), **told})


def read_conversation(row: Row) -> Conversation:
    """Read a conversation from the columns of ``CONVERSATION``."""
    names = ("conversation_id", "agent_id", "user_id", "created_at", "memory_id", "session_id")
    told = dict(zip(names, row[:6], strict=True))
    result = None if row[6] is None else _object(row[6])
    return Conversation.read({**_object(row[7]), **told, "pipeline_result": result})


def read_change(row: Row) -> Change:
    """Read a change from the columns of ``CHANGE``."""
    change_id, memory_id, version, at, origin, steps, conversation_id, undoes = row
    read = tuple(Step.read(step) for step in steps)
    return Change(change_id, memory_id, version, at, origin, read, conversation_id, undoes)


def _object(data: object) -> Mapping[str, Any]:
    if not isinstance(data, dict):
        raise BadRecord("bad_record", field="data", reason=Reason("not_object"))
    return cast("dict[str, Any]", data)


def set_aside(connection: Connection, broken: Sequence[Broken]) -> None:
    """Move rows that cannot be read out of the way; none is lost."""
    for found in broken:
        row = connection.execute(_MOVE[found.table], [found.row_id]).fetchone()
        if row is None:
            continue
        connection.execute(
            "insert into set_aside (table_name, row_id, reason, record) values (%s, %s, %s, %s::jsonb)",
            [found.table, found.row_id, str(found.reason)[:200], json.dumps(row[0], ensure_ascii=False)],
        )
        connection.execute(_TOUCH, {"memory_id": row[0]["memory_id"]})
        list_entries(connection, row[0]["memory_id"], CONTENT_TYPES)
        _log.warning("a row of %s was set aside: %s: %s", found.table, found.row_id, found.reason)


def list_entries(connection: Connection, memory_id: str, types: Iterable[ContentType]) -> None:
    """Update a memory's lists of strings, and the number of its entries, from its entries."""
    lists = "".join(f"{_LIST[content_type]}, " for content_type in types)
    query = f"""
        update memories set {lists}
            entry_count = (select count(*) from memory_contents where memory_id = %(memory_id)s)
        where memory_id = %(memory_id)s
    """  # noqa: S608 (constants)
    connection.execute(query.encode(), {"memory_id": memory_id})
