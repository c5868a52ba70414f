"""A model of any provider: retries before the first piece of text, schemas where they can be enforced, plain errors.

Where the pieces come from is a ``ReplySource``: LangChain's chat models (``langchain_source``), or our own reader of
OpenAI's protocol (``openai_source``).
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol

from personalab.dialogue import AnswerSchema, Message
from personalab.errors import ProviderError
from personalab.ports import ReplyChunk
from personalab.providers.failures import Attempt, Failure, explain, may_refuse_schema
from personalab.providers.model_settings import ModelSettings
from personalab.providers.schema_requests import SchemaSupport
from personalab.story.events import Usage, added_usage

LONGEST_WAIT = 20.0
_LONGEST_BACKOFF = 8.0
_TRUNCATED = frozenset({"length", "max_tokens", "max_output_tokens", "model_length", "incomplete"})
_FILTERED = frozenset({"content_filter", "refusal", "safety", "prohibited_content", "blocklist"})


class ReplySource(Protocol):
    """Asks a provider once, and raises whatever its client raises."""

    def stream(
        self, messages: Sequence[Message], schema: AnswerSchema | None, *, speech: bool
    ) -> AsyncGenerator[ReplyChunk]:
        """Yield the pieces of one answer; ``speech`` says that it is a character's reply."""
        ...


@dataclass(frozen=True, slots=True)
class ProviderModel:
    """Writes replies with the model of a provider.

    Tries are repeated only while nothing of the reply has been seen. Every failure leaves as a ``ProviderError``.
    """

    name: str
    source: ReplySource
    settings: ModelSettings
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def address(self) -> str:
        """The base URL of its server; empty for the provider's own."""
        return self.settings.base_url or ""

    def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        """Yield the reply's pieces; try again after a passing failure, until the first piece of text."""
        return self._stream(messages)

    def stream_speech(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        """Yield a character's reply, which may be sampled in its own way."""
        return self._stream(messages, speech=True)

    async def stream_json(
        self, messages: Sequence[Message], schema: AnswerSchema
    ) -> AsyncIterator[ReplyChunk]:
        """Yield an answer in the schema's form where the provider enforces it; one that can't is asked without it."""
        support = SchemaSupport.of(self.name, self.settings.base_url)
        if not support.refused:
            spoken = False
            try:
                async with aclosing(self._stream(messages, schema)) as pieces:
                    async for piece in pieces:
                        spoken = spoken or bool(piece.text)
                        yield piece
                return
            except ProviderError as error:
                cause = error.__cause__
                if spoken or not isinstance(cause, Exception) or not may_refuse_schema(cause):
                    raise
        async with aclosing(self._stream(messages)) as pieces:
            async for piece in pieces:
                # Known only now: a request that fails without the schema as well says nothing about schemas.
                support.refused = True
                yield piece

    async def _stream(
        self, messages: Sequence[Message], schema: AnswerSchema | None = None, *, speech: bool = False
    ) -> AsyncGenerator[ReplyChunk]:
        spoken = False
        for tries in itertools.count(1):
            try:
                async with aclosing(self.source.stream(messages, schema, speech=speech)) as pieces:
                    async for piece in pieces:
                        spoken = spoken or bool(piece.text or piece.reasoning)
                        yield piece
                return
            except ProviderError:
                raise
            except Exception as error:
                failure = explain(error, Attempt(self.name.partition(":")[2], tries, self.secrets))
                if spoken or not failure.transient or tries >= self.settings.max_tries:
                    raise failure.error from error
                if schema is not None and may_refuse_schema(error):
                    raise failure.error from error
                wait = self._wait(failure, tries)
            await asyncio.sleep(wait)

    def _wait(self, failure: Failure, tries: int) -> float:
        if failure.wait is not None:
            return min(failure.wait, LONGEST_WAIT)
        longest = min(self.settings.backoff_seconds * 2 ** (tries - 1), _LONGEST_BACKOFF)
        return longest * random.uniform(0.5, 1.0)


class ReplyEnding:
    """Gathers how a reply ended and what it cost."""

    def __init__(self, openai_wire: bool) -> None:
        self.usage: Usage | None = None
        self.reason: str | None = None
        self._openai_wire = openai_wire
        """OpenAI's protocol: it always says why a reply ended, and a usage it reports is the whole reply's."""

    def add_usage(self, usage: Usage) -> None:
        """Take a usage that the provider reports."""
        self.usage = usage if self._openai_wire else added_usage(self.usage, usage)

    def last_chunk(self) -> ReplyChunk | None:
        """Return what is known at the end, and refuse an end that is none: a cut stream, a filtered reply."""
        if self.reason in _FILTERED:
            raise ProviderError("provider.filtered")
        if self.reason is None and self._openai_wire:
            raise ProviderError("provider.no_finish", retryable=True)
        truncated = self.reason in _TRUNCATED
        return ReplyChunk(usage=self.usage, truncated=truncated) if self.usage or truncated else None


def stalled(seconds: float) -> ProviderError:
    """Return the error of a provider that says nothing for so long."""
    return ProviderError("provider.stall", retryable=True, seconds=f"{seconds:g}")
