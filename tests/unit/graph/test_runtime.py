"""The runtime that all graphs share: steps that are nodes, errors of parallel steps, stops."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from typing_extensions import TypedDict

from graph.chat_turn import build_chat_turn
from graph.runtime import GraphBuilder, StepContext, run_until_stopped, stream_graph
from nodes.structured_output import never_stop
from personalab.dialogue import Message
from personalab.errors import StorageError
from personalab.operations.instances import new_instance
from personalab.ports import ReplyChunk
from personalab.services import Services, open_services
from personalab.storage.lorebooks import LorebookFiles
from personalab.storage.story_lock import running
from personalab.testing.scripted import ScriptedModel
from tests.support.graph.turns import lines, only, say

pytestmark = pytest.mark.anyio
Answer = Callable[..., ScriptedModel]


async def test_turn_runs_every_step_as_a_node(services: Services, instance: str, answer_with: Answer) -> None:
    answer_with("好。")
    graph = build_chat_turn(services).compile()
    ran: list[str] = []
    turn = {"instance_id": instance, "user_input": "走"}
    async for part in graph.astream(turn, stream_mode="updates", version="v2"):
        ran += part["data"]
    assert ran[:2] == ["append_input", "load_state"]
    assert set(ran[2:6]) == {"recall_history", "recall_player", "match_lorebooks", "prepare_director"}
    assert ran[6:] == ["assemble_prompt", "stream_reply", "process_progress"]


class BrokenLorebooks(LorebookFiles):
    """Lorebooks whose folder cannot be read."""

    def has_any(self, character_id: str, background_id: str | None) -> bool:
        raise StorageError("file_missing", file="lorebooks")


async def test_error_of_a_parallel_step_ends_the_turn_with_one_event(
    services: Services, instance: str, answer_with: Answer
) -> None:
    services.preferences.switch("lorebook", on=True)
    services.__dict__["lorebooks"] = BrokenLorebooks(services.stories)
    model = answer_with("never said")
    events, result = await say(services, "走")
    assert [event["code"] for event in only(events, "error")] == ["file_missing"]
    assert (result["status"], result["error"]["code"], result["turn"]) == ("error", "file_missing", 1)
    assert (model.calls, [line.get("role") for line in lines(services)]) == ([], [None, "user"])
    services.__dict__["lorebooks"] = LorebookFiles(services.stories)
    del services.__dict__["story_ports"]
    assert (await say(services, "又来"))[1]["status"] == "done"


async def test_first_error_of_parallel_steps_counts_and_the_lock_is_kept_until_all_have_ended(
    services: Services, instance: str, answer_with: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    holders: list[str] = []

    def note_holder() -> None:
        holder = running(services.stories.session_path(instance, "sess_001").parent.parent)
        holders.append(holder["lease"] if holder else "nobody")

    class Lorebooks(BrokenLorebooks):
        def has_any(self, character_id: str, background_id: str | None) -> bool:
            note_holder()
            return super().has_any(character_id, background_id)

    async def fail_later(*_: object, **__: object) -> dict[str, object]:
        await asyncio.sleep(0.1)
        note_holder()
        raise StorageError("disk_full", file="memory")

    services.preferences.switch("lorebook", on=True)
    services.__dict__["lorebooks"] = Lorebooks(services.stories)
    monkeypatch.setattr("graph.chat_turn.recall_player", fail_later)
    answer_with("never said")
    events, result = await say(services, "走")
    assert [event["code"] for event in only(events, "error")] == ["file_missing"]
    assert (result["status"], result["error"]["code"]) == ("error", "file_missing")
    assert (len(holders), len(set(holders))) == (2, 1)


async def test_stop_does_not_wait_for_the_vocabulary(
    services: Services, instance: str, answer_with: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read_slowly(*_: object) -> None:
        await asyncio.sleep(600)

    monkeypatch.setattr(type(services), "counter", read_slowly)
    model = answer_with("never said")
    turn = asyncio.create_task(say(services, "走"))
    with anyio.fail_after(60):
        while not services.stories.session(instance, "sess_001").transcript.turns:
            await asyncio.sleep(0.01)
        await services.leases.stop(instance)
        assert ((await turn)[1]["status"], model.calls) == ("interrupted", [])


async def test_stop_waits_only_briefly_for_work_that_does_not_end() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        while not ended.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await ended.wait()

    with anyio.fail_after(60):
        assert await run_until_stopped(work(), lambda: True) is None
    ended.set()


async def test_work_is_cancelled_when_a_stop_is_requested() -> None:
    cancelled = asyncio.Event()

    async def work() -> str:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "done"

    with anyio.fail_after(60):
        assert await run_until_stopped(work(), lambda: True) is None
    assert cancelled.is_set()


async def test_timeout_of_the_work_itself_is_not_taken_for_a_stop() -> None:
    async def work() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        await run_until_stopped(work(), never_stop)


async def test_cancellation_during_work_is_not_taken_for_a_stop() -> None:
    task = asyncio.create_task(run_until_stopped(asyncio.sleep(60), never_stop))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


class _Counted(TypedDict, total=False):
    status: str


def _build_counting(services: Services) -> GraphBuilder:
    async def count(state: object, _: object, step: StepContext) -> dict[str, str]:
        step.emit({"type": "count", "number": 1})
        await asyncio.to_thread(step.emit, {"type": "count", "number": 2})
        step.emit({"type": "count", "number": 3})
        return {"status": "done"}

    builder = GraphBuilder(services, _Counted)
    builder.add_chain({"count": count}, {"status": "running"})
    return builder


async def test_events_of_threads_and_steps_keep_their_order_and_come_before_the_result(
    services: Services,
) -> None:
    parts = [part async for part in stream_graph(services, "counting", _build_counting, {}, None)]
    assert [part.get("number", part.get("status")) for part in parts] == [1, 2, 3, "done"]


class AskingModel:
    """A model that plays a turn of another story to answer."""

    name = "asking:model"

    def __init__(self, services: Services, instance_id: str) -> None:
        self._graph = build_chat_turn(services).compile()
        self._instance_id = instance_id

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        """Answer with the other story's reply."""
        found = await self._graph.ainvoke({"instance_id": self._instance_id, "user_input": "inner"})
        yield ReplyChunk(f"outer({found['reply']})")


async def test_run_inside_a_step_emits_nothing_to_the_outer_stream(
    services: Services, instance: str, tmp_path: Path
) -> None:
    inner = open_services(replace(services.settings, data_root=tmp_path / "inner"))
    story = await new_instance(inner, "char_alserqi", "bg_wasteland")
    inner.models[inner.settings.model] = ScriptedModel(["INNER"])
    services.models[services.settings.model] = AskingModel(inner, story.instance_id)
    events, _ = await say(services, "x")
    assert [event["text"] for event in only(events, "token")] == ["outer(INNER)"]
    assert len(only(events, "done")) == 1
