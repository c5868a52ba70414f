"""Choice of the memory database: that of ``PERSONALAB_DATABASE``, or SQLite in the data root."""

from __future__ import annotations

from pathlib import Path

from personalab.errors import Reason, UserError
from personalab.retrieval.memory.backend import Backend

POSTGRES = ("postgresql://", "postgres://")


def open_backend(database: str | None, folder: Path) -> Backend:
    """Open a database; nothing is made or connected to before it is used."""
    if database is None:
        from personalab.retrieval.memory.sqlite import SqliteBackend

        return SqliteBackend(folder)
    if not database.startswith(POSTGRES):
        reason = Reason("not_postgresql")
        raise UserError("unreadable_env", name="PERSONALAB_DATABASE", value="…", reason=reason)
    from personalab.retrieval.memory.postgres import PostgresBackend

    return PostgresBackend(database)
