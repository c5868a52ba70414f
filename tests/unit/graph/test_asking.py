"""Whatever a model does, whoever asks it gets an answer, an error of ours, or can stop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from graph.memorize import stream_memorize
from mcp_server.asking import AnswerBook, Needed
from nodes.structured_output import StructuredModel
from personalab.dialogue import Message
from personalab.errors import ProviderError, UserError
from personalab.ports import AnswerNeeded, ReplyChunk
from personalab.services import Services

pytestmark = pytest.mark.anyio
ASKED: list[Message] = [{"role": "user", "content": "?"}]


class Failing:
    """Raises what it was given."""

    name = "failing"

    def __init__(self, error: BaseException) -> None:
        self._error = error

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        yield ReplyChunk("{")
        raise self._error


class Silent:
    """Never says a word, and knows when it was left."""

    name = "silent"

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.left = False

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        self.asked.set()
        try:
            await asyncio.Event().wait()
            yield ReplyChunk("")
        finally:
            self.left = True


def _ask(model: Any, stop_asked: Callable[[], bool] = lambda: False) -> Any:
    return StructuredModel(model, "again: {error}", stop_asked=stop_asked).ask(ASKED, json.loads)


async def test_a_failure_nobody_foresaw_is_the_models_and_keeps_its_words_to_the_log() -> None:
    with pytest.raises(ProviderError) as caught:
        await _ask(Failing(RuntimeError("key sk-123")))
    assert caught.value.code == "provider.failed"
    assert "sk-123" not in str(caught.value)


async def test_an_error_of_ours_stays_what_it_is() -> None:
    with pytest.raises(ProviderError) as caught:
        await _ask(Failing(ProviderError("provider.failed", retryable=True, reason="busy")))
    assert caught.value.retryable


async def test_a_question_for_someone_else_passes_through() -> None:
    with pytest.raises(AnswerNeeded) as caught:
        await _ask(AnswerBook("host", {}))
    assert isinstance(caught.value, Needed)
    assert caught.value.messages == ASKED


async def test_a_silent_model_can_be_stopped_and_is_left() -> None:
    model = Silent()
    with pytest.raises(UserError) as caught:
        await _ask(model, model.asked.is_set)
    assert caught.value.code == "work_stopped"
    assert model.left


async def test_who_is_cancelled_leaves_the_model() -> None:
    model = Silent()
    task = asyncio.ensure_future(_ask(model))
    await model.asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert model.left


REQUEST: dict[str, Any] = {
    "agent_id": "agent_001",
    "user_id": "user_001",
    "messages": [{"role": "user", "content": "我是医生"}, {"role": "assistant", "content": "你好"}],
}


async def _memorized(services: Services, model: Any, stop_asked: Callable[[], bool] | None) -> dict[str, Any]:
    services.models["rehearsal"] = model
    result: dict[str, Any] = {}
    async for part in stream_memorize(services, {"request": REQUEST}, stop_asked=stop_asked):
        if "type" not in part:
            result = dict(part)
    return result


async def test_learning_inside_another_work_stops_with_it(services: Services) -> None:
    model = Silent()
    result = await _memorized(services, model, model.asked.is_set)
    assert (result["status"], result["error"]["code"]) == ("error", "work_stopped")
    assert model.left


async def test_a_model_that_breaks_is_a_stage_that_failed(services: Services) -> None:
    result = await _memorized(services, Failing(KeyError("choices")), None)
    assert (result["status"], result["error"]["code"]) == ("error", "provider.failed")
    assert result["pipeline_result"]["error"]["stage"] == "modify"
