"""Play a turn as an MCP client that writes the reply itself, as Claude Desktop does when no model is connected."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters


async def main() -> None:
    """Start a server over stdio, begin a turn, write its reply, and ask where the story stands."""
    server = StdioServerParameters(command=sys.executable, args=["-m", "mcp_server"], env=dict(os.environ))
    async with Client(server) as client:
        story = await call(
            client, "persona_new_instance", character_id="char_maren", background_id="bg_lighthouse"
        )
        instance_id = story["instance_id"]
        begun = await call(client, "persona_begin_turn", instance_id=instance_id, text="Is anyone up there?")
        ended = await call(
            client,
            "persona_end_turn",
            instance_id=instance_id,
            turn=begun["turn"],
            reply=write_reply(begun["prompt"]),
        )
        print(ended["status"], ended["plot_state"])


def write_reply(prompt: dict[str, Any]) -> str:
    """Write the character's reply. This is where your own model reads ``system`` and ``messages``."""
    print(f"The prompt has {len(prompt['messages'])} messages; the last one ends with:")
    print(prompt["messages"][-1]["content"][-200:])
    return "(a lamp moves behind the glass) Mind the third step.\n[PROGRESS:1:in_progress]"


async def call(client: Client, tool: str, **arguments: object) -> dict[str, Any]:
    """Call a tool and return its structured result."""
    result = await client.call_tool(tool, arguments)
    if result.is_error or result.structured_content is None:
        raise SystemExit(f"{tool} failed: {result.content}")
    return result.structured_content


if __name__ == "__main__":
    asyncio.run(main())
