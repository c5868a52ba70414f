"""A model over HTTP for benches: it reads the whole request and streams words in OpenAI's protocol.

``python -m bench.wire_server`` prints its address and serves until its input ends. A model's name says how it answers:
``words-500-20`` sends 500 words, one every 20 ms; with 0 ms all of them at once. ``words-10-0-50`` waits 50 ms first.
``pieces-7-2`` sends the ``random_pieces`` of the seed 7, one every 2 ms.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import subprocess
import sys
from collections.abc import Generator

WORD = "word "
_PIECES = 60
_ALPHABET = [
    "我",
    "记得",
    "。",
    '"',
    "\\",
    "\n",
    "🌊",
    "\u2028",
    "é",
    "promise ",
    "{",
    "}",
    "[PROGRESS:1:pending]",
    "\x00",
]
_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
    b"Cache-Control: no-cache\r\n\r\n"
)


def random_pieces(seed: int) -> tuple[str, ...]:
    """Make the pieces of a reply of everything that may be hard to write to a file."""
    random_ = random.Random(seed)
    return tuple("".join(random_.choices(_ALPHABET, k=random_.randint(1, 4))) for _ in range(_PIECES))


def _event(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    fields = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "words"}
    return f"data: {json.dumps({**fields, 'choices': [choice]})}\n\n".encode()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


_WORD = _event({"content": WORD})
_USAGE = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
_TAIL = (
    _event({}, "stop")
    + f"data: {json.dumps({'choices': [], 'usage': _USAGE})}\n\n".encode()
    + b"data: [DONE]\n\n"
)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = next(
                int(line.partition(b":")[2])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-length:")
            )
            body = await reader.readexactly(length)
            await _stream(writer, json.loads(body)["model"])
    writer.close()


async def _stream(writer: asyncio.StreamWriter, model: str) -> None:
    kind, count, pause, *delay = model.split("-")
    if delay:
        await asyncio.sleep(int(delay[0]) / 1e3)
    writer.write(_HEAD)
    events = [_event({"content": piece}) for piece in random_pieces(int(count))] if kind == "pieces" else []
    if float(pause) or events:
        for event in events or [_WORD] * int(count):
            writer.write(_chunk(event))
            await writer.drain()
            await asyncio.sleep(float(pause) / 1e3)
        writer.write(_chunk(_TAIL))
    else:
        for start in range(0, int(count), 100):
            writer.write(_chunk(_WORD * min(100, int(count) - start)))
            await writer.drain()
        writer.write(_chunk(_TAIL))
    writer.write(b"0\r\n\r\n")
    await writer.drain()


async def _serve() -> None:
    server = await asyncio.start_server(_answer, "127.0.0.1", 0, limit=64 * 1024 * 1024, backlog=1024)
    port = server.sockets[0].getsockname()[1]
    print(f"http://127.0.0.1:{port}/v1", flush=True)
    await asyncio.to_thread(sys.stdin.read)


@contextlib.contextmanager
def serving() -> Generator[str]:
    """Serve in another process; give the base URL."""
    command = [sys.executable, "-m", "bench.wire_server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


if __name__ == "__main__":
    asyncio.run(_serve())
