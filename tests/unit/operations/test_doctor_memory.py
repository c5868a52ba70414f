"""The doctor looks at the memories, too, and loses none of them."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from personalab.operations.doctor import (
    examine_root,
    inspect_database,
)
from personalab.operations.memory import add_entry, get_memory, search_memory
from personalab.operations.reindex import reindex
from personalab.services import Services

pytestmark = pytest.mark.anyio


@pytest.fixture
async def database(services: Services, root: Path) -> Path:
    """A database that knows something."""
    await add_entry(services, "agent", "user", "profile", "用户是医生")
    await services.memories.close()
    return root / "memory" / "memory.db"


async def test_a_sound_database_is_all_well(services: Services, database: Path) -> None:
    assert (await examine_root(services)).findings == []
    assert (await get_memory(services, "agent", "user")).texts("profile") == ["用户是医生"]
    await services.memories.close()


async def test_a_damaged_database_is_reported_and_set_aside_when_asked(
    services: Services, database: Path
) -> None:
    damaged = b"this was a database once, and now it is not" * 100
    database.write_bytes(damaged)
    report = await examine_root(services)
    assert [(found.code, found.fixable) for found in report.findings] == [("memory_broken", True)]
    assert database.read_bytes() == damaged
    assert (await examine_root(services, fix=True)).healthy
    assert database.with_name("memory.db.broken1").read_bytes() == damaged
    await add_entry(services, "agent", "user", "profile", "用户是护士")
    assert (await examine_root(services)).findings == []
    await services.memories.close()


async def test_of_a_partly_damaged_database_what_can_be_read_is_saved(
    services: Services, database: Path
) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'contents_in_order'"
        page = int(connection.execute(query).fetchone()[0])
    with database.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)
    assert [found.code for found in (await examine_root(services)).findings] == ["memory_broken"]
    report = await examine_root(services, fix=True)
    assert report.healthy
    saved = next(found for found in report.findings if found.code == "memory_saved")
    assert (saved.params["memories"], saved.params["entries"]) == (1, 1)
    assert (await get_memory(services, "agent", "user")).texts("profile") == ["用户是医生"]
    hits = await search_memory(services, "医生", "agent", "user")
    assert [hit.entry.text for hit in hits] == ["用户是医生"]
    await services.memories.close()


async def test_a_database_that_cannot_be_read_just_now_is_not_damaged(
    services: Services, database: Path
) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        found = await asyncio.to_thread(inspect_database, database)
    assert found == ("", 0)


async def test_records_that_cannot_be_read_are_counted(services: Services, database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE memory_contents SET content_data = '{broken'")
    memory = await get_memory(services, "agent", "user")
    assert memory.entries == ()
    report = await examine_root(services)
    assert [(found.code, found.level) for found in report.findings] == [("memory_aside", "note")]
    await services.memories.close()


async def test_rebuilding_makes_memories_findable_anew(services: Services, database: Path) -> None:
    rebuilt = await reindex(services)
    assert rebuilt.counts["memory"] >= 1
    hits = await search_memory(services, "医生", "agent", "user")
    assert [hit.entry.text for hit in hits] == ["用户是医生"]
    await services.memories.close()
