"""The doctor's checks and repairs of the memory database."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from personalab.data_files import check_regular
from personalab.errors import PersonaLabError, as_reason, reason_of
from personalab.operations.doctor_findings import Finding
from personalab.services import Services

FILE = "memory/memory.db"
_PARTS = ("", "-wal", "-shm")


async def examine_memories(services: Services, *, fix: bool) -> list[Finding]:
    """Check the database of memories; of a damaged file, what can be read is saved into a new one."""
    path = services.settings.data_root / FILE
    if services.settings.database:
        return await _ask(services)
    if not path.exists():
        return []
    try:
        damage, aside = await asyncio.to_thread(_looked_at, path)
    except (PersonaLabError, OSError) as error:
        return [Finding("memory_unusable", FILE, params={"reason": as_reason(error)})]
    if not damage:
        notes = [Finding("memory_aside", FILE, params={"count": aside}, level="note")] if aside else []
        return [*notes, *await _ask(services)]
    finding = Finding("memory_broken", FILE, params={"reason": damage}, fixable=True)
    if not fix:
        return [finding]
    await services.memories.close()
    try:
        broken, counts = await asyncio.to_thread(_saved, path)
    except (OSError, sqlite3.Error, PersonaLabError) as error:
        return [finding, Finding("not_repaired", FILE, params={"reason": reason_of(error)})]
    params = {
        "file": f"memory/{broken.name}",
        "memories": counts["memories"],
        "entries": counts["memory_contents"],
        "conversations": counts["conversations"],
    }
    return [replace(finding, fixed=True), Finding("memory_saved", FILE, params=params, level="note")]


async def _ask(services: Services) -> list[Finding]:
    """Ask the store whether it can be used."""
    try:
        await services.memories.memories(limit=1)
    except PersonaLabError as error:
        name = "PERSONALAB_DATABASE" if services.settings.database else FILE
        return [Finding("memory_unusable", name, params={"reason": reason_of(error)})]
    return []


def _looked_at(path: Path) -> tuple[str, int]:
    """Return the damage of a database file, and the number of rows that were set aside in it."""
    from personalab.retrieval.memory.sqlite_file import is_damage

    for part in (*_PARTS, "-journal"):
        check_regular(f"{path}{part}", shown=f"{FILE}{part}")
    try:
        with closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10)
        ) as connection:
            found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
            if found != "ok":
                return " ".join(found.split())[:200], 0
            named = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'set_aside'"
            if not connection.execute(named).fetchone()[0]:
                return "", 0
            return "", int(connection.execute("SELECT count(*) FROM set_aside").fetchone()[0])
    except sqlite3.Error as error:
        # A file that is locked or on a full disk is not damaged: the store itself says what is wrong.
        return (" ".join(str(error).split())[:200] if is_damage(error) else ""), 0


def _saved(path: Path) -> tuple[Path, dict[str, int]]:
    """Set a damaged file aside and save what can be read of it; give where it is, and what was saved."""
    from personalab.retrieval.memory.sqlite_file import salvage

    number = 1
    while any(path.with_name(f"{path.name}.broken{number}{part}").exists() for part in _PARTS):
        number += 1
    broken = path.with_name(f"{path.name}.broken{number}")
    for part in _PARTS:
        whole = path.with_name(path.name + part)
        if whole.exists():
            os.rename(whole, broken.with_name(broken.name + part))
    return broken, salvage(broken, path)
