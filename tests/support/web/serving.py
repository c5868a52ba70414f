"""Helpers that start the web server as a process and wait for its end."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

CHECKOUT = Path(__file__).resolve().parents[3]
SECONDS = 60
"""Nothing here takes as long; what hangs is ended."""
_URL = re.compile(rb"http://[^\s\"/]+")


@dataclass
class Served:
    """A server process: where it is, what it was started with, and what it said on stderr."""

    process: subprocess.Popen[bytes]
    url: str
    environment: dict[str, str]
    log: Path

    @property
    def errors(self) -> str:
        """What it said on stderr so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    @property
    def data(self) -> Path:
        """Its data root."""
        return Path(self.environment["PERSONALAB_DATA"])

    def client(self, **options: object) -> httpx.AsyncClient:
        """Make a client of it."""
        return httpx.AsyncClient(base_url=self.url, timeout=SECONDS, **options)  # pyright: ignore[reportArgumentType]

    def stop(self) -> int:
        """Ask it to end, as a service manager does, and wait until it has."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=SECONDS)

    def kill(self) -> None:
        """End it at once, as a power cut does."""
        self.process.kill()
        self.process.wait(timeout=SECONDS)


@contextlib.contextmanager
def serving(environment: Mapping[str, str], log: Path, *options: str, port: int = 0) -> Generator[Served]:
    """Start ``python -m web`` on a free port, wait until it answers, and kill it in the end."""
    command = [sys.executable, "-m", "web", "--port", str(port), *options]
    with log.open("ab") as errors:
        begin = errors.tell()
        process = subprocess.Popen(
            command,
            cwd=CHECKOUT,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
        )
    made = Served(process, "", dict(environment), log)
    try:
        wait_until(lambda: process.poll() is not None or _URL.search(log.read_bytes()[begin:]))
        found = _URL.search(log.read_bytes()[begin:])
        assert found, f"the server ended without an address:\n{made.errors}"
        made.url = found[0].decode("ascii")
        wait_until(lambda: process.poll() is not None or _answers(made.url))
        yield made
    finally:
        process.kill()
        process.wait()
        print(made.errors, file=sys.stderr)  # shown by pytest where a test failed


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", timeout=SECONDS).is_success
    except httpx.TransportError:
        return False


def wait_until(condition: Callable[[], object], what: str = "it never came true") -> None:
    """Wait for a condition, but not for ever."""
    deadline = time.monotonic() + SECONDS
    turn = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, what
        turn.wait(0.01)
