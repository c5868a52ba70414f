"""How does a LangChain chat model become one that writes replies?

Tries are repeated only while nothing of the reply has been seen. Every failure leaves as a ``ProviderError``.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from personalab.dialogue import Message
from personalab.errors import ProviderError
from personalab.ports import ReplyChunk
from personalab.providers.failures import Attempt, Failure, explain
from personalab.providers.model_settings import ModelSettings
from personalab.providers.well_formed import PairJoiner, well_formed
from personalab.story.events import Usage

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessageChunk

OpenChat = Callable[[], "AbstractAsyncContextManager[BaseChatModel]"]

# langgraph.constants.TAG_NOSTREAM; without it LangGraph's "messages" mode shows tokens the file has not got.
NOSTREAM_TAG = "nostream"
LONGEST_WAIT = 20.0
_LONGEST_BACKOFF = 8.0
_FINISH_FIELDS = ("finish_reason", "stop_reason", "done_reason", "status")
_FILTERED = frozenset({"content_filter", "refusal", "safety", "prohibited_content", "blocklist"})


@dataclass(frozen=True, slots=True)
class LangChainModel:
    """Writes replies with a LangChain chat model, opened anew for each try and closed after it."""

    name: str
    open_chat: OpenChat
    settings: ModelSettings
    secrets: tuple[str, ...] = field(default=(), repr=False)
    openai_wire: bool = False
    """OpenAI's protocol: it always says why a reply ended, and a usage it tells is the whole reply's."""

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        """Yield the reply's pieces; try again after a passing failure, until the first piece of text."""
        outgoing = [{"role": said["role"], "content": well_formed(said["content"])} for said in messages]
        spoken = False
        for tries in itertools.count(1):
            try:
                async with aclosing(self._try_once(outgoing)) as pieces:
                    async for piece in pieces:
                        spoken = spoken or bool(piece.text)
                        yield piece
                return
            except ProviderError:
                raise
            except Exception as error:
                failure = explain(error, Attempt(self.name.partition(":")[2], tries, self.secrets))
                if spoken or not failure.transient or tries >= self.settings.max_tries:
                    raise failure.error from error
                wait = self._wait(failure, tries)
            await asyncio.sleep(wait)

    async def _try_once(self, messages: Sequence[Mapping[str, str]]) -> AsyncGenerator[ReplyChunk]:
        joiner, ending = PairJoiner(), _Ending(self.openai_wire)
        async with self.open_chat() as chat:
            chunks = chat.astream(cast("Any", messages), {"tags": [NOSTREAM_TAG]})
            async with aclosing(cast("AsyncGenerator[AIMessageChunk]", chunks)) as stream:
                patience = self.settings.first_token_seconds
                while (chunk := await _next_within(stream, patience)) is not None:
                    patience = self.settings.stall_seconds
                    ending.note(chunk)
                    if text := joiner.feed(chunk.text):
                        yield ReplyChunk(text)
        if text := joiner.flush():
            yield ReplyChunk(text)
        ending.check()
        if ending.usage is not None:
            yield ReplyChunk(usage=ending.usage)

    def _wait(self, failure: Failure, tries: int) -> float:
        if failure.wait is not None:
            return min(failure.wait, LONGEST_WAIT)
        longest = min(self.settings.backoff_seconds * 2 ** (tries - 1), _LONGEST_BACKOFF)
        return longest * random.uniform(0.5, 1.0)


async def _next_within(stream: AsyncIterator[AIMessageChunk], seconds: float) -> AIMessageChunk | None:
    try:
        async with asyncio.timeout(seconds):
            return await anext(stream, None)
    except TimeoutError as error:
        raise ProviderError("provider.stall", retryable=True, seconds=f"{seconds:g}") from error


class _Ending:
    """Gathers how a reply ended and what it cost."""

    def __init__(self, openai_wire: bool) -> None:
        self.usage: Usage | None = None
        self._openai_wire = openai_wire
        self._reason: str | None = None

    def note(self, chunk: AIMessageChunk) -> None:
        """Read a chunk's finish reason and usage, if it has them."""
        metadata = cast("Mapping[str, object]", chunk.response_metadata)
        for name in _FINISH_FIELDS if metadata else ():
            if value := metadata.get(name):
                self._reason = str(value).lower()
                break
        if told := chunk.usage_metadata:
            usage = Usage(
                input_tokens=told["input_tokens"],
                output_tokens=told["output_tokens"],
                cached_tokens=told.get("input_token_details", {}).get("cache_read") or 0,
            )
            self.usage = usage if self.usage is None or self._openai_wire else _added(self.usage, usage)

    def check(self) -> None:
        """Refuse an end that is none: a cut stream, a filtered reply."""
        if self._reason in _FILTERED:
            raise ProviderError("provider.filtered")
        if self._reason is None and self._openai_wire:
            raise ProviderError("provider.no_finish", retryable=True)


def _added(one: Usage, other: Usage) -> Usage:
    return Usage(
        input_tokens=one["input_tokens"] + other["input_tokens"],
        output_tokens=one["output_tokens"] + other["output_tokens"],
        cached_tokens=one["cached_tokens"] + other["cached_tokens"],
    )
