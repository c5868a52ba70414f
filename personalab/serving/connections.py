"""How long may a connection take to ask for something, and how many may there be?"""

from __future__ import annotations

import asyncio
import resource
from contextlib import suppress

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 30.0
_MOST_FILES = 65_536


class PatientProtocol(H11Protocol):
    """Closes a connection on which the head of a request does not come, or does not end.

    h11, because a head has a limit there: with the parser uvicorn takes where it is installed, one caller, with no
    token, fills the memory.
    """

    head_seconds = HEAD_SECONDS
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] (as uvicorn's own)
        """Wait for the first head."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._wait_no_longer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Wait as long as what comes is still the head of a request."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:  # pyright: ignore[reportUnnecessaryComparison] (it is None before the first request)
            self._wait_no_longer()
        elif self._patience is None:
            self._wait()

    def _wait(self) -> None:
        self._patience = self.loop.call_later(self.head_seconds, self.transport.close)

    def _wait_no_longer(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


def allow_many_connections() -> None:
    """Ask for as many open files as the system lets us have: each connection is one, and so is each story's file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # some systems have a bound of their own below that
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
