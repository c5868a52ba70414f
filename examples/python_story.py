"""Play a story of two turns and handle every event of a turn."""

from __future__ import annotations

import asyncio
from typing import Any

from graph.chat_turn import build_chat_turn
from personalab.operations.instances import new_instance
from personalab.services import open_services


async def main() -> None:
    """Start a story and say two things."""
    services = open_services()
    story = await new_instance(services, "char_maren", "bg_lighthouse")
    graph = build_chat_turn(services).compile()
    for text in ("Is anyone up there?", "I brought the letters from the harbour."):
        print(f"\n> {text}")
        turn = {"instance_id": story.instance_id, "user_input": text}
        async for event in graph.astream(turn, stream_mode="custom", version="v2"):
            show(event["data"])
    await services.close()


def show(event: dict[str, Any]) -> None:
    """Print an event as a player would want to see it."""
    match event["type"]:
        case "token":
            print(event["text"], end="", flush=True)
        case "warning":
            print(f"(note: {event['message']})")
        case "done":
            plot = event["plot_state"]
            print(f"\n[point {plot['current_plot_index']}, {plot['current_status']}]")
        case "error":
            print(f"\n(failed: {event['message']})")
        case _:
            pass  # "reasoning", and kinds that are added later


if __name__ == "__main__":
    asyncio.run(main())
