"""An agent of pydantic-ai, which speaks the newest revision that a server knows.

It runs in an environment of its own (``build/clients/pydantic_ai``).
"""
# pyright: basic, reportMissingImports=false
# The library is not in the project's environment.

from __future__ import annotations

import asyncio
import json
import os
import sys

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


async def main() -> None:
    """Give the agent the task of stdin and print its last words."""
    plan = json.load(sys.stdin)
    program, *arguments = plan["command"]
    model = OpenAIChatModel("scripted", provider=OpenAIProvider(base_url=plan["model"], api_key="none"))
    transport = StdioTransport(program, arguments, env=dict(os.environ), keep_alive=False)
    agent = Agent(model, toolsets=[MCPToolset(transport, init_timeout=60)])
    async with agent:
        result = await agent.run(plan["task"])
    print(json.dumps({"output": result.output}))


asyncio.run(main())
