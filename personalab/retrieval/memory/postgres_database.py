"""PostgreSQL: connections, with errors when it cannot be reached, and the schema with its migrations.

A small pool is opened with the first use. A broken connection is replaced and the work is repeated once,
unless it might then be done twice. A server that does not respond in time is not contacted for some seconds;
calls in that time fail at once. No message holds more of the address than host and database.

Migrations are numbered and each runs once, completely. The first process runs them, the others wait for it.
The tables are the source's; additional data is in further columns and tables."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, LiteralString, TypeAlias, TypeVar

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
