"""Schema migrations of PostgreSQL.

Migrations are numbered and each runs once, completely. The first process runs them, the others wait for it.
The tables are the source's; additional data is in further columns and tables.
"""

from __future__ import annotations

from typing import LiteralString

from personalab.errors import StorageError
from personalab.retrieval.memory.connections import Connection

DIMENSION = 1536
"""The source's, until an embedder of another one comes."""
INDEXABLE = 2_000
"""pgvector's HNSW takes no longer vectors,"""
INDEXABLE_HALVED = 4_000
"""but these if each number is halved to 16 bits; still longer ones are compared one by one."""
MAX_DIMENSION = 16_000
LOCK = 5_717_482_120_311
"""Held while tables change; any number that no one else uses."""

TABLES: tuple[tuple[str, str], ...] = (
    ("memory_contents", "content_vector"),
    ("conversations", "conversation_vector"),
)

_FIRST: LiteralString = """
create sequence memory_stamps;

create table memories (
    memory_id text collate "C" primary key,
    agent_id text collate "C" not null,
    user_id text collate "C" not null,
    created_at timestamp not null,
    updated_at timestamp not null,
    profile_content jsonb not null default '[]',
    event_content jsonb not null default '[]',
    mind_content jsonb not null default '[]',
    version bigint not null default 0,
    entry_count bigint not null default 0,
    conversation_count bigint not null default 0,
    entries_stamp bigint not null default nextval('memory_stamps'),
    conversations_stamp bigint not null default nextval('memory_stamps'),
    constraint one_memory_for_each_pair unique (agent_id, user_id)
);

create table memory_contents (
    content_id text collate "C" primary key,
    memory_id text collate "C" not null references memories on delete cascade,
    content_type text collate "C" not null check (content_type in ('profile', 'event', 'mind')),
    content_data jsonb not null,
    content_text text not null,
    content_vector vector(1536),
    position bigint not null
);
create index memory_contents_of on memory_contents (memory_id, content_type, position, content_id);
create index memory_contents_waiting on memory_contents (memory_id, content_id) where content_vector is null;

create table conversations (
    conversation_id text collate "C" primary key,
    agent_id text collate "C" not null,
    user_id text collate "C" not null,
    created_at timestamp not null,
    conversation_data jsonb not null,
    pipeline_result jsonb,
    memory_id text collate "C" not null references memories on delete cascade,
    session_id text collate "C" not null,
    conversation_vector vector(1536),
    waits_for text collate "C",
    same_as text collate "C" not null,
    serial bigint generated always as identity,
    constraint one_of_each_conversation unique (memory_id, same_as)
);
create index conversations_of on conversations (memory_id, created_at, serial);
create index conversations_unlearned on conversations (memory_id, waits_for) where waits_for is not null;
create index conversations_waiting on conversations (memory_id, serial) where conversation_vector is null;

create table memory_changes (
    change_id text collate "C" primary key,
    memory_id text collate "C" not null references memories on delete cascade,
    version bigint not null,
    changed_at timestamp not null,
    origin text not null,
    steps jsonb not null,
    conversation_id text collate "C",
    undoes text collate "C",
    constraint one_change_for_each_version unique (memory_id, version)
);

create table story_marks (
    agent_id text collate "C" not null,
    user_id text collate "C" not null,
    session_id text collate "C" not null,
    last_turn bigint not null,
    primary key (agent_id, user_id, session_id)
);

create table set_aside (
    number bigint generated always as identity primary key,
    set_aside_at timestamp not null default (now() at time zone 'UTC'),
    table_name text not null,
    row_id text not null,
    reason text not null,
    record jsonb not null
);

create table vector_space (
    single boolean primary key default true check (single),
    embedder text not null,
    dimension bigint not null
);
insert into vector_space (embedder, dimension) values ('', 1536);

-- A vector stands in its row as long as that fits a page: fetching each from elsewhere takes longer than comparing it.
alter table memory_contents set (toast_tuple_target = 8160);
alter table conversations set (toast_tuple_target = 8160);

create index memory_contents_near on memory_contents using hnsw (content_vector vector_cosine_ops);
create index conversations_near on conversations using hnsw (conversation_vector vector_cosine_ops);
"""

MIGRATIONS: tuple[LiteralString, ...] = (_FIRST,)
_OLDEST_VECTOR = (0, 8)
"""Since then a search that is filtered goes on until it has found enough."""


def migrate(connection: Connection, where: str) -> None:
    """Migrate the tables to this version's schema."""
    if _version(connection, where) == len(MIGRATIONS):
        return
    with connection.transaction():
        connection.execute("select pg_advisory_xact_lock(%s)", [LOCK])
        _need_vector(connection, where)
        connection.execute(
            "create table if not exists schema_migrations ("
            "version bigint primary key, applied_at timestamp not null default (now() at time zone 'UTC'))"
        )
        for number in range(_version(connection, where), len(MIGRATIONS)):
            connection.execute(MIGRATIONS[number])
            connection.execute("insert into schema_migrations (version) values (%s)", [number + 1])


def _version(connection: Connection, where: str) -> int:
    """Read how far the tables are; those of a newer version are none of ours."""
    if not has_table(connection, "schema_migrations"):
        return 0
    row = connection.execute("select coalesce(max(version), 0) from schema_migrations").fetchone()
    found = int(row[0]) if row else 0
    if found > len(MIGRATIONS):
        raise StorageError("database_newer", where=where, found=found, known=len(MIGRATIONS))
    return found


def has_table(connection: Connection, name: str) -> bool:
    """Return whether a table exists in the schema that is searched."""
    row = connection.execute("select to_regclass(%s) is not null", [name]).fetchone()
    return bool(row and row[0])


def _need_vector(connection: Connection, where: str) -> None:
    import psycopg

    found = _vector(connection)
    if found is None:
        try:
            with connection.transaction():
                connection.execute("create extension if not exists vector")
        except (psycopg.errors.InsufficientPrivilege, psycopg.NotSupportedError) as error:
            raise StorageError("database_no_vector", where=where) from error
        except psycopg.errors.UndefinedFile as error:
            raise StorageError("database_no_vector", where=where) from error
        found = _vector(connection) or ""
    if tuple(int(part) for part in found.split(".")[:2] if part.isdigit()) < _OLDEST_VECTOR:
        raise StorageError("database_old_vector", where=where, version=found)


def _vector(connection: Connection) -> str | None:
    row = connection.execute("select extversion from pg_extension where extname = 'vector'").fetchone()
    return str(row[0]) if row else None


def remake_vectors(connection: Connection, dimension: int) -> None:
    """Drop all vectors and give their columns another dimension, and an index where one can be."""
    from psycopg.sql import SQL, Identifier, Literal

    for table, column in TABLES:
        names = {"table": Identifier(table), "column": Identifier(column), "n": Literal(dimension)}
        index = Identifier(f"{table}_near")
        connection.execute(SQL("drop index if exists {}").format(index))
        connection.execute(
            SQL("alter table {table} alter {column} type vector({n}) using null").format(**names)
        )
        if dimension <= INDEXABLE:
            on = SQL("{column} vector_cosine_ops").format(**names)
        elif dimension <= INDEXABLE_HALVED:
            on = SQL("({column}::halfvec({n})) halfvec_cosine_ops").format(**names)
        else:
            continue
        made = SQL("create index {} on {} using hnsw ({})").format(index, names["table"], on)
        connection.execute(made)
