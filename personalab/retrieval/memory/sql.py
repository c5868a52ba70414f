"""Records of memories in SQL, as SQLite and PostgreSQL share it.

Statements are in the SQL both understand, with ``?`` for a value; a database says in its class attributes what
it words differently, and in its hooks how it keeps lists, counts, stamps and vectors in step.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol, TypeVar, cast

from personalab.errors import BadRecord, Because, Busy, Reason, UserError, as_reason
from personalab.memory.changes import Change, MemoryRevision, Origin, Step
from personalab.memory.records import (
    CONTENT_TYPES,
    ContentType,
    Conversation,
    Memory,
    MemoryEntry,
    clean_json,
    has_succeeded,
    new_id,
)
from personalab.ports import LearnedBefore, MemoryName
from personalab.retrieval.memory.store import MemoryVersion, SearchableText, TextKind

Row = tuple[Any, ...]
Table = Literal["memory_contents", "conversations", "memory_changes"]
_T = TypeVar("_T")

_TRIES = 10
"""How often a memory is begun that someone else forgets at the same time."""
_MAX_WAITING = 1_000
_ENTRY = "content_id, content_type, content_text, position, content_data"
_PAIR = "memory_id = (SELECT memory_id FROM memories WHERE agent_id = ? AND user_id = ?)"
_MARK = (
    "INSERT INTO story_marks (agent_id, user_id, session_id, last_turn) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (agent_id, user_id, session_id) DO UPDATE SET last_turn = excluded.last_turn"
    " WHERE story_marks.last_turn < excluded.last_turn"
)
_NEWEST = " UNION ALL ".join(
    f"SELECT * FROM (SELECT memory_id, {_ENTRY} FROM memory_contents WHERE {_PAIR} AND content_type = '{kind}'"
    f" ORDER BY position DESC, content_id DESC LIMIT ?) AS {kind}_entries"
    for kind in CONTENT_TYPES
)
_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)

_log = logging.getLogger("personalab.memory")


class SqlResult(Protocol):
    """What a statement gave."""

    @property
    def rowcount(self) -> int:
        """How many rows it changed."""
        ...

    def fetchone(self) -> Any:
        """Return the next row."""
        ...

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""
        ...


class SqlSession(Protocol):
    """A connection that reads one state, or writes one transaction."""

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> SqlResult:
        """Run a statement."""
        ...

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> object:
        """Run a statement once for each row of values."""
        ...


@dataclass(frozen=True, slots=True)
class UnreadableRow:
    """A row that cannot be read."""

    table: Table
    row_id: str
    reason: Because


class SqlRecords:
    """The records of a ``Backend``; a database adds connections, hooks and vectors."""

    created: ClassVar[str] = "created_at"
    updated: ClassVar[str] = "updated_at"
    changed_at: ClassVar[str] = "changed_at"
    """The columns of times as text; ``changed_column`` is where a change's is kept."""
    changed_column: ClassVar[str] = "changed_at"
    saved_order: ClassVar[str]
    """The column that counts conversations as they are saved."""
    digest: ClassVar[str]
    """The column of ``Conversation.same_as``."""
    conversation_text: ClassVar[str]
    """What a conversation is found by."""
    counts: ClassVar[str]
    """How many entries and conversations a memory has."""
    stamped: ClassVar[str]
    """The memories with their stamps."""
    vector_kept: ClassVar[str]
    """The assignment that keeps an entry's vector if its text stays."""
    for_update: ClassVar[str] = ""

    # --- what a database adds

    def _read(self, work: Callable[[SqlSession], _T]) -> _T:
        """Read one state of the database, with one statement."""
        raise NotImplementedError

    def _write(self, work: Callable[[SqlSession], _T], *, repeatable: bool = True) -> _T:
        """Work in one transaction; what is not ``repeatable`` is not done again if it may have been kept."""
        raise NotImplementedError

    def _entries_changed(self, session: SqlSession, memory_id: str, types: Iterable[ContentType]) -> None:
        """Update a memory's lists of strings, its count of entries and their stamp."""
        raise NotImplementedError

    def _conversations_changed(self, session: SqlSession, memory_id: str, added: int) -> None:
        """Update a memory's count of conversations and their stamp."""
        raise NotImplementedError

    def _memory_added(self, session: SqlSession, memory_id: str) -> None:
        """Give a new memory its stamps."""

    def _entries_removed(self, session: SqlSession, memory_id: str, content_ids: Sequence[str]) -> None:
        """Note that the vectors of these entries are to go."""

    def _memory_removed(self, session: SqlSession, memory_id: str) -> None:
        """Note that all vectors of a memory are to go."""

    def _conversation_columns(self, conversation: Conversation) -> dict[str, object]:
        """Return further columns of a conversation."""
        return {}

    def _take_out(self, session: SqlSession, row: UnreadableRow) -> Mapping[str, Any] | None:
        """Delete a row and keep it in ``set_aside``; ``None`` where it is gone by now."""
        raise NotImplementedError

    # --- memories

    def memories(self, limit: int, after: str) -> list[MemoryName]:
        """List memories by id."""
        query = (
            f"SELECT memory_id, agent_id, user_id, {self.updated}, {self.counts}"
            " FROM memories WHERE memory_id > ? ORDER BY memory_id LIMIT ?"
        )
        return [MemoryName(*row) for row in self._rows(query, after, max(limit, 0))]

    def memory(self, agent_id: str, user_id: str, newest: int | None = None) -> Memory | None:
        """Read a memory with its entries: all, or so many of each list, the newest."""
        pair = (agent_id, user_id)
        entries, values = "memory_contents", list[object]()
        if newest is not None:
            entries, values = f"({_NEWEST}) AS held", [*pair, newest] * len(CONTENT_TYPES)
        rows = self._rows(
            f"SELECT memory_id, agent_id, user_id, {self.created}, {self.updated}, version, {_ENTRY}"
            f" FROM memories LEFT JOIN {entries} USING (memory_id) WHERE agent_id = ? AND user_id = ?"
            " ORDER BY content_type, position, content_id",
            *values,
            *pair,
        )
        if not rows:
            return None
        held = [row[6:] for row in rows if row[6] is not None]
        found = self._readable(held, _entry_of, "memory_contents")
        memory_id, agent_id, user_id, created_at, updated_at, version = rows[0][:6]
        return Memory(memory_id, agent_id, user_id, created_at, updated_at, tuple(found), version)

    def version(self, agent_id: str, user_id: str) -> MemoryVersion | None:
        """Find a memory without reading it."""
        query = (
            f"SELECT memory_id, entries_stamp, conversations_stamp FROM {self.stamped}"
            " WHERE agent_id = ? AND user_id = ?"
        )
        rows = self._rows(query, agent_id, user_id)
        return MemoryVersion(*rows[0]) if rows else None

    def texts(self, kind: TextKind, memory_id: str) -> list[SearchableText]:
        """Read what a memory's entries or conversations are found by, always in the same order."""
        query = (
            "SELECT content_id, content_type, content_text FROM memory_contents WHERE memory_id = ?"
            " ORDER BY content_type, position, content_id"
            if kind == "entries"
            else f"SELECT conversation_id, '', {self.conversation_text} FROM conversations"
            f" WHERE memory_id = ? ORDER BY {self.saved_order}"
        )
        return [SearchableText._make(row) for row in self._rows(query, memory_id) if isinstance(row[2], str)]

    def entries(self, memory_id: str, content_ids: Sequence[str]) -> list[MemoryEntry]:
        """Read some entries, as far as they are there."""
        if not content_ids:
            return []
        # Not the column alone: the database looks up the ids rather than going through the memory.
        query = (
            f"SELECT {_ENTRY} FROM memory_contents WHERE coalesce(memory_id, '') = ?"
            f" AND content_id IN ({', '.join('?' * len(content_ids))})"
        )
        return self._readable(self._rows(query, memory_id, *content_ids), _entry_of, "memory_contents")

    def forget(self, agent_id: str, user_id: str) -> bool:
        """Delete a memory and all that belongs to it but how far its stories were saved."""

        def delete(session: SqlSession) -> bool:
            query = "DELETE FROM memories WHERE agent_id = ? AND user_id = ? RETURNING memory_id"
            gone = session.execute(query, [agent_id, user_id]).fetchall()
            for (memory_id,) in gone:
                self._memory_removed(session, memory_id)
            return bool(gone)

        return self._write(delete, repeatable=False)

    def begin(self, agent_id: str, user_id: str, now: str) -> None:
        """Create a pair's memory, if there is none yet."""
        self._write(lambda session: self._begin(session, agent_id, user_id, now))

    def _begin(
        self, session: SqlSession, agent_id: str, user_id: str, at: str, named: str | None = None
    ) -> str:
        """Find the pair's memory, or create it, and hold it until the transaction ends."""
        pair = (agent_id, user_id)
        for _ in range(_TRIES):
            memory_id = named or new_id()
            made = session.execute(
                "INSERT INTO memories (memory_id, agent_id, user_id, created_at, updated_at)"
                " VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                [memory_id, *pair, at, at],
            )
            if made.rowcount > 0:
                self._memory_added(session, memory_id)
            rows = session.execute(
                "SELECT memory_id, agent_id = ? AND user_id = ? FROM memories"
                f" WHERE memory_id = ? OR (agent_id = ? AND user_id = ?) ORDER BY memory_id{self.for_update}",
                [*pair, named, *pair],
            ).fetchall()
            if any(found == named and not is_theirs for found, is_theirs in rows):
                raise UserError("memory_id_taken", memory_id=named)
            if rows and named not in (None, rows[0][0]):
                raise UserError("memory_id_other", memory_id=rows[0][0], agent_id=agent_id, user_id=user_id)
            if rows:
                return str(rows[0][0])
        raise Busy("memory_busy", agent_id=agent_id, user_id=user_id)

    # --- conversations

    @property
    def _conversation(self) -> str:
        columns = (
            f"conversation_id, agent_id, user_id, {self.created}, memory_id, session_id, pipeline_result"
        )
        return f"SELECT {columns}, conversation_data FROM conversations"

    def save_conversation(self, conversation: Conversation) -> Conversation:
        """Save a conversation, begin its memory, and note how far a story has been saved; in one transaction."""

        def save(session: SqlSession) -> Conversation:
            pair = (conversation.agent_id, conversation.user_id)
            memory_id = self._begin(session, *pair, conversation.created_at, conversation.memory_id)
            if conversation.story is not None:
                session.execute(_MARK, [*pair, conversation.session_id, conversation.story.last_turn])
            fresh = replace(conversation, memory_id=memory_id)
            return self._saved_before(session, fresh) or self._insert(session, fresh)

        return self._write(save)

    def _saved_before(self, session: SqlSession, conversation: Conversation) -> Conversation | None:
        """Find the conversation that was saved before, by what was said or by its id."""
        query = (
            f"{self._conversation} WHERE (memory_id = ? AND {self.digest} = ?) OR conversation_id = ?"
            f" ORDER BY {self.digest} = ? DESC"
        )
        digest = conversation.same_as()
        values = [conversation.memory_id, digest, conversation.conversation_id, digest]
        broken: list[UnreadableRow] = []
        rows = session.execute(query, values).fetchall()
        found = _readable(rows, _conversation_of, "conversations", broken)
        if found and found[0].memory_id != conversation.memory_id:
            raise UserError("conversation_taken", conversation_id=conversation.conversation_id)
        self._set_aside(session, broken)
        return found[0] if found else None

    def _insert(self, session: SqlSession, conversation: Conversation) -> Conversation:
        result, memory_id = conversation.pipeline_result, str(conversation.memory_id)
        columns: dict[str, object] = {
            "conversation_id": conversation.conversation_id,
            "agent_id": conversation.agent_id,
            "user_id": conversation.user_id,
            "created_at": conversation.created_at,
            "memory_id": memory_id,
            "session_id": conversation.session_id,
            self.digest: conversation.same_as(),
            "waits_for": conversation.waits_for,
            "pipeline_result": None if result is None else to_json(result),
            "conversation_data": to_json(conversation.data()),
            **self._conversation_columns(conversation),
        }
        marks = ", ".join("?" * len(columns))
        statement = (
            f"INSERT INTO conversations ({', '.join(columns)}) VALUES ({marks}) ON CONFLICT DO NOTHING"
        )
        if session.execute(statement, list(columns.values())).rowcount == 0:
            # Within this memory no one else saves now: the id was taken for another one just now.
            raise UserError("conversation_taken", conversation_id=conversation.conversation_id)
        self._conversations_changed(session, memory_id, 1)
        return conversation

    def conversation(self, conversation_id: str) -> Conversation | None:
        """Read a conversation."""
        found = self._conversations("conversation_id = ?", conversation_id)
        return found[0] if found else None

    def conversations(
        self, agent_id: str, user_id: str, limit: int, before: str | None
    ) -> list[Conversation]:
        """List conversations, the newest first: all, or those before the one of this id."""
        where, values, order = _PAIR, list[object]([agent_id, user_id]), self.saved_order
        if before is not None:
            where += (
                f" AND (created_at, {order}) <"
                f" (SELECT created_at, {order} FROM conversations WHERE conversation_id = ?)"
            )
            values.append(before)
        where += f" ORDER BY created_at DESC, {order} DESC LIMIT ?"
        return self._conversations(where, *values, max(limit, 0))

    def waiting(self, agent_id: str, user_id: str, instance_id: str) -> list[Conversation]:
        """List a story's conversations that were not learned from, the oldest first."""
        where = f"{_PAIR} AND waits_for = ? ORDER BY created_at, {self.saved_order} LIMIT {_MAX_WAITING}"
        return self._conversations(where, agent_id, user_id, instance_id)

    def _conversations(self, where: str, *values: object) -> list[Conversation]:
        rows = self._rows(f"{self._conversation} WHERE {where}", *values)
        return self._readable(rows, _conversation_of, "conversations")

    def learned(self, agent_id: str, user_id: str, session_id: str) -> int:
        """Return the turn up to which a story's session was saved."""
        query = "SELECT last_turn FROM story_marks WHERE agent_id = ? AND user_id = ? AND session_id = ?"
        rows = self._rows(query, agent_id, user_id, session_id)
        return int(rows[0][0]) if rows else 0

    # --- changes

    def commit(
        self,
        revised: MemoryRevision,
        conversation_id: str | None,
        result: Mapping[str, Any] | None,
        again: bool = False,
    ) -> bool:
        """Store a change and a result in one transaction, if the memory is still at the change's base version."""

        def keep(session: SqlSession) -> bool:
            if conversation_id is not None and not (again and has_succeeded(result)):
                self._check_unlearned(session, conversation_id)
            if revised.change is not None and not self._change(session, revised.memory, revised.change):
                return False
            if conversation_id is not None and result is not None:
                query = (
                    "UPDATE conversations SET pipeline_result = ?,"
                    " waits_for = CASE WHEN NOT ? THEN waits_for END WHERE conversation_id = ?"
                )
                session.execute(query, [to_json(result), has_succeeded(result), conversation_id])
            return True

        return self._write(keep)

    def _check_unlearned(self, session: SqlSession, conversation_id: str) -> None:
        query = f"SELECT pipeline_result FROM conversations WHERE conversation_id = ?{self.for_update}"
        row = session.execute(query, [conversation_id]).fetchone()
        with suppress(*_UNREADABLE):  # what cannot be read is no success
            if row is not None and row[0] is not None and has_succeeded(_object(row[0])):
                raise LearnedBefore(conversation_id)

    def _change(self, session: SqlSession, memory: Memory, change: Change) -> bool:
        """Take the memory from one version to the next, writing only what is another."""
        moved = session.execute(
            "UPDATE memories SET version = ?, updated_at = ? WHERE memory_id = ? AND version = ?",
            [change.version, memory.updated_at, memory.memory_id, change.version - 1],
        )
        if moved.rowcount == 0:
            query = "SELECT 1 FROM memory_changes WHERE change_id = ?"
            return session.execute(query, [change.change_id]).fetchone() is not None
        self._write_steps(session, memory.memory_id, change.steps)
        touched = [entry for step in change.steps for entry in (step.before, step.after) if entry]
        self._entries_changed(session, memory.memory_id, sorted({entry.content_type for entry in touched}))
        session.execute(
            f"INSERT INTO memory_changes (change_id, memory_id, version, {self.changed_column}, origin,"
            " conversation_id, undoes, steps) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                change.change_id,
                memory.memory_id,
                change.version,
                change.at,
                change.origin,
                change.conversation_id,
                change.undoes,
                to_json([step.fields() for step in change.steps]),
            ],
        )
        return True

    def _write_steps(self, session: SqlSession, memory_id: str, steps: Sequence[Step]) -> None:
        """Write the entries that are another; one whose text stays keeps its vector."""
        gone = [step.entry.content_id for step in steps if step.after is None]
        if gone:
            query = "DELETE FROM memory_contents WHERE content_id = ? AND memory_id = ?"
            session.executemany(query, [(content_id, memory_id) for content_id in gone])
            self._entries_removed(session, memory_id, gone)
        written = [_entry_row(memory_id, step.after) for step in steps if step.after is not None]
        if written:
            session.executemany(
                "INSERT INTO memory_contents"
                " (content_id, memory_id, content_type, position, content_text, content_data)"
                " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (content_id) DO UPDATE SET"
                f" content_type = excluded.content_type, position = excluded.position, {self.vector_kept},"
                " content_text = excluded.content_text, content_data = excluded.content_data"
                " WHERE memory_contents.memory_id = excluded.memory_id",
                written,
            )

    def changes(self, agent_id: str, user_id: str, limit: int) -> list[Change]:
        """List changes, the newest first."""
        query = (
            f"SELECT change_id, memory_id, version, {self.changed_at}, origin, steps, conversation_id, undoes"
            f" FROM memory_changes WHERE {_PAIR} ORDER BY version DESC LIMIT ?"
        )
        return self._readable(
            self._rows(query, agent_id, user_id, max(limit, 0)), _change_of, "memory_changes"
        )

    # --- rows

    def _rows(self, query: str, *values: object) -> list[Row]:
        return self._read(lambda session: session.execute(query, values).fetchall())

    def _readable(self, rows: Iterable[Row], read: Callable[[Row], _T], table: Table) -> list[_T]:
        """Read rows; those that cannot be read are moved out of the way."""
        broken: list[UnreadableRow] = []
        found = _readable(rows, read, table, broken)
        if broken:
            self._write(lambda session: self._set_aside(session, broken))
        return found

    def _set_aside(self, session: SqlSession, broken: Iterable[UnreadableRow]) -> None:
        """Move rows that cannot be read out of the way; none is lost."""
        for row in broken:
            whole = self._take_out(session, row)
            if whole is None:
                continue
            memory_id = str(whole["memory_id"])
            self._entries_changed(session, memory_id, CONTENT_TYPES)
            self._conversations_changed(session, memory_id, -(row.table == "conversations"))
            _log.warning("a row of %s was set aside: %s: %s", row.table, row.row_id, row.reason)


def to_json(value: object) -> str:
    """Write a JSON value."""
    return json.dumps(clean_json(value), ensure_ascii=False, separators=(",", ":"))


def _readable(
    rows: Iterable[Row], read: Callable[[Row], _T], table: Table, broken: list[UnreadableRow]
) -> list[_T]:
    """Read rows, the first column being their id; those that cannot be read are noted."""
    records: list[_T] = []
    for row in rows:
        try:
            records.append(read(row))
        except _UNREADABLE as error:
            broken.append(UnreadableRow(table, str(row[0]), as_reason(error)))
    return records


def _entry_row(memory_id: str, entry: MemoryEntry) -> Row:
    data = {
        "created_at": entry.created_at,
        "updated_at": entry.updated_at,
        "sources": [source.fields() for source in entry.sources],
    }
    return entry.content_id, memory_id, entry.content_type, entry.position, entry.text, to_json(data)


def _entry_of(row: Row) -> MemoryEntry:
    content_id, content_type, text, position, data = row
    columns = {"content_id": content_id, "content_type": content_type, "text": text, "position": position}
    return MemoryEntry.read({**_object(data), **columns})


def _conversation_of(row: Row) -> Conversation:
    names = ("conversation_id", "agent_id", "user_id", "created_at", "memory_id", "session_id")
    columns = dict(zip(names, row[:6], strict=True))
    result = None if row[6] is None else _object(row[6])
    return Conversation.read({**_object(row[7]), **columns, "pipeline_result": result})


def _change_of(row: Row) -> Change:
    change_id, memory_id, version, at, origin, steps, conversation_id, undoes = row
    read = tuple(Step.read(step) for step in _json(steps))
    names = (str(change_id), str(memory_id), int(version), str(at), cast("Origin", origin))
    return Change(*names, read, conversation_id, undoes)


def _json(value: Any) -> Any:
    """Return a JSON value: PostgreSQL gives it read, SQLite as text."""
    return json.loads(value) if isinstance(value, str | bytes) else value


def _object(value: Any) -> Mapping[str, Any]:
    found = _json(value)
    if not isinstance(found, dict):
        raise BadRecord("bad_record", field="data", reason=Reason("not_object"))
    return cast("dict[str, Any]", found)
