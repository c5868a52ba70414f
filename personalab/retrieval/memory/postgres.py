"""Memories in PostgreSQL, in the source's tables, with one transaction per change, and vector search with pgvector.

A memory of usual size is compared vector by vector, which is exact and takes a few milliseconds; a large one
is searched by the HNSW index, and exactly where that finds too few.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, TypeVar

from personalab.errors import StorageError
from personalab.memory.records import ContentType
from personalab.retrieval.memory.postgres_database import (
    INDEXABLE,
    INDEXABLE_HALVED,
    LOCK,
    MAX_DIMENSION,
    Connection,
    Database,
    migrate,
    remake_vectors,
)
from personalab.retrieval.memory.sql import SqlRecords, SqlResult, SqlSession, Table, UnreadableRow
from personalab.retrieval.memory.store import PendingText, TextKind, Vectors

EXACT = 5_000
"""Up to so many entries are compared one by one."""


@dataclass(frozen=True, slots=True)
class _VectorTable:
    name: str
    key: str
    vector: str
    text: str
    count: str


SAID = """(
    select coalesce(string_agg(said ->> 'content', e'\\n' order by place), '')
    from jsonb_array_elements(conversation_data -> 'messages') with ordinality as messages (said, place)
)"""
_TABLES: dict[TextKind, _VectorTable] = {
    "entries": _VectorTable(
        "memory_contents",
        "content_id",
        "content_vector",
        "content_text",
        "entry_count",
    ),
    "conversations": _VectorTable(
        "conversations", "conversation_id", "conversation_vector", SAID, "conversation_count"
    ),
}


class PostgresVectors:
    """The half of a backend that keeps vectors."""

    def __init__(self, database: Database, exact: int = EXACT) -> None:
        self._database = database
        self._exact = exact
        self._space = ("", 0)

    def prepare(self, embedder: str, dimension: int) -> None:
        """Make room for vectors of this embedder; those of another one, or of another dimension, are dropped."""
        if not 0 < dimension <= MAX_DIMENSION:
            raise StorageError("database_dimension", dimension=dimension, limit=MAX_DIMENSION)
        wanted = (embedder, dimension)
        query = "select embedder, dimension from vector_space"
        if self._database.read(lambda connection: connection.execute(query).fetchone()) != wanted:
            self._database.write(lambda connection: _change_space(connection, embedder, dimension))
        self._space = wanted

    def pending(self, kind: TextKind, memory_id: str | None, limit: int) -> list[PendingText]:
        """List what has no vector yet, of one memory or of all."""
        query = _sql(_WAITING_ANYWHERE if memory_id is None else _WAITING, kind)
        values = [limit] if memory_id is None else [memory_id, limit]
        rows = self._database.read(lambda connection: connection.execute(query, values).fetchall())
        return [PendingText(*row) for row in rows]

    def put_vectors(self, kind: TextKind, waiting: Sequence[PendingText], vectors: Vectors) -> None:
        """Keep vectors, a row a text; a text that is gone or another by now is passed over."""
        from pgvector import Vector

        ready = sorted(zip(waiting, vectors, strict=True), key=lambda row: row[0].id)
        rows = [(Vector(vector), row.id, row.memory_id, row.text) for row, vector in ready]
        if kind == "conversations":
            # What was said stays as it is.
            rows = [row[:3] for row in rows]

        def put(connection: Connection) -> None:
            space = connection.execute("select embedder, dimension from vector_space for share").fetchone()
            if space != self._space:
                raise StorageError("database_other_embedder", where=self._database.where())
            memories = sorted({row.memory_id for row in waiting})
            # Before the entries, as everyone who writes does: no two wait for each other.
            connection.execute(
                "select from memories where memory_id = any(%s) order by memory_id for share", [memories]
            )
            connection.cursor().executemany(_sql(_PUT, kind), rows)

        self._database.write(put)

    def nearest(
        self,
        kind: TextKind,
        memory_id: str,
        vector: Sequence[float],
        limit: int,
        types: Sequence[ContentType] | None = None,
    ) -> list[tuple[str, float]]:
        """Find ids by their vectors, nearest first, with their cosine similarity."""
        from pgvector import Vector

        embedder, dimension = self._space
        if dimension != len(vector) or limit < 1:
            return []
        asked = {
            "memory_id": memory_id,
            "vector": Vector(list(vector)),
            "limit": limit,
            "embedder": embedder,
            "dimension": dimension,
            "types": list(types or ()),
        }
        is_filtered = kind == "entries" and types is not None

        def find(connection: Connection) -> list[tuple[Any, ...]]:
            statement = _nearest(kind, dimension, self._exact, is_filtered=is_filtered)
            found = connection.execute(statement, asked).fetchall()
            if found and (len(found) >= min(limit, found[0][2]) or found[0][2] <= self._exact):
                return found
            exact = _nearest(kind, dimension, 2**62, is_filtered=is_filtered)
            return connection.execute(exact, asked).fetchall()

        # A vector of nothing has no angle: it is like no other.
        scored = ((row[0], row[1] if row[1] == row[1] else 0.0) for row in self._database.read(find))
        return sorted(scored, key=lambda row: -row[1])

    def drop_vectors(self) -> int:
        """Forget all vectors, so that they are rebuilt; return how many texts then await one."""

        def drop(connection: Connection) -> int:
            connection.execute("select pg_advisory_xact_lock(%s)", [LOCK])
            space = connection.execute("select dimension from vector_space for update").fetchone()
            remake_vectors(connection, int(space[0]) if space else 0)
            count = "select (select count(*) from memory_contents) + (select count(*) from conversations)"
            row = connection.execute(count).fetchone()
            return int(row[0]) if row else 0

        return self._database.write(drop)


def _change_space(connection: Connection, embedder: str, dimension: int) -> None:
    """Change whose vectors are kept; who comes second finds it done."""
    connection.execute("select pg_advisory_xact_lock(%s)", [LOCK])
    space = connection.execute("select embedder, dimension from vector_space for update").fetchone()
    if space != (embedder, dimension):
        remake_vectors(connection, dimension)
        connection.execute("update vector_space set embedder = %s, dimension = %s", [embedder, dimension])


# --- statements

_WAITING = "select memory_id, {key}, {text} from {name} where memory_id = %s and {vector} is null limit %s"
_WAITING_ANYWHERE = "select memory_id, {key}, {text} from {name} where {vector} is null limit %s"
_PUT = "update {name} set {vector} = %s::vector where {key} = %s and memory_id = %s {same}"
_SIZE = """
    with mine as (
        select {count} as size from memories, vector_space
        where memory_id = %(memory_id)s and embedder = %(embedder)s and dimension = %(dimension)s
    )
"""
_ONE_BY_ONE = """(
    select id, 1 - distance, (select size from mine)
    from (
        select {key} as id, {vector} <=> %(vector)s::vector as distance
        from {name}
        where memory_id = %(memory_id)s and {vector} is not null {only} and (select size from mine) <= {most}
        offset 0
    ) as compared
    order by distance limit %(limit)s
)"""
_BY_INDEX = """(
    select {key}, 1 - ({vector} <=> %(vector)s::vector), (select size from mine)
    from {name}
    where memory_id = %(memory_id)s and {vector} is not null {only} and (select size from mine) > {most}
    order by {vector}{cast} <=> %(vector)s::vector{cast} limit %(limit)s
)"""


@cache
def _sql(statement: str, kind: TextKind) -> Any:
    same = "and content_text = %s" if kind == "entries" else ""
    return statement.format(**asdict(_TABLES[kind]), same=same)


@cache
def _nearest(kind: TextKind, dimension: int, exact: int, *, is_filtered: bool) -> Any:
    """Compare one by one or by the index, as the memory's size wants it: the other half is not even begun."""
    only = "and content_type = any(%(types)s)" if is_filtered else ""
    cast = f"::halfvec({dimension})" if dimension > INDEXABLE else ""
    names = {**asdict(_TABLES[kind]), "only": only, "cast": cast}
    if exact == 2**62 or dimension > INDEXABLE_HALVED:
        return f"{_SIZE}{_ONE_BY_ONE}".format(**names, most=2**62)
    return f"{_SIZE}{_ONE_BY_ONE} union all {_BY_INDEX}".format(**names, most=exact)


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

    def _read(self, work: Callable[[SqlSession], _T]) -> _T:
        return self._database.read(lambda connection: work(_Statements(connection)))

    def _write(self, work: Callable[[SqlSession], _T], *, repeatable: bool = True) -> _T:
        return self._database.write(lambda connection: work(_Statements(connection)), repeatable=repeatable)

    def _entries_changed(self, session: SqlSession, memory_id: str, types: Iterable[ContentType]) -> None:
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

    def _conversations_changed(self, session: SqlSession, memory_id: str, added: int) -> None:
        session.execute(
            "UPDATE memories SET conversation_count = conversation_count + ?,"
            " conversations_stamp = nextval('memory_stamps') WHERE memory_id = ?",
            [added, memory_id],
        )

    def _take_out(self, session: SqlSession, row: UnreadableRow) -> Mapping[str, Any] | None:
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

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> SqlResult:
        return self._connection.execute(_native(statement), values)

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> None:
        self._connection.cursor().executemany(_native(statement), rows)


@cache
def _native(statement: str) -> bytes:
    return statement.replace("?", "%s").encode()
