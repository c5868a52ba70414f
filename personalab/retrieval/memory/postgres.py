"""Memories in PostgreSQL, in the source's tables, with one transaction per change."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from personalab.memory.records import ContentType
from personalab.retrieval.memory.postgres_database import Connection, Database, migrate
from personalab.retrieval.memory.postgres_vectors import EXACT, SAID, PostgresVectors
from personalab.retrieval.memory.sql import Result, Session, SqlRecords, Table, UnreadableRow

_T = TypeVar("_T")
_TIME = """to_char({}, 'YYYY-MM-DD"T"HH24:MI:SS"Z"')"""
_KEYS: dict[Table, str] = {
    "memory_contents": "content_id",
    "conversations": "conversation_id",
    "memory_changes": "change_id",
}


class PostgresBackend(SqlRecords, PostgresVectors):
    """Memories in a PostgreSQL database with the extension ``vector``."""

    created, updated, changed_at = map(_TIME.format, ("created_at", "updated_at", "changed_at"))
    saved_order, digest, conversation_text = "serial", "same_as", SAID
    counts = "entry_count, conversation_count"
    stamped = "memories"
    vector_kept = (
        "content_vector = CASE WHEN memory_contents.content_text = excluded.content_text"
        " THEN memory_contents.content_vector END"
    )
    for_update = " FOR UPDATE"

    def __init__(self, url: str, *, exact: int = EXACT) -> None:
        super().__init__(Database(url, migrate), exact)

    def exists(self) -> bool:
        """Return that there may be a memory: only the server could know."""
        return True

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def _read(self, work: Callable[[Session], _T]) -> _T:
        return self._database.read(lambda connection: work(_Statements(connection)))

    def _write(self, work: Callable[[Session], _T], *, repeatable: bool = True) -> _T:
        return self._database.write(lambda connection: work(_Statements(connection)), repeatable=repeatable)

    def _entries_changed(self, session: Session, memory_id: str, types: Iterable[ContentType]) -> None:
        lists = "".join(
            f"{content_type}_content = (SELECT coalesce(jsonb_agg(content_text ORDER BY position, content_id), '[]')"
            f" FROM memory_contents WHERE memory_id = memories.memory_id AND content_type = '{content_type}'), "
            for content_type in types
        )
        session.execute(
            f"UPDATE memories SET {lists}entries_stamp = nextval('memory_stamps'), entry_count ="
            " (SELECT count(*) FROM memory_contents WHERE memory_id = memories.memory_id) WHERE memory_id = ?",
            [memory_id],
        )

    def _conversations_changed(self, session: Session, memory_id: str, added: int) -> None:
        session.execute(
            "UPDATE memories SET conversation_count = conversation_count + ?,"
            " conversations_stamp = nextval('memory_stamps') WHERE memory_id = ?",
            [added, memory_id],
        )

    def _take_out(self, session: Session, row: UnreadableRow) -> Mapping[str, Any] | None:
        query = f"DELETE FROM {row.table} AS gone WHERE {_KEYS[row.table]} = ? RETURNING to_jsonb(gone)"
        found = session.execute(query, [row.row_id]).fetchone()
        if found is None:
            return None
        session.execute(
            "INSERT INTO set_aside (table_name, row_id, reason, record) VALUES (?, ?, ?, ?)",
            [row.table, row.row_id, str(row.reason)[:200], json.dumps(found[0], ensure_ascii=False)],
        )
        return found[0]


class _Statements:
    """A connection that takes statements with ``?`` for a value."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Result:
        return self._connection.execute(_native(statement), values)

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> None:
        self._connection.cursor().executemany(_native(statement), rows)


@cache
def _native(statement: str) -> bytes:
    return statement.replace("?", "%s").encode()
