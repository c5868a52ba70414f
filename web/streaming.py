"""How does a stream of events leave the server?

As a plain ASGI answer of our own: one that lives until what it tells has ended, also when the server ends. A library's
response costs several tasks a connection and a place of its own for the server's end; this one costs one task.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from fastapi import Response
from starlette.types import Receive, Scope, Send

from web.limits import Seats

_SEND_SECONDS = 60.0
"""A client that reads nothing for so long is let go; it may come back where it left."""
STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


class EventStream(Response):
    """Sends events as they come, until there are no more or the client goes away; then the events are closed."""

    media_type = "text/event-stream"

    def __init__(self, stream: AsyncGenerator[bytes], seats: Seats) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._stream = stream
        self._seats = seats

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        sending = asyncio.current_task()
        assert sending is not None
        gone = asyncio.create_task(_leave_with(receive, sending))
        try:
            with self._seats.seat():
                async with aclosing(self._stream) as parts:
                    await self._send(parts, send)
        except TimeoutError:
            return
        except asyncio.CancelledError:
            if not gone.done() or sending.uncancel() > 0:
                raise  # it is the server that ends, not the client
        finally:
            gone.cancel()

    async def _send(self, parts: AsyncGenerator[bytes], send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for part in parts:
            async with asyncio.timeout(_SEND_SECONDS):
                await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _leave_with(receive: Receive, sending: asyncio.Task[Any]) -> None:
    """Wait until the client goes away, then end what is sent to it."""
    while (await receive())["type"] != "http.disconnect":
        pass
    sending.cancel()


def events(stream: AsyncGenerator[bytes], seats: Seats) -> Response:
    """Answer with a stream; its seat is taken while it is open."""
    seats.check()
    return EventStream(stream, seats)


def resumed_at(last_event_id: str | None, asked: int | None) -> int | None:
    """Find how much of the reply a client has: what its last event says, or what it asks for."""
    if last_event_id is not None and last_event_id.isascii() and last_event_id.isdigit():
        return int(last_event_id[:18])
    return asked
