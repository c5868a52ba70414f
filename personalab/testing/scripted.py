"""A scripted model for tests, recordings and measurements, which gives prepared replies.

It uses no network and no model, and takes next to no time of its own.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from personalab.dialogue import Message, well_formed
from personalab.errors import Because, ProviderError, Reason, pydantic_reason
from personalab.ports import ReplyChunk
from personalab.providers.model_opening import NotAModelFile, read_script
from personalab.story.events import Usage

_PIECE_LENGTH = 4


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """One reply: its pieces, how fast they come, and how it ends."""

    pieces: tuple[str, ...] = ()
    delay: float = 0.0
    """Seconds before each piece."""
    fail_after: int | None = None
    """How many pieces come before it fails with ``error``; all of them if only ``error`` is given."""
    error: str | None = None
    usage: Usage | None = None
    reasoning: tuple[str, ...] = ()
    """What it thinks before its pieces."""
    truncated: bool = False
    """Whether it ends at a length limit."""
    hang: bool = False
    """Whether it stays silent after its pieces, until it is cancelled."""

    @classmethod
    def of(cls, text: str) -> ScriptedReply:
        """Cut a text into small pieces."""
        cuts = range(0, len(text), _PIECE_LENGTH)
        return cls(tuple(text[at : at + _PIECE_LENGTH] for at in cuts))


class ScriptedModel:
    """Gives its replies in order; ``calls`` holds the messages of each call."""

    def __init__(
        self,
        replies: Sequence[str | ScriptedReply],
        *,
        loop: bool = False,
        name: str = "scripted",
        rest_every: int = 16,
    ) -> None:
        self.calls: list[tuple[Message, ...]] = []
        self._name = name
        self._replies = [ScriptedReply.of(reply) if isinstance(reply, str) else reply for reply in replies]
        self._chunks = [tuple(map(ReplyChunk, map(well_formed, reply.pieces))) for reply in self._replies]
        self._loop = loop
        self._rest_every = rest_every

    @classmethod
    def from_file(cls, path: Path) -> ScriptedModel:
        """Read a script: a JSON list of replies, or ``{"replies": […], "loop": true}``."""
        try:
            script = _script_type().validate_json(read_script(path))
        except NotAModelFile as error:
            raise _bad_script(path, error.reason) from error
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(step) for step in first["loc"])
            reason = pydantic_reason(first)
            raise _bad_script(
                path, Reason("at_field", field=where, reason=reason) if where else reason
            ) from error
        if isinstance(script, list):
            script = _Script(replies=script)
        replies = [row if isinstance(row, str) else row.reply() for row in script.replies]
        return cls(replies, loop=script.loop, name=f"scripted:{path}")

    @property
    def name(self) -> str:
        """``scripted``, with the file it was read from."""
        return self._name

    def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        """Return the next reply's pieces; without any left it is a ``ProviderError``."""
        at = len(self.calls)
        self.calls.append(tuple(messages))
        return self._play(at % len(self._replies) if self._loop and self._replies else at)

    async def _play(self, which: int) -> AsyncIterator[ReplyChunk]:
        if which >= len(self._replies):
            raise ProviderError("provider.script_ended", model=self._name, count=len(self._replies))
        reply, chunks = self._replies[which], self._chunks[which]
        whole = reply.fail_after is None
        for thought in reply.reasoning:
            if reply.delay > 0:
                await asyncio.sleep(reply.delay)
            yield ReplyChunk(reasoning=well_formed(thought))
        for at, chunk in enumerate(chunks if whole else chunks[: reply.fail_after], 1):
            if reply.delay > 0:
                await asyncio.sleep(reply.delay)
            yield chunk
            if at % self._rest_every == 0:
                await asyncio.sleep(0)
        if not whole or reply.error is not None:
            code = reply.error or "provider.failed"
            raise ProviderError(code, retryable=True, reason=Reason("scripted_failure"))
        if reply.hang:
            await asyncio.Event().wait()
        if reply.usage is not None or reply.truncated:
            yield ReplyChunk(usage=reply.usage, truncated=reply.truncated)


class _UsageRow(BaseModel):
    model_config = ConfigDict(extra="forbid")

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid")

    pieces: list[str] = Field(default_factory=list[str])
    delay: float = Field(default=0.0, ge=0)
    fail_after: int | None = Field(default=None, ge=0)
    error: str | None = None
    usage: _UsageRow | None = None
    reasoning: list[str] = Field(default_factory=list[str])
    truncated: bool = False
    hang: bool = False

    def reply(self) -> ScriptedReply:
        usage = Usage(**self.usage.model_dump()) if self.usage else None
        return ScriptedReply(
            tuple(self.pieces),
            self.delay,
            self.fail_after,
            self.error,
            usage,
            tuple(self.reasoning),
            self.truncated,
            self.hang,
        )


class _Script(BaseModel):
    model_config = ConfigDict(extra="forbid")

    replies: list[str | _Row]
    loop: bool = False


@functools.cache
def _script_type() -> TypeAdapter[_Script | list[str | _Row]]:
    return TypeAdapter(_Script | list[str | _Row])


def _bad_script(path: Path, reason: Because) -> ProviderError:
    return ProviderError("provider.bad_script", file=str(path), reason=reason)
