"""A tool-calling agent of smolagents, which requires every argument of a tool.

It runs in an environment of its own (``build/clients/smolagents``), for it needs ``mcp<2``.
"""
# pyright: basic, reportMissingImports=false
# The library is not in the project's environment.

from __future__ import annotations

import json
import os
import sys

from mcp import StdioServerParameters
from smolagents import LogLevel, MCPClient, OpenAIModel, ToolCallingAgent


def main() -> None:
    """Give the agent the task of stdin and print its last words."""
    plan = json.load(sys.stdin)
    program, *arguments = plan["command"]
    server = StdioServerParameters(command=program, args=arguments, env=dict(os.environ))
    model = OpenAIModel("scripted", api_base=plan["model"], api_key="none")
    with MCPClient(server, structured_output=False) as tools:
        agent = ToolCallingAgent(tools=tools, model=model, max_steps=20, verbosity_level=LogLevel.OFF)
        output = agent.run(plan["task"])
    print(json.dumps({"output": output}))


main()
