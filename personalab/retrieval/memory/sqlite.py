"""Memories without a server: records in SQLite, and their vectors in Chroma."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, cast

from personalab.memory.records import ContentType, Conversation
from personalab.retrieval.memory.chroma_vectors import (
    ChromaVectors,
    note_entries_removed,
    note_memory_removed,
)
from personalab.retrieval.memory.sql import Session, SqlRecords, Table, UnreadableRow
from personalab.retrieval.memory.sqlite_file import SqliteFile, new_stamp

NAME = "memory.db"
_T = TypeVar("_T")
_KEYS: dict[Table, str] = {
    "memory_contents": "content_id",
    "conversations": "conversation_id",
    "memory_changes": "change_id",
}


class SqliteBackend(SqlRecords, ChromaVectors):
    """Memories in a folder."""

    changed_at = changed_column = "at"
    saved_order, digest, conversation_text = "saved", "digest", "conversation_text"
    counts = (
        "(SELECT count(*) FROM memory_contents AS c WHERE c.memory_id = memories.memory_id),"
        " (SELECT count(*) FROM conversations AS c WHERE c.memory_id = memories.memory_id)"
    )
    stamped = "memories JOIN memory_stamps USING (memory_id)"
    vector_kept = (
        "vector_epoch = CASE WHEN content_text = excluded.content_text AND content_type = excluded.content_type"
        " THEN vector_epoch ELSE 0 END"
    )

    def __init__(self, folder: Path) -> None:
        self._file = SqliteFile(folder / NAME)
        super().__init__(self._file, folder)

    def exists(self) -> bool:
        """Return whether anything was ever stored."""
        return self._file.exists()

    def close(self) -> None:
        """Close files and connections."""
        self.close_vectors()
        self._file.close()

    def forget(self, agent_id: str, user_id: str) -> bool:
        """Delete a memory and all that belongs to it but how far its stories were saved."""
        version = self.version(agent_id, user_id)
        is_forgotten = super().forget(agent_id, user_id)
        if is_forgotten and version is not None:
            self.forget_vectors(version.memory_id)
        return is_forgotten

    def _read(self, work: Callable[[Session], _T]) -> _T:
        with self._file.reading() as connection:
            return work(connection)

    def _write(self, work: Callable[[Session], _T], *, repeatable: bool = True) -> _T:
        with self._file.writing() as connection:
            return work(connection)

    def _memory_added(self, session: Session, memory_id: str) -> None:
        stamp = new_stamp(session)
        session.execute("INSERT INTO memory_stamps VALUES (?, ?, ?)", [memory_id, stamp, stamp])

    def _entries_changed(self, session: Session, memory_id: str, types: Iterable[ContentType]) -> None:
        query = "UPDATE memory_stamps SET entries_stamp = ? WHERE memory_id = ?"
        session.execute(query, [new_stamp(session), memory_id])
        for content_type in types:
            session.execute(
                f"UPDATE memories SET {content_type}_content = (SELECT json_group_array(content_text) FROM"
                " (SELECT content_text FROM memory_contents WHERE memory_id = ?1 AND content_type = ?2"
                " ORDER BY position, content_id)) WHERE memory_id = ?1",
                [memory_id, content_type],
            )

    def _conversations_changed(self, session: Session, memory_id: str, added: int) -> None:
        query = "UPDATE memory_stamps SET conversations_stamp = ? WHERE memory_id = ?"
        session.execute(query, [new_stamp(session), memory_id])

    def _entries_removed(self, session: Session, memory_id: str, content_ids: Sequence[str]) -> None:
        note_entries_removed(session, memory_id, content_ids)

    def _memory_removed(self, session: Session, memory_id: str) -> None:
        note_memory_removed(session, memory_id)

    def _conversation_columns(self, conversation: Conversation) -> dict[str, object]:
        return {"conversation_text": conversation.text()}

    def _take_out(self, session: Session, row: UnreadableRow) -> Mapping[str, Any] | None:
        cursor = cast("sqlite3.Connection", session).execute(
            f"DELETE FROM {row.table} WHERE {_KEYS[row.table]} = ? RETURNING *", [row.row_id]
        )
        names = [column[0] for column in cursor.description]
        wholes = [dict(zip(names, found, strict=True)) for found in cursor.fetchall()]
        if not wholes:
            return None
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        session.execute(
            "INSERT INTO set_aside (at, table_name, row_id, reason, row) VALUES (?, ?, ?, ?, ?)",
            [
                now,
                row.table,
                row.row_id,
                str(row.reason)[:200],
                json.dumps(wholes[0], ensure_ascii=False, default=repr),
            ],
        )
        return wholes[0]
