"""Limits of MCP sessions over HTTP: how often and how many a client may open, and which one makes room.

Only clients of the protocol's older versions have sessions.
"""

from __future__ import annotations

import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_server.texts import tell
from personalab.serving.access import Rate, client_of
from personalab.texts import Language

IDLE_SECONDS = 30 * 60
"""Time after which a session without requests ends."""
_SESSION_ID = b"mcp-session-id"
_VERSION = b"mcp-protocol-version"


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """How many sessions may be open, and how often a client may open one."""

    per_client: int = 500
    total: int = 1_000
    a_second: float = 10.0
    at_once: int = 300


@dataclass(eq=False, slots=True)
class _Session:
    client: str
    used_at: float
    calls: int = 0
    streams: int = 0


class SessionTable:
    """The open sessions, the one used longest ago first."""

    def __init__(self, limits: SessionLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._opening: Counter[str] = Counter()

    @contextmanager
    def opening(self, client: str) -> Generator[None]:
        """Reserve a place for a session that is being opened."""
        self._opening[client] += 1
        try:
            yield
        finally:
            self._opening[client] -= 1
            self._opening += Counter[str]()  # drops those without any

    def opened(self, session_id: str, client: str) -> None:
        """Add a session."""
        self._sessions[session_id] = _Session(client, self._clock())

    def closed(self, session_id: str) -> None:
        """Remove a session."""
        self._sessions.pop(session_id, None)

    @contextmanager
    def used(self, session_id: str | None, *, is_stream: bool = False) -> Generator[None]:
        """Mark a session as busy with a call or an open stream."""
        session = self._sessions.get(session_id or "")
        if session is None or session_id is None:
            yield
            return
        self._count(session, 1, is_stream=is_stream)
        try:
            yield
        finally:
            self._count(session, -1, is_stream=is_stream)
            if session_id in self._sessions:
                session.used_at = self._clock()
                self._sessions.move_to_end(session_id)

    def _count(self, session: _Session, number: int, *, is_stream: bool) -> None:
        if is_stream:
            session.streams += number
        else:
            session.calls += number

    def has_room(self, client: str) -> bool:
        """Return whether a client may open another session without one being closed."""
        self._expire()
        mine = sum(session.client == client for session in self._sessions.values()) + self._opening[client]
        total = len(self._sessions) + self._opening.total()
        return mine < self._limits.per_client and total < self._limits.total

    def least_used(self, client: str) -> str | None:
        """Return the session to close for a new one of a client; ``None`` if every one has a running call.

        Idle sessions go before those with an open stream, those of clients with many before those of clients with
        few, and the one used longest ago first. A client at its own limit closes one of its own.
        """
        counts = Counter(session.client for session in self._sessions.values())
        is_own = counts[client] + self._opening[client] >= self._limits.per_client
        found = [
            (session.streams > 0, -counts[session.client], place, session_id)
            for place, (session_id, session) in enumerate(self._sessions.items())
            if not session.calls and (session.client == client or not is_own)
        ]
        return min(found)[-1] if found else None

    def _expire(self) -> None:
        """Remove sessions that the SDK has ended for being idle."""
        deadline = self._clock() - IDLE_SECONDS
        ended = [
            session_id
            for session_id, session in self._sessions.items()
            if session.used_at < deadline and not session.calls and not session.streams
        ]
        for session_id in ended:
            del self._sessions[session_id]


class SessionMiddleware:
    """Opens sessions at a limited rate, and closes the least used one when there are too many.

    A closed session answers its client's next request with 404, on which clients open a new one.
    """

    def __init__(
        self, app: ASGIApp, *, table: SessionTable, limits: SessionLimits, language: Callable[[], Language]
    ) -> None:
        self._app = app
        self._table = table
        self._language = language
        self._rate = Rate(limits.a_second, limits.at_once)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and keep track of its session."""
        if scope["type"] != "http" or not _has_session(scope):
            await self._app(scope, receive, send)
        elif (session_id := _header(scope["headers"], _SESSION_ID)) is None:
            await self._open(scope, receive, send)
        else:
            await self._use(session_id, scope, receive, send)

    async def _open(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = client_of(scope)
        if seconds := self._rate.wait(client):
            await self._refusal("too_many_handshakes", 429, seconds)(scope, receive, send)
            return
        while not self._table.has_room(client):
            session_id = self._table.least_used(client)
            if session_id is None:
                await self._refusal("too_many_sessions", 503, 5)(scope, receive, send)
                return
            await self._close(session_id, scope)
        opened: str | None = None

        async def note(message: Message) -> None:
            nonlocal opened
            if message["type"] == "http.response.start" and message["status"] < 400:
                opened = _header(message["headers"], _SESSION_ID)
                if opened is not None:
                    self._table.opened(opened, client)
            await send(message)

        with self._table.opening(client):
            await self._app(scope, receive, note)

    async def _use(self, session_id: str, scope: Scope, receive: Receive, send: Send) -> None:
        async def note(message: Message) -> None:
            if message["type"] == "http.response.start":
                is_deleted = scope["method"] == "DELETE" and message["status"] < 400
                if is_deleted or message["status"] == 404:
                    self._table.closed(session_id)
            await send(message)

        with self._table.used(session_id, is_stream=scope["method"] == "GET"):
            await self._app(scope, receive, note)

    async def _close(self, session_id: str, scope: Scope) -> None:
        """End a session as its own client would."""
        self._table.closed(session_id)
        headers = [pair for pair in scope["headers"] if pair[0] == b"host"]
        headers.append((_SESSION_ID, session_id.encode("latin-1")))

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def ignore(_: Message) -> None:
            return

        await self._app({**scope, "method": "DELETE", "headers": headers}, receive, ignore)

    def _refusal(self, code: str, status: int, seconds: float) -> Response:
        wait = max(math.ceil(seconds), 1)
        message = tell(code, self._language(), seconds=wait)
        body = JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=INTERNAL_ERROR, message=message))
        return Response(
            body.model_dump_json(by_alias=True, exclude_unset=True),
            status_code=status,
            headers={"retry-after": str(wait)},
            media_type="application/json",
        )


def _has_session(scope: Scope) -> bool:
    """Return whether a request is of a protocol version that has sessions."""
    version = _header(scope["headers"], _VERSION)
    return version is None or version in HANDSHAKE_PROTOCOL_VERSIONS


def _header(headers: list[tuple[bytes, bytes]], name: bytes) -> str | None:
    return next((value.decode("latin-1") for key, value in headers if key.lower() == name), None)
