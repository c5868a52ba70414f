"""Limits of connections: time to send a request's head, and number of connections without a token."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from personalab.serving.access import AUTHENTICATED, Receive, Send, one_client

HEAD_SECONDS = 30.0
MAX_UNAUTHENTICATED = 1_024
MAX_UNAUTHENTICATED_PER_CLIENT = 128
MAX_PIPELINED_BYTES = 64 * 1024
"""Bytes of further requests that a client may send before the current one is answered."""
_MOST_FILES = 65_536


class PatientProtocol(H11Protocol):
    """Closes a connection on which the head of a request does not come, or does not end.

    h11, because a head has a limit there: with the parser uvicorn takes where it is installed, one caller, with no
    token, fills the memory.
    """

    head_seconds = HEAD_SECONDS
    unauthenticated: UnauthenticatedConnections | None = None
    """Connections to limit; none where no token is set."""
    _patience: asyncio.TimerHandle | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._application = self.app
        self.app = self._run_application  # pyright: ignore[reportAttributeAccessIssue] (plain ASGI)

    async def _run_application(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Let the application report whether a request carries the token."""
        extensions: dict[str, Any] = {
            **(scope.get("extensions") or {}),
            AUTHENTICATED: self._note_authenticated,
        }
        await self._application({**scope, "extensions": extensions}, receive, send)  # pyright: ignore[reportArgumentType] (plain ASGI)

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] (as uvicorn's own)
        """Wait for the first head."""
        super().connection_made(transport)
        self._note_authenticated(False)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._wait_no_longer()
        if self.unauthenticated is not None:
            self.unauthenticated.discard(self._client_name, self.transport)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Wait as long as what comes is still the head of a request; close where too many requests wait."""
        super().data_received(data)
        waiting, _ = self.conn.trailing_data
        if len(waiting) > MAX_PIPELINED_BYTES:  # each answer would let in more than it uses up
            self.transport.abort()
            return
        if self.cycle is not None and not self.cycle.response_complete:  # pyright: ignore[reportUnnecessaryComparison] (it is None before the first request)
            self._wait_no_longer()
        elif self._patience is None:
            self._wait()

    def on_response_complete(self) -> None:
        """Discard what was read of an unrequested body."""
        self.cycle.body = bytearray()
        super().on_response_complete()

    def _wait(self) -> None:
        self._patience = self.loop.call_later(self.head_seconds, self.transport.close)

    def _wait_no_longer(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    @property
    def _client_name(self) -> str:
        return one_client(self.client[0]) if self.client else "?"

    def _note_authenticated(self, is_authenticated: bool) -> None:
        if self.unauthenticated is None or self.transport.is_closing():
            return
        if is_authenticated:
            self.unauthenticated.discard(self._client_name, self.transport)
        else:
            self.unauthenticated.add(self._client_name, self.transport)


class UnauthenticatedConnections:
    """Connections whose current request carries no valid token, limited per client address and in total.

    A new connection is never turned away: the oldest one of the same address is closed for it, or, when there are too
    many in total, the oldest one of the address that has most.
    """

    def __init__(
        self, per_client: int = MAX_UNAUTHENTICATED_PER_CLIENT, total: int = MAX_UNAUTHENTICATED
    ) -> None:
        self._per_client = per_client
        self._total = total
        self._open: dict[str, dict[asyncio.Transport, None]] = {}
        self._count = 0

    def add(self, client: str, transport: asyncio.Transport) -> None:
        """Count a connection, as the newest of its client, and close another one if there are too many."""
        self.discard(client, transport)
        self._open.setdefault(client, {})[transport] = None
        self._count += 1
        if len(self._open[client]) > self._per_client:
            self._close_oldest(client)
        elif self._count > self._total:
            self._close_oldest(max(self._open, key=lambda name: len(self._open[name])))

    def discard(self, client: str, transport: asyncio.Transport) -> None:
        """Stop counting a connection."""
        held = self._open.get(client, {})
        if transport in held:
            del held[transport]
            self._count -= 1
            if not held:
                del self._open[client]

    def _close_oldest(self, client: str) -> None:
        oldest = next(iter(self._open[client]))
        self.discard(client, oldest)
        oldest.abort()


def allow_many_connections() -> int:
    """Ask for as many open files as the system allows, for connections and stories, and return how many there are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # some systems have a bound of their own below that
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return _MOST_FILES if soft == resource.RLIM_INFINITY else soft
