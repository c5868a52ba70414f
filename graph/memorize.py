"""How is the learning of a conversation joined?

open_conversation → modify → update → theory_of_mind → store_memory

Nothing is known that was not stored by the last step. A stage that fails goes straight there: the conversation stays
saved, the failure stands in its ``pipeline_result``, the memory is as it was.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast

from langgraph.graph import END, START
from langgraph.runtime import Runtime

from graph.following import stop_asked_of, stream_graph
from graph.leased import model_of
from graph.pumped import PumpedBuilder, PumpedGraph
from graph.serving import served
from nodes.chat_turn.state import TurnContext
from nodes.memorize.modify import modify
from nodes.memorize.open_conversation import open_conversation
from nodes.memorize.state import MemorizeInput, MemorizeOutput, MemorizeState
from nodes.memorize.store_memory import store_memory
from nodes.memorize.subject import read_subject
from nodes.memorize.theory_of_mind import theory_of_mind
from nodes.memorize.update import update
from personalab.errors import PersonaLabError
from personalab.services import Services
from personalab.story.events import Event, error_event

Update = dict[str, Any]
Node = Callable[..., Awaitable[Update]]
STAGES = {"modify": modify, "update": update, "theory_of_mind": theory_of_mind}


def build_memorize(services: Services) -> PumpedBuilder:
    """Join the five steps over the given services."""
    builder = PumpedBuilder(
        MemorizeState, context_schema=TurnContext, input_schema=MemorizeInput, output_schema=MemorizeOutput
    )
    builder.add_node("open_conversation", _opening(services))
    builder.add_edge(START, "open_conversation")
    before = "open_conversation"
    for name in STAGES:
        builder.add_node(name, _stage(name, services))
        builder.add_conditional_edges(before, _then(name), [name, "store_memory", END])
        before = name
    builder.add_node("store_memory", _storing(services))
    builder.add_edge(before, "store_memory")
    builder.add_edge("store_memory", END)
    return builder


async def make_graph() -> PumpedGraph:
    """Give the graph to a server that loads it by name (``langgraph.json``), and does so for every run."""
    return await served("memorize", build_memorize)


async def stream_memorize(
    services: Services,
    call: MemorizeInput,
    *,
    model: str | None = None,
    stop_asked: Callable[[], bool] | None = None,
) -> AsyncGenerator[Event | MemorizeOutput]:
    """Learn from a conversation; yield progress as it happens and, last, the result (the one without a ``type``)."""
    run = stream_graph(services, "memorize", build_memorize, call, model, stop_asked)
    async with aclosing(run) as stream:
        async for part in stream:
            yield cast("Event | MemorizeOutput", part)


_FRESH: Update = {
    "status": "running",
    "error": None,
    "failure": None,
    "steps": [],
    "dropped": [],
    "facts": [],
    "operations": [],
    "result": {},
    "pipeline_result": None,
    "usage": None,
}


def _opening(services: Services) -> Node:
    async def node(state: MemorizeState, runtime: Runtime[TurnContext]) -> Update:
        try:
            return {**_FRESH, **await open_conversation(state, services=services)}
        except PersonaLabError as error:
            return {**_FRESH, "status": "error", "error": _told(error, services, runtime)}

    return node


def _stage(name: str, services: Services) -> Node:
    """Run a stage; an error of ours is its failure, kept with the conversation."""

    async def node(state: MemorizeState, runtime: Runtime[TurnContext]) -> Update:
        done = list(STAGES).index(name)
        runtime.stream_writer(
            {"type": "progress", "turn": None, "done": done, "total": len(STAGES), "stage": name}
        )
        try:
            found = await read_subject(services, state, model_of(runtime))
            subject = replace(found, stop_asked=stop_asked_of(runtime))
            return await STAGES[name](state, subject=subject, now=services.now)
        except PersonaLabError as error:
            told = _told(error, services, runtime)
            failure = {"stage": name, "code": told["code"], "message": told["message"]}
            return {"error": told, "failure": failure}

    return node


def _storing(services: Services) -> Node:
    async def node(state: MemorizeState, runtime: Runtime[TurnContext]) -> Update:
        try:
            subject = await read_subject(services, state, model_of(runtime))
            return await store_memory(state, subject=subject, services=services)
        except PersonaLabError as error:
            return {"status": "error", "error": _told(error, services, runtime)}

    return node


def _told(error: PersonaLabError, services: Services, runtime: Runtime[TurnContext]) -> Update:
    event = error_event(error, None, services.turns.language())
    runtime.stream_writer(event)
    return dict(event)


def _then(following: str) -> Callable[[MemorizeState], Awaitable[str]]:
    """Go on while there is something to learn; a failure is only recorded."""

    async def choose(state: MemorizeState) -> str:
        if state.get("status") != "running":
            return END
        return "store_memory" if state.get("failure") else following

    return choose
