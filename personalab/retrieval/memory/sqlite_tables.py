"""Tables and migrations of the SQLite database of memories.

The tables are the source's three, with additional columns; JSON is stored as text. Each migration runs once.
"""

from __future__ import annotations

_FIRST = (
    """
    CREATE TABLE memories (
        memory_id TEXT PRIMARY KEY,
        agent_id TEXT NOT NULL,
        user_id TEXT NOT NULL,
        created_at TEXT NOT NULL,
        updated_at TEXT NOT NULL,
        version INTEGER NOT NULL DEFAULT 0,
        profile_content TEXT NOT NULL DEFAULT '[]',
        event_content TEXT NOT NULL DEFAULT '[]',
        mind_content TEXT NOT NULL DEFAULT '[]',
        UNIQUE (agent_id, user_id)
    )
    """,
    # Apart, because a row is written whole, and a memory's lists may be long.
    """
    CREATE TABLE memory_stamps (
        memory_id TEXT PRIMARY KEY REFERENCES memories ON DELETE CASCADE,
        entries_stamp INTEGER NOT NULL,
        conversations_stamp INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE memory_contents (
        content_id TEXT PRIMARY KEY,
        memory_id TEXT NOT NULL REFERENCES memories ON DELETE CASCADE,
        content_type TEXT NOT NULL,
        position INTEGER NOT NULL,
        vector_epoch INTEGER NOT NULL DEFAULT 0,
        content_text TEXT NOT NULL,
        content_data TEXT NOT NULL
    )
    """,
    "CREATE INDEX contents_in_order ON memory_contents (memory_id, content_type, position, content_id)",
    "CREATE INDEX contents_by_vector ON memory_contents (memory_id, vector_epoch)",
    "CREATE INDEX contents_waiting ON memory_contents (vector_epoch)",
    """
    CREATE TABLE conversations (
        saved INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation_id TEXT NOT NULL UNIQUE,
        agent_id TEXT NOT NULL,
        user_id TEXT NOT NULL,
        created_at TEXT NOT NULL,
        memory_id TEXT NOT NULL REFERENCES memories ON DELETE CASCADE,
        session_id TEXT NOT NULL,
        digest TEXT NOT NULL,
        vector_epoch INTEGER NOT NULL DEFAULT 0,
        waits_for TEXT,
        pipeline_result TEXT,
        conversation_text TEXT NOT NULL,
        conversation_data TEXT NOT NULL,
        UNIQUE (memory_id, digest)
    )
    """,
    "CREATE INDEX conversations_in_order ON conversations (memory_id, created_at, saved)",
    "CREATE INDEX conversations_by_vector ON conversations (memory_id, vector_epoch)",
    "CREATE INDEX conversations_waiting ON conversations (vector_epoch)",
    # The story whose character has not learned from it yet.
    "CREATE INDEX conversations_unlearned ON conversations (memory_id, waits_for) WHERE waits_for IS NOT NULL",
    """
    CREATE TABLE memory_changes (
        change_id TEXT PRIMARY KEY,
        memory_id TEXT NOT NULL REFERENCES memories ON DELETE CASCADE,
        version INTEGER NOT NULL,
        at TEXT NOT NULL,
        origin TEXT NOT NULL,
        conversation_id TEXT,
        undoes TEXT,
        steps TEXT NOT NULL,
        UNIQUE (memory_id, version)
    )
    """,
    """
    CREATE TABLE story_marks (
        agent_id TEXT NOT NULL,
        user_id TEXT NOT NULL,
        session_id TEXT NOT NULL,
        last_turn INTEGER NOT NULL,
        PRIMARY KEY (agent_id, user_id, session_id)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE set_aside (
        number INTEGER PRIMARY KEY,
        at TEXT NOT NULL,
        table_name TEXT NOT NULL,
        row_id TEXT NOT NULL,
        reason TEXT NOT NULL,
        row TEXT NOT NULL
    )
    """,
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID",
    "CREATE TABLE vector_stamps (collection TEXT PRIMARY KEY, stamp INTEGER NOT NULL) WITHOUT ROWID",
    """
    CREATE TABLE vectors_gone (
        collection TEXT NOT NULL,
        id TEXT NOT NULL,
        PRIMARY KEY (collection, id)
    ) WITHOUT ROWID
    """,
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_FIRST,)
"""The place of a migration is the ``user_version`` it leads to."""
