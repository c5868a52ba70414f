"""Replies from LangChain's chat models, and the ChatOpenAI that is opened for each reply.

LangChain's default HTTP client is shared between event loops and fails in the second one; here each reply has
a client of its own, closed with it.
"""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from personalab.dialogue import AnswerSchema, Message, PairJoiner, well_formed
from personalab.ports import ReplyChunk
from personalab.providers.connections import OPENAI_URL, OpenAIEndpoint, tls
from personalab.providers.model_settings import ModelSettings
from personalab.providers.provider_model import (
    REASONING_FIELD,
    Part,
    ReplyEnding,
    content_parts,
    field_reasoning,
    schema_options,
    stall_error,
    tool_input,
)
from personalab.story.events import Usage

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessageChunk
    from langchain_openai import ChatOpenAI


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
        raise stall_error(seconds) from error


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


@asynccontextmanager
async def open_chat_openai(endpoint: OpenAIEndpoint, settings: ModelSettings) -> AsyncGenerator[ChatOpenAI]:
    """Open a ChatOpenAI whose connections end with the block."""
    if "langchain_openai" not in sys.modules:
        await asyncio.to_thread(_import)
    from openai import DefaultAsyncHttpxClient, DefaultHttpxClient

    # The blocking client is never used, but LangChain would make one, slowly.
    with DefaultHttpxClient(verify=tls()) as unused:
        async with DefaultAsyncHttpxClient(verify=tls(), trust_env=endpoint.use_proxy) as client:
            yield _chat(endpoint, settings, http_async_client=client, http_client=unused)


def _chat(endpoint: OpenAIEndpoint, settings: ModelSettings, **clients: object) -> ChatOpenAI:
    own = endpoint.base_url == OPENAI_URL
    body = dict(endpoint.extra_body)
    if settings.max_output_tokens is not None:
        # OpenAI's own models refuse the older name, many other servers know no other.
        body["max_completion_tokens" if own else "max_tokens"] = settings.max_output_tokens
    options: dict[str, Any] = {
        "model": endpoint.model,
        "api_key": endpoint.api_key,
        "base_url": endpoint.base_url,
        "temperature": settings.temperature,
        "extra_body": body or None,
        "timeout": (settings.connect_seconds, None, None, settings.connect_seconds),
        **clients,
        "openai_proxy": "",
        "max_retries": 0,
        "stream_usage": True,
        "stream_chunk_timeout": None,
        "use_responses_api": None if own else False,
    }
    if settings.reasoning is not None:
        options["reasoning_effort"] = "none" if settings.reasoning == "off" else settings.reasoning
    return _reasoning_chat()(**options)


@functools.cache
def _reasoning_chat() -> type[ChatOpenAI]:
    """Make a ChatOpenAI that keeps the reasoning other servers send; LangChain's own drops it."""
    from langchain_openai import ChatOpenAI

    class ReasoningChatOpenAI(ChatOpenAI):
        def _convert_chunk_to_generation_chunk(
            self,
            chunk: dict[str, Any],
            default_chunk_class: type,
            base_generation_info: dict[str, Any] | None,
        ) -> Any:
            made: Any = super()._convert_chunk_to_generation_chunk(
                chunk, default_chunk_class, base_generation_info
            )
            if made is not None and (reasoning := _delta_reasoning(chunk)):
                made.message.additional_kwargs[REASONING_FIELD] = reasoning
            return made

    return ReasoningChatOpenAI


def _delta_reasoning(chunk: Mapping[str, Any]) -> str:
    """Read what a chunk holds of the model's reasoning beside its content."""
    for choice in chunk.get("choices") or ():
        if reasoning := field_reasoning(cast("Mapping[str, object]", choice.get("delta") or {})):
            return reasoning
    return ""


def _import() -> None:
    import langchain_openai  # noqa: F401  # pyright: ignore[reportUnusedImport]

    tls()
