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

from personalab.answer_schema import AnswerSchema
from personalab.dialogue import Message
from personalab.errors import ProviderError
from personalab.ports import ReplyChunk
from personalab.providers.failures import Attempt, Failure, explain, may_refuse_schema
from personalab.providers.model_settings import ModelSettings
from personalab.providers.schema_requests import SchemaSupport, answer_text, schema_options, with_body
from personalab.providers.well_formed import PairJoiner, well_formed
from personalab.story.events import Usage, added_usage

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessageChunk

OpenChat = Callable[[], "AbstractAsyncContextManager[BaseChatModel]"]

# langgraph.constants.TAG_NOSTREAM; without it LangGraph's "messages" mode shows tokens the file has not got.
NOSTREAM_TAG = "nostream"
LONGEST_WAIT = 20.0
_LONGEST_BACKOFF = 8.0
_FINISH_FIELDS = ("finish_reason", "stop_reason", "done_reason", "status")
_TRUNCATED = frozenset({"length", "max_tokens", "max_output_tokens", "model_length", "incomplete"})
_REASONING_FIELDS = ("reasoning_content", "reasoning")
_REASONING_BLOCKS = {"thinking": "thinking", "reasoning": "reasoning", "reasoning_content": "text"}
"""The types of content blocks that hold reasoning, and where its text is."""
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

    text_lengths: bool = False
    """Whether the lengths of texts in a schema can be enforced."""

    speech_body: Mapping[str, object] = field(default_factory=dict[str, object])
    """What the request for a character's reply says besides; other answers go without it."""

    def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        """Yield the reply's pieces; try again after a passing failure, until the first piece of text."""
        return self._stream(messages)

    def stream_speech(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        """Yield a character's reply, sampled by ``speech_body``."""
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
                        spoken = True
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
        outgoing = [{"role": said["role"], "content": well_formed(said["content"])} for said in messages]
        spoken = False
        for tries in itertools.count(1):
            try:
                async with aclosing(self._try_once(outgoing, schema, speech)) as pieces:
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
                if schema is not None and may_refuse_schema(error):
                    raise failure.error from error
                wait = self._wait(failure, tries)
            await asyncio.sleep(wait)

    async def _try_once(
        self, messages: Sequence[Mapping[str, str]], schema: AnswerSchema | None, speech: bool
    ) -> AsyncGenerator[ReplyChunk]:
        joiner, thoughts, ending = PairJoiner(), PairJoiner(), _Ending(self.openai_wire)
        async with self.open_chat() as chat:
            options = schema_options(chat, schema, text_lengths=self.text_lengths) if schema else {}
            if speech and self.speech_body:
                options = with_body(chat, self.speech_body)
            chunks = chat.astream(cast("Any", messages), {"tags": [NOSTREAM_TAG]}, **options)
            async with aclosing(cast("AsyncGenerator[AIMessageChunk]", chunks)) as stream:
                patience = self.settings.first_token_seconds
                while (chunk := await _next_within(stream, patience)) is not None:
                    patience = self.settings.stall_seconds
                    ending.note(chunk)
                    if text := thoughts.feed(reasoning_of(chunk)):
                        yield ReplyChunk(reasoning=text)
                    if text := joiner.feed(answer_text(chunk) if schema else chunk.text):
                        yield ReplyChunk(text)
        if text := thoughts.flush():
            yield ReplyChunk(reasoning=text)
        if text := joiner.flush():
            yield ReplyChunk(text)
        ending.check()
        if ending.usage is not None or ending.truncated:
            yield ReplyChunk(usage=ending.usage, truncated=ending.truncated)

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


def reasoning_of(chunk: AIMessageChunk) -> str:
    """Read what a chunk holds of the model's reasoning, whichever way its provider sends it."""
    found: list[object] = [
        chunk.additional_kwargs[name] for name in _REASONING_FIELDS if name in chunk.additional_kwargs
    ][:1]
    if isinstance(chunk.content, list):
        for block in chunk.content:
            if isinstance(block, dict):
                found.append(block.get(_REASONING_BLOCKS.get(str(block.get("type")), "")))
    return "".join(text for text in found if isinstance(text, str))


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
            self.usage = usage if self._openai_wire else added_usage(self.usage, usage)

    @property
    def truncated(self) -> bool:
        """Whether the provider stopped at its length limit."""
        return self._reason in _TRUNCATED

    def check(self) -> None:
        """Refuse an end that is none: a cut stream, a filtered reply."""
        if self._reason in _FILTERED:
            raise ProviderError("provider.filtered")
        if self._reason is None and self._openai_wire:
            raise ProviderError("provider.no_finish", retryable=True)
