"""Recovery of a damaged memory database: readable rows are copied into a new one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from personalab.retrieval.memory.sqlite_file import SqliteFile

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
                new.execute(f"DELETE FROM {table} WHERE memory_id NOT IN (SELECT memory_id FROM memories)")  # noqa: S608 (constants)
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
        cursor = old.execute(f"SELECT * FROM {table} NOT INDEXED")  # noqa: S608 (a constant)
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
        query = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({places})"  # noqa: S608 (its own columns)
        return new.execute(query, list(row.values())).rowcount > 0
    except sqlite3.DatabaseError:
        return False
