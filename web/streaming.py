"""Server-sent event responses, and the limit of open streams.

The body consists of whole events, serialized once for all watchers. The library handles the connection:
clients that disconnect, that do not read, that request only the headers, and the shutdown of the server.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager
from typing import Any

from fastapi import Response
from pydantic import BaseModel
from sse_starlette.sse import EventSourceResponse, SendTimeoutError
from starlette.types import Receive, Scope, Send

from personalab.errors import Busy

_SEND_SECONDS = 60.0
"""Seconds after which a client that reads nothing is disconnected; it can resume where it left."""
_ENDING_SECONDS = 10.0
"""Seconds that shutdown waits for streams to send their remaining events."""


def described(**told: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    """Describe a stream by what the data of each of its events holds."""

    def event(name: str, shape: type[BaseModel]) -> dict[str, Any]:
        data = {"contentMediaType": "application/json", "contentSchema": shape.model_json_schema()}
        fields = {"event": {"const": name}, "id": {"type": "string"}, "data": {"type": "string", **data}}
        return {"type": "object", "properties": fields, "required": ["event", "data"]}

    schema = {"anyOf": [event(name, shape) for name, shape in told.items()]}
    content = {"text/event-stream": {"itemSchema": schema}}
    return {200: {"description": f"Server-sent events: {', '.join(told)}", "content": content}}


class EventStream(EventSourceResponse):
    """Sends events as they come, until there are no more or the client goes away; then the events are closed."""

    def __init__(self, stream: AsyncGenerator[bytes], seats: StreamLimiter) -> None:
        # Turns and jobs end with the server and report it; the stream is not cut off before.
        super().__init__(
            stream, ping=0, send_timeout=_SEND_SECONDS, shutdown_grace_period=_ENDING_SECONDS, sep="\n"
        )
        self._stream = stream
        self._seats = seats

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        with self._seats.seat():
            async with aclosing(self._stream):
                try:
                    await super().__call__(scope, receive, send)
                except SendTimeoutError:
                    return


def events(stream: AsyncGenerator[bytes], seats: StreamLimiter) -> Response:
    """Answer with a stream; its seat is taken while it is open."""
    seats.check()
    return EventStream(stream, seats)


def resumed_at(last_event_id: str | None, asked: int | None) -> int | None:
    """Find how much of the reply a client has: what its last event says, or what it asks for."""
    if last_event_id is not None and last_event_id.isascii() and last_event_id.isdigit():
        return int(last_event_id[:18])
    return asked


class StreamLimiter:
    """A limit of concurrently open streams."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0

    def check(self) -> None:
        """Refuse a stream when all seats are taken."""
        if self.taken >= self.limit:
            raise Busy("too_many_watchers", limit=self.limit)

    @contextmanager
    def seat(self) -> Generator[None]:
        """Take a seat for as long as a stream is open."""
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1
