"""While a tool runs, its client gets progress notifications again and again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from mcp import Client
from mcp.client.session import IncomingMessage
from mcp_types import ProgressNotification

from mcp_server.server import PersonaServer
from personalab.dialogue import Message
from personalab.ports import ReplyChunk
from personalab.services import Services
from personalab.testing.in_memory import InMemoryLibrary
from tests.integration.mcp_server.conftest import Mode
from tests.support.mcp_server.calls import data_of
from tests.support.mcp_server.scribes import Scribe, tell_story
from tests.support.web.slow_model import SECONDS, HandedModel

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
async def _light(services: Services, server: PersonaServer) -> AsyncGenerator[None]:  # pyright: ignore[reportUnusedFunction] (a fixture)
    server.heartbeat_seconds = 0.01
    services.__dict__["library"] = InMemoryLibrary()
    yield
    await services.memories.close()


class Heard:
    """The progress that a client was told."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.messages: list[str | None] = []
        self._news = asyncio.Condition()

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Take a notification."""
        async with self._news:
            self.values.append(progress)
            self.messages.append(message)
            self._news.notify_all()

    async def more(self, count: int = 3) -> None:
        """Wait for further notifications."""
        wanted = len(self.values) + count
        async with asyncio.timeout(SECONDS), self._news:
            await self._news.wait_for(lambda: len(self.values) >= wanted)

    @property
    def increases(self) -> bool:
        """Whether each value is greater than the one before."""
        return self.values == sorted(set(self.values))


def _provide(services: Services, model: Any) -> None:
    services.settings = replace(services.settings, model="scripted:test")
    services.models["scripted:test"] = model


def _heartbeats() -> list[str]:
    names = [str(task.get_coro()) for task in asyncio.all_tasks()]
    return [name for name in names if "_beat" in name]


async def test_heartbeat_goes_on_while_the_model_is_silent_or_ends_no_sentence(
    server: PersonaServer, services: Services, instance: str, mode: Mode
) -> None:
    model, heard = HandedModel(), Heard()
    _provide(services, model)
    async with Client(server, mode=mode) as client:
        said = {"instance_id": instance, "text": "hello"}
        call = asyncio.create_task(client.call_tool("persona_chat", said, progress_callback=heard))
        await model.asked()
        await heard.more()
        model.say("a sentence ", "without an end")
        await heard.more()
        model.say(" and its end. And")
        await heard.more()
        model.finish(" more")
        data = data_of(await call)
        assert _heartbeats() == []
    assert data["reply"] == "a sentence without an end and its end. And more"
    assert heard.increases
    told = [message for message in heard.messages if message]
    assert " ".join(told) == data["reply"]
    assert len(heard.messages) > len(told) >= 1


class SlowScribe(Scribe):
    """A model that writes summaries when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = asyncio.Event()

    def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        """Wait, then answer."""
        answer = super().stream(messages)

        async def held() -> AsyncIterator[ReplyChunk]:
            await self.go_on.wait()
            async for chunk in answer:
                yield chunk

        return held()


async def test_heartbeat_goes_on_while_a_summary_is_written(
    server: PersonaServer, services: Services, instance: str, mode: Mode
) -> None:
    tell_story(services, 8, "我们沿着旧铁路往北走，一路上没有人说话。" * 40)
    services.preferences.change({"max_total_tokens": 10_000})
    scribe, heard = SlowScribe(), Heard()
    _provide(services, scribe)
    async with Client(server, mode=mode) as client:
        story = {"instance_id": instance}
        call = asyncio.create_task(client.call_tool("persona_summarize", story, progress_callback=heard))
        await heard.more(5)
        scribe.go_on.set()
        assert data_of(await call)["status"] == "done"
        assert _heartbeats() == []
    assert heard.increases
    steps = [message for message in heard.messages if message]
    assert steps == [f"{done}/{len(steps) - 1}" for done in range(len(steps))]


async def test_client_that_asked_for_no_progress_gets_none(
    server: PersonaServer, services: Services, instance: str, mode: Mode
) -> None:
    model, notified = HandedModel(), list[object]()
    _provide(services, model)

    async def note(message: IncomingMessage) -> None:
        if isinstance(message, ProgressNotification):
            notified.append(message)

    async with Client(server, mode=mode, message_handler=note) as client:
        call = asyncio.create_task(
            client.call_tool("persona_chat", {"instance_id": instance, "text": "hello"})
        )
        await model.asked()
        assert _heartbeats() != []
        model.finish("A sentence. And more.")
        data_of(await call)
        assert _heartbeats() == []
    assert notified == []


async def test_cancelled_and_failed_calls_end_their_heartbeat(
    server: PersonaServer, services: Services, instance: str, mode: Mode
) -> None:
    model, heard = HandedModel(), Heard()
    _provide(services, model)
    said = {"instance_id": instance, "text": "hello"}
    async with Client(server, mode=mode) as client:
        call = asyncio.create_task(client.call_tool("persona_chat", said, progress_callback=heard))
        await model.asked()
        await heard.more()
        call.cancel()
        await asyncio.wait([call])
        async with asyncio.timeout(SECONDS):
            while _heartbeats():
                await asyncio.sleep(0.005)
        call = asyncio.create_task(client.call_tool("persona_retry", {"instance_id": instance}))
        await model.asked(2)
        model.fail()
        assert (await call).is_error
        assert _heartbeats() == []
