"""Connections to PostgreSQL, with errors when it cannot be reached.

A small pool is opened with the first use. A broken connection is replaced and the work is repeated once,
unless it might then be done twice. A server that does not respond in time is not contacted for some seconds;
calls in that time fail at once. No message holds more of the address than host and database.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from personalab.errors import BadRecord, Busy, PersonaLabError, StorageError

if TYPE_CHECKING:
    import psycopg
    from psycopg_pool import ConnectionPool

_T = TypeVar("_T")
Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
Work: TypeAlias = Callable[[Connection], _T]

MOST = 10
"""Maximum number of connections."""
_CONNECT_SECONDS = 10
_WAIT_SECONDS = 30.0
_SLOW_SECONDS = 0.5
"""A refusal that takes longer is not waited for by one caller after the other."""
_REST_SECONDS = 15.0
"""Seconds for which an unresponsive server is not contacted."""
_TRIES = 4
"""Maximum attempts at work that PostgreSQL aborts to end a deadlock."""
_SESSION = """
    select set_config('hnsw.iterative_scan', 'strict_order', false), set_config('hnsw.ef_search', '200', false),
           set_config('plan_cache_mode', 'force_custom_plan', false), set_config('jit', 'off', false)
"""


class Database:
    """The database behind an address; safe in several threads."""

    def __init__(self, url: str, migrate: Callable[[Connection, str], None]) -> None:
        self._url = url
        self._migrate = migrate
        self._lock = threading.Lock()
        self._trying = threading.Lock()
        self._resting: tuple[float, PersonaLabError] | None = None
        self._pool: ConnectionPool[Connection] | None = None
        self._closing: weakref.finalize[..., Database] | None = None
        self._is_ready = False

    def read(self, work: Work[_T]) -> _T:
        """Read with one statement; the tables are made before."""
        self._make_ready()
        return self._run(work, whole=False, repeatable=True)

    def write(self, work: Work[_T], *, repeatable: bool = True) -> _T:
        """Work in one transaction; what is not ``repeatable`` is not done again if it may have been kept."""
        self._make_ready()
        return self._run(work, whole=True, repeatable=repeatable)

    def close(self) -> None:
        """Close all connections; the next use reopens them."""
        with self._lock:
            closing, self._closing, self._pool = self._closing, None, None
        if closing is not None:
            closing()

    def _make_ready(self) -> None:
        if self._is_ready:
            return
        self._run(lambda connection: self._migrate(connection, self.where()), whole=False, repeatable=True)
        self._is_ready = True

    def _run(self, work: Work[_T], *, whole: bool, repeatable: bool) -> _T:
        psycopg = _driver()
        tries, again = 0, True
        while True:
            tries += 1
            done = False
            with self._connection() as connection:
                try:
                    if not whole:
                        return work(connection)
                    with connection.transaction():
                        found = work(connection)
                        done = True
                    return found
                except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure) as error:
                    if tries >= _TRIES:
                        raise Busy("database_busy", where=self.where()) from error
                    continue
                except psycopg.OperationalError as error:
                    broken = connection.broken or connection.closed
                    if not broken or not again or (done and not repeatable):
                        raise self._failure(error, broken=broken) from error
                    again = False
                except (psycopg.Error, UnicodeEncodeError) as error:
                    raise self._failure(error, broken=False) from error
            self._opened().check()

    @contextmanager
    def _connection(self) -> Generator[Connection]:
        from psycopg_pool import PoolTimeout

        pool = self._opened()
        try:
            connection = pool.getconn()
        except PoolTimeout as error:
            self._try()
            raise Busy("database_busy", where=self.where()) from error
        try:
            yield connection
        finally:
            pool.putconn(connection)

    def _opened(self) -> ConnectionPool[Connection]:
        self._refuse_at_rest()
        if (pool := self._pool) is not None:
            return pool
        # The pool would try for long and not say why.
        self._try()
        with self._lock:
            if self._pool is None:
                self._pool = _open_pool(self._url)
                self._closing = weakref.finalize(self, self._pool.close)
            return self._pool

    def _try(self) -> None:
        """Connect once; who comes while another tries hears what became of that."""
        with self._trying:
            self._refuse_at_rest()
            begun = time.monotonic()
            try:
                self._connect()
                self._resting = None
            except PersonaLabError as error:
                now = time.monotonic()
                self._resting = (now + _REST_SECONDS, error) if now - begun > _SLOW_SECONDS else None
                raise

    def _refuse_at_rest(self) -> None:
        if (resting := self._resting) is not None and time.monotonic() < resting[0]:
            raise type(resting[1])(resting[1].code, **resting[1].params)

    def _connect(self) -> None:
        psycopg = _driver()
        try:
            psycopg.connect(self._url, connect_timeout=_seconds(self._url)).close()
        except psycopg.OperationalError as error:
            raise self._refusal(error) from error
        except psycopg.ProgrammingError:
            # The driver repeats what it cannot read, the password with it.
            raise StorageError("database_address") from None

    def where(self) -> str:
        """Name the database without its secrets."""
        return _where(self._url)

    def _refusal(self, error: psycopg.OperationalError) -> PersonaLabError:
        """Return why there is no connection, by the driver's words, because it has no codes."""
        said = str(error)
        tried = error.pgconn
        asked = tried is not None and (tried.used_password or tried.needs_password)
        where = self.where()
        if "password authentication" in said:
            return StorageError("database_login", where=where)
        if f'"{where.rpartition("/")[2]}"' in said:
            return StorageError("database_missing", where=where)
        if asked:
            return StorageError("database_login", where=where)
        return StorageError("database_unreachable", where=where, reason=_reason(said))

    def _failure(self, error: Exception, *, broken: bool) -> PersonaLabError:
        psycopg = _driver()
        if broken:
            return StorageError("database_lost", where=self.where())
        if isinstance(error, psycopg.DataError | UnicodeEncodeError):
            return BadRecord("bad_record", field="record", reason=_reason(str(error)))
        return StorageError("database_failed", where=self.where(), reason=_reason(str(error)))


def _driver() -> Any:
    """Import the driver; it is an extra."""
    try:
        import_module("pgvector.psycopg")
        import_module("psycopg_pool")
        return import_module("psycopg")
    except ImportError as error:
        raise StorageError("database_driver") from error


def _open_pool(url: str) -> ConnectionPool[Connection]:
    from psycopg_pool import ConnectionPool

    # What fails is raised to the caller; its background threads need not say it too.
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
    options = {"autocommit": True, "connect_timeout": _seconds(url)}
    return ConnectionPool(
        url,
        kwargs=options,
        min_size=0,
        max_size=MOST,
        open=True,
        configure=_configure,
        timeout=_WAIT_SECONDS,
        reconnect_timeout=_WAIT_SECONDS,
        num_workers=2,
        name="personalab-memory",
    )


def _configure(connection: Connection) -> None:
    from pgvector import Vector
    from pgvector.psycopg.vector import VectorBinaryDumper

    # Without the type's number: where the extension is not there yet, there is none.
    connection.adapters.register_dumper(Vector, VectorBinaryDumper)
    connection.execute(_SESSION)


def _seconds(url: str) -> int:
    from psycopg.conninfo import conninfo_to_dict

    named = _driver() and conninfo_to_dict(url).get("connect_timeout")
    return int(named) if named is not None else _CONNECT_SECONDS


def _where(url: str) -> str:
    from psycopg.conninfo import conninfo_to_dict

    known = conninfo_to_dict(url)
    host = known.get("host") or known.get("hostaddr") or "localhost"
    port = f":{known['port']}" if known.get("port") else ""
    return f"{host}{port}/{known.get('dbname') or known.get('user') or ''}"


def _reason(said: str) -> str:
    """Keep the first line of what the driver says; it never has the password."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[0][:300] if lines else "no reason given"
