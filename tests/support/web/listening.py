"""A client for server-sent events that can disconnect and resume."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

SECONDS = 60
"""Nothing here takes as long; what hangs is ended."""


@dataclass(frozen=True, slots=True)
class Heard:
    """One event."""

    name: str
    data: dict[str, Any]
    event_id: str | None = None


class Parser:
    """Makes events of the lines of a stream, as the standard says; a comment is no event."""

    def __init__(self) -> None:
        self._name, self._data = "message", list[str]()
        self._id: str | None = None

    def line(self, line: str) -> Heard | None:
        """Take one line; an empty one ends an event."""
        if line == "":
            found = Heard(self._name, json.loads("\n".join(self._data)), self._id) if self._data else None
            self._name, self._data, self._id = "message", [], None
            return found
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "event":
                self._name = value
            case "data":
                self._data.append(value)
            case "id":
                self._id = value
            case _:
                pass
        return None


def parsed(text: str) -> list[Heard]:
    """Read a whole stream."""
    parser = Parser()
    return [heard for line in text.split("\n") if (heard := parser.line(line)) is not None]


async def heard_in(lines: AsyncIterable[str]) -> AsyncGenerator[Heard]:
    """Read a stream as it comes."""
    parser = Parser()
    async for line in lines:
        if (heard := parser.line(line)) is not None:
            yield heard


@asynccontextmanager
async def listening(
    client: httpx.AsyncClient, url: str, last_event_id: str | None = None
) -> AsyncGenerator[AsyncGenerator[Heard]]:
    """Open a stream; leaving breaks it off."""
    headers = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
    async with asyncio.timeout(SECONDS), client.stream("GET", url, headers=headers) as response:
        assert response.status_code == 200, (await response.aread()).decode()
        assert response.headers["content-type"].startswith("text/event-stream")
        async with aclosing(heard_in(response.aiter_lines())) as events:
            yield events


async def listen(client: httpx.AsyncClient, url: str, last_event_id: str | None = None) -> list[Heard]:
    """Listen to a stream to its end."""
    async with listening(client, url, last_event_id) as events:
        return [heard async for heard in events]


async def take(events: AsyncGenerator[Heard], count: int, name: str = "token") -> list[Heard]:
    """Take events until so many of a name have come."""
    found: list[Heard] = []
    while sum(heard.name == name for heard in found) < count:
        found.append(await anext(events))
    return found


def text_of(events: Iterable[Heard]) -> str:
    """Join the reply as a client does that only adds what it is told."""
    return "".join(heard.data["text"] for heard in events if heard.name == "token")


def reasoning_of(events: Iterable[Heard]) -> str:
    """Join the reasoning as the documentation says: offset 0 starts it over."""
    found = ""
    for heard in events:
        if heard.name == "reasoning":
            found = heard.data["text"] if heard.data["offset"] == 0 else found + heard.data["text"]
    return found


def last_id(events: Sequence[Heard]) -> str | None:
    """Give what a browser would send to come back after these events."""
    ids = [heard.event_id for heard in events if heard.event_id is not None]
    return ids[-1] if ids else None
