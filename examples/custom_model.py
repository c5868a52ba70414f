"""Connect a chat model of your own: any object with a name and a stream of text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from graph.chat_turn import build_chat_turn
from personalab.dialogue import Message
from personalab.operations.instances import new_instance
from personalab.ports import ReplyChunk
from personalab.services import open_services


class LetterModel:
    """Always replies with the same sentence. It stands for your own model or server."""

    name = "custom:letters"

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        """Yield the reply piece by piece; each piece is saved and shown at once."""
        yield ReplyChunk(f"(She looks at the {len(messages)} letters on the table.) ")
        for word in ("Read", "them", "to", "me."):
            await asyncio.sleep(0)
            yield ReplyChunk(f"{word} ")


async def main() -> None:
    """Play one turn with it."""
    services = open_services()
    model = LetterModel()
    services.models[model.name] = model
    story = await new_instance(services, "char_maren", "bg_lighthouse")
    graph = build_chat_turn(services).compile()
    async for event in graph.astream(
        {"instance_id": story.instance_id, "user_input": "I brought the letters."},
        context={"model": model.name},
        stream_mode="custom",
        version="v2",
    ):
        if event["data"]["type"] == "token":
            print(event["data"]["text"], end="", flush=True)
    print()
    await services.close()


if __name__ == "__main__":
    asyncio.run(main())
