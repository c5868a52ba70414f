"""Conformance tests of every ``ReplyModel``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import cast

import pytest

from personalab.dialogue import Message
from personalab.ports import ReplyChunk, ReplyModel
from personalab.providers.chat_models import open_model
from personalab.providers.model_settings import ModelSettings
from tests.support.openai_server import OpenAIServer, says
from tests.support.providers.asking import HELLO, listen

STRANGE: tuple[Message, ...] = (
    {"role": "system", "content": "x\ud800"},
    {"role": "user", "content": "\0 \udfff 你好"},
)


@pytest.fixture(params=["rehearsal", "scripted", "openai", "local"])
def model(request: pytest.FixtureRequest, server: OpenAIServer, tmp_path: Path) -> ReplyModel:
    match request.param:
        case "scripted":
            path = tmp_path / "script.json"
            path.write_text('{"replies": ["Hello, said the script"], "loop": true}', encoding="utf-8")
            name = f"scripted:{path}"
        case "openai":
            server.script(says("Hel", "lo, ", "said", " the", " server"))
            name = "openai:some-model"
        case "local":
            name = f"local:{request.getfixturevalue('gguf_path')}"
        case other:
            name = str(other)
    settings = ModelSettings(base_url=server.url, rehearsal_delay=0, max_output_tokens=8, local_context=1024)
    return open_model(name, settings=settings)


def test_it_says_what_it_is(model: ReplyModel) -> None:
    assert model.name.partition(":")[0] in {"rehearsal", "scripted", "openai", "local"}


@pytest.mark.parametrize("messages", [HELLO, STRANGE])
def test_it_writes_a_whole_well_formed_reply(model: ReplyModel, messages: tuple[Message, ...]) -> None:
    heard = asyncio.run(listen(model, messages))
    assert heard.error is None
    assert heard.text
    heard.text.encode("utf-8")


def test_it_can_be_left_early_and_asked_again(model: ReplyModel) -> None:
    async def left_then_asked() -> str:
        async with aclosing(cast("AsyncGenerator[ReplyChunk]", model.stream(HELLO))) as stream:
            await anext(stream)
        return (await listen(model)).text

    assert asyncio.run(left_then_asked())


def test_it_writes_several_replies_at_a_time(model: ReplyModel) -> None:
    async def together() -> list[str]:
        return [heard.text for heard in await asyncio.gather(*(listen(model) for _ in range(3)))]

    assert all(asyncio.run(together()))
