"""Raw connections to a server, from any loopback address, and what they cost it."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import pytest
import uvicorn

from personalab.serving.connections import PatientProtocol
from personalab.serving.server import listen
from tests.support.web.serving import SECONDS

CLIENT, OTHER_CLIENT = "127.0.0.1", "127.0.0.2"


@dataclass
class RawConnection:
    """A connection on which a test sends bytes as they are."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> bool:
        """Send bytes; return whether the server still takes them."""
        try:
            self.writer.write(data)
            await self.writer.drain()
        except ConnectionError:
            return False
        return True

    async def status(self) -> int:
        """Read the head of the next response and return its status."""
        async with asyncio.timeout(SECONDS):
            head = await self.reader.readuntil(b"\r\n\r\n")
        return int(head.split()[1])

    async def read_to_end(self) -> bytes:
        """Read until the server closes the connection."""
        found = b""
        async with asyncio.timeout(SECONDS):
            with suppress(ConnectionError):
                while more := await self.reader.read(65_536):
                    found += more
        return found

    async def close(self) -> None:
        """Close the connection at once."""
        self.writer.transport.abort()
        with suppress(OSError):
            await self.writer.wait_closed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def connect(url: str, client: str = CLIENT) -> RawConnection:
    """Connect from a loopback address."""
    place = urlsplit(url)
    async with asyncio.timeout(SECONDS):
        return RawConnection(
            *await asyncio.open_connection(place.hostname, place.port, local_addr=(client, 0))
        )


@asynccontextmanager
async def running(app: Any) -> AsyncGenerator[str]:
    """Serve an ASGI application on a free port, in this process; give its URL."""
    listener = listen("127.0.0.1", 0)
    config = uvicorn.Config(
        app, http=PatientProtocol, log_config=None, lifespan="on", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server._serve([listener]))  # pyright: ignore[reportPrivateUsage] (no signal handlers)
    while not server.started:
        assert not task.done(), "the server did not start"
        await asyncio.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


def request(path: str, *headers: str, method: str = "POST", body: bytes = b"") -> bytes:
    """Write a request; its length is not added."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def memory_of(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    if not sys.platform.startswith("linux"):
        pytest.skip("resident memory is read from /proc, which only Linux has")
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found, "the server has ended"
    return int(found[1]) * 1024
