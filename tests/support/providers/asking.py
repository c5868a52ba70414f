"""Helpers that ask a model and collect its chunks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from personalab.dialogue import Message
from personalab.errors import ProviderError
from personalab.ports import ReplyModel
from personalab.providers.chat_models import open_model
from personalab.providers.model_settings import ModelSettings
from personalab.settings import environment_proxies
from personalab.story.events import Usage
from tests.support.openai_server import OpenAIServer

HELLO: tuple[Message, ...] = ({"role": "user", "content": "Hello"},)
KEY = "sk-secret-0123456789"
WAY: Literal["wire", "langchain"] = "wire"
"""How models are asked: by our own reader, or through LangChain; tests of both set it."""
QUICK = {"backoff_seconds": 0.01, "stall_seconds": 5.0, "first_token_seconds": 5.0}


@dataclass(frozen=True, slots=True)
class Heard:
    """What came of one reply."""

    pieces: tuple[str, ...]
    usage: Usage | None
    error: ProviderError | None
    reasoning: str = ""

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def code(self) -> str | None:
        return self.error.code if self.error else None


async def listen(model: ReplyModel, messages: Sequence[Message] = HELLO) -> Heard:
    pieces: list[str] = []
    usage: Usage | None = None
    reasoning = ""
    try:
        async for chunk in model.stream(messages):
            reasoning += chunk.reasoning
            if chunk.text:
                pieces.append(chunk.text)
            usage = chunk.usage or usage
    except ProviderError as error:
        return Heard(tuple(pieces), usage, error, reasoning)
    return Heard(tuple(pieces), usage, None, reasoning)


def ask(model: ReplyModel, messages: Sequence[Message] = HELLO) -> Heard:
    return asyncio.run(listen(model, messages))


def model_at(server: OpenAIServer | str, **settings: float) -> ReplyModel:
    chosen = {**QUICK, **settings}
    return open_model(
        "openai:some-model",
        settings=ModelSettings(
            api_key=KEY,
            base_url=server if isinstance(server, str) else server.url,
            backoff_seconds=chosen["backoff_seconds"],
            stall_seconds=chosen["stall_seconds"],
            first_token_seconds=chosen["first_token_seconds"],
            max_tries=int(chosen.get("max_tries", 4)),
            proxies=environment_proxies,
            traced=WAY == "langchain",
        ),
    )
