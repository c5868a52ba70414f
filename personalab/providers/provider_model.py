"""A model of any provider: retries before the first piece of text, schemas where they can be enforced, plain errors.

Where the pieces come from is a ``ReplySource``: LangChain's chat models (``langchain_source``), or our own reader of
OpenAI's protocol (``openai_source``). Here is also what both share: how each kind of provider is asked to enforce a
JSON schema, and where speech and reasoning are in what providers send.

OpenAI's protocol takes a ``response_format`` (OpenAI, llama.cpp, vLLM, Ollama, LM Studio and many more).
Anthropic's models call a tool whose input has the schema. ``ChatOllama`` takes a ``format``. Other providers
get no schema.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from personalab.dialogue import AnswerSchema, Message
from personalab.errors import ProviderError
from personalab.ports import ReplyChunk
from personalab.providers.failures import Attempt, Failure, explain, may_refuse_schema
from personalab.providers.model_settings import ModelSettings
from personalab.story.events import Usage, added_usage

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessageChunk


Part = tuple[bool, str]
"""Whether it is reasoning, and the text."""

REASONING_FIELD = "reasoning_content"
_REASONING_FIELDS = (REASONING_FIELD, "reasoning", "reasoning_details")
"""Of these the first that holds text: some servers send the same text in two of them."""
_SPEECH_BLOCKS = frozenset({"text", "output_text"})
_REASONING_BLOCKS = frozenset({REASONING_FIELD, "reasoning_text", "reasoning", "thought", "thinking"})
_TEXT_KEYS = ("text", "summary", "content")
"""Where the text of a reasoning block is, if not under the name of its type."""


def field_reasoning(fields: Mapping[str, object]) -> str:
    """Return the reasoning in a delta or message, apart from its content."""
    return next((text for name in _REASONING_FIELDS if (text := _text_of(fields.get(name)))), "")


def content_parts(content: object) -> Iterator[Part]:
    """Yield the speech and the reasoning of a list of blocks in their order; blocks of other types are neither."""
    for block in cast("list[object]", content) if isinstance(content, list) else ():
        if isinstance(block, dict):
            fields = cast("Mapping[str, object]", block)
            kind = fields.get("type")
            if kind in _SPEECH_BLOCKS:
                yield False, _text_of(fields.get("text"))
            elif kind in _REASONING_BLOCKS:
                found = (_text_of(fields.get(name)) for name in (str(kind), *_TEXT_KEYS))
                yield True, next(filter(None, found), "")


def _text_of(value: object) -> str:
    """Return a text, that of an object, or those of a list joined."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(map(_text_of, cast("list[object]", value)))
    if isinstance(value, dict):
        fields = cast("Mapping[str, object]", value)
        return next((text for name in _TEXT_KEYS if isinstance(text := fields.get(name), str)), "")
    return ""


_TEXT_LENGTHS = frozenset({"minLength", "maxLength"})
"""OpenAI's strict mode refuses a schema that has them."""
_TOOL_NOTE = "Give your whole answer as the input of this tool."


@dataclass(slots=True)
class SchemaSupport:
    """What is known in this process about one model at one address."""

    refused: bool = False
    known: ClassVar[dict[tuple[str, str], SchemaSupport]] = {}

    @classmethod
    def of(cls, model: str, base_url: str | None) -> SchemaSupport:
        """Return what is known about a model, which is changed in place."""
        return cls.known.setdefault((model, base_url or ""), cls())


def schema_options(chat: BaseChatModel, schema: AnswerSchema) -> dict[str, Any]:
    """Return what ``astream`` of a chat model takes for a schema; nothing for a provider that takes none."""
    form = without_text_lengths(schema.schema)
    # By name: only the package of the provider that is used is installed.
    for kind in type(chat).__mro__:
        if (options := _OPTIONS.get(kind.__name__)) is not None:
            return options(chat, schema.name, form)
    return {}


def openai_format(schema: AnswerSchema, *, text_lengths: bool = False) -> dict[str, Any]:
    """Return the ``response_format`` of OpenAI's protocol."""
    form = dict(schema.schema) if text_lengths else without_text_lengths(schema.schema)
    return _response_format(schema.name, form)


def tool_input(chunk: AIMessageChunk) -> str:
    """Return what a chunk has of a tool's input."""
    return "".join(call["args"] or "" for call in chunk.tool_call_chunks)


def without_text_lengths(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a schema without the lengths of its texts."""
    return {name: _without(value) for name, value in schema.items() if name not in _TEXT_LENGTHS}


def _without(value: object) -> object:
    if isinstance(value, Mapping):
        return without_text_lengths(cast("Mapping[str, Any]", value))
    if isinstance(value, list):
        return [_without(row) for row in cast("list[object]", value)]
    return value


def _response_format(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": True}}


def _openai(chat: BaseChatModel, name: str, schema: dict[str, Any]) -> dict[str, Any]:
    # LangChain's advice on its own methods, printed where a provider refuses the schema.
    warnings.filterwarnings("ignore", message=".*OpenAI's structured output feature")
    wanted = _response_format(name, schema)
    uses_responses = cast(
        "Callable[[dict[str, Any]], bool] | None", getattr(chat, "_use_responses_api", None)
    )
    if uses_responses is not None and uses_responses({}):
        return {"response_format": wanted}
    # As an argument of its own it would switch LangChain to a stream that parses and sends the answer twice.
    body = cast("Mapping[str, Any]", getattr(chat, "extra_body", None) or {})
    return {"extra_body": {**body, "response_format": wanted}}


def _anthropic(chat: BaseChatModel, name: str, schema: dict[str, Any]) -> dict[str, Any]:
    tool = {"name": name, "description": _TOOL_NOTE, "input_schema": schema}
    bound = chat.bind_tools([tool], tool_choice=name)
    return dict(cast("Mapping[str, Any]", getattr(bound, "kwargs", {})))


def _ollama(chat: BaseChatModel, name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"format": schema}


_OPTIONS: Mapping[str, Callable[[BaseChatModel, str, dict[str, Any]], dict[str, Any]]] = {
    "BaseChatOpenAI": _openai,
    "ChatAnthropic": _anthropic,
    "ChatOllama": _ollama,
}


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


def stall_error(seconds: float) -> ProviderError:
    """Return the error of a provider that says nothing for so long."""
    return ProviderError("provider.stall", retryable=True, seconds=f"{seconds:g}")
