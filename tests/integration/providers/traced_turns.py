"""Plays two turns in a process of its own, one of which fails, and sends its traces before it ends."""

from __future__ import annotations

import asyncio
import sys

from graph.chat_turn import run_turn
from personalab.operations.instances import new_instance
from personalab.services import open_services


async def main(words: str) -> None:
    """Play the turns."""
    services = open_services()
    await new_instance(services, "char_alserqi", "bg_wasteland", "inst_001")
    for _ in range(2):
        result = await run_turn(services, {"instance_id": "inst_001", "user_input": words})
        sys.stdout.write(f"{result.get('status')}\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

    from langsmith.run_trees import get_cached_client

    get_cached_client().flush()
