"""Memories in PostgreSQL, in the source's tables, with one transaction per change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

from personalab.errors import Busy, UserError
from personalab.memory.changes import Change, Revised, Step
from personalab.memory.pipeline import has_succeeded
from personalab.memory.records import Conversation, Memory, new_id
from personalab.ports import LearnedBefore, MemoryName
from personalab.retrieval.memory.postgres_database import Connection, Database, migrate
from personalab.retrieval.memory.postgres_rows import (
    CHANGE,
    CONVERSATION,
    CREATED,
    ENTRY,
    UPDATED,
    entry_row,
    list_entries,
    read_change,
    read_conversation,
    read_entry,
    set_aside,
    worded,
)
from personalab.retrieval.memory.postgres_vectors import EXACT, PostgresFinding
from personalab.retrieval.memory.rows import Broken, readable, waits_for

_TRIES = 10
"""How often a memory is begun that someone else forgets at the same time."""
_PAIR = "memory_id = (select memory_id from memories where agent_id = %s and user_id = %s)"

_ALL = "memories left join memory_contents using (memory_id)"
_NEWEST = """
    memories left join lateral (
        select found.* from unnest(array['profile', 'event', 'mind']) as kind cross join lateral (
            select * from memory_contents as held
            where held.memory_id = memories.memory_id and held.content_type = kind
            order by held.position desc, held.content_id desc limit %s
        ) as found
    ) as told using (memory_id)
"""


class PostgresBackend(PostgresFinding):
    """Memories in a PostgreSQL database with the extension ``vector``."""

    def __init__(self, url: str, *, exact: int = EXACT) -> None:
        super().__init__(Database(url, migrate), exact)

    def exists(self) -> bool:
        """Return that there may be a memory: only the server could know."""
        return True

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    # --- memories

    def memories(self, limit: int, after: str) -> list[MemoryName]:
        """List memories by id."""
        rows = self._rows(
            f"select memory_id, agent_id, user_id, {UPDATED}, entry_count, conversation_count"  # noqa: S608
            " from memories where memory_id > %s order by memory_id limit %s",
            after,
            max(limit, 0),
        )
        return [MemoryName(*row) for row in rows]

    def memory(self, agent_id: str, user_id: str, newest: int | None = None) -> Memory | None:
        """Read a memory with its entries: all, or so many of each list, the newest."""
        source, values = (_ALL, []) if newest is None else (_NEWEST, [newest])
        rows = self._rows(
            f"select memory_id, agent_id, user_id, {CREATED}, {UPDATED}, version, {ENTRY} from {source}"  # noqa: S608
            " where agent_id = %s and user_id = %s order by content_type, position, content_id",
            *values,
            agent_id,
            user_id,
        )
        if not rows:
            return None
        told = [row[6:] for row in rows if row[6] is not None]
        entries = tuple(self._readable(told, read_entry, "memory_contents"))
        memory_id, agent_id, user_id, created, updated, version = rows[0][:6]
        return Memory(memory_id, agent_id, user_id, created, updated, entries, version)

    def forget(self, agent_id: str, user_id: str) -> bool:
        """Delete a memory and all that belongs to it but how far its stories were saved."""

        def delete(connection: Connection) -> bool:
            query = "delete from memories where agent_id = %s and user_id = %s"
            return connection.execute(query, [agent_id, user_id]).rowcount > 0

        return self._database.write(delete, repeatable=False)

    # --- conversations

    def begin(self, agent_id: str, user_id: str, now: str) -> None:
        """Create a pair's memory, if there is none yet."""
        self._database.write(lambda connection: _begun(connection, agent_id, user_id, now))

    def save_conversation(self, conversation: Conversation) -> Conversation:
        """Save a conversation, begin its memory, and note how far a story has been saved; in one transaction."""
        return self._database.write(lambda connection: _save(connection, conversation))

    def conversation(self, conversation_id: str) -> Conversation | None:
        """Read a conversation."""
        query = f"select {CONVERSATION} from conversations where conversation_id = %s"  # noqa: S608
        found = self._readable(self._rows(query, conversation_id), read_conversation, "conversations")
        return found[0] if found else None

    def conversations(
        self, agent_id: str, user_id: str, limit: int, before: str | None
    ) -> list[Conversation]:
        """List conversations, the newest first: all, or those before the one of this id."""
        query = f"select {CONVERSATION} from conversations where {_PAIR}"  # noqa: S608
        values: list[object] = [agent_id, user_id]
        if before is not None:
            query += " and (created_at, serial) < (select created_at, serial from conversations"
            query += " where conversation_id = %s)"
            values.append(before)
        query += " order by created_at desc, serial desc limit %s"
        rows = self._rows(query, *values, max(limit, 0))
        return self._readable(rows, read_conversation, "conversations")

    def waiting(self, agent_id: str, user_id: str, instance_id: str) -> list[Conversation]:
        """List a story's conversations that were not learned from, the oldest first."""
        query = (
            f"select {CONVERSATION} from conversations where {_PAIR} and waits_for = %s"  # noqa: S608
            " order by created_at, serial limit 1000"
        )
        return self._readable(
            self._rows(query, agent_id, user_id, instance_id), read_conversation, "conversations"
        )

    def learned(self, agent_id: str, user_id: str, session_id: str) -> int:
        """Return the turn up to which a story's session was saved."""
        row = self._row(
            "select last_turn from story_marks where agent_id = %s and user_id = %s and session_id = %s",
            agent_id,
            user_id,
            session_id,
        )
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

        def keep(connection: Connection) -> bool:
            if conversation_id is not None and not (again and has_succeeded(result)):
                _check_unlearned(connection, conversation_id)
            if revised.change is not None and not _change(connection, revised.memory, revised.change):
                return False
            if conversation_id is not None and result is not None:
                query = (
                    "update conversations set pipeline_result = %s::jsonb,"
                    " waits_for = case when not %s then waits_for end where conversation_id = %s"
                )
                connection.execute(query, [worded(result), has_succeeded(result), conversation_id])
            return True

        return self._database.write(keep)

    def changes(self, agent_id: str, user_id: str, limit: int) -> list[Change]:
        """List changes, the newest first."""
        query = f"select {CHANGE} from memory_changes where {_PAIR} order by version desc limit %s"  # noqa: S608
        rows = self._rows(query, agent_id, user_id, max(limit, 0))
        return self._readable(rows, read_change, "memory_changes")


# --- saving


def _save(connection: Connection, conversation: Conversation) -> Conversation:
    pair = (conversation.agent_id, conversation.user_id)
    memory_id = _begun(connection, *pair, conversation.created_at, conversation.memory_id)
    if conversation.story is not None:
        place = [*pair, conversation.session_id]
        connection.execute(
            "insert into story_marks (agent_id, user_id, session_id, last_turn) values (%s, %s, %s, %s)"
            " on conflict (agent_id, user_id, session_id) do update"
            " set last_turn = greatest(story_marks.last_turn, excluded.last_turn)",
            [*place, conversation.story.last_turn],
        )
    kept = replace(conversation, memory_id=memory_id)
    return _known(connection, kept) or _insert(connection, kept)


def _begun(connection: Connection, agent_id: str, user_id: str, at: str, named: str | None = None) -> str:
    """Find the pair's memory, or begin it, and hold it until all is saved."""
    pair = [agent_id, user_id]
    for _ in range(_TRIES):
        connection.execute(
            "insert into memories (memory_id, agent_id, user_id, created_at, updated_at)"
            " values (%s, %s, %s, %s::timestamp, %s::timestamp) on conflict do nothing",
            [named or new_id(), *pair, at, at],
        )
        rows = connection.execute(
            "select memory_id, agent_id = %s and user_id = %s from memories"
            " where memory_id = %s or (agent_id = %s and user_id = %s) order by memory_id for update",
            [*pair, named, *pair],
        ).fetchall()
        if any(memory_id == named and not is_theirs for memory_id, is_theirs in rows):
            raise UserError("memory_id_taken", memory_id=named)
        if rows and named not in (None, rows[0][0]):
            raise UserError("memory_id_other", memory_id=rows[0][0], agent_id=agent_id, user_id=user_id)
        if rows:
            return str(rows[0][0])
    raise Busy("memory_busy", agent_id=agent_id, user_id=user_id)


def _known(connection: Connection, conversation: Conversation) -> Conversation | None:
    """Find the conversation that was saved before, by what was said or by its id."""
    query = (
        f"select {CONVERSATION} from conversations"  # noqa: S608
        " where (memory_id = %s and same_as = %s) or conversation_id = %s order by same_as = %s desc"
    )
    said, broken = conversation.same_as(), list[Broken]()
    rows = connection.execute(
        query.encode(), [conversation.memory_id, said, conversation.conversation_id, said]
    ).fetchall()
    found = readable(rows, read_conversation, "conversations", broken)
    if found and found[0].memory_id != conversation.memory_id:
        raise UserError("conversation_taken", conversation_id=conversation.conversation_id)
    set_aside(connection, broken)
    return found[0] if found else None


def _insert(connection: Connection, conversation: Conversation) -> Conversation:
    result = conversation.pipeline_result
    made = connection.execute(
        "insert into conversations (conversation_id, agent_id, user_id, created_at, conversation_data,"
        " pipeline_result, memory_id, session_id, waits_for, same_as)"
        " values (%s, %s, %s, %s::timestamp, %s::jsonb, %s::jsonb, %s, %s, %s, %s) on conflict do nothing",
        [
            conversation.conversation_id,
            conversation.agent_id,
            conversation.user_id,
            conversation.created_at,
            worded(conversation.data()),
            None if result is None else worded(result),
            conversation.memory_id,
            conversation.session_id,
            waits_for(conversation),
            conversation.same_as(),
        ],
    )
    if made.rowcount == 0:
        # Within this memory no one else saves now: the id was taken for another one just now.
        raise UserError("conversation_taken", conversation_id=conversation.conversation_id)
    connection.execute(
        "update memories set conversation_count = conversation_count + 1,"
        " conversations_stamp = nextval('memory_stamps') where memory_id = %s",
        [conversation.memory_id],
    )
    return conversation


def _check_unlearned(connection: Connection, conversation_id: str) -> None:
    query = "select pipeline_result from conversations where conversation_id = %s for update"
    row = connection.execute(query, [conversation_id]).fetchone()
    if row is not None and isinstance(row[0], dict) and has_succeeded(cast("dict[str, Any]", row[0])):
        raise LearnedBefore(conversation_id)


def _change(connection: Connection, memory: Memory, change: Change) -> bool:
    """Take the memory from one version to the next, writing only what is another."""
    moved = connection.execute(
        "update memories set version = %s, updated_at = %s::timestamp, entries_stamp = nextval('memory_stamps')"
        " where memory_id = %s and version = %s",
        [change.version, memory.updated_at, memory.memory_id, change.version - 1],
    )
    if moved.rowcount == 0:
        query = "select from memory_changes where change_id = %s"
        return connection.execute(query, [change.change_id]).rowcount > 0
    _write_steps(connection, memory.memory_id, change.steps)
    touched = [entry for step in change.steps for entry in (step.before, step.after) if entry]
    list_entries(connection, memory.memory_id, {entry.content_type: 0 for entry in touched})
    connection.execute(
        "insert into memory_changes (change_id, memory_id, version, changed_at, origin, steps, conversation_id,"
        " undoes) values (%s, %s, %s, %s::timestamp, %s, %s::jsonb, %s, %s)",
        [
            change.change_id,
            memory.memory_id,
            change.version,
            change.at,
            change.origin,
            worded([step.fields() for step in change.steps]),
            change.conversation_id,
            change.undoes,
        ],
    )
    return True


def _write_steps(connection: Connection, memory_id: str, steps: Iterable[Step]) -> None:
    """Write the entries that are another; one whose text stays keeps its vector."""
    steps = list(steps)
    gone = [step.entry.content_id for step in steps if step.after is None]
    if gone:
        query = "delete from memory_contents where content_id = any(%s) and memory_id = %s"
        connection.execute(query, [gone, memory_id])
    written = [entry_row(memory_id, step.after) for step in steps if step.after is not None]
    if written:
        connection.cursor().executemany(
            "insert into memory_contents as old"
            " (content_id, memory_id, content_type, position, content_text, content_data)"
            " values (%s, %s, %s, %s, %s, %s::jsonb) on conflict (content_id) do update set"
            " content_type = excluded.content_type, content_data = excluded.content_data,"
            " content_text = excluded.content_text, position = excluded.position, content_vector ="
            " case when old.content_text = excluded.content_text then old.content_vector end"
            " where old.memory_id = excluded.memory_id",
            written,
        )
