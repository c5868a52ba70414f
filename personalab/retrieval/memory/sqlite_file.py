"""The SQLite file of memories: its tables, its connections and its recovery.

It is shared by threads and processes; its errors are translated into ours. The tables are the source's three,
with additional columns; JSON is stored as text."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from personalab.data_files import check_regular, make_folder, open_regular
from personalab.errors import BadRecord, Busy, PersonaLabError, Reason, StorageError
from personalab.retrieval.chroma import exclusive_lock
from personalab.retrieval.memory.sql import SqlSession

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


BUSY_SECONDS = 30.0
_Identity = tuple[int, int]


class SqliteFile:
    """A database file with connections that are used again; a closed one opens itself when it is used."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle: list[sqlite3.Connection] = []
        self._identity: _Identity | None = None
        self._guard = threading.Lock()
        self._writer = threading.Lock()
        self._release = weakref.finalize(self, _close_all, self._idle)

    def exists(self) -> bool:
        """Return whether the file exists."""
        return os.path.exists(self._path)

    def close(self) -> None:
        """Close what is open; a connection in use is closed when it comes back."""
        with self._guard:
            self._identity = None
            _close_all(self._idle)

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """Yield a connection that sees one state of the database."""
        with self._translated(), self._connection() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.rollback()

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """Yield a connection with exclusive writing; all changes are committed, or none."""
        with self._translated(), self._writer, self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.commit()
            except BaseException:
                connection.rollback()
                raise

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection]:
        identity, connection = self._take()
        try:
            yield connection
        finally:
            with self._guard:
                back = identity == self._identity
                if back:
                    self._idle.append(connection)
            if not back:
                connection.close()

    def _take(self) -> tuple[_Identity, sqlite3.Connection]:
        with self._guard:
            here = _identity(self._path)
            if here is None or here != self._identity:
                # What was open is a file that is no more: writing to it would be writing to nowhere.
                _close_all(self._idle)
            elif self._idle:
                return here, self._idle.pop()
        connection = self._opened()
        with self._guard:
            self._identity = _identity(self._path) or (0, 0)
            return self._identity, connection

    def _opened(self) -> sqlite3.Connection:
        make_folder(self._path.parent)
        prepare_database(self._path)
        connection = sqlite3.connect(
            self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            if _number(connection, "user_version") != len(MIGRATIONS):
                self._migrate(connection)
            connection.execute("PRAGMA foreign_keys=ON")
            connection.execute("PRAGMA synchronous=NORMAL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _migrate(self, connection: sqlite3.Connection) -> None:
        # SQLite does not wait for its turn to switch to WAL, so those who come together queue here.
        with exclusive_lock(self._path.with_suffix(".lock"), shown=self._path.name):
            found = _number(connection, "user_version")
            if found > len(MIGRATIONS):
                known = len(MIGRATIONS)
                raise StorageError("memory_too_new", file=self._path.name, found=found, known=known)
            connection.execute("PRAGMA journal_mode=WAL")
            for number, steps in enumerate(MIGRATIONS[found:], start=found + 1):
                connection.execute("BEGIN IMMEDIATE")
                try:
                    for step in steps:
                        connection.execute(step)
                    connection.execute(f"PRAGMA user_version={number}")
                    connection.commit()
                except BaseException:
                    connection.rollback()
                    raise

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except PersonaLabError:
            raise
        except (sqlite3.Error, OSError, UnicodeEncodeError) as error:
            raise _explained(error, self._path.name) from error


def _explained(error: Exception, file: str) -> PersonaLabError:
    words = " ".join(str(error).split())[:300] or type(error).__name__
    if isinstance(error, UnicodeEncodeError):
        return BadRecord("bad_record", field="text", reason=Reason("not_unicode"))
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Busy("memory_store_busy", file=file)
    if code == sqlite3.SQLITE_FULL or getattr(error, "errno", None) == 28:
        return StorageError("disk_full", file=file)
    cannot = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR)
    if code in cannot or isinstance(error, OSError):
        return StorageError("not_writable", file=file, reason=words)
    return StorageError("file_broken", file=file, reason=words)


def prepare_database(path: Path) -> None:
    """Check that SQLite will find regular files only, and create a new one for the owner alone.

    SQLite gives the files it makes beside a database the mode of the database.
    """
    for part in ("-wal", "-shm", "-journal"):
        check_regular(f"{path}{part}")
    os.close(open_regular(path, os.O_RDONLY | os.O_CREAT))


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])


def _identity(path: Path) -> _Identity | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _close_all(connections: list[sqlite3.Connection]) -> None:
    while connections:
        connections.pop().close()


DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""What SQLite says of a damaged file; all else it says (full, locked, not readable) may pass."""
_TABLES = (
    "memories",
    "memory_stamps",
    "memory_contents",
    "conversations",
    "memory_changes",
    "story_marks",
    "set_aside",
)
"""The tables whose content cannot be rebuilt."""
_OWNED = ("memory_stamps", "memory_contents", "conversations", "memory_changes")


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error means a damaged file rather than one that cannot be read just now."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(code, int) and code & 0xFF in DAMAGED


def salvage(broken: Path, fresh: Path) -> dict[str, int]:
    """Copy what can be read into a new file; give how many rows of each table that were."""
    file = SqliteFile(fresh)
    counts: dict[str, int] = {}
    try:
        with file.writing() as new, closing(_opened(broken)) as old:
            new.execute("PRAGMA defer_foreign_keys=ON")
            for table in _TABLES:
                counts[table] = sum(_copied(new, table, row) for row in _rows(old, table))
            for table in _OWNED:
                new.execute(f"DELETE FROM {table} WHERE memory_id NOT IN (SELECT memory_id FROM memories)")
            new.execute(
                "INSERT OR IGNORE INTO memory_stamps SELECT memory_id, abs(random() >> 16), abs(random() >> 16)"
                " FROM memories"
            )
    finally:
        file.close()
    return counts


def _opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    connection.text_factory = _text
    return connection


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _rows(old: sqlite3.Connection, table: str) -> Iterator[dict[str, object]]:
    """Read a table as far as it goes, without the indexes, which may be damaged, too."""
    try:
        cursor = old.execute(f"SELECT * FROM {table} NOT INDEXED")
        names = [column[0] for column in cursor.description]
        while (row := cursor.fetchone()) is not None:
            yield dict(zip(names, row, strict=True))
    except sqlite3.DatabaseError:
        return


def _copied(new: sqlite3.Connection, table: str, row: dict[str, object]) -> bool:
    """Copy a row; its vector is rebuilt."""
    if "vector_epoch" in row:
        row["vector_epoch"] = 0
    names = ", ".join(f'"{name}"' for name in row)
    places = ", ".join("?" * len(row))
    try:
        query = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({places})"
        return new.execute(query, list(row.values())).rowcount > 0
    except sqlite3.DatabaseError:
        return False


def new_stamp(session: SqlSession) -> int:
    """Make a number that was never used before."""
    found = session.execute("SELECT value FROM meta WHERE name = 'stamp'").fetchone()
    stamp = max(time.time_ns(), int(found[0]) + 1 if found else 0)
    session.execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('stamp', ?)", [stamp])
    return stamp
