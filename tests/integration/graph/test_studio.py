"""The real LangGraph server loads the graph with no key and no network, and runs it with nothing that blocks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import anyio
import httpx
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from personalab.operations.instances import new_instance
from personalab.services import Services
from tests.integration.graph.studio_server import StudioServer
from tests.support.lab.running import make_project
from tests.support.web.listening import parsed, text_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def server(root: Path, services: Services, tmp_path: Path) -> Iterator[str]:
    """``langgraph dev`` on this test's data root, with a slow scripted model."""
    asyncio.run(new_instance(services, "char_alserqi", "bg_wasteland", "inst_001"))
    asyncio.run(make_project(services, cases=1, model="rehearsal"))
    script = tmp_path / "script.json"
    slow = {"pieces": [f"word{n} " for n in range(200)], "delay": 0.05}
    script.write_text(
        json.dumps({"replies": ["好。[PROGRESS:1:in_progress]", slow, "好。", "在，一直都在。"]}),
        encoding="utf-8",
    )
    with StudioServer(tmp_path / "studio", root, f"scripted:{script}") as running:
        yield running.url
    running.check_log()


def _lines(root: Path) -> list[dict[str, Any]]:
    path = root / "instances" / "inst_001" / "sessions" / "sess_001.jsonl"
    return [json.loads(line) for line in path.read_bytes().splitlines()]


async def test_studio_shows_streams_and_cancels_a_turn(server: str, root: Path) -> None:
    async with get_client(url=server, api_key=None) as client:
        await _drive(client, root)
        await _drive_the_page(server, root)
        await _drive_the_lab(client, root)


async def _drive(client: LangGraphClient, root: Path) -> None:
    assistants = {found["graph_id"]: found["assistant_id"] for found in await client.assistants.search()}
    assert {"chat", "chat_turn", "summarize", "update_memory", "evaluate", "iterate"} <= set(assistants)
    growth = await client.assistants.get_graph(assistants["update_memory"])
    names = [node["id"] for node in growth["nodes"]][1:-1]
    assert (names[0], names[-1]) == ("read_turns", "save_persona")
    summary = await client.assistants.get_graph(assistants["summarize"])
    assert [node["id"] for node in summary["nodes"]][1:-1] == [
        "read_session",
        "draft_points",
        "store_summary",
        "index_summary",
        "switch_session",
    ]
    graph = await client.assistants.get_graph(assistants["chat_turn"])
    assert [node["id"] for node in graph["nodes"]][1:-1] == [
        "append_input",
        "load_state",
        "recall_history",
        "recall_player",
        "match_lorebooks",
        "prepare_director",
        "assemble_prompt",
        "stream_reply",
        "process_progress",
    ]
    schemas = cast("dict[str, Any]", await client.assistants.get_schemas(assistants["chat_turn"]))
    assert {"instance_id", "user_input", "action", "caller_reply"} <= set(
        schemas["input_schema"]["properties"]
    )
    assert "status" in schemas["output_schema"]["properties"]
    assert "model" in schemas["context_schema"]["properties"]

    thread = await client.threads.create()
    turn = {"instance_id": "inst_001", "user_input": "你还记得我们的约定吗？"}
    events: list[Any] = []
    async for part in client.runs.stream(thread["thread_id"], "chat_turn", input=turn, stream_mode="custom"):
        if part.event == "custom":
            events.append(part.data)
    assert (
        "".join(event["text"] for event in events if event["type"] == "token")
        == "好。[PROGRESS:1:in_progress]"
    )
    assert events[-1]["type"] == "done"
    begun: Any = await cast("Any", client.runs).wait(
        None, "chat_turn", input={**turn, "action": "begin", "hold_seconds": 60}
    )
    assert begun["status"] == "awaiting_reply"
    ended: Any = await cast("Any", client.runs).wait(
        None, "chat_turn", input={**turn, "action": "end", "turn": begun["turn"], "caller_reply": "好。"}
    )
    assert ended["status"] == "done"

    run = await client.runs.create(thread["thread_id"], "chat_turn", input={**turn, "user_input": "说下去"})
    path = root / "instances" / "inst_001" / "sessions" / "sess_001.jsonl"
    with anyio.fail_after(60):
        while b"word3" not in path.read_bytes():
            await asyncio.sleep(0.05)
    await client.runs.cancel(thread["thread_id"], run["run_id"], wait=True)
    with anyio.fail_after(60):
        while not _lines(root)[-1].get("interrupted"):
            await asyncio.sleep(0.05)
    assert _lines(root)[-1]["content"].startswith("word0 word1 word2 word3 ")

    values: Any = await cast("Any", client.runs).wait(
        thread["thread_id"], "chat_turn", input={**turn, "user_input": "好吗"}
    )
    assert (values["status"], values["turn"], values["reply"]) == ("done", 4, "好。")
    state = json.loads((root / "instances" / "inst_001" / "instance_state.json").read_text(encoding="utf-8"))
    assert state["plot_state"]["no_update_count"] == 3


async def _mcp_tools(client: httpx.AsyncClient) -> str:
    """List the tools of /mcp, which are ours there and not the graphs."""
    asked: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {"accept": "application/json, text/event-stream"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    begun = await client.post(
        "/mcp", json={**asked, "method": "initialize", "params": hello}, headers=headers
    )
    headers["mcp-session-id"] = begun.headers["mcp-session-id"]
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    await client.post("/mcp", json=note, headers=headers)
    return (await client.post("/mcp", json=asked, headers=headers)).text


async def _drive_the_page(url: str, root: Path) -> None:
    """Use the page and its API in the same server; what is not theirs still belongs to Studio."""
    studio = {"origin": "https://smith.langchain.com"}
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        page = await client.get("/")
        assert "PersonaLab" in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert (await client.get("/page/app.js")).status_code == 200
        assert (await client.get("/api/info")).json()["name"] == "PersonaLab"
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        assert "persona_chat" in await _mcp_tools(client)
        missing = await client.get("/api/chat/stream?instance_id=inst_001&turn=99")
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "no_turn")

        begun = await client.post("/api/instances/inst_001/turns", json={"text": "still there?"})
        assert begun.status_code == 202, begun.text
        told = await client.get(begun.json()["stream"])
        heard = parsed(told.text)
        assert (text_of(heard), heard[-1].name) == ("在，一直都在。", "done")
        assert (_lines(root)[-1]["turn"], _lines(root)[-1]["content"]) == (5, "在，一直都在。")

        refused = await client.get("/api/info", headers=studio)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "foreign_origin")
        for path in ("/ok", "/info", "/openapi.json"):
            answer = await client.get(path, headers=studio)
            assert answer.status_code == 200, path
            assert answer.headers["access-control-allow-origin"], path
            assert "content-security-policy" not in answer.headers
        known = await client.post("/assistants/search", json={}, headers=studio)
        assert "chat_turn" in {assistant["graph_id"] for assistant in known.json()}
        nothing = await client.get("/threads/00000000-0000-0000-0000-000000000000", headers=studio)
        assert (nothing.status_code, list(nothing.json())) == (404, ["detail"])
        asked = {
            "assistant_id": "chat_turn",
            "input": {"instance_id": "nobody", "user_input": "hi"},
            "stream_mode": "custom",
        }
        streamed = await client.post("/runs/stream", json=asked, headers=studio)
        assert streamed.status_code == 200
        assert "no_instance" in streamed.text


async def _drive_the_lab(client: LangGraphClient, root: Path) -> None:
    """Run a project, and search for a better skill, as anyone may who has only the server."""
    steps = {
        "evaluate": ["plan", "execute", "judge", "summarise"],
        "iterate": ["prepare", "propose", "evaluate_candidates", "conclude"],
    }
    for graph_id, names in steps.items():
        found = await client.assistants.search(graph_id=graph_id)
        graph = await client.assistants.get_graph(found[0]["assistant_id"])
        assert [node["id"] for node in graph["nodes"]][1:-1] == names
        schemas = cast("dict[str, Any]", await client.assistants.get_schemas(found[0]["assistant_id"]))
        assert "project" in schemas["input_schema"]["properties"]
        assert "status" in schemas["output_schema"]["properties"]
    runs = cast("Any", client.runs)
    evaluated: Any = await runs.wait(None, "evaluate", input={"project": "First test"})
    assert (evaluated["status"], evaluated["completed"]) == ("done", 2), evaluated["error"]
    searched: Any = await runs.wait(None, "iterate", input={"project": "First test", "max_rounds": 1})
    assert searched["status"] == "done", searched["error"]
    project = root / "workspace" / "projects" / evaluated["project"]
    assert (project / "results" / "summary.json").is_file()
    assert (project / "iterations" / "iteration_report.json").is_file()
