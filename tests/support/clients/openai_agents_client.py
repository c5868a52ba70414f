"""An agent of openai-agents in strict mode: every argument of a tool is required.

It runs in an environment of its own (``build/clients/openai_agents``).
"""
# pyright: basic, reportMissingImports=false
# The library is not in the project's environment.

from __future__ import annotations

import asyncio
import json
import os
import sys

from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStdio
from openai import AsyncOpenAI


async def main() -> None:
    """Give the agent the task of stdin and print its last words."""
    plan = json.load(sys.stdin)
    set_tracing_disabled(True)
    program, *arguments = plan["command"]
    model = OpenAIChatCompletionsModel(
        model="scripted", openai_client=AsyncOpenAI(base_url=plan["model"], api_key="none")
    )
    params = {"command": program, "args": arguments, "env": dict(os.environ)}
    async with MCPServerStdio(params=params, client_session_timeout_seconds=60) as server:
        strict = {"convert_schemas_to_strict": True}
        agent = Agent(name="Player", model=model, mcp_servers=[server], mcp_config=strict)
        result = await Runner.run(agent, plan["task"], max_turns=20)
    print(json.dumps({"output": result.final_output}))


asyncio.run(main())
