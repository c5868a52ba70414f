"""The real LangGraph server: a chat as generic front ends play it, and runs that are repeated after a crash."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from personalab.operations.instances import new_instance
from personalab.services import Services
from tests.integration.graph.studio_server import StudioServer

pytestmark = pytest.mark.anyio
STORIES = ("inst_001", "inst_002")


@pytest.fixture
def server(root: Path, services: Services, tmp_path: Path) -> Iterator[StudioServer]:
    """``langgraph dev`` on two stories, with a model that goes on for long in its second and third reply."""
    for name in STORIES:
        asyncio.run(new_instance(services, "char_alserqi", "bg_wasteland", name))
    script = tmp_path / "script.json"
    slow = {"pieces": [f"word{number} " for number in range(2000)], "delay": 0.05}
    script.write_text(json.dumps({"replies": ["好。", "在。", slow, slow]}), encoding="utf-8")
    with StudioServer(tmp_path / "studio", root, f"scripted:{script}") as running:
        yield running
    running.check_log()


def _lines(root: Path, story: str) -> list[dict[str, Any]]:
    path = root / "instances" / story / "sessions" / "sess_001.jsonl"
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def _said(text: str) -> dict[str, Any]:
    return {"messages": [{"type": "human", "content": text, "id": f"id of {text}"}]}


async def test_a_generic_front_end_plays_a_story_and_a_crash_repeats_nothing(
    server: StudioServer, root: Path
) -> None:
    async with get_client(url=server.url, api_key=None) as client:
        await _play(client, root)
        runs = await _begin_two(client, server, root)
    server.kill()
    server.start()
    async with get_client(url=server.url, api_key=None) as client:
        for thread_id, run_id in runs:
            with anyio.fail_after(120):
                while (await client.runs.get(thread_id, run_id))["status"] in ("pending", "running"):
                    await asyncio.sleep(0.1)
            assert (await client.runs.get(thread_id, run_id))["status"] == "success"
    for story, words in zip(STORIES, ("到了吗", "走吧"), strict=True):
        told = [line["content"] for line in _lines(root, story) if line.get("role") == "user"]
        assert told.count(words) == 1, told


async def _play(client: LangGraphClient, root: Path) -> None:
    """Stream two turns as a front end does; then look at the thread."""
    found = await client.assistants.search(graph_id="chat")
    schemas: Any = await client.assistants.get_schemas(found[0]["assistant_id"])
    assert "messages" in schemas["input_schema"]["properties"]
    assert {"instance_id", "model"} <= set(schemas["context_schema"]["properties"])
    thread_id = (await client.threads.create())["thread_id"]
    for words, reply, context in (("你好", "好。", {"instance_id": "inst_001"}), ("还在吗", "在。", None)):
        text, ids = "", set[str]()
        config: Any = None if context else {"configurable": {"instance_id": "inst_001"}}
        modes: Any = ["messages-tuple", "values", "updates"]
        stream = client.runs.stream(
            thread_id,
            "chat",
            input=_said(words),
            stream_mode=modes,
            context=cast("Any", context),
            config=config,
        )
        async for part in stream:
            assert part.event != "error", part.data
            if part.event == "messages":
                chunk = cast("Any", part.data)[0]
                ids.add(chunk["id"])
                text += chunk["content"]
        assert text == reply
        assert len(ids) == 1
    state: Any = await client.threads.get_state(thread_id)
    shown = [(message["type"], message["content"]) for message in state["values"]["messages"]]
    assert shown == [("human", "你好"), ("ai", "好。"), ("human", "还在吗"), ("ai", "在。")]
    missing: Any = await cast("Any", client.runs).wait(None, "chat", input=_said("谁？"), raise_error=False)
    assert "inst_001" in str(missing)
    assert "instance_id" in str(missing)


async def _begin_two(client: LangGraphClient, server: StudioServer, root: Path) -> list[tuple[str, str]]:
    """Begin a turn with each graph, and wait until the server has saved both runs."""
    calls: list[tuple[str, Any, Any]] = [
        ("chat", _said("到了吗"), {"instance_id": STORIES[0]}),
        ("chat_turn", {"instance_id": STORIES[1], "user_input": "走吧"}, None),
    ]
    begun: list[tuple[str, str]] = []
    for graph, call, context in calls:
        thread_id = (await client.threads.create())["thread_id"]
        run = await client.runs.create(thread_id, graph, input=call, context=context)
        begun.append((thread_id, run["run_id"]))
    with anyio.fail_after(90):
        while not all(server.keeps(run_id) for _, run_id in begun) or not all(
            _has_begun(root, name) for name in STORIES
        ):
            await asyncio.sleep(0.1)
    return begun


def _has_begun(root: Path, story: str) -> bool:
    path = root / "instances" / story / "sessions" / "sess_001.jsonl"
    return b"word3" in path.read_bytes()
