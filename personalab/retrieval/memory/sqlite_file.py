"""A SQLite file shared by threads and processes, with its errors translated into ours."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from personalab.data_files import check_regular, make_folder, open_regular
from personalab.errors import BadRecord, Busy, PersonaLabError, Reason, StorageError
from personalab.retrieval import lock
from personalab.retrieval.memory.sqlite_tables import MIGRATIONS

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
        with lock.writing(self._path.with_suffix(".lock")):
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
