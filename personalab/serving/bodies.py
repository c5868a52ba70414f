"""Limits of request bodies: size, deadline and minimum rate."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, Literal

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Fault = Literal["body_too_large", "body_too_slow"]


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """How large a body may be and how fast it has to arrive.

    Only the time spent waiting for the client counts, not the time the server takes to process what has arrived.
    """

    size: int
    seconds: float = 600.0
    """Deadline of the whole body."""
    grace_seconds: float = 20.0
    """Time before the minimum rate applies."""
    bytes_a_second: float = 8_192.0
    """Minimum rate, on average since the beginning."""

    def seconds_for(self, received: int) -> float:
        """Return how long a client may have taken to send so many bytes and begin the next."""
        return min(self.seconds, self.grace_seconds + received / self.bytes_a_second)


AUTHENTICATED_BODY = BodyLimits(4 * 1024 * 1024)
UNAUTHENTICATED_BODY = BodyLimits(8 * 1024, seconds=10.0, grace_seconds=10.0)
"""Limits of a request without a valid token, where one is set."""


class LimitedBody:
    """Passes a request's body on within its limits; when it exceeds one, the client appears to disconnect."""

    def __init__(
        self, receive: Receive, send: Send, limits: BodyLimits, refuse: Callable[[Fault], Awaitable[None]]
    ) -> None:
        self._receive = receive
        self._send = send
        self._limits = limits
        self._refuse = refuse
        self._received = 0
        self._waited = 0.0
        self._is_complete = False
        self._has_response = False
        self.is_refused = False

    async def receive(self) -> Message:
        """Return the next message from the client."""
        if self.is_refused:
            return {"type": "http.disconnect"}
        if self._is_complete:
            return await self._receive()
        try:
            message = await self._next()
        except TimeoutError:
            return await self._end("body_too_slow")
        if message["type"] != "http.request":
            self._is_complete = True  # a disconnect, or a protocol without bodies
            return message
        self._received += len(message.get("body", b""))
        self._is_complete = not message.get("more_body", False)
        return await self._end("body_too_large") if self._received > self._limits.size else message

    async def _next(self) -> Message:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        try:
            async with asyncio.timeout(self._limits.seconds_for(self._received) - self._waited):
                return await self._receive()
        finally:
            self._waited += loop.time() - begin

    async def _end(self, fault: Fault) -> Message:
        self.is_refused = True
        if not self._has_response:
            await self._refuse(fault)
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Pass the response on, unless the request was refused meanwhile."""
        if not self.is_refused:
            self._has_response = True
            await self._send(message)
