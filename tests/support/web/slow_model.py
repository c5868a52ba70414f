"""Models whose reply arrives piece by piece, under control of the test.

There are two: one inside this process, and one over HTTP for servers that are processes of their own.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from personalab.dialogue import Message, well_formed
from personalab.errors import ProviderError
from personalab.ports import ReplyChunk
from personalab.story.events import Usage
from tests.support.openai_server import DONE, Behaviour, OpenAIServer, Request, Step, delta, usage

SECONDS = 60
"""Nothing here takes as long; what hangs is ended."""


class HandedModel:
    """A model in this process that says what it is handed; ``name`` it in ``services.models``.

    Every call of it is a reply of its own: ``say`` and ``finish`` mean the newest, ``replies[n]`` any other.
    """

    name = "handed"

    def __init__(self) -> None:
        self.replies: list[HandedReply] = []
        self._asked = asyncio.Condition()

    def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        """Begin a reply."""
        reply = HandedReply(tuple(messages))
        self.replies.append(reply)
        return self._play(reply)

    async def _play(self, reply: HandedReply) -> AsyncIterator[ReplyChunk]:
        async with self._asked:
            self._asked.notify_all()
        while True:
            piece = await reply.pieces.get()
            if piece is None:
                yield ReplyChunk(usage=Usage(input_tokens=11, output_tokens=3, cached_tokens=0))
                return
            if isinstance(piece, ProviderError):
                raise piece
            yield piece if isinstance(piece, ReplyChunk) else ReplyChunk(well_formed(piece))

    async def asked(self, times: int = 1) -> None:
        """Wait until it was asked so many times in all."""
        async with asyncio.timeout(SECONDS), self._asked:
            await self._asked.wait_for(lambda: len(self.replies) >= times)

    def say(self, *pieces: str) -> None:
        """Say more in the newest reply."""
        self.replies[-1].say(*pieces)

    def think(self, *pieces: str) -> None:
        """Think more in the newest reply."""
        self.replies[-1].think(*pieces)

    def finish(self, *pieces: str) -> None:
        """Say the last of the newest reply."""
        self.replies[-1].finish(*pieces)

    def fail(self) -> None:
        """Let the newest reply fail."""
        self.replies[-1].pieces.put_nowait(
            ProviderError("provider.failed", retryable=True, reason="it was told to fail")
        )


class HandedReply:
    """One reply, as far as it was handed out."""

    def __init__(self, messages: tuple[Message, ...]) -> None:
        self.messages = messages
        self.pieces: asyncio.Queue[str | ReplyChunk | ProviderError | None] = asyncio.Queue()

    def say(self, *pieces: str) -> None:
        """Say more."""
        for piece in pieces:
            self.pieces.put_nowait(piece)

    def think(self, *pieces: str) -> None:
        """Think more."""
        for piece in pieces:
            self.pieces.put_nowait(ReplyChunk(reasoning=well_formed(piece)))

    def finish(self, *pieces: str) -> None:
        """Say the last of it."""
        self.say(*pieces)
        self.pieces.put_nowait(None)


class SlowModel(OpenAIServer):
    """A model over HTTP that says what it is handed, each request a reply of its own.

    ``say`` and ``finish`` mean the newest request; wait with ``asked`` until it is there.
    """

    def __init__(self) -> None:
        super().__init__()
        self._replies: list[_Handed] = []
        self._news = threading.Condition()
        self._http.socket.listen(256)

    def take(self, request: Request) -> Behaviour:
        """Begin a reply that goes on as it is handed out."""
        super().take(request)
        reply = _Handed(queue.SimpleQueue())
        with self._news:
            self._replies.append(reply)
            self._news.notify_all()
        return reply

    def asked(self, times: int = 1) -> None:
        """Wait until it was asked so many times in all."""
        with self._news:
            assert self._news.wait_for(lambda: len(self._replies) >= times, SECONDS), "nobody asked"

    def say(self, *pieces: str) -> None:
        """Say more in the newest reply."""
        for piece in pieces:
            self._replies[-1].steps.put(delta(piece))

    def think(self, *pieces: str) -> None:
        """Think more in the newest reply."""
        for piece in pieces:
            self._replies[-1].steps.put(delta(None, reasoning_content=piece))

    def finish(self, *pieces: str, finish: str = "stop") -> None:
        """Say the last of the newest reply; it may ``finish`` at its ``length`` limit."""
        self.say(*pieces)
        for step in (delta(None, finish=finish), usage(11, 3), DONE, None):
            self._replies[-1].steps.put(step)

    def __exit__(self, *error: object) -> None:
        for reply in self._replies:
            reply.steps.put(None)
        super().__exit__(*error)


@dataclass(frozen=True)
class _Handed(Sequence[Step]):
    """Steps that come when they are handed out; none is known before."""

    steps: queue.SimpleQueue[Step | None]

    def __len__(self) -> int:
        return 0

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Step]: ...
    def __getitem__(self, index: int | slice) -> Step | Sequence[Step]:
        raise IndexError(index)

    def __iter__(self) -> Iterator[Step]:
        while (step := self.steps.get(timeout=SECONDS)) is not None:
            yield step
