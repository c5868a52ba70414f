"""Turns that are disturbed: read while they run, cancelled anywhere, paused, stopped early, on a server's thread."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import InvalidUpdateError

from graph.chat_turn import PREPARATION, build_chat_turn
from graph.preview import preview_prompt
from personalab.operations.instances import read_session, switch_background
from personalab.services import Services
from personalab.story.recall import Hit, RecallQuery
from personalab.testing.in_memory import InMemoryLibrary
from personalab.testing.scripted import ScriptedModel, ScriptedReply
from tests.support.graph.turns import lines, only, plot, say

pytestmark = pytest.mark.anyio
Answer = Callable[..., ScriptedModel]
NODES = [
    "load_state",
    "recall_history",
    "recall_player",
    "match_lorebooks",
    "prepare_director",
    "assemble_prompt",
    "stream_reply",
    "process_progress",
]


async def test_readers_and_a_writer_in_one_process_never_disturb_each_other(
    services: Services, instance: str
) -> None:
    services.models["rehearsal"] = ScriptedModel(["好的，我们走。"], loop=True)
    done = False

    async def poll() -> int:
        seen = 0
        while not done:
            await read_session(services, instance)
            await preview_prompt(services, instance, "x")
            seen += 1
        return seen

    readers = [asyncio.create_task(poll()) for _ in range(4)]
    for _ in range(120):
        _, result = await say(services, "继续")
        assert result["status"] == "done", result["error"]
    done = True
    assert min(await asyncio.gather(*readers)) > 0
    raw = services.stories.session_path(instance, "sess_001").read_bytes()
    assert b"\x00" not in raw
    assert len(raw.splitlines()) == 241


def test_a_run_cancelled_at_any_moment_leaves_the_instance_free_for_the_next_event_loop(
    services: Services, instance: str
) -> None:
    services.__dict__["library"] = InMemoryLibrary()
    services.models["rehearsal"] = ScriptedModel(
        [ScriptedReply(("[PROGRESS:2:in_progress]", "b", "c"))], loop=True
    )
    descriptors = len(os.listdir("/proc/self/fd"))

    async def cancel_at(tick: int) -> bool:
        task = asyncio.create_task(say(services, "x"))
        for _ in range(tick):
            await asyncio.sleep(0)
        ended = task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return ended

    tick = 0
    while not asyncio.run(cancel_at(tick)):
        _, result = asyncio.run(say(services, "next"))
        assert result["status"] == "done", (tick, result["error"])
        tick += 3
    assert tick > 30
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 2
    found = services.stories.session(instance, "sess_001").transcript.turns
    assert [turn.number for turn in found] == list(range(1, len(found) + 1))
    assert all(turn.replies for turn in found)


async def test_a_turn_cancelled_before_its_state_was_loaded_counts_as_one_without_a_marker(
    services: Services, instance: str
) -> None:
    turn = await services.turns.begin(instance, "say", lambda turn: turn.say("走", "2025-10-16T10:30:00Z"))
    turn.model_asked_at = "2025-10-16T10:30:00Z"
    await turn.lease.release(abandoned=True, cancelled=True)
    assert lines(services)[-1]["interrupted"] is True
    assert plot(services)["no_update_count"] == 1


async def test_a_turn_cancelled_after_a_pause_is_closed_too(services: Services, instance: str) -> None:
    services.models["rehearsal"] = ScriptedModel([ScriptedReply(("我",), hang=True)])
    graph = build_chat_turn(services).compile(checkpointer=InMemorySaver(), interrupt_before=["stream_reply"])
    thread: Any = {"configurable": {"thread_id": "1"}}
    await graph.ainvoke({"instance_id": instance, "user_input": "走"}, thread)
    task = asyncio.create_task(graph.ainvoke(None, thread))
    while len(lines(services)) < 2 or not services.stories.session(instance, "sess_001").torn:
        await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [line.get("interrupted") for line in lines(services)[1:]] == [None, True]


@pytest.mark.parametrize("node", NODES)
async def test_a_run_paused_before_any_step_goes_on_where_it_was(
    services: Services, instance: str, answer_with: Answer, node: str
) -> None:
    answer_with("好。[PROGRESS:2:in_progress]")
    graph = build_chat_turn(services).compile(checkpointer=InMemorySaver(), interrupt_before=[node])
    thread: Any = {"configurable": {"thread_id": "1"}}
    await graph.ainvoke({"instance_id": instance, "user_input": "走"}, thread)
    await switch_background(services, instance, "bg_wasteland")
    result: dict[str, Any] = {}
    for _ in range(3):
        result = await graph.ainvoke(None, thread)
    assert result["status"] == "done", result.get("error")
    assert [line.get("role") for line in lines(services)] == [None, "user", "assistant"]
    assert plot(services)["current_plot_index"] == 2


@pytest.mark.parametrize("is_inferred", [False, True])
@pytest.mark.parametrize("node", NODES)
async def test_run_continues_after_its_state_was_edited_in_a_pause(
    services: Services, instance: str, answer_with: Answer, node: str, *, is_inferred: bool
) -> None:
    answer_with("好。[PROGRESS:2:in_progress]")
    graph = build_chat_turn(services).compile(checkpointer=InMemorySaver(), interrupt_before=[node])
    thread: Any = {"configurable": {"thread_id": "1"}}
    await graph.ainvoke({"instance_id": instance, "user_input": "走"}, thread)
    paused = (await graph.aget_state(thread)).next
    before = {"load_state": "append_input", "assemble_prompt": "recall_player"} | dict.fromkeys(
        PREPARATION, "load_state"
    )
    before |= {"stream_reply": "assemble_prompt", "process_progress": "stream_reply"}
    is_known = not is_inferred or node != "assemble_prompt"  # one of four steps was the last
    with contextlib.nullcontext() if is_known else pytest.raises(InvalidUpdateError, match="Ambiguous"):
        await graph.aupdate_state(thread, {"brought": "edited"}, None if is_inferred else before[node])
    edited = await graph.aget_state(thread)
    assert (edited.next, edited.values.get("brought")) == (paused, "edited" if is_known else "")
    result = await graph.ainvoke(None, thread)
    assert result["status"] == "done", result.get("error")
    assert [line.get("role") for line in lines(services)] == [None, "user", "assistant"]
    assert plot(services)["current_plot_index"] == 2


async def test_a_turn_that_was_overtaken_during_a_pause_says_so(
    services: Services, instance: str, answer_with: Answer
) -> None:
    answer_with("一", "二")
    graph = build_chat_turn(services).compile(checkpointer=InMemorySaver(), interrupt_before=["stream_reply"])
    thread: Any = {"configurable": {"thread_id": "1"}}
    await graph.ainvoke({"instance_id": instance, "user_input": "走"}, thread)
    await say(services, "someone else")
    result = await graph.ainvoke(None, thread)
    assert result["error"]["code"] == "turn_overtaken"
    assert len(lines(services)) == 4


async def test_on_a_servers_thread_each_call_means_only_what_it_says(
    services: Services, instance: str, answer_with: Answer
) -> None:
    answer_with("一", "二", ScriptedReply(error="provider.stall"), "三", "四")
    graph = build_chat_turn(services).compile(checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}

    async def call(**turn: object) -> dict[str, Any]:
        return await graph.ainvoke({"instance_id": instance, **turn}, thread)

    assert (await call(user_input="A", action="begin"))["status"] == "awaiting_reply"
    assert (await call(action="end", turn=1, caller_reply="brought"))["reply"] == "brought"
    assert (await call(user_input="B"))["reply"] == "一"
    assert (await call(action="end", turn=2))["error"]["code"] == "blank_reply"
    assert (await call(action="say"))["error"]["code"] == "blank_input"
    assert (await call(user_input="C"))["error"] is None
    assert (await call(user_input="D"))["status"] == "error"
    assert (await call(action="retry"))["reply"] == "三"
    assert (await call(user_input="E"))["reply"] == "四"
    said = [line["content"] for line in lines(services) if line.get("role") == "user"]
    assert said == ["A", "B", "C", "D", "E"]


async def test_a_marker_is_followed_even_when_the_caller_leaves_right_after_the_last_token(
    services: Services, instance: str
) -> None:
    services.models["rehearsal"] = ScriptedModel(
        [ScriptedReply(("a", "[PROGRESS:3:in_progress]"))], loop=True
    )
    whole = 0
    for tick in range(60):
        state = services.stories.instance(instance)
        services.stories.save_instance(type(state).read({**state.fields(), "plot_state": {}}))
        task = asyncio.create_task(say(services, "x"))
        path = services.stories.session_path(instance, "sess_001")
        before = path.stat().st_size
        with anyio.fail_after(60):
            while b"in_progress]" not in path.read_bytes()[before:] and not task.done():
                await asyncio.sleep(0)
        for _ in range(tick):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        last = lines(services)[-1]
        if last.get("role") == "assistant" and "[PROGRESS:3" in last["content"]:
            whole += 1
            assert plot(services)["current_plot_index"] == 3, tick
    assert whole > 10


class SlowLibrary(InMemoryLibrary):
    """A library that takes its time."""

    async def search(self, search: RecallQuery) -> list[Hit]:
        await asyncio.sleep(600)
        return []


async def test_a_stop_during_a_slow_recall_ends_the_turn_without_asking_the_model(
    services: Services, instance: str, answer_with: Answer
) -> None:
    services.__dict__["library"] = SlowLibrary()
    model = answer_with("never said")
    running = asyncio.create_task(say(services, "你还记得吗？"))
    with anyio.fail_after(60):
        while not services.stories.session(instance, "sess_001").transcript.turns:
            await asyncio.sleep(0.01)
        await services.leases.stop(instance)
    _, result = await running
    assert (result["status"], model.calls) == ("interrupted", [])
    assert lines(services)[-1]["interrupted"] is True


async def test_looking_at_the_next_prompt_writes_nothing(
    services: Services, instance: str, answer_with: Answer, library: InMemoryLibrary, root: Path
) -> None:
    services.preferences.change({"conversation_load_all": False, "conversation_max_tokens": 1_000})
    answer_with(*["答" * 400 for _ in range(6)])
    for number in range(6):
        await say(services, f"{number}" + "问" * 400)
    library.events.clear()
    await preview_prompt(services, instance, "你还记得吗？")
    assert not library.events


def test_what_is_torn_is_set_aside_whole_or_the_turn_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], capture_output=True
    ).returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        from personalab.errors import StorageError
        from personalab.storage.sessions import SessionCache, SessionWriter
        from personalab.story.transcript import Metadata, dump_line

        path = folder / "sess_001.jsonl"
        torn = b'{"role":"user","content":"' + b"W" * 12_000
        path.write_bytes(dump_line(Metadata("i", "sess_001", "t")) + torn)
        free = os.statvfs(folder)
        (folder / "filler").write_bytes(b"x" * (free.f_bavail * free.f_frsize - 8192))
        before = path.read_bytes()
        with pytest.raises(StorageError) as caught:
            SessionWriter(SessionCache().load(path, "s"), "s")
        assert caught.value.code == "disk_full"
        assert path.read_bytes() == before
        (folder / "filler").unlink()
        SessionWriter(SessionCache().load(path, "s"), "s").close()
        assert torn in path.with_suffix(".torn").read_bytes()
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("padding", [1, 100, 5000])
async def test_zeros_that_a_power_loss_left_do_not_block_the_story(
    services: Services, instance: str, answer_with: Answer, padding: int
) -> None:
    answer_with("一", "二")
    await say(services, "a")
    with services.stories.session_path(instance, "sess_001").open("ab") as file:
        file.write(bytes(padding))
    _, result = await say(services, "b")
    assert result["status"] == "done", result["error"]
    assert [line.get("content") for line in lines(services)] == [None, "a", "一", "b", "二"]


async def test_a_long_blank_reply_is_just_an_empty_one(
    services: Services, instance: str, answer_with: Answer
) -> None:
    blank = ScriptedReply((" " * 300, "\n" * 300))
    answer_with(blank, blank, "好")
    events, result = await say(services, "a")
    assert (result["status"], only(events, "warning")) == ("empty", [])
    assert [line.get("content") for line in lines(services)] == [None, "a", "(无回复)", "(无回复)"]


async def test_a_reply_brought_back_into_a_deleted_file_is_read_once(
    services: Services, instance: str, answer_with: Answer
) -> None:
    answer_with(ScriptedReply(("one ", "two"), delay=0.05), "好")
    path = services.stories.session_path(instance, "sess_001")
    running = asyncio.create_task(say(services, "x"))
    while b"one" not in path.read_bytes():
        await asyncio.sleep(0.005)
    path.unlink()
    await running
    assert [entry["content"] for entry in (await read_session(services, instance)).entries] == [
        "x",
        "one two",
    ]
    await say(services, "y")
    assert [line.get("content") for line in lines(services)] == [None, "x", "one two", "y", "好"]


async def test_a_line_added_by_hand_before_the_reply_begins_is_kept(
    services: Services, instance: str
) -> None:
    path = services.stories.session_path(instance, "sess_001")

    class Editor(InMemoryLibrary):
        async def search(self, search: RecallQuery) -> list[Hit]:
            with path.open("ab") as file:
                file.write(b'{"type":"note","by":"hand"}\n')
            return []

    services.__dict__["library"] = Editor()
    services.models["rehearsal"] = ScriptedModel(["好"])
    _, result = await say(services, "你还记得吗？")
    assert result["status"] == "done"
    assert [line.get("type") or line.get("role") for line in lines(services)] == [
        "metadata",
        "user",
        "note",
        "assistant",
    ]


async def test_a_pause_before_the_last_step_counts_a_reply_once(
    services: Services, instance: str, answer_with: Answer
) -> None:
    answer_with("no marker")
    graph = build_chat_turn(services).compile(
        checkpointer=InMemorySaver(), interrupt_before=["process_progress"]
    )
    thread: Any = {"configurable": {"thread_id": "1"}}
    await graph.ainvoke({"instance_id": instance, "user_input": "走"}, thread)
    assert plot(services)["no_update_count"] == 0
    await graph.ainvoke(None, thread)
    assert plot(services)["no_update_count"] == 1


async def test_results_stay_plain_json(services: Services, instance: str, answer_with: Answer) -> None:
    answer_with("好。")
    _, result = await say(services, "hi")
    assert json.loads(json.dumps(result)) == result
