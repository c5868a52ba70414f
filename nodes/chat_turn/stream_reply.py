"""Stream the reply into the session file; a token is in the file before anyone sees it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from nodes.chat_turn.saying import Say
from nodes.chat_turn.state import TurnState
from personalab.dialogue import Message
from personalab.errors import PersonaLabError, ProviderError, StorageError
from personalab.ports import Clock, ReplyModel
from personalab.storage.files import write_error
from personalab.storage.leases import STOP_POLL_SECONDS, unbroken
from personalab.storage.reply_line import ReplyLine
from personalab.storage.turns import OpenTurn, error_note
from personalab.story.events import Event, Usage

SYNC_SECONDS = 0.05
"""In ``fsync`` mode a token waits at most this long for the disk."""

OpenModel = Callable[[], Awaitable[ReplyModel]]

_log = logging.getLogger("personalab.turn")


class _Reply:
    """The reply while it grows: a token is written to the file first and told to the caller afterwards.

    Tokens that came in one go are told in one event, as soon as the event loop is free again; in ``fsync`` mode when
    the disk has them.
    """

    def __init__(self, turn: OpenTurn, emit: Callable[[Event], None], timestamp: str) -> None:
        self.turn = turn
        self.timestamp = timestamp
        self.usage: Usage | None = None
        self.frozen = False
        self._emit = emit
        self._line: ReplyLine | None = None
        self._untold: list[str] = []
        self._told = 0
        self._written = asyncio.Event()
        self._wake = self._written.set if turn.sync else self._tell_soon

    def add(self, text: str) -> None:
        """Write a token; it will be told soon."""
        if self.frozen:
            return
        turn = self.turn
        try:
            if self._line is None:
                self._line = turn.begin_reply(self.timestamp)
            self._line.write(text)
        except OSError as error:
            raise write_error(error, f"sessions/{turn.instance.current_session_id}.jsonl") from error
        turn.text.append(text)
        if not self._untold:
            self._wake()
        self._untold.append(text)

    def note(self, text: str) -> None:
        """Write the last words of a reply that failed."""
        self.frozen = False
        self.add(text)
        self.tell()
        self.frozen = True

    def _tell_soon(self) -> None:
        asyncio.get_running_loop().call_soon(self.tell)

    def tell(self, count: int | None = None) -> None:
        """Tell the caller what is written, or the first so many pieces of it."""
        text = "".join(self._untold[:count])
        del self._untold[:count]
        if text:
            offset, self._told = self._told, self._told + len(text)
            self._emit({"type": "token", "turn": self.turn.number, "text": text, "offset": offset})

    async def keep_synced(self) -> None:
        """Bring written tokens to the disk in groups, then tell them."""
        while True:
            await self._written.wait()
            self._written.clear()
            await self.sync()
            await asyncio.sleep(SYNC_SECONDS / 2)

    async def sync(self) -> None:
        """Tell what is written, after it reached the disk."""
        if self._untold:
            count = len(self._untold)
            await asyncio.to_thread(self.turn.writer.sync)
            self.tell(count)
            if self._untold:
                self._written.set()


async def stream_reply(
    state: TurnState, *, turn: OpenTurn, open_model: OpenModel, now: Clock, say: Say
) -> dict[str, Any]:
    """Let the model (or the caller's text) write the reply, and close its line however it ends."""
    reply = _Reply(turn, say.emit, now())
    interrupted = False
    failure: PersonaLabError | None = None
    try:
        interrupted = await _write(reply, state, open_model)
    except asyncio.CancelledError:
        await _close_cancelled(reply)
        raise
    except PersonaLabError as error:
        failure = error
    except Exception as error:  # noqa: BLE001 (a model is foreign code: its line is closed whatever it raises)
        _log.exception("the model failed in an unexpected way")
        failure = ProviderError("provider.failed", reason=type(error).__name__)
    if failure is not None:
        _note(reply, failure, say)
    line = turn.close_reply(reply.timestamp, interrupted=interrupted, error=failure is not None)
    if turn.sync:
        try:
            await unbroken(turn.writer.sync)
        except StorageError as error:
            failure = failure or error
    update: dict[str, Any] = {
        "reply": line.content,
        "usage": reply.usage,
        "status": line.status,
        "closed": True,
    }
    if failure is not None:
        update["error"] = say.error(failure)
    return update


async def _write(reply: _Reply, state: TurnState, open_model: OpenModel) -> bool:
    """Write the whole reply; return whether someone asked to stop before it was done."""
    if state.get("mode") == "end":
        reply.add(state.get("brought", ""))
        await _told(reply)
        return False
    if reply.turn.stopped or reply.turn.lease.stop_asked():
        return True
    prompt = state.get("prompt") or {}
    system: list[Message] = [{"role": "system", "content": prompt["system"]}] if prompt.get("system") else []
    consumer = asyncio.create_task(_consume(reply, open_model, [*system, *prompt.get("messages", [])]))
    syncer = asyncio.create_task(reply.keep_synced()) if reply.turn.sync else None
    running = {consumer} if syncer is None else {consumer, syncer}
    try:
        while not consumer.done():
            await asyncio.wait(running, timeout=STOP_POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if syncer is not None and syncer.done():
                syncer.result()
            if not consumer.done() and reply.turn.lease.stop_asked():
                reply.frozen = True
                return True
        consumer.result()
        return False
    finally:
        reply.frozen = True
        await _end(running)
        await _told(reply)


async def _consume(reply: _Reply, open_model: OpenModel, messages: list[Message]) -> None:
    model = await open_model()
    stream = model.stream(messages)
    try:
        add = reply.add
        async for chunk in stream:
            if chunk.text:
                add(chunk.text)
            if chunk.usage is not None:
                reply.usage = chunk.usage
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


async def _told(reply: _Reply) -> None:
    """Tell the rest of what is written."""
    if reply.turn.sync:
        await reply.sync()
    reply.tell()


async def _end(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait for their clean-up, but not for ever: the reply is frozen already."""
    for task in tasks:
        task.cancel()
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
    await asyncio.wait(tasks, timeout=0.5)


def _note(reply: _Reply, error: PersonaLabError, say: Say) -> None:
    """Leave word of the error in the reply's line, where the file can still be written."""
    if isinstance(error, StorageError):
        return
    reply.note(error_note(error.message(say.language), "".join(reply.turn.text), say.language))


async def _close_cancelled(reply: _Reply) -> None:
    """Close the line as interrupted and run the director, even if we are cancelled again meanwhile."""
    reply.frozen = True
    turn = reply.turn
    line = turn.close_reply(reply.timestamp, interrupted=True)

    def finish() -> None:
        turn.record_progress(line.content)
        if turn.sync:
            turn.writer.sync()

    await unbroken(finish)
