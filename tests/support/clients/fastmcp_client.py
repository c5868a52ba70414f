"""The client of fastmcp 4, which speaks the newest revision that a server knows.

It runs in an environment of its own (``build/clients/fastmcp``); the plan is that of ``steps.cjs``.
"""
# pyright: basic, reportMissingImports=false
# The library is not in the project's environment.

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from mcp.types import PromptReference, ResourceTemplateReference


async def main() -> None:
    """Play the plan of stdin and print what was seen."""
    plan = json.load(sys.stdin)
    asked: list[dict[str, Any]] = []

    async def write(messages: Any, params: Any, context: Any) -> str:
        asked.append(plain(params))
        return plan["replies"][min(len(asked), len(plan["replies"])) - 1]

    target = plan.get("url") or StdioTransport(
        plan["command"][0], plan["command"][1:], env=dict(os.environ), keep_alive=False
    )
    async with Client(target, sampling_handler=write if plan.get("replies") else None) as client:
        steps = [await play(client, step) for step in plan["steps"]]
        seen = {"protocol": client.protocol_version, "steps": steps, "asked": asked}
    print(json.dumps(seen))


async def play(client: Any, step: dict[str, Any]) -> Any:
    """Do one step."""
    match step["do"]:
        case "list":
            asking = {
                "tools": client.list_tools,
                "resources": client.list_resources,
                "templates": client.list_resource_templates,
                "prompts": client.list_prompts,
            }
            return [plain(item) for item in await asking[step["what"]]()]
        case "call":
            progress: list[dict[str, Any]] = []

            async def note(done: float, total: float | None, message: str | None) -> None:
                progress.append({"progress": done, "message": message})

            result = await client.call_tool_mcp(step["name"], step["arguments"], progress_handler=note)
            return {**plain(result), "progress": progress}
        case "read":
            return [plain(item) for item in await client.read_resource(step["uri"])]
        case "prompt":
            return plain(await client.get_prompt(step["name"], step["arguments"]))["messages"]
        case "complete":
            kinds = {"ref/prompt": PromptReference, "ref/resource": ResourceTemplateReference}
            ref = kinds[step["ref"]["type"]].model_validate(step["ref"])
            return plain(await client.complete(ref, step["argument"]))["values"]
        case other:
            raise ValueError(other)


def plain(model: Any) -> dict[str, Any]:
    """Write a model as it went over the wire."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


asyncio.run(main())
