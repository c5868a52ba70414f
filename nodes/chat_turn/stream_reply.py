"""Stream the reply into the session file; a token is in the file before anyone sees it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from nodes.chat_turn.saying import Say
from nodes.chat_turn.state import TurnState
from personalab.errors import PersonaLabError, ProviderError, StorageError
from personalab.ports import Clock, ReplyChunk, ReplyModel
from personalab.storage.files import write_error
from personalab.storage.turns import OpenTurn, error_note
from personalab.story.events import Event, Usage
from personalab.story.lines import AssistantLine
from personalab.story.prompt import Message

STOP_POLL_SECONDS = 0.2
SYNC_SECONDS = 0.05
"""In ``fsync`` mode a token waits at most this long for the disk."""

OpenModel = Callable[[], Awaitable[ReplyModel]]

_log = logging.getLogger("personalab.turn")


@dataclass(slots=True)
class _Reply:
    """The reply while it grows: writes to the file first, then tells the caller."""

    turn: OpenTurn
    emit: Callable[[Event], None]
    timestamp: str
    usage: Usage | None = None
    frozen: bool = False
    waiting: list[Event] | None = None
    """Tokens that are in the file but not safe from a power loss yet; ``None`` when that is not asked for."""
    written: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, text: str) -> None:
        """Write a token and push it; no ``await`` stands between the two."""
        if self.frozen or not text:
            return
        try:
            offset = self.turn.write(text, self.timestamp)
        except OSError as error:
            raise write_error(error, f"sessions/{self.turn.instance.current_session_id}.jsonl") from error
        event: Event = {"type": "token", "turn": self.turn.number, "text": text, "offset": offset}
        if self.waiting is None:
            self.emit(event)
        else:
            self.waiting.append(event)
            self.written.set()

    async def keep_synced(self) -> None:
        """Bring written tokens to the disk in groups, then push them."""
        while self.waiting is not None:
            await self.written.wait()
            self.written.clear()
            await self.sync()
            await asyncio.sleep(SYNC_SECONDS / 2)

    async def sync(self) -> None:
        """Push what is waiting, after it reached the disk."""
        if self.waiting:
            ready, self.waiting = self.waiting, []
            await asyncio.to_thread(self.turn.writer.sync)
            for event in ready:
                self.emit(event)


async def stream_reply(
    state: TurnState, *, turn: OpenTurn, open_model: OpenModel, now: Clock, say: Say
) -> dict[str, Any]:
    """Let the model (or the caller's text) write the reply, and close its line however it ends."""
    reply = _Reply(turn, say.emit, now(), waiting=[] if turn.sync else None)
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
    line = await _close(reply, interrupted=interrupted, error=failure is not None)
    update: dict[str, Any] = {
        "reply": line.content,
        "usage": reply.usage,
        "status": _status(line),
        "closed": True,
    }
    if failure is not None:
        update["error"] = say.error(failure)
    return update


def _status(line: AssistantLine) -> str:
    for name in ("error", "interrupted", "empty"):
        if getattr(line, name):
            return name
    return "done"


async def _write(reply: _Reply, state: TurnState, open_model: OpenModel) -> bool:
    """Write the whole reply; return whether someone asked to stop before it was done."""
    if state.get("action") == "end":
        reply.add(state.get("reply", ""))
        await reply.sync()
        return False
    prompt = state.get("prompt") or {}
    system: list[Message] = [{"role": "system", "content": prompt["system"]}] if prompt.get("system") else []
    consumer = asyncio.create_task(_consume(reply, open_model, [*system, *prompt.get("messages", [])]))
    syncer = asyncio.create_task(reply.keep_synced()) if reply.waiting is not None else None
    try:
        while not consumer.done():
            await asyncio.wait({consumer}, timeout=STOP_POLL_SECONDS)
            if not consumer.done() and reply.turn.lease.stop_asked():
                reply.frozen = True
                await _end(consumer)
                return True
        consumer.result()
        return False
    finally:
        reply.frozen = True
        for task in (consumer, syncer):
            if task is not None and not task.done():
                task.cancel()
        if syncer is not None:
            await reply.sync()


async def _consume(reply: _Reply, open_model: OpenModel, messages: list[Message]) -> None:
    model = await open_model()
    stream = model.stream(messages)
    try:
        async for chunk in stream:
            _take(reply, chunk)
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


def _take(reply: _Reply, chunk: ReplyChunk) -> None:
    reply.add(chunk.text)
    if chunk.usage is not None:
        reply.usage = chunk.usage


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for its clean-up, but not for ever: the reply is frozen already."""
    task.cancel()
    await asyncio.wait({task}, timeout=0.5)


def _note(reply: _Reply, error: PersonaLabError, say: Say) -> None:
    """Leave word of the error in the reply's line, where the file can still be written."""
    if isinstance(error, StorageError):
        return
    note = error_note(error.message(say.language), "".join(reply.turn.text), say.language)
    reply.frozen, reply.waiting = False, None
    reply.add(note)
    reply.frozen = True


async def _close(reply: _Reply, *, interrupted: bool, error: bool) -> AssistantLine:
    return await asyncio.to_thread(
        reply.turn.close_reply, reply.timestamp, interrupted=interrupted, error=error
    )


async def _close_cancelled(reply: _Reply) -> None:
    """Close the line as interrupted and run the director, even if we are cancelled again meanwhile."""
    reply.frozen = True

    def finish() -> None:
        line = reply.turn.close_reply(reply.timestamp, interrupted=True)
        reply.turn.record_progress(line.content)

    await asyncio.shield(asyncio.to_thread(finish))


