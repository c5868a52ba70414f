"""Memories without a server: records in SQLite, and their vectors in Chroma."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from personalab.errors import UserError
from personalab.memory.changes import Change, Revised, Step
from personalab.memory.pipeline import has_succeeded
from personalab.memory.records import CONTENT_TYPES, ContentType, Conversation, Memory, MemoryEntry, new_id
from personalab.ports import LearnedBefore, MemoryName
from personalab.retrieval.memory.backend import Kind, MemoryVersion, SearchableText
from personalab.retrieval.memory.chroma_vectors import ChromaVectors, entry_gone, memory_gone
from personalab.retrieval.memory.rows import Broken, Row, readable, waits_for
from personalab.retrieval.memory.sqlite_file import SqliteFile
from personalab.retrieval.memory.sqlite_rows import (
    CHANGES,
    CONVERSATIONS,
    ENTRIES,
    entry_row,
    list_entries,
    new_stamp,
    read_change,
    read_conversation,
    read_entry,
    set_aside,
    worded,
)

NAME = "memory.db"
_PAIR = "memory_id = (SELECT memory_id FROM memories WHERE agent_id = ? AND user_id = ?)"
_TEXTS: dict[Kind, str] = {
    "entries": "SELECT content_id, content_type, content_text FROM memory_contents WHERE memory_id = ?"
    " ORDER BY content_type, position, content_id",
    "conversations": "SELECT conversation_id, '', conversation_text FROM conversations WHERE memory_id = ?"
    " ORDER BY saved",
}
_MARK = (
    "INSERT INTO story_marks (agent_id, user_id, session_id, last_turn) VALUES (?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET last_turn = max(last_turn, excluded.last_turn)"
)
_PUT_ENTRY = (
    "INSERT INTO memory_contents (content_id, memory_id, content_type, position, content_text, content_data)"
    " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (content_id) DO UPDATE SET"
    " content_type = excluded.content_type, position = excluded.position,"
    " vector_epoch = CASE WHEN content_text = excluded.content_text AND content_type = excluded.content_type"
    " THEN vector_epoch ELSE 0 END,"
    " content_text = excluded.content_text, content_data = excluded.content_data"
)


class SqliteBackend(ChromaVectors):
    """Memories in a folder."""

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

    # --- memories

    def memories(self, limit: int, after: str) -> list[MemoryName]:
        """List memories by id."""
        query = (
            "SELECT memory_id, agent_id, user_id, updated_at,"
            " (SELECT count(*) FROM memory_contents c WHERE c.memory_id = m.memory_id),"
            " (SELECT count(*) FROM conversations c WHERE c.memory_id = m.memory_id)"
            " FROM memories m WHERE memory_id > ? ORDER BY memory_id LIMIT ?"
        )
        with self._file.reading() as connection:
            return [MemoryName(*row) for row in connection.execute(query, [after, max(limit, 0)])]

    def memory(self, agent_id: str, user_id: str, newest: int | None = None) -> Memory | None:
        """Read a memory with its entries: all, or so many of each list, the newest."""
        broken: list[Broken] = []
        query = (
            "SELECT memory_id, agent_id, user_id, created_at, updated_at, version FROM memories"
            " WHERE agent_id = ? AND user_id = ?"
        )
        with self._file.reading() as connection:
            row = connection.execute(query, [agent_id, user_id]).fetchone()
            if row is None:
                return None
            rows = _entry_rows(connection, row[0], newest)
            entries = tuple(readable(rows, read_entry, "memory_contents", broken))
        self._put_aside(broken)
        memory_id, agent_id, user_id, created_at, updated_at, version = row
        return Memory(memory_id, agent_id, user_id, created_at, updated_at, entries, version)

    def pair(self, agent_id: str, user_id: str) -> MemoryVersion | None:
        """Find a memory without reading it."""
        query = (
            "SELECT memory_id, entries_stamp, conversations_stamp FROM memories JOIN memory_stamps"
            " USING (memory_id) WHERE agent_id = ? AND user_id = ?"
        )
        with self._file.reading() as connection:
            row = connection.execute(query, [agent_id, user_id]).fetchone()
        return MemoryVersion(*row) if row else None

    def texts(self, kind: Kind, memory_id: str) -> list[SearchableText]:
        """Read what a memory's entries or conversations are found by, always in the same order."""
        with self._file.reading() as connection:
            rows = connection.execute(_TEXTS[kind], [memory_id]).fetchall()
        return [SearchableText._make(row) for row in rows if isinstance(row[2], str)]

    def entries(self, memory_id: str, content_ids: Sequence[str]) -> list[MemoryEntry]:
        """Read some entries, as far as they are there."""
        broken: list[Broken] = []
        query = f"{ENTRIES} WHERE +memory_id = ? AND content_id IN (SELECT value FROM json_each(?))"  # noqa: S608 (a constant)
        with self._file.reading() as connection:
            rows = connection.execute(query, [memory_id, worded(content_ids)])
            found = readable(rows, read_entry, "memory_contents", broken)
        self._put_aside(broken)
        return found

    def forget(self, agent_id: str, user_id: str) -> bool:
        """Delete a memory and all that belongs to it but how far its stories were saved."""
        with self._file.writing() as connection:
            memory_id = _memory_id(connection, agent_id, user_id)
            if memory_id is None:
                return False
            memory_gone(connection, memory_id)
            connection.execute("DELETE FROM memories WHERE memory_id = ?", [memory_id])
        self.forget_vectors(memory_id)
        return True

    def _put_aside(self, broken: Sequence[Broken]) -> None:
        if broken:
            with self._file.writing() as connection:
                set_aside(connection, broken)

    # --- conversations

    def begin(self, agent_id: str, user_id: str, now: str) -> None:
        """Create a pair's memory, if there is none yet."""
        with self._file.writing() as connection:
            _begun(connection, agent_id, user_id, now)

    def save_conversation(self, conversation: Conversation) -> Conversation:
        """Save a conversation, begin its memory, and note how far a story has been saved; in one transaction."""
        said = (worded(conversation.data()), conversation.text(), conversation.same_as())
        broken: list[Broken] = []
        with self._file.writing() as connection:
            pair = (conversation.agent_id, conversation.user_id)
            memory_id = _begun(connection, *pair, conversation.created_at, conversation.memory_id)
            if conversation.story is not None:
                mark = [*pair, conversation.session_id, conversation.story.last_turn]
                connection.execute(_MARK, mark)
            known = _known(connection, conversation, memory_id, said[2], broken)
            if known is not None:
                return known
            set_aside(connection, broken)
            _insert(connection, replace(conversation, memory_id=memory_id), *said)
        return replace(conversation, memory_id=memory_id)

    def conversation(self, conversation_id: str) -> Conversation | None:
        """Read a conversation."""
        found = self._conversations(f"{CONVERSATIONS} WHERE conversation_id = ?", [conversation_id])
        return found[0] if found else None

    def conversations(
        self, agent_id: str, user_id: str, limit: int, before: str | None
    ) -> list[Conversation]:
        """List conversations, the newest first: all, or those before the one of this id."""
        query = f"{CONVERSATIONS} WHERE {_PAIR}"
        values: list[object] = [agent_id, user_id]
        if before is not None:
            query += " AND (created_at, saved) < (SELECT created_at, saved FROM conversations"
            query += " WHERE conversation_id = ?)"
            values.append(before)
        query += " ORDER BY created_at DESC, saved DESC LIMIT ?"
        return self._conversations(query, [*values, max(limit, 0)])

    def _conversations(self, query: str, values: Sequence[object]) -> list[Conversation]:
        broken: list[Broken] = []
        with self._file.reading() as connection:
            rows = connection.execute(query, values)
            found = readable(rows, read_conversation, "conversations", broken)
        self._put_aside(broken)
        return found

    def waiting(self, agent_id: str, user_id: str, instance_id: str) -> list[Conversation]:
        """List a story's conversations that were not learned from, the oldest first."""
        query = f"{CONVERSATIONS} WHERE {_PAIR} AND waits_for = ? ORDER BY created_at, saved LIMIT 1000"
        return self._conversations(query, [agent_id, user_id, instance_id])

    def learned(self, agent_id: str, user_id: str, session_id: str) -> int:
        """Return the turn up to which a story's session was saved."""
        query = "SELECT last_turn FROM story_marks WHERE agent_id = ? AND user_id = ? AND session_id = ?"
        with self._file.reading() as connection:
            row = connection.execute(query, [agent_id, user_id, session_id]).fetchone()
        return int(row[0]) if row else 0

    # --- changes

    def commit(
        self,
        revised: Revised,
        conversation_id: str | None,
        result: Mapping[str, Any] | None,
        again: bool = False,
    ) -> bool:
        """Store a change and a result in one transaction, if the memory is still at the change's base version."""
        with self._file.writing() as connection:
            if conversation_id is not None and not (again and has_succeeded(result)):
                _check_unlearned(connection, conversation_id)
            if revised.change is not None and not _change(connection, revised.memory, revised.change):
                return False
            if conversation_id is not None and result is not None:
                query = (
                    "UPDATE conversations SET pipeline_result = ?, waits_for = iif(?, NULL, waits_for)"
                    " WHERE conversation_id = ?"
                )
                connection.execute(query, [worded(result), has_succeeded(result), conversation_id])
        return True

    def changes(self, agent_id: str, user_id: str, limit: int) -> list[Change]:
        """List changes, the newest first."""
        broken: list[Broken] = []
        with self._file.reading() as connection:
            query = f"{CHANGES} WHERE {_PAIR} ORDER BY version DESC LIMIT ?"
            rows = connection.execute(query, [agent_id, user_id, max(limit, 0)])
            found = readable(rows, read_change, "memory_changes", broken)
        self._put_aside(broken)
        return found


def _entry_rows(connection: sqlite3.Connection, memory_id: str, newest: int | None) -> Iterable[Row]:
    if newest is None:
        query = f"{ENTRIES} WHERE memory_id = ? ORDER BY content_type, position, content_id"
        return connection.execute(query, [memory_id])
    query = (
        f"{ENTRIES} WHERE memory_id = ? AND content_type = ? ORDER BY position DESC, content_id DESC LIMIT ?"
    )
    found = [
        connection.execute(query, [memory_id, kind, newest]).fetchall() for kind in sorted(CONTENT_TYPES)
    ]
    return [row for rows in found for row in reversed(rows)]


def _memory_id(connection: sqlite3.Connection, agent_id: str, user_id: str) -> str | None:
    query = "SELECT memory_id FROM memories WHERE agent_id = ? AND user_id = ?"
    row = connection.execute(query, [agent_id, user_id]).fetchone()
    return str(row[0]) if row else None


def _begun(
    connection: sqlite3.Connection, agent_id: str, user_id: str, at: str, named: str | None = None
) -> str:
    """Find the pair's memory, or begin it."""
    found = _memory_id(connection, agent_id, user_id)
    taken = connection.execute("SELECT 1 FROM memories WHERE memory_id = ?", [named]).fetchone()
    if taken and named != found:
        raise UserError("memory_id_taken", memory_id=named)
    if found is not None and named not in (None, found):
        raise UserError("memory_id_other", memory_id=found, agent_id=agent_id, user_id=user_id)
    if found is not None:
        return found
    memory_id, stamp = named or new_id(), new_stamp(connection)
    connection.execute(
        "INSERT INTO memories (memory_id, agent_id, user_id, created_at, updated_at) VALUES (?, ?, ?, ?, ?)",
        [memory_id, agent_id, user_id, at, at],
    )
    connection.execute("INSERT INTO memory_stamps VALUES (?, ?, ?)", [memory_id, stamp, stamp])
    return memory_id


def _known(
    connection: sqlite3.Connection,
    conversation: Conversation,
    memory_id: str,
    digest: str,
    broken: list[Broken],
) -> Conversation | None:
    """Find the conversation that was saved before, by what was said or by its id."""
    query = f"{CONVERSATIONS} WHERE (memory_id = ? AND digest = ?) OR conversation_id = ? ORDER BY digest = ? DESC"
    values = [memory_id, digest, conversation.conversation_id, digest]
    found = readable(connection.execute(query, values), read_conversation, "conversations", broken)
    if found and found[0].memory_id != memory_id:
        raise UserError("conversation_taken", conversation_id=conversation.conversation_id)
    return found[0] if found else None


def _insert(
    connection: sqlite3.Connection, conversation: Conversation, data: str, text: str, digest: str
) -> None:
    result = None if conversation.pipeline_result is None else worded(conversation.pipeline_result)
    connection.execute(
        "INSERT INTO conversations (conversation_id, agent_id, user_id, created_at, memory_id, session_id,"
        " digest, waits_for, pipeline_result, conversation_text, conversation_data)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            conversation.conversation_id,
            conversation.agent_id,
            conversation.user_id,
            conversation.created_at,
            conversation.memory_id,
            conversation.session_id,
            digest,
            waits_for(conversation),
            result,
            text,
            data,
        ],
    )
    query = "UPDATE memory_stamps SET conversations_stamp = ? WHERE memory_id = ?"
    connection.execute(query, [new_stamp(connection), conversation.memory_id])


def _check_unlearned(connection: sqlite3.Connection, conversation_id: str) -> None:
    query = "SELECT pipeline_result FROM conversations WHERE conversation_id = ?"
    row = connection.execute(query, [conversation_id]).fetchone()
    with suppress(ValueError, TypeError):  # what cannot be read is no success
        if row is not None and row[0] is not None and has_succeeded(json.loads(row[0])):
            raise LearnedBefore(conversation_id)


def _change(connection: sqlite3.Connection, memory: Memory, change: Change) -> bool:
    """Take the memory from one version to the next, writing only what is another."""
    moved = connection.execute(
        "UPDATE memories SET version = ?, updated_at = ? WHERE memory_id = ? AND version = ?",
        [change.version, memory.updated_at, memory.memory_id, change.version - 1],
    )
    if moved.rowcount == 0:
        query = "SELECT 1 FROM memory_changes WHERE change_id = ?"
        return connection.execute(query, [change.change_id]).fetchone() is not None
    query = "UPDATE memory_stamps SET entries_stamp = ? WHERE memory_id = ?"
    connection.execute(query, [new_stamp(connection), memory.memory_id])
    _write_steps(connection, memory.memory_id, change.steps)
    types: set[ContentType] = {step.entry.content_type for step in change.steps}
    list_entries(connection, memory.memory_id, types)
    connection.execute(
        "INSERT INTO memory_changes (change_id, memory_id, version, at, origin, conversation_id, undoes, steps)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            change.change_id,
            memory.memory_id,
            change.version,
            change.at,
            change.origin,
            change.conversation_id,
            change.undoes,
            worded([step.fields() for step in change.steps]),
        ],
    )
    return True


def _write_steps(connection: sqlite3.Connection, memory_id: str, steps: Iterable[Step]) -> None:
    for step in steps:
        if step.after is not None:
            connection.execute(_PUT_ENTRY, entry_row(memory_id, step.after))
        elif step.before is not None:
            values = [step.before.content_id, memory_id]
            connection.execute("DELETE FROM memory_contents WHERE content_id = ? AND memory_id = ?", values)
            entry_gone(connection, memory_id, step.before.content_id)
