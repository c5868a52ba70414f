"""A server whose answers are written byte by byte by the test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
DONE = b"data: [DONE]\n\n"
PAUSE = b"<pause>"
LEAVE = b""
"""The connection is closed instead of an answer."""


def event(text: str | None, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return f"data: {json.dumps({'choices': [choice]})}\n\n".encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def whole(text: str) -> bytes:
    body = event(text, "stop") + DONE
    return HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


@dataclass(slots=True)
class RawServer:
    """Gives one answer after the other, whichever connection asks; the last one repeats."""

    answers: list[bytes]
    port: int = 0
    heads: list[bytes] = field(default_factory=list[bytes])
    """The head of each request."""
    may_go_on: asyncio.Event = field(default_factory=asyncio.Event)
    """What follows ``PAUSE`` in an answer is sent once this is set."""
    connections: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length or 0))
                self.heads.append(head)
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if answer == LEAVE:
                    break
                first, _, rest = answer.partition(PAUSE)
                writer.write(first)
                if rest:
                    await self.may_go_on.wait()
                    writer.write(rest)
                await writer.drain()
                if b"\r\nConnection: close\r\n" in answer:
                    break
        except (asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def raw_server(*answers: bytes) -> AsyncGenerator[RawServer]:
    found = RawServer(list(answers))
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        server.close()
