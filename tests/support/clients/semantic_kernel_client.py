"""An agent of Semantic Kernel, whose MCP plugin announces sampling and denies it.

It runs in an environment of its own (``build/clients/semantic_kernel``), for it needs ``mcp<2``.
"""
# pyright: basic, reportMissingImports=false
# The library is not in the project's environment.

from __future__ import annotations

import asyncio
import json
import os
import sys

from openai import AsyncOpenAI
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai import FunctionChoiceBehavior
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.connectors.mcp import MCPStdioPlugin


async def main() -> None:
    """Give the agent the task of stdin and print its last words."""
    plan = json.load(sys.stdin)
    program, *arguments = plan["command"]
    service = OpenAIChatCompletion(
        ai_model_id="scripted", async_client=AsyncOpenAI(base_url=plan["model"], api_key="none")
    )
    async with MCPStdioPlugin(
        name="personalab", command=program, args=arguments, env=dict(os.environ), request_timeout=60
    ) as plugin:
        agent = ChatCompletionAgent(
            service=service,
            name="Player",
            plugins=[plugin],
            function_choice_behavior=FunctionChoiceBehavior.Auto(maximum_auto_invoke_attempts=20),
        )
        response = await agent.get_response(messages=plan["task"])
    print(json.dumps({"output": str(response.message)}))


asyncio.run(main())
