"""What can be wrong with the memories, and what can be done about it?"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import closing
from pathlib import Path

from personalab.errors import PersonaLabError
from personalab.operations.doctor_findings import Finding
from personalab.services import Services

FILE = "memory/memory.db"
_PARTS = ("", "-wal", "-shm")


async def examine_memories(services: Services, *, fix: bool) -> list[Finding]:
    """Check the database of memories; a file that cannot be read is set aside, so that others can be made."""
    if services.settings.database:
        return await _ask(services)
    path = services.settings.data_root / FILE
    if not path.exists():
        return []
    broken, aside = await asyncio.to_thread(_looked_at, path)
    if not broken:
        if aside:
            return [Finding("memory_aside", FILE, params={"count": aside}, level="note")]
        return await _ask(services)
    finding = Finding("memory_broken", FILE, params={"reason": broken}, fixable=True)
    if not fix:
        return [finding]
    await services.memories.close()
    try:
        await asyncio.to_thread(_set_aside, path)
    except OSError as error:
        params = {"reason": error.strerror or str(error)}
        return [finding, Finding("not_repaired", FILE, params=params)]
    return [Finding("memory_broken", FILE, params={"reason": broken}, fixable=True, fixed=True)]


async def _ask(services: Services) -> list[Finding]:
    """Let the store say whether it can be used."""
    try:
        await services.memories.memories(limit=1)
    except PersonaLabError as error:
        name = "PERSONALAB_DATABASE" if services.settings.database else FILE
        return [Finding("memory_unusable", name, params={"reason": str(error)})]
    return []


def _looked_at(path: Path) -> tuple[str, int]:
    """Tell what is wrong with a database file, and how many rows were set aside in it."""
    try:
        with closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10)
        ) as connection:
            found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
            if found != "ok":
                return found[:200], 0
            named = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'set_aside'"
            if not connection.execute(named).fetchone()[0]:
                return "", 0
            return "", int(connection.execute("SELECT count(*) FROM set_aside").fetchone()[0])
    except sqlite3.OperationalError as error:
        # Locked or not readable just now: the store itself says so better.
        return ("" if "locked" in str(error) else str(error)[:200]), 0
    except sqlite3.DatabaseError as error:
        return str(error)[:200], 0


def _set_aside(path: Path) -> None:
    number = 1
    while any(path.with_name(f"{path.name}.broken{number}{part}").exists() for part in _PARTS):
        number += 1
    for part in _PARTS:
        whole = path.with_name(path.name + part)
        if whole.exists():
            os.rename(whole, path.with_name(f"{path.name}.broken{number}{part}"))
