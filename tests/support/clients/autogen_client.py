"""An assistant of AutoGen, whose MCP workbench announces sampling and refuses it.

It runs in an environment of its own (``build/clients/autogen``), for it needs ``mcp<2``.
"""
# pyright: basic, reportMissingImports=false
# The library is not in the project's environment.

from __future__ import annotations

import asyncio
import json
import os
import sys

from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient
from autogen_ext.tools.mcp import McpWorkbench, StdioServerParams


async def main() -> None:
    """Give the assistant the task of stdin and print its last words."""
    plan = json.load(sys.stdin)
    program, *arguments = plan["command"]
    abilities = {
        "family": "unknown",
        "function_calling": True,
        "json_output": False,
        "structured_output": False,
        "vision": False,
    }
    model = OpenAIChatCompletionClient(
        model="scripted", base_url=plan["model"], api_key="none", model_info=abilities
    )
    server = StdioServerParams(command=program, args=arguments, env=dict(os.environ), read_timeout_seconds=60)
    async with McpWorkbench(server) as workbench:
        agent = AssistantAgent("player", model, workbench=workbench, max_tool_iterations=20)
        result = await agent.run(task=plan["task"])
    await model.close()
    print(json.dumps({"output": result.messages[-1].to_text()}))


asyncio.run(main())
