"""Load test helpers: many clients watch many turns at once, and count what each received.

Used by a test for a moment, and by ``bench/web.py`` for a minute.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from personalab.dialogue import Message
from personalab.ports import ReplyChunk


class Counting:
    """A model whose every reply can be told from every other: numbered words, some of them far from ASCII.

    It says a word whenever the loop has gone round, so that as many replies are written at once as are asked for.
    """

    name = "counting"

    def __init__(self, words: int, delay: float = 0.0) -> None:
        self.words = words
        self._delay = delay
        self._calls = 0

    def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        """Begin a reply."""
        self._calls += 1
        return self._play(self._calls)

    async def _play(self, call: int) -> AsyncIterator[ReplyChunk]:
        for word in range(self.words):
            await asyncio.sleep(self._delay)
            yield ReplyChunk(f"{call}·{word}😀灯\r\n ")


@dataclass
class Client:
    """One that listens over a plain socket, breaks off now and then, and comes back by its last id."""

    host: str
    port: int
    chance: random.Random
    longest: int = 60
    """How many tokens it takes before it breaks off, at the most."""
    text: list[str] = field(default_factory=list[str])
    last: str | None = None
    is_over: bool = False
    returns: int = 0

    async def listen(self, path: str) -> str:
        """Hear a turn to its end, over as many connections as it takes."""
        self.text, self.last, self.is_over = [], None, False
        while not self.is_over:
            await self._once(path)
        return "".join(self.text)

    async def _once(self, path: str) -> None:
        reader, writer = await asyncio.open_connection(self.host, self.port)
        resumed = f"Last-Event-ID: {self.last}\r\n" if self.last else ""
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n{resumed}\r\n".encode())
        tokens = self.chance.randint(1, self.longest)
        try:
            assert b" 200 " in await reader.readline()
            await reader.readuntil(b"\r\n\r\n")
            while tokens and not self.is_over:
                for event in (await _chunk(reader)).split(b"\n\n"):
                    if tokens and self._take(event):
                        tokens -= 1
        finally:
            writer.close()
        self.returns += not self.is_over

    def _take(self, event: bytes) -> bool:
        """Take one event; tell whether it was a token."""
        fields = dict(line.split(b": ", 1) for line in event.split(b"\n") if b": " in line)
        if fields.get(b"event") == b"done":
            self.is_over = True
        if fields.get(b"event") != b"token":
            return False
        told = json.loads(fields[b"data"])
        assert told["offset"] == int(self.last or 0), "a gap or a repeat"
        self.text.append(told["text"])
        self.last = fields[b"id"].decode()
        return True


async def _chunk(reader: asyncio.StreamReader) -> bytes:
    """Read one chunk of the body: whole events, as the server sends them."""
    size = int(await reader.readline(), 16)
    assert size, "the stream ended without an end"
    found = await reader.readexactly(size + 2)
    return found[:-2]
