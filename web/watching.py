"""An event log that any number of clients follow, each at its own pace and resumable.

Each event is stored once, as the bytes that are sent. A watcher is only a position in the log: a slow one
costs nothing, and one that reconnects continues after its last event.
"""

from __future__ import annotations

import asyncio
import json
from bisect import bisect_left, bisect_right
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

PING_SECONDS = 15.0
"""A stream that has nothing to say says so this often, so that a connection that broke is noticed."""
PING = b": ping\n\n"


def rendered(event: str, data: Mapping[str, Any], event_id: int | None = None) -> bytes:
    """Write one server-sent event; JSON escapes every line end and everything that is no ASCII."""
    named = b"" if event_id is None else b"id: %d\n" % event_id
    return named + b"event: %s\ndata: %s\n\n" % (event.encode("ascii"), json.dumps(data).encode("ascii"))


def token_event(turn: int, text: str, before: int, end: int) -> bytes:
    """Format a token event: ``offset`` is the bytes of the reply before it.

    The text has two names: ``text`` as in the events of the graph, ``content`` for pages written for the source's API.
    """
    return rendered("token", {"turn": turn, "text": text, "content": text, "offset": before}, end)


def reasoning_event(turn: int, text: str, before: int) -> bytes:
    """Format a reasoning event: ``offset`` is the bytes of reasoning before it; 0 starts it over.

    It has no id: whoever comes back is sent what was thought so far, from its beginning.
    """
    return rendered("reasoning", {"turn": turn, "text": text, "offset": before})


def size_of(text: str) -> int:
    """Count a text's bytes in UTF-8, also of one that is not well formed."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def after(text: str, offset: int) -> str:
    """Return the text after so many bytes; inside a character, from that character on."""
    if text.isascii():
        return text[offset:]
    whole = text.encode("utf-8", "surrogatepass")
    while offset < len(whole) and whole[offset] & 0xC0 == 0x80:
        offset -= 1
    return whole[offset:].decode("utf-8", "surrogatepass")


class Log:
    """The events so far, in order, and the watchers that wait for more."""

    def __init__(self, on_left: Callable[[], None] | None = None) -> None:
        self._sent: list[bytes] = []
        self._tokens: list[tuple[int, int, str]] = []
        """The place of every token event, its turn and its text."""
        self._ends: list[int] = []
        """How many bytes of the reply each of them leads to."""
        self._reasoning_pieces: list[tuple[int, int, int, str]] = []
        """The place of every reasoning event, its turn, its offset and its text."""
        self._reasoning_bytes = 0
        self._notes: list[int] = []
        """The places of what is said again to one who comes back."""
        self._on_left = on_left
        self._news = asyncio.Event()
        self.watchers = 0
        self.ended = False

    @property
    def offset(self) -> int:
        """Number of bytes of the reply sent so far."""
        return self._ends[-1] if self._ends else 0

    @property
    def text(self) -> str:
        """The reply as far as it was sent."""
        return "".join(text for _, _, text in self._tokens)

    @property
    def reasoning(self) -> str:
        """The reasoning as far as it was sent, since it last started over."""
        return self._reasoning_before(len(self._sent))

    def token(self, turn: int, text: str) -> None:
        """Append more of the reply; the event's id is the offset it leads to."""
        before = self.offset
        end = before + size_of(text)
        self._tokens.append((len(self._sent), turn, text))
        self._ends.append(end)
        self._add(token_event(turn, text, before, end))

    def add_reasoning(self, turn: int, text: str, *, restart: bool = False) -> None:
        """Append more of the reasoning; ``restart`` discards the reasoning so far."""
        if restart:
            self._reasoning_bytes = 0
        if text or (restart and self._reasoning_pieces):
            self._append_reasoning(turn, text)

    def _append_reasoning(self, turn: int, text: str) -> None:
        before = self._reasoning_bytes
        self._reasoning_bytes = before + size_of(text)
        self._reasoning_pieces.append((len(self._sent), turn, before, text))
        self._add(reasoning_event(turn, text, before))

    def tell(self, event: str, data: Mapping[str, Any], *, again: bool = False) -> None:
        """Append another event; with ``again`` it is also replayed to reconnecting clients."""
        if again:
            self._notes.append(len(self._sent))
        self._add(rendered(event, data))

    def _add(self, event: bytes) -> None:
        self._sent.append(event)
        self._wake()

    def end(self) -> None:
        """Nothing more will happen."""
        self.ended = True
        self._wake()

    def shortened(self) -> Log:
        """Return what is worth keeping of an ended log: the notes to replay, and the last event."""
        kept = Log()
        last = len(self._sent) - 1
        kept._sent = [self._sent[at] for at in sorted({*self._notes, last}) if at >= 0]
        kept.ended = True
        return kept

    def merged(self) -> Log:
        """Return an ended log with its reasoning and its reply merged into one event each.

        Thousands of events weigh fifty times what they say.
        """
        kept = Log()
        tokens, notes = {at for at, _, _ in self._tokens}, set(self._notes)
        thoughts = {at for at, _, _, _ in self._reasoning_pieces}
        for at, event in enumerate(self._sent):
            if at in tokens:
                if at == self._tokens[0][0]:
                    kept.token(self._tokens[0][1], self.text)
            elif at in thoughts:
                if at == self._reasoning_pieces[0][0]:
                    kept._append_reasoning(self._reasoning_pieces[0][1], self.reasoning)
            else:
                kept._notes += [len(kept._sent)] if at in notes else []
                kept._sent.append(event)
        kept.ended = True
        return kept

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def watch(self, offset: int | None) -> AsyncGenerator[bytes]:
        """Yield everything after an offset of the reply, joined as it comes, until the end.

        Without an offset: from the beginning. A client may know more than was told here, for it may have read the
        file: of the reply it is told nothing twice. The reasoning before the offset comes again, in one piece.
        """
        self.watchers += 1
        try:
            place, first = (0, b"") if offset is None else self._place(offset)
            if first:
                yield first
            while True:
                news = self._news
                if place < len(self._sent):
                    fresh = b"".join(self._sent[place:])
                    if offset is not None and offset > self._told_before(place):
                        fresh = b"".join(self._unknown(place, offset))
                    place = len(self._sent)
                    if fresh:
                        yield fresh
                elif self.ended:
                    return
                elif not await _within(PING_SECONDS, news):
                    yield PING
        finally:
            self.watchers -= 1
            if not self.watchers and not self.ended and self._on_left is not None:
                self._on_left()

    def _place(self, offset: int) -> tuple[int, bytes]:
        """Find where to go on after what a client has of the reply, and what to send it before.

        That is the notes that were told, and the reasoning: how much of it the client has is not known.
        """
        told = bisect_right(self._ends, offset)
        place = self._tokens[told - 1][0] + 1 if told else 0
        again = [self._sent[at] for at in self._notes if at < place]
        if reasoning := self._reasoning_before(place):
            again.append(reasoning_event(self._reasoning_pieces[0][1], reasoning, 0))
        return place, b"".join(again)

    def _reasoning_before(self, place: int) -> str:
        """Join the reasoning sent before a place, since it last started over."""
        told = self._reasoning_pieces[
            : bisect_left(self._reasoning_pieces, place, key=lambda piece: piece[0])
        ]
        start = next((at for at in range(len(told) - 1, -1, -1) if told[at][2] == 0), 0)
        return "".join(text for _, _, _, text in told[start:])

    def _told_before(self, place: int) -> int:
        """Count the bytes of the reply sent before a place."""
        told = bisect_right(self._tokens, place, key=lambda token: token[0] + 1)
        return self._ends[told - 1] if told else 0

    def _unknown(self, place: int, offset: int) -> list[bytes]:
        """Return the events from a place on, without what a client has of the reply."""
        found = self._sent[place:]
        first = bisect_left(self._tokens, place, key=lambda token: token[0])
        for (at, turn, text), end in zip(self._tokens[first:], self._ends[first:], strict=True):
            before = end - size_of(text)
            if before >= offset:
                break
            rest = after(text, offset - before) if end > offset else ""
            found[at - place] = token_event(turn, rest, end - size_of(rest), end) if rest else b""
        return found


async def _within(seconds: float, news: asyncio.Event) -> bool:
    """Wait for news, but not for ever; tell whether there is any."""
    try:
        async with asyncio.timeout(seconds):
            return await news.wait()
    except TimeoutError:
        return False
