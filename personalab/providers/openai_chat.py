"""ChatOpenAI opened for one reply, for OpenAI or any server that speaks its protocol.

LangChain's default HTTP client is shared between event loops and fails in the second one; here each reply has
a client of its own, closed with it.
"""

from __future__ import annotations

import asyncio
import functools
import ssl
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from personalab.providers.content_blocks import REASONING_FIELD, field_reasoning
from personalab.providers.model_settings import ModelSettings

if TYPE_CHECKING:
    from langchain_openai import ChatOpenAI

OPENAI_URL = "https://api.openai.com/v1"
# Local servers want no key, but the client library wants one.
NO_KEY = "no-key"


@dataclass(frozen=True, slots=True)
class OpenAIEndpoint:
    """Where a model is, and what is said to it besides the messages."""

    model: str
    base_url: str = OPENAI_URL
    api_key: str = field(default=NO_KEY, repr=False)
    extra_body: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def use_proxy(self) -> bool:
        """Whether the environment's proxy settings hold: not for a server on this machine."""
        return not is_loopback(self.base_url)


def is_loopback(url: str) -> bool:
    """Return whether a URL names this machine."""
    host = urlsplit(url).hostname or ""
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost"
    return address.is_loopback or address.is_unspecified


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


@functools.cache
def tls() -> ssl.SSLContext:
    """Trust the machine's certificates and certifi's; making this takes 40 ms, so it is made once."""
    import certifi

    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context
