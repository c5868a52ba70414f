"""Replies of LangChain's chat models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from personalab.dialogue import AnswerSchema, Message, PairJoiner, well_formed
from personalab.ports import ReplyChunk
from personalab.providers.content_blocks import Part, content_parts, field_reasoning
from personalab.providers.model_settings import ModelSettings
from personalab.providers.provider_model import ReplyEnding, stalled
from personalab.providers.schema_requests import schema_options, tool_input
from personalab.story.events import Usage

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessageChunk

OpenChat = Callable[[], "AbstractAsyncContextManager[BaseChatModel]"]

# langgraph.constants.TAG_NOSTREAM; without it LangGraph's "messages" mode shows tokens the file has not got.
NOSTREAM_TAG = "nostream"
_FINISH_FIELDS = ("finish_reason", "stop_reason", "done_reason", "status")


@dataclass(frozen=True, slots=True)
class LangChainSource:
    """Asks a LangChain chat model, opened for each answer and closed after it."""

    open_chat: OpenChat
    settings: ModelSettings
    openai_wire: bool = False
    """Whether it speaks OpenAI's protocol."""

    async def stream(
        self, messages: Sequence[Message], schema: AnswerSchema | None, *, speech: bool
    ) -> AsyncGenerator[ReplyChunk]:
        """Yield the pieces of one answer."""
        outgoing = [{"role": said["role"], "content": well_formed(said["content"])} for said in messages]
        joiner, thoughts, ending = PairJoiner(), PairJoiner(), ReplyEnding(self.openai_wire)
        async with self.open_chat() as chat:
            options = schema_options(chat, schema) if schema else {}
            chunks = chat.astream(cast("Any", outgoing), {"tags": [NOSTREAM_TAG]}, **options)
            async with aclosing(cast("AsyncGenerator[AIMessageChunk]", chunks)) as stream:
                patience = self.settings.first_token_seconds
                while (chunk := await _next_within(stream, patience)) is not None:
                    patience = self.settings.stall_seconds
                    _note(chunk, ending)
                    for is_reasoning, text in parts_of(chunk):
                        if is_reasoning:
                            if text := thoughts.feed(text):
                                yield ReplyChunk(reasoning=text)
                        elif text := joiner.feed(text):
                            yield ReplyChunk(text)
                    if schema and (text := joiner.feed(tool_input(chunk))):
                        yield ReplyChunk(text)
        if text := thoughts.flush():
            yield ReplyChunk(reasoning=text)
        if text := joiner.flush():
            yield ReplyChunk(text)
        if (last := ending.last_chunk()) is not None:
            yield last


async def _next_within(stream: AsyncIterator[AIMessageChunk], seconds: float) -> AIMessageChunk | None:
    try:
        async with asyncio.timeout(seconds):
            return await anext(stream, None)
    except TimeoutError as error:
        raise stalled(seconds) from error


def parts_of(chunk: AIMessageChunk) -> Iterator[Part]:
    """Yield what a chunk holds of the model's reasoning and its speech, whichever way its provider sends them."""
    if reasoning := field_reasoning(cast("Mapping[str, object]", chunk.additional_kwargs)):
        yield True, reasoning
    for block in [chunk.content] if isinstance(chunk.content, str) else chunk.content:
        if isinstance(block, str):
            yield False, block
        else:
            yield from content_parts([block])


def _note(chunk: AIMessageChunk, ending: ReplyEnding) -> None:
    """Read a chunk's finish reason and usage, if it has them."""
    metadata = cast("Mapping[str, object]", chunk.response_metadata)
    for name in _FINISH_FIELDS if metadata else ():
        if value := metadata.get(name):
            ending.reason = str(value).lower()
            break
    if told := chunk.usage_metadata:
        cached = told.get("input_token_details", {}).get("cache_read") or 0
        ending.add_usage(
            Usage(
                input_tokens=told["input_tokens"], output_tokens=told["output_tokens"], cached_tokens=cached
            )
        )
