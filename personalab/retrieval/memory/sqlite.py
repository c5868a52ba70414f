"""Memories without a server: records in SQLite, and their vectors in Chroma, one collection per memory and kind.

SQLite is the source of truth: a row names the epoch its vector was made in. A different embedder, a different
dimension or a lost folder starts a new epoch, in which every row awaits a vector. Embedded Chroma does not
see what another process wrote, so each collection has a stamp in SQLite that says when to reopen it, and a
lock separates writers from readers.
"""

from __future__ import annotations

import json
import logging
import shutil
import sqlite3
import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from personalab.errors import StorageError
from personalab.memory.records import ContentType, Conversation
from personalab.retrieval.chroma import ChromaFolder, exclusive_lock, shared_lock
from personalab.retrieval.memory.sql import SqlRecords, SqlSession, Table, UnreadableRow
from personalab.retrieval.memory.sqlite_file import SqliteFile, new_stamp
from personalab.retrieval.memory.store import PendingText, TextKind, Vectors

_SHOWN = "memory/vectors"
_PAGE = 2_000

_open: weakref.WeakValueDictionary[Path, VectorFolder] = weakref.WeakValueDictionary()
_opening = threading.Lock()


def open_vectors(path: Path, lock_path: Path) -> VectorFolder:
    """Return the process's one view of a folder: Chroma shares its files per process too."""
    key = path.absolute()
    with _opening:
        found = _open.get(key)
        if found is None:
            found = _open[key] = VectorFolder(key, lock_path)
        return found


class VectorFolder:
    """A folder of vectors, one below it for each epoch; used only inside ``shared`` and ``alone``."""

    def __init__(self, path: Path, lock_path: Path) -> None:
        self._path = path
        self._lock_path = lock_path
        self._mutex = threading.Lock()
        self._epoch = 0
        self._chroma = self._of(0)

    @contextmanager
    def shared(self) -> Generator[VectorFolder]:
        """Keep writers out."""
        with self._mutex, shared_lock(self._lock_path):
            yield self

    @contextmanager
    def alone(self) -> Generator[VectorFolder]:
        """Keep everyone out."""
        with self._mutex, exclusive_lock(self._lock_path, shown=_SHOWN):
            yield self

    def close(self) -> None:
        """Close the files."""
        with self._mutex:
            self._chroma.close()

    def holds(self, epoch: int) -> bool:
        """Return whether the vectors of an epoch exist."""
        return (self._path / str(epoch) / "chroma.sqlite3").exists()

    def begin(self, epoch: int) -> None:
        """Start an epoch without vectors; those of others go."""
        self._switch_epoch(epoch)
        shutil.rmtree(self._path, ignore_errors=True)
        with self._chroma.translated():
            self._chroma.client()

    def show_current(self, epoch: int, name: str, stamp: int) -> None:
        """Make sure that Chroma shows a collection as it is now."""
        if epoch != self._epoch:
            self._switch_epoch(epoch)
        self._chroma.show_current(name, stamp)

    def put(
        self, name: str, stamp: int, ids: Sequence[str], vectors: Vectors, types: Sequence[str] | None
    ) -> None:
        """Add vectors, or replace those with the same ids."""
        self._chroma.mark_written(name, stamp)
        labels = None if types is None else [{"type": content_type} for content_type in types]
        self._chroma.upsert(name, ids, vectors, labels)

    def nearest(
        self, name: str, vector: Sequence[float], count: int, where: Mapping[str, Any] | None
    ) -> list[tuple[str, float]]:
        """Find the ids nearest to a vector, with their cosine similarity."""
        return self._chroma.nearest(name, vector, count, where)

    def compared(self, name: str, vector: Sequence[float], ids: Sequence[str]) -> list[tuple[str, float]]:
        """Compare a vector with those of some ids, one by one; nearest first."""
        import numpy as np

        with self._chroma.translated():
            if not ids or (collection := self._chroma.collection(name)) is None:
                return []
            found = collection.get(ids=list(ids), include=["embeddings"])
        held = np.array(found["embeddings"], dtype=np.float32).reshape(len(found["ids"]), -1)
        asked = np.array(vector, dtype=np.float32)
        lengths = np.maximum(np.linalg.norm(held, axis=1) * np.linalg.norm(asked), 1e-9)
        alike = held @ asked / lengths if held.size else np.zeros(0)
        order = np.argsort(-alike, kind="stable")
        return [(found["ids"][at], float(alike[at])) for at in order]

    def remove(self, name: str, stamp: int, ids: Sequence[str]) -> None:
        """Remove vectors."""
        self._chroma.mark_written(name, stamp)
        with self._chroma.translated():
            if (collection := self._chroma.collection(name)) is None:
                return
            for at in range(0, len(ids), _PAGE):
                collection.delete(ids=list(ids[at : at + _PAGE]))

    def drop(self, name: str) -> None:
        """Remove a collection."""
        self._chroma.drop(name)

    def _of(self, epoch: int) -> ChromaFolder:
        return ChromaFolder(self._path / str(epoch), shown=_SHOWN, unreadable="memory_index_unreadable")

    def _switch_epoch(self, epoch: int) -> None:
        self._chroma.close()
        self._epoch = epoch
        self._chroma = self._of(epoch)


LOCK, VECTORS = "vectors.lock", "vectors"
_KINDS: tuple[TextKind, ...] = ("entries", "conversations")
_ALL = ""
"""In the list of what is gone: all of a collection."""
_FEW = 2_000
"""Maximum entries compared one by one where a search filters by type."""
_MANY_GONE = 50
"""Maximum deleted vectors that are skipped before they are removed."""
_NOTE_GONE = (
    "INSERT OR IGNORE INTO vectors_gone (collection, id)"
    " SELECT collection, ? FROM vector_stamps WHERE collection = ?"
)

_log = logging.getLogger("personalab.memory")


class _Statements:
    """What is asked of the rows of a kind."""

    def __init__(self, table: str, key: str, text: str, content_type: str) -> None:
        waiting = f"SELECT memory_id, {key}, {text} FROM {table} WHERE"
        self.waiting = f"{waiting} memory_id = ? AND vector_epoch < ? LIMIT ?"
        self.waiting_anywhere = f"{waiting} vector_epoch < ? LIMIT ?"
        self.made = f"UPDATE {table} SET vector_epoch = ? WHERE {key} = ? AND memory_id = ? AND {text} = ?"
        # A plus keeps SQLite from going through a whole memory where it can look up a few ids.
        some = f"FROM {table} WHERE +memory_id = ? AND {key} IN (SELECT value FROM json_each(?))"
        self.with_vector = f"SELECT {key} {some} AND +vector_epoch = ?"
        self.types = f"SELECT {key}, {content_type} {some}"
        self.count = f"SELECT count(*) FROM {table}"


_STATEMENTS: dict[TextKind, _Statements] = {
    "entries": _Statements("memory_contents", "content_id", "content_text", "content_type"),
    "conversations": _Statements("conversations", "conversation_id", "conversation_text", "''"),
}


class _Space(NamedTuple):
    """Whose vectors there are."""

    embedder: str = ""
    dimension: int = 0
    epoch: int = 0


class ChromaVectors:
    """The half of a backend that keeps vectors."""

    def __init__(self, file: SqliteFile, folder: Path) -> None:
        self._records = file
        self._vectors_path = folder / VECTORS
        self._lock_path = folder / LOCK
        self._opened: VectorFolder | None = None
        self._opening = threading.Lock()
        self._wanted = _Space()

    # --- whose vectors there are

    def prepare(self, embedder: str, dimension: int) -> None:
        """Make room for vectors of this embedder; those of another one, or of another dimension, are dropped."""
        self._wanted = _Space(embedder, dimension)
        if self._is_prepared():
            return
        with self._folder.alone():
            if not self._is_prepared():
                self._begin_epoch()

    def _is_prepared(self) -> bool:
        with self._records.reading() as connection:
            found = _space(connection)
        return found[:2] == self._wanted[:2] and not self._is_lost(found.epoch)

    def drop_vectors(self) -> int:
        """Forget all vectors, so that they are rebuilt; return how many texts then await one."""
        with self._folder.alone():
            self._begin_epoch()
        with self._records.reading() as connection:
            return sum(
                int(connection.execute(statements.count).fetchone()[0]) for statements in _STATEMENTS.values()
            )

    def close_vectors(self) -> None:
        """Close Chroma's files."""
        with self._opening:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    @property
    def _folder(self) -> VectorFolder:
        with self._opening:
            if self._opened is None:
                self._opened = open_vectors(self._vectors_path, self._lock_path)
            return self._opened

    def _begin_epoch(self) -> None:
        """Start an empty epoch; the caller keeps everyone out."""
        with self._records.writing() as connection:
            epoch = new_stamp(connection)
            space = zip(_Space._fields, self._wanted._replace(epoch=epoch), strict=True)
            connection.executemany("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", space)
            connection.execute("DELETE FROM vector_stamps")
            connection.execute("DELETE FROM vectors_gone")
        self._folder.begin(epoch)

    def _is_lost(self, epoch: int) -> bool:
        return not self._folder.holds(epoch)

    def _epoch(self, connection: sqlite3.Connection) -> int:
        space = _space(connection)
        if space[:2] != self._wanted[:2]:
            indexed, configured = space.embedder or "-", self._wanted.embedder or "-"
            raise StorageError("memory_other_embedder", indexed=indexed, configured=configured)
        return space.epoch

    # --- which texts have one

    def pending(self, kind: TextKind, memory_id: str | None, limit: int) -> list[PendingText]:
        """List what has no vector yet, of one memory or of all."""
        rows = self._waiting(kind, memory_id, limit)
        if rows is None:
            self.prepare(*self._wanted[:2])
            rows = self._waiting(kind, memory_id, limit)
        if memory_id is not None:
            self._sweep_if(kind, memory_id, _MANY_GONE)
        return rows or []

    def _waiting(self, kind: TextKind, memory_id: str | None, limit: int) -> list[PendingText] | None:
        """List what waits; ``None`` where the folder of the vectors is lost."""
        with self._records.reading() as connection:
            epoch = self._epoch(connection)
            if self._is_lost(epoch):
                return None
            if memory_id is None:
                rows = connection.execute(_STATEMENTS[kind].waiting_anywhere, [epoch, limit])
            else:
                rows = connection.execute(_STATEMENTS[kind].waiting, [memory_id, epoch, limit])
            return [PendingText._make(map(str, row)) for row in rows]

    def put_vectors(self, kind: TextKind, waiting: Sequence[PendingText], vectors: Vectors) -> None:
        """Keep vectors, a row a text; a text that is gone or another by now is passed over."""
        for memory_id in sorted({row.memory_id for row in waiting}):
            rows = [at for at, row in enumerate(waiting) if row.memory_id == memory_id]
            self._put(kind, memory_id, [waiting[at] for at in rows], vectors[rows])

    def _put(self, kind: TextKind, memory_id: str, waiting: Sequence[PendingText], vectors: Vectors) -> None:
        statements, name = _STATEMENTS[kind], collection_name(memory_id, kind)
        with self._folder.alone() as folder:
            self._sweep(folder, kind, memory_id)
            with self._records.writing() as connection:
                epoch = self._epoch(connection)
                ids = json.dumps([row.id for row in waiting])
                types = dict(connection.execute(statements.types, [memory_id, ids]).fetchall())
                kept = [at for at, row in enumerate(waiting) if row.id in types]
                if not kept:
                    return
                before, stamp = _stamp(connection, name), _announce(connection, name)
            folder.show_current(epoch, name, before)
            ids_kept = [waiting[at].id for at in kept]
            labels = [str(types[row_id]) for row_id in ids_kept] if kind == "entries" else None
            folder.put(name, stamp, ids_kept, vectors[kept], labels)
            with self._records.writing() as connection:
                made = [(epoch, waiting[at].id, memory_id, waiting[at].text) for at in kept]
                connection.executemany(statements.made, made)

    # --- finding

    def nearest(
        self,
        kind: TextKind,
        memory_id: str,
        vector: Sequence[float],
        limit: int,
        types: Sequence[ContentType] | None = None,
    ) -> list[tuple[str, float]]:
        """Find ids by their vectors, nearest first, with their cosine similarity; none that was removed."""
        name = collection_name(memory_id, kind)
        where = {"type": {"$in": list(types)}} if types is not None else None
        with self._folder.shared() as folder, self._records.reading() as connection:
            epoch, stamp = self._epoch(connection), _stamp(connection, name)
            if not stamp:
                return []
            folder.show_current(epoch, name, stamp)
            gone = set(_gone(connection, name))
            few = self._few(connection, memory_id, types)
            if few is not None:
                found = folder.compared(name, vector, few)
            else:
                found = folder.nearest(name, vector, limit + len(gone), where)
        return [] if _ALL in gone else [row for row in found if row[0] not in gone][:limit]

    def _few(
        self, connection: sqlite3.Connection, memory_id: str, types: Sequence[ContentType] | None
    ) -> list[str] | None:
        """List the entries of some types, if they are few enough to be compared one by one.

        Among many of other types, the index may not find its way to a few.
        """
        if types is None:
            return None
        query = (
            "SELECT content_id FROM memory_contents WHERE memory_id = ?"
            " AND content_type IN (SELECT value FROM json_each(?)) LIMIT ?"
        )
        rows = connection.execute(query, [memory_id, json.dumps(list(types)), _FEW + 1]).fetchall()
        return [str(row[0]) for row in rows] if len(rows) <= _FEW else None

    # --- what is gone

    def forget_vectors(self, memory_id: str) -> None:
        """Remove what Chroma holds of a memory that is gone; where that fails, the next writer does it."""
        for kind in _KINDS:
            self._sweep_if(kind, memory_id, 1)

    def _sweep_if(self, kind: TextKind, memory_id: str, least: int) -> None:
        """Remove orphaned vectors, if there are many."""
        with self._records.reading() as connection:
            if len(_gone(connection, collection_name(memory_id, kind))) < least:
                return
        try:
            with self._folder.alone() as folder:
                self._sweep(folder, kind, memory_id)
        except StorageError as error:
            _log.warning("vectors that are gone still take room: %s", error)

    def _sweep(self, folder: VectorFolder, kind: TextKind, memory_id: str) -> None:
        name = collection_name(memory_id, kind)
        with self._records.writing() as connection:
            epoch, gone = _space(connection).epoch, _gone(connection, name)
            if not gone:
                return
            before, stamp = _stamp(connection, name), _announce(connection, name)
            values = [memory_id, json.dumps(gone), epoch]
            there = {row[0] for row in connection.execute(_STATEMENTS[kind].with_vector, values)}
        folder.show_current(epoch, name, before)
        if _ALL in gone:
            folder.drop(name)
        else:
            folder.remove(name, stamp, [row_id for row_id in gone if row_id not in there])
        with self._records.writing() as connection:
            done = [(name, row_id) for row_id in gone]
            connection.executemany("DELETE FROM vectors_gone WHERE collection = ? AND id = ?", done)
            if _ALL in gone:
                connection.execute("DELETE FROM vector_stamps WHERE collection = ?", [name])


def collection_name(memory_id: str, kind: TextKind) -> str:
    """Name the collection of a memory's entries or conversations."""
    return f"{memory_id}.{kind}"


def note_entries_removed(session: SqlSession, memory_id: str, content_ids: Iterable[str]) -> None:
    """Note that the vectors of entries are to be removed, if there may be any."""
    name = collection_name(memory_id, "entries")
    session.executemany(_NOTE_GONE, [(content_id, name) for content_id in content_ids])


def note_memory_removed(session: SqlSession, memory_id: str) -> None:
    """Note that all vectors of a memory are to be removed, if there may be any."""
    for kind in _KINDS:
        session.execute(_NOTE_GONE, [_ALL, collection_name(memory_id, kind)])


def _gone(connection: sqlite3.Connection, name: str) -> list[str]:
    return [row[0] for row in connection.execute("SELECT id FROM vectors_gone WHERE collection = ?", [name])]


def _space(connection: sqlite3.Connection) -> _Space:
    rows = connection.execute("SELECT name, value FROM meta WHERE name IN ('embedder', 'dimension', 'epoch')")
    return _Space(**dict(rows.fetchall()))


def _stamp(connection: sqlite3.Connection, name: str) -> int:
    row = connection.execute("SELECT stamp FROM vector_stamps WHERE collection = ?", [name]).fetchone()
    return int(row[0]) if row else 0


def _announce(connection: sqlite3.Connection, name: str) -> int:
    """Notify all processes, before it is written, that a collection is about to change."""
    stamp = new_stamp(connection)
    query = "INSERT OR REPLACE INTO vector_stamps (collection, stamp) VALUES (?, ?)"
    connection.execute(query, [name, stamp])
    return stamp


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

    def _read(self, work: Callable[[SqlSession], _T]) -> _T:
        with self._file.reading() as connection:
            return work(connection)

    def _write(self, work: Callable[[SqlSession], _T], *, repeatable: bool = True) -> _T:
        with self._file.writing() as connection:
            return work(connection)

    def _memory_added(self, session: SqlSession, memory_id: str) -> None:
        stamp = new_stamp(session)
        session.execute("INSERT INTO memory_stamps VALUES (?, ?, ?)", [memory_id, stamp, stamp])

    def _entries_changed(self, session: SqlSession, memory_id: str, types: Iterable[ContentType]) -> None:
        query = "UPDATE memory_stamps SET entries_stamp = ? WHERE memory_id = ?"
        session.execute(query, [new_stamp(session), memory_id])
        for content_type in types:
            session.execute(
                f"UPDATE memories SET {content_type}_content = (SELECT json_group_array(content_text) FROM"
                " (SELECT content_text FROM memory_contents WHERE memory_id = ?1 AND content_type = ?2"
                " ORDER BY position, content_id)) WHERE memory_id = ?1",
                [memory_id, content_type],
            )

    def _conversations_changed(self, session: SqlSession, memory_id: str, added: int) -> None:
        query = "UPDATE memory_stamps SET conversations_stamp = ? WHERE memory_id = ?"
        session.execute(query, [new_stamp(session), memory_id])

    def _entries_removed(self, session: SqlSession, memory_id: str, content_ids: Sequence[str]) -> None:
        note_entries_removed(session, memory_id, content_ids)

    def _memory_removed(self, session: SqlSession, memory_id: str) -> None:
        note_memory_removed(session, memory_id)

    def _conversation_columns(self, conversation: Conversation) -> dict[str, object]:
        return {"conversation_text": conversation.text()}

    def _take_out(self, session: SqlSession, row: UnreadableRow) -> Mapping[str, Any] | None:
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
