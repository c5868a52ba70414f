"""Tests of replies from LangChain chat models of any provider."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from personalab.providers.langchain_source import LangChainSource
from personalab.providers.model_settings import ModelSettings
from personalab.providers.provider_model import ProviderModel
from tests.support.providers.asking import ask

Scripted = AIMessageChunk | Exception


class FakeChat(BaseChatModel):
    """A chat model of another provider: it plays chunks, or raises."""

    chunks: list[Any]

    @property
    def _llm_type(self) -> str:
        return "fake"

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self.chunks:
            if isinstance(chunk, Exception):
                raise chunk
            yield ChatGenerationChunk(message=chunk)


def model(*tries: list[Scripted]) -> ProviderModel:
    left = list(tries)

    @asynccontextmanager
    async def opened() -> AsyncGenerator[BaseChatModel]:
        yield FakeChat(chunks=left.pop(0))

    settings = ModelSettings(backoff_seconds=0.001, max_tries=3)
    return ProviderModel("other:name", LangChainSource(opened, settings), settings)


def chunk(content: Any, usage: tuple[int, int] | None = None, **metadata: str) -> AIMessageChunk:
    told = usage and UsageMetadata(input_tokens=usage[0], output_tokens=usage[1], total_tokens=sum(usage))
    return AIMessageChunk(content=content, usage_metadata=told or None, response_metadata=metadata)


class OtherProviderError(Exception):
    """As other providers' clients raise: known by what it carries."""

    def __init__(self, message: str, status_code: int) -> None:
        super().__init__(message)
        self.status_code = status_code


class TransportError(Exception):
    """As HTTP libraries name what happens to connections."""


def test_text_blocks_are_the_reply_and_thoughts_are_not() -> None:
    thought = [{"type": "thinking", "thinking": "hm"}]
    heard = ask(model([chunk(thought), chunk([{"type": "text", "text": "Yes"}], stop_reason="end_turn")]))
    assert (heard.text, heard.error) == ("Yes", None)


def test_usage_told_in_parts_is_added_up() -> None:
    heard = ask(model([chunk("", (7, 0)), chunk("Yes", (0, 2), stop_reason="end_turn")]))
    assert heard.usage == {"input_tokens": 7, "output_tokens": 2, "cached_tokens": 0}


def test_a_provider_that_tells_no_finish_reason_is_believed() -> None:
    assert ask(model([chunk("Yes")])).error is None


def test_a_refusal_is_a_filtered_reply() -> None:
    assert ask(model([chunk("No", stop_reason="refusal")])).code == "provider.filtered"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OtherProviderError("no", 401), "provider.wrong_key"),
        (OtherProviderError("prompt is too long: 9 tokens > 8 maximum", 400), "provider.context_overflow"),
        (OtherProviderError("strange", 418), "provider.refused"),
        (RuntimeError("boom sk-abcdefgh"), "provider.failed"),
        (KeyError("choices"), "provider.bad_answer"),
    ],
)
def test_other_providers_errors_are_understood(error: Exception, code: str) -> None:
    heard = ask(model([error], [chunk("never asked for")]))
    assert heard.code == code
    assert "sk-" not in str(heard.error)


@pytest.mark.parametrize(
    "error",
    [
        OtherProviderError("busy", 529),
        OtherProviderError("slow", 429),
        TransportError(),
        ConnectionResetError(),
    ],
)
def test_other_providers_passing_errors_are_tried_again(error: Exception) -> None:
    assert ask(model([error], [error], [chunk("Yes")])).text == "Yes"
