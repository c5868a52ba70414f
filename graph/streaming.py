"""How does an entrance run a turn and follow it?"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import cast

from langchain_core.runnables import RunnableConfig

from graph.care import take_care
from graph.chat_turn import build_chat_turn
from graph.following import stream_graph
from nodes.chat_turn.state import TurnInput, TurnOutput
from personalab.services import Services
from personalab.story.events import Event


async def stream_turn(
    services: Services,
    turn: TurnInput,
    *,
    model: str | None = None,
    on_state: Callable[[TurnOutput], None] | None = None,
    config: RunnableConfig | None = None,
) -> AsyncGenerator[Event | TurnOutput]:
    """Run a turn; yield its events as they happen and, last, its result (the one without a ``type``).

    ``on_state`` is called after each step, with session, turn and attempt as soon as the user's line is written, and
    with the prompt before it is sent.

    What a person wants done by itself follows the turn. Close the generator (``contextlib.aclosing``) to leave early:
    the reply's line is closed as interrupted.
    """
    result: TurnOutput = {}
    listener = cast("Callable[[dict[str, object]], None] | None", on_state)
    parts = stream_graph(
        services, "chat_turn", build_chat_turn, turn, model, on_state=listener, config=config
    )
    async with aclosing(parts) as stream:
        async for part in stream:
            if "type" in cast("dict[str, object]", part):
                yield cast("Event", part)
            else:
                result = cast("TurnOutput", part)
    async with aclosing(take_care(services, result, model=model)) as care:
        async for event in care:
            yield event
            if event["status"] != "begun":
                result["care"] = [*result.get("care", []), dict(event)]
    yield result


async def run_turn(services: Services, turn: TurnInput, *, model: str | None = None) -> TurnOutput:
    """Run a turn for its result alone."""
    result: TurnOutput = {}
    async with aclosing(stream_turn(services, turn, model=model)) as stream:
        async for part in stream:
            if "type" not in part:
                result = part
    return result
