"""Tests of memories in PostgreSQL under concurrency and failures."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from personalab.errors import BadRecord, PersonaLabError, StorageError
from personalab.memory.changes import Change, MemoryRevision, Operation, Step, revise
from personalab.memory.records import Memory, MemoryEntry, new_id
from personalab.retrieval.memory.postgres import PostgresBackend
from personalab.retrieval.memory.store import TextKind
from tests.conftest import NOW, PROJECT
from tests.integration.retrieval.postgres_process import SESSION, said, said_in_story

if TYPE_CHECKING:
    from tests.support.postgres import PostgresTestServer

SECRET = "s3cret-%41-pass"


@pytest.fixture
def url(postgres_url: str) -> str:
    """Give a database of this test's own."""
    from tests.support.postgres import fresh_database

    return fresh_database(postgres_url)


@pytest.fixture
def opened(url: str) -> Iterator[Callable[..., PostgresBackend]]:
    """Open backends that are closed after the test."""
    backends: list[PostgresBackend] = []

    def open_one(at: str = url, **options: int) -> PostgresBackend:
        backends.append(PostgresBackend(at, **options))
        return backends[-1]

    yield open_one
    for backend in backends:
        backend.close()


@pytest.fixture
def backend(opened: Callable[..., PostgresBackend]) -> PostgresBackend:
    """Open the test's database."""
    return opened()


def rows(url: str, query: str, *values: object) -> list[tuple[Any, ...]]:
    """Ask the database itself."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        answer = connection.execute(query.encode(), values)
        return answer.fetchall() if answer.description else []


def at_once(count: int, work: Callable[[int], object]) -> list[Any]:
    """Do something in several threads that all begin together."""
    gate = threading.Barrier(count)

    def begin(number: int) -> object:
        gate.wait(60)
        return work(number)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(begin, range(count)))


def other_process(url: str, *arguments: str) -> subprocess.Popen[str]:
    """Start the program that uses the same database."""
    command = [sys.executable, "-m", "tests.integration.retrieval.postgres_process", *arguments]
    known = {**os.environ, "TEST_DATABASE": url}
    return subprocess.Popen(command, cwd=PROJECT, env=known, stdout=subprocess.PIPE, text=True)


def remembered(backend: PostgresBackend, *texts: str) -> Memory:
    """Let a memory have these events."""
    backend.save_conversation(said(1))
    memory = backend.memory("agent", "user")
    assert memory is not None
    entries = tuple(
        MemoryEntry(new_id(), "event", text, place, NOW, NOW) for place, text in enumerate(texts, 1)
    )
    change = Change(new_id(), memory.memory_id, 1, NOW, "edit", tuple(Step(None, entry) for entry in entries))
    revised = MemoryRevision(replace(memory, entries=entries, version=1, updated_at=NOW), change)
    assert backend.commit(revised, None, None)
    return revised.memory


def embed(backend: PostgresBackend, kind: TextKind, vector_of: Callable[[str], list[float]]) -> int:
    """Give a vector to all that waits for one."""
    done = 0
    while waiting := backend.pending(kind, None, 1_000):
        vectors = np.array([vector_of(row.text) for row in waiting], dtype=np.float32)
        backend.put_vectors(kind, waiting, vectors)
        done += len(waiting)
    return done


# --- tables


def test_the_tables_are_made_with_the_first_use_and_once(
    url: str, opened: Callable[..., PostgresBackend]
) -> None:
    opened()
    assert rows(url, "select to_regclass('memories')") == [(None,)]
    for _ in range(2):
        assert opened().memories(10, "") == []
    assert rows(url, "select version from schema_migrations") == [(1,)]


def test_many_that_start_at_once_make_the_tables_once(
    url: str, opened: Callable[..., PostgresBackend]
) -> None:
    backends = [opened() for _ in range(12)]
    assert at_once(12, lambda number: backends[number].memories(10, "")) == [[]] * 12
    assert rows(url, "select version from schema_migrations") == [(1,)]


def test_tables_of_a_newer_version_are_not_touched(url: str, opened: Callable[..., PostgresBackend]) -> None:
    opened().memories(1, "")
    rows(url, "insert into schema_migrations (version) values (99)")
    with pytest.raises(StorageError, match="upgrade PersonaLab") as caught:
        opened().save_conversation(said(1))
    assert caught.value.code == "database_newer"
    assert rows(url, "select count(*) from memories") == [(0,)]


def test_the_tables_are_the_sources(url: str, backend: PostgresBackend) -> None:
    backend.memories(1, "")
    types = rows(
        url,
        "select attrelid::regclass::text, attname, format_type(atttypid, atttypmod) from pg_attribute"
        " where attnum > 0 and attrelid = any(array['memories', 'memory_contents', 'conversations']::regclass[])",
    )
    known = {(table, column): kind for table, column, kind in types}
    for column in ("profile_content", "event_content", "mind_content"):
        assert known["memories", column] == "jsonb"
    assert known["memory_contents", "content_data"] == "jsonb"
    assert known["memory_contents", "content_vector"] == "vector(1536)"
    assert known["conversations", "conversation_data"] == "jsonb"
    assert known["conversations", "pipeline_result"] == "jsonb"
    assert known["conversations", "conversation_vector"] == "vector(1536)"
    assert known["conversations", "created_at"].startswith("timestamp")
    assert sorted(indexes(url)) == [
        ("conversations", "USING hnsw (conversation_vector vector_cosine_ops)"),
        ("memory_contents", "USING hnsw (content_vector vector_cosine_ops)"),
    ]
    unique = (
        "select pg_get_constraintdef(oid) from pg_constraint"
        " where conrelid = 'memories'::regclass and contype = 'u'"
    )
    assert rows(url, unique) == [("UNIQUE (agent_id, user_id)",)]
    foreign = "select conrelid::regclass::text, confdeltype from pg_constraint where contype = 'f' order by 1"
    assert rows(url, foreign) == [("conversations", "c"), ("memory_changes", "c"), ("memory_contents", "c")]


def indexes(url: str) -> list[tuple[str, str]]:
    """List the indexes of vectors."""
    found = rows(url, "select tablename, indexdef from pg_indexes where indexname like '%%_near'")
    return [(table, f"USING {definition.partition('USING ')[2]}") for table, definition in found]


# --- many at once


def test_fifty_who_save_at_once_have_one_memory(url: str, opened: Callable[..., PostgresBackend]) -> None:
    backends = [opened() for _ in range(50)]
    saved = at_once(50, lambda number: backends[number].save_conversation(said(number % 40)))
    assert len({kept.memory_id for kept in saved}) == 1
    (name,) = backends[0].memories(10, "")
    assert (name.entries, name.conversations) == (0, 40)
    assert len(backends[0].conversations("agent", "user", 100, None)) == 40


def test_processes_that_save_at_once_have_one_memory(url: str, backend: PostgresBackend) -> None:
    others = [other_process(url, "save", str(first), str(first + 14)) for first in (1, 6, 11)]
    assert [other.communicate()[0] for other in others] == [""] * 3
    assert [other.returncode for other in others] == [0] * 3
    (name,) = backend.memories(10, "")
    assert name.conversations == 25
    assert backend.learned("agent", "user", SESSION) == 25


def test_of_changes_made_at_once_from_one_version_one_is_kept(backend: PostgresBackend) -> None:
    memory = remembered(backend, "有一只猫")

    def change(number: int) -> bool:
        wish = Operation("add", "event", f"第 {number} 件事")
        return backend.commit(revise(memory, [wish], NOW, origin="edit"), None, None)

    assert sorted(at_once(8, change)) == [False] * 7 + [True]
    kept = backend.memory("agent", "user")
    assert kept is not None
    assert (kept.version, len(kept.entries)) == (2, 2)


# --- vectors


def test_another_dimension_alters_the_columns_and_drops_the_vectors(
    url: str, backend: PostgresBackend
) -> None:
    memory = remembered(backend, "一", "二")
    backend.prepare("three", 3)
    assert embed(backend, "entries", lambda text: [1.0, 0.0, float(text == "二")]) == 2
    assert embed(backend, "conversations", lambda text: [0.0, 1.0, 0.0]) == 1
    near = backend.nearest("entries", memory.memory_id, [1.0, 0.0, 0.0], 5)
    assert [score for _, score in near] == pytest.approx([1.0, 0.5**0.5])
    backend.prepare("four", 4)
    assert backend.nearest("entries", memory.memory_id, [1.0, 0.0, 0.0, 0.0], 5) == []
    assert embed(backend, "entries", lambda text: [0.0, 0.0, 0.0, 1.0]) == 2
    assert embed(backend, "conversations", lambda text: [0.0, 1.0, 0.0, 0.0]) == 1
    assert len(backend.nearest("entries", memory.memory_id, [0.0, 0.0, 0.0, 1.0], 5)) == 2
    assert [table for table, _ in sorted(indexes(url))] == ["conversations", "memory_contents"]


def test_another_embedder_of_the_same_dimension_drops_the_vectors_too(
    opened: Callable[..., PostgresBackend],
) -> None:
    first, second = opened(), opened()
    memory = remembered(first, "一")
    first.prepare("one", 3)
    embed(first, "entries", lambda text: [1.0, 0.0, 0.0])
    at_once(2, lambda number: (first, second)[number].prepare("one", 3))
    assert first.nearest("entries", memory.memory_id, [1.0, 0.0, 0.0], 5) != []
    second.prepare("two", 3)
    waiting = second.pending("entries", None, 5)
    assert len(waiting) == 1
    assert first.nearest("entries", memory.memory_id, [1.0, 0.0, 0.0], 5) == []
    with pytest.raises(StorageError, match="another embedder"):
        first.put_vectors("entries", waiting, np.ones((1, 3), dtype=np.float32))
    assert second.pending("entries", None, 5) == waiting


def test_a_vector_made_of_an_older_text_is_passed_over(backend: PostgresBackend) -> None:
    memory = remembered(backend, "喜欢茶", "住在北京")
    backend.prepare("three", 3)
    waiting = backend.pending("entries", memory.memory_id, 10)
    entry = memory.of("event")[0]
    wish = Operation("replace", "event", "喜欢咖啡", entry.content_id)
    assert backend.commit(revise(memory, [wish], NOW, origin="edit"), None, None)
    backend.put_vectors("entries", waiting, np.ones((2, 3), dtype=np.float32))
    assert [row.text for row in backend.pending("entries", memory.memory_id, 10)] == ["喜欢咖啡"]


@pytest.mark.parametrize(("dimension", "index"), [(2_000, "vector_"), (3_072, "halfvec_"), (5_000, "")])
def test_vectors_of_any_length_are_found(
    url: str, backend: PostgresBackend, dimension: int, index: str
) -> None:
    memory = remembered(backend, "一", "二")
    backend.prepare("long", dimension)
    embed(backend, "entries", lambda text: [1.0, float(text == "二"), *[0.0] * (dimension - 2)])
    near = backend.nearest("entries", memory.memory_id, [1.0, 0.0, *[0.0] * (dimension - 2)], 5)
    assert [score for _, score in near] == pytest.approx([1.0, 0.5**0.5])
    made = [definition for _, definition in indexes(url)]
    assert len(made) == (2 if index else 0)
    assert all(f"{index}cosine_ops" in definition for definition in made)


def test_a_vector_too_long_for_postgresql_is_refused(backend: PostgresBackend) -> None:
    with pytest.raises(StorageError, match="20000"):
        backend.prepare("longest", 20_000)


@pytest.mark.parametrize("dimension", [8, 2_500])
def test_a_large_memory_is_searched_by_the_index(
    opened: Callable[..., PostgresBackend], dimension: int
) -> None:
    count, backend = 200, opened(exact=100)
    made = np.random.default_rng(7).normal(size=(count, 8)).astype(np.float32)
    padded = np.pad(made, ((0, 0), (0, dimension - 8)))
    vectors = {f"第 {number} 件": padded[number].tolist() for number in range(count)}
    memory = remembered(backend, *vectors)
    backend.prepare("eight", dimension)
    embed(backend, "entries", lambda text: vectors[text])
    wanted = np.array(vectors["第 17 件"], dtype=np.float32)
    near = backend.nearest("entries", memory.memory_id, wanted.tolist(), 20)
    alike = padded @ wanted / np.linalg.norm(padded, axis=1) / np.linalg.norm(wanted)
    best = [entry.text for entry in memory.of("event") if entry.content_id == near[0][0]]
    assert best == ["第 17 件"]
    assert [score for _, score in near] == sorted((score for _, score in near), reverse=True)
    assert near[-1][1] >= np.sort(alike)[-25] - 1e-5
    assert backend.nearest("entries", memory.memory_id, wanted.tolist(), 20, ["mind"]) == []
    assert len(backend.nearest("entries", memory.memory_id, wanted.tolist(), count + 5)) == count


# --- what can go wrong


def failing(work: Callable[[], object]) -> PersonaLabError:
    """Do what fails, and see that neither the message nor what is behind it tells a secret."""
    with pytest.raises(PersonaLabError) as caught:
        work()
    told = "".join(traceback.format_exception(caught.value)) + caught.value.message("zh")
    assert SECRET not in told
    assert "s3cret" not in told
    return caught.value


def test_a_server_that_is_not_there_is_named(opened: Callable[..., PostgresBackend]) -> None:
    lost = opened(f"postgresql://someone:{SECRET}@127.0.0.1:1/people")
    error = failing(lambda: lost.memories(1, ""))
    assert error.code == "database_unreachable"
    assert "127.0.0.1:1/people" in str(error)
    assert "check that the server is running" in str(error)


def test_an_address_that_cannot_be_read_is_not_repeated(opened: Callable[..., PostgresBackend]) -> None:
    for address in (f"postgresql://someone:{SECRET}@[here/people", f"postgresql://a:{SECRET}%zz@b/c"):
        assert failing(lambda at=address: opened(at).memories(1, "")).code == "database_address"


def test_a_wrong_password_and_a_missing_database_are_told_apart(
    postgres_server: PostgresTestServer, url: str, opened: Callable[..., PostgresBackend]
) -> None:
    from tests.support.postgres import database_url

    name = urlsplit(url).path[1:]
    rules = postgres_server.folder / "pg_hba.conf"
    rules.write_text(f"local all locked scram-sha-256\n{rules.read_text()}")
    rows(url, "drop role if exists locked")
    rows(url, "create role locked login password 'right'")
    rows(url, "select pg_reload_conf()")
    wrong = opened(database_url(url, name, "locked", SECRET.replace("%41-", "")))
    error = failing(lambda: wrong.memories(1, ""))
    assert error.code == "database_login"
    assert name in str(error)
    assert failing(lambda: opened(database_url(url, name, "locked")).memories(1, "")).code == "database_login"
    nowhere = opened(database_url(url, "nowhere", "locked", "right"))
    assert failing(lambda: nowhere.memories(1, "")).code == "database_missing"


def test_a_database_without_vectors_names_the_remedy(
    url: str, opened: Callable[..., PostgresBackend]
) -> None:
    from tests.support.postgres import database_url

    rows(url, "drop role if exists plain")
    rows(url, "create role plain login")
    rows(url, "grant create on schema public to plain")
    try:
        plain = opened(database_url(url, urlsplit(url).path[1:], "plain"))
        error = failing(lambda: plain.memories(1, ""))
        assert error.code == "database_no_vector"
        assert "CREATE EXTENSION vector" in str(error)
        rows(url, "create extension vector")
        assert plain.memories(1, "") == []
    finally:
        rows(url, "drop owned by plain")
        rows(url, "drop role plain")


def test_a_missing_driver_names_the_remedy(url: str) -> None:
    said_there, _ = other_process(url, "undriven").communicate()
    assert said_there.startswith("database_driver ")
    assert "personalab[postgres]" in said_there


def test_what_postgresql_cannot_keep_is_left_out_or_a_bad_record(backend: PostgresBackend) -> None:
    kept = backend.save_conversation(said(1))
    memory = backend.memory("agent", "user")
    assert memory is not None
    nothing = revise(memory, [], NOW, origin="memorize")
    assert backend.commit(nothing, kept.conversation_id, {"score": float("nan")})
    found = backend.conversation(kept.conversation_id)
    assert found is not None
    assert found.pipeline_result == {"score": None}
    with pytest.raises(BadRecord):
        backend.memory("agent\x00", "user")


def test_rows_that_cannot_be_read_are_set_aside_and_the_rest_is_given(
    url: str, backend: PostgresBackend, caplog: pytest.LogCaptureFixture
) -> None:
    memory = remembered(backend, "一", "二")
    kept = backend.save_conversation(said(2))
    rows(url, "update memory_contents set content_data = '[7]' where content_text = '一'")
    rows(
        url,
        "update conversations set conversation_data = '{}' where conversation_id <> %s",
        kept.conversation_id,
    )
    rows(url, 'update memory_changes set steps = \'[{"after": {}, "before": 7}]\'')
    found = backend.memory("agent", "user")
    assert found is not None
    assert list(found.entries) == memory.of("event")[1:]
    assert backend.conversations("agent", "user", 10, None) == [kept]
    assert backend.changes("agent", "user", 10) == []
    aside = rows(url, "select table_name, record ->> 'memory_id' from set_aside order by number")
    assert aside == [
        (table, memory.memory_id) for table in ("memory_contents", "conversations", "memory_changes")
    ]
    assert [(name.entries, name.conversations) for name in backend.memories(10, "")] == [(1, 1)]
    assert rows(url, "select event_content from memories") == [(["二"],)]
    assert len(caplog.records) == 3
    assert backend.memory("agent", "user") == found


def test_a_server_that_was_restarted_is_found_again(
    postgres_server: PostgresTestServer, backend: PostgresBackend
) -> None:
    kept = at_once(4, lambda number: backend.save_conversation(said(number)))
    postgres_server.restart()
    found = at_once(4, lambda number: backend.conversation(kept[number].conversation_id))
    assert found == kept
    postgres_server.restart()
    assert backend.save_conversation(said(9)).memory_id == kept[0].memory_id


def test_connections_that_were_cut_are_replaced_before_anything_is_lost(
    url: str, backend: PostgresBackend
) -> None:
    memory = remembered(backend, "一")
    cut = (
        "select pg_terminate_backend(pid, 10000) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )
    rows(url, cut)
    wish = Operation("add", "event", "二")
    assert backend.commit(revise(memory, [wish], NOW, origin="edit"), None, None)
    rows(url, cut)
    assert backend.forget("agent", "user") is True
    rows(url, cut)
    assert backend.forget("agent", "user") is False


def test_a_client_that_is_killed_leaves_nothing_half(url: str, backend: PostgresBackend) -> None:
    import psycopg

    backend.memories(1, "")
    waits = "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    with psycopg.connect(url) as holding:
        holding.execute("lock table story_marks in access exclusive mode")
        other = other_process(url, "save", "1", "1")
        while not (waiting := rows(url, waits)):
            assert other.poll() is None
        os.kill(other.pid, signal.SIGKILL)
        other.communicate()
    gone = "select from pg_stat_activity where pid = %s"
    while rows(url, gone, waiting[0][0]):
        pass
    assert backend.memories(10, "") == []
    assert rows(url, "select count(*) from conversations") == [(0,)]
    assert backend.save_conversation(said_in_story(1)).memory_id is not None
    assert backend.learned("agent", "user", SESSION) == 1


def test_closing_ends_the_pools_threads(opened: Callable[..., PostgresBackend]) -> None:
    backend = opened()
    backend.save_conversation(said(1))
    backend.close()
    assert [one.name for one in threading.enumerate() if "personalab-memory" in one.name] == []
    assert len(backend.memories(10, "")) == 1
