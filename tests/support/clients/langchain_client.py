"""langchain-mcp-adapters, which gives the tools of a server to LangChain's agents.

It runs in an environment of its own (``build/clients/langchain``), for it needs ``mcp<2`` and so the handshake era;
the plan is that of ``steps.cjs``.
"""
# pyright: basic, reportMissingImports=false
# The library is not in the project's environment.

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.prompts import load_mcp_prompt
from langchain_mcp_adapters.resources import load_mcp_resources
from langchain_mcp_adapters.tools import load_mcp_tools


async def main() -> None:
    """Play the plan of stdin and print what was seen."""
    plan = json.load(sys.stdin)
    progress: list[dict[str, Any]] = []

    async def note(done: float, total: float | None, message: str | None, context: Any) -> None:
        progress.append({"progress": done, "message": message, "tool": context.tool_name})

    if plan.get("url"):
        connection: dict[str, Any] = {"transport": "streamable_http", "url": plan["url"]}
    else:
        command = plan["command"]
        connection = {
            "transport": "stdio",
            "command": command[0],
            "args": command[1:],
            "env": dict(os.environ),
        }
    callbacks = Callbacks(on_progress=note)
    client = MultiServerMCPClient({"personalab": connection}, callbacks=callbacks)  # type: ignore[dict-item]
    async with client.session("personalab") as session:
        loaded = await load_mcp_tools(session, callbacks=callbacks, server_name="personalab")
        tools = {tool.name: tool for tool in loaded}
        steps = [await play(session, tools, step) for step in plan["steps"]]
    print(json.dumps({"steps": steps, "progress": progress}))


async def play(session: Any, tools: dict[str, Any], step: dict[str, Any]) -> Any:
    """Do one step."""
    match step["do"]:
        case "list":
            return [{"name": tool.name, "description": tool.description} for tool in tools.values()]
        case "call":
            call = {"type": "tool_call", "id": "1", "name": step["name"], "args": step["arguments"]}
            message = await tools[step["name"]].ainvoke(call)
            return {"content": message.content, "artifact": message.artifact, "status": message.status}
        case "read":
            return [blob.as_string() for blob in await load_mcp_resources(session, uris=[step["uri"]])]
        case "prompt":
            messages = await load_mcp_prompt(session, step["name"], arguments=step["arguments"])
            return [{"role": message.type, "content": message.content} for message in messages]
        case other:
            raise ValueError(other)


asyncio.run(main())
