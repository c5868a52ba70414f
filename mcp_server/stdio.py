"""The stdio transport, hardened against clients that stop reading or send bad or oversized lines.

It uses the SDK's own streams with three exceptions: a client that stops reading ends the server, so that no
orphan process remains; an unpaired surrogate, which some programs write for a truncated emoji, is replaced
instead of costing the caller its response; and the length of a line is limited.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from io import TextIOWrapper
from typing import Any, BinaryIO

import anyio
from mcp.server.stdio import stdio_server

from personalab.errors import StorageError

MAX_LINE_CHARACTERS = 16 * 1024 * 1024


@asynccontextmanager
async def wire(on_gone: Callable[[], None]) -> AsyncGenerator[tuple[Any, Any]]:
    """Yield the streams of messages; ``on_gone`` is called, from a thread, when the client reads no more.

    The standard streams themselves are turned away from the wire, so that what a library prints or reads cannot
    break the protocol.
    """
    if sys.stdin is None or sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison] (after <&- or >&-)
        raise StorageError("no_streams")
    sys.stdout.flush()
    reading, writing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    lines = _Lines(os.fdopen(reading, "rb", closefd=False), encoding="utf-8", errors="replace")
    answers = _Answers(os.fdopen(writing, "wb", closefd=False), on_gone)
    async with stdio_server(anyio.wrap_file(lines), anyio.wrap_file(answers)) as streams:
        yield streams


class _Lines(TextIOWrapper):
    """Lines from the client, each mended and of bounded size."""

    def readline(self, size: int = -1, /) -> str:
        line = super().readline(MAX_LINE_CHARACTERS)
        if len(line) < MAX_LINE_CHARACTERS or line.endswith("\n"):
            return mended(line)
        while (rest := super().readline(MAX_LINE_CHARACTERS)) and not rest.endswith("\n"):
            pass
        return "a line longer than a message may be\n"


class _Answers(TextIOWrapper):
    """Lines to the client; one that cannot be written means that it has gone."""

    def __init__(self, buffer: BinaryIO, on_gone: Callable[[], None]) -> None:
        super().__init__(buffer, encoding="utf-8")
        self._on_gone = on_gone
        self._gone = False

    def write(self, text: str, /) -> int:
        if not self._gone:
            try:
                super().write(text)
                super().flush()
            except OSError:
                self._gone = True
                self._on_gone()
        return len(text)

    def flush(self) -> None:
        """Do nothing: each line is sent as it is written."""


_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)


def mended(line: str) -> str:
    """Replace escapes of half pairs, which no JSON reader here takes, by the mark for what cannot be read."""
    if "\\ud" not in line and "\\uD" not in line:
        return line
    return _ESCAPE.sub(lambda found: "\\ufffd" if found[1] else found[0], line)
