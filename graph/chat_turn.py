"""How is a chat turn joined?

append_input → load_state → (recall_history ∥ prepare_director) → assemble_prompt → stream_reply → process_progress
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START
from langgraph.runtime import Runtime

from graph.context import context_of, request_id_of
from graph.pumped import PumpedBuilder, PumpedGraph
from graph.serving import served
from nodes.chat_turn.append_input import append_input
from nodes.chat_turn.assemble_prompt import assemble_prompt
from nodes.chat_turn.consult_lorebooks import consult_lorebooks
from nodes.chat_turn.load_state import load_state
from nodes.chat_turn.prepare_director import prepare_director
from nodes.chat_turn.process_progress import process_progress
from nodes.chat_turn.recall_history import recall_history
from nodes.chat_turn.recall_player import recall_player
from nodes.chat_turn.saying import Say
from nodes.chat_turn.state import TurnContext, TurnInput, TurnOutput, TurnState
from nodes.chat_turn.stream_reply import stream_reply
from personalab.errors import PersonaLabError
from personalab.services import Services
from personalab.storage.leases import STOP_POLL_SECONDS
from personalab.storage.turns import OpenTurn
from personalab.story.events import DoneEvent, error_event
from personalab.story.ids import is_id
from personalab.tasks import end_tasks

Update = dict[str, Any]
Step = Callable[[TurnState, OpenTurn, Say, TurnContext], Awaitable[Update]]


def build_chat_turn(services: Services) -> PumpedBuilder:
    """Join the seven steps over the given services."""
    turns, now = services.turns, services.now

    async def recall(state: TurnState, turn: OpenTurn, say: Say, context: TurnContext) -> Update:
        counter = await services.counter(context.model)
        player = await recall_player(turn, memories=services.memories, counter=counter, say=say)
        found = await recall_history(state, scene=turn, library=services.library, counter=counter, say=say)
        return {**found, **player}

    async def assemble(state: TurnState, turn: OpenTurn, say: Say, context: TurnContext) -> Update:
        counter = await services.counter(context.model)
        lore = await consult_lorebooks(turn, lorebooks=services.lorebooks, counter=counter, say=say)
        return await assemble_prompt(state, scene=turn, lore=lore, counter=counter, say=say)

    steps: dict[str, Step] = {
        "load_state": lambda s, t, say, c: load_state(s, turn=t, turns=turns, say=say),
        "recall_history": recall,
        "prepare_director": lambda s, t, say, c: prepare_director(
            s, scene=t, library=services.library, say=say
        ),
        "assemble_prompt": assemble,
        "stream_reply": lambda s, t, say, c: stream_reply(
            s, turn=t, open_model=lambda: services.model(c.model), now=now, say=say
        ),
        "process_progress": lambda s, t, say, c: process_progress(s, turn=t, say=say),
    }
    builder = PumpedBuilder(
        TurnState, context_schema=TurnContext, input_schema=TurnInput, output_schema=TurnOutput
    )
    builder.add_node("append_input", _opening(services))
    for name, step in steps.items():
        builder.add_node(name, _guarded(name, step, services))
    builder.add_edge(START, "append_input")
    builder.add_conditional_edges("append_input", _after_append, ["load_state", END])
    builder.add_conditional_edges(
        "load_state", _after_load, ["recall_history", "prepare_director", "stream_reply", END]
    )
    builder.add_edge(["recall_history", "prepare_director"], "assemble_prompt")
    builder.add_conditional_edges("assemble_prompt", _after_assemble, ["stream_reply", END])
    builder.add_conditional_edges("stream_reply", _after_reply, ["process_progress", END])
    builder.add_edge("process_progress", END)
    return builder


async def make_graph() -> PumpedGraph:
    """Give the graph to a server that loads it by name (``langgraph.json``), and does so for every run."""
    return await served("chat_turn", build_chat_turn)


_FRESH: Update = {
    "error": None,
    "prompt": None,
    "tokens": None,
    "usage": None,
    "warnings": [],
    "reply": "",
    "reasoning": "",
    "truncated": False,
    "closed": False,
    "recalled": [],
    "player": "",
    "care_due": [],
    "director": None,
}


def _fresh(state: TurnState) -> Update:
    """Clear what an earlier turn left, where a server keeps the state of a thread from run to run."""
    return {**{name: empty for name, empty in _FRESH.items() if name in state}, "status": "running"}


def _opening(services: Services) -> Callable[..., Awaitable[Update]]:
    """Run the first step: there is no turn yet, and a refusal leaves nothing behind.

    A model that cannot even be opened (an unknown name, a missing package or key) is such a refusal.
    """

    async def node(state: TurnState, runtime: Runtime[TurnContext], config: RunnableConfig) -> Update:
        fresh = _fresh(state)
        state = _with_request_id(state, config)
        try:
            if (state.get("action") or "say") in ("say", "retry") and not await _is_repeated(state, services):
                await services.model(context_of(runtime).model)
            update = {**fresh, **await append_input(state, turns=services.turns, now=services.now)}
            if update["status"] != "running":
                runtime.stream_writer(_repeated(update))
            return update
        except PersonaLabError as error:
            language = services.turns.language()
            event = error_event(error, None, language)
            runtime.stream_writer(event)
            return {**fresh, "status": "error", "error": dict(event), "turn": None}

    return node


def _with_request_id(state: TurnState, config: RunnableConfig) -> TurnState:
    """Name a call by its run where the caller did not: a run that the server repeats finds its turn."""
    if (state.get("action") or "say") not in ("say", "begin") or state.get("request_id") is not None:
        return state
    request_id = request_id_of(config)
    return state if request_id is None else {**state, "request_id": request_id}


async def _is_repeated(state: TurnState, services: Services) -> bool:
    """Tell whether a call began its turn before: then it may have its reply, and needs no model."""
    instance_id, request_id = state.get("instance_id"), state.get("request_id")
    if request_id is None or not is_id(instance_id):
        return False
    return await services.turns.is_requested(str(instance_id), str(request_id))


def _repeated(update: Update) -> DoneEvent:
    """Report a turn that was answered before: nothing is written again."""
    return {
        "type": "done",
        "turn": update["turn"],
        "attempt": update["attempt"],
        "session_id": update["session_id"],
        "content": update["reply"],
        "interrupted": update["status"] == "interrupted",
        "empty": update["status"] == "empty",
        "error": update["status"] == "error",
        "truncated": update["truncated"],
        "plot_state": update["plot_state"],
        "tokens": {},
        "usage": None,
    }


def _guarded(name: str, step: Step, services: Services) -> Callable[..., Awaitable[Update]]:
    """Run a later step under the turn's lease; an error of ours ends the turn with an event."""

    async def node(state: TurnState, runtime: Runtime[TurnContext]) -> Update:
        if state.get("status") == "error" and not state.get("closed"):
            return {}
        place = (state.get("lease", ""), state.get("instance_id", ""), state.get("turn") or 0)
        closed = bool(state.get("closed"))
        said: Say | None = None
        try:
            for_model = state.get("mode") in ("say", "retry")
            async with services.turns.step(*place, closed=closed, for_model=for_model) as turn:
                said = Say(runtime.stream_writer, turn)
                work = step(state, turn, said, context_of(runtime))
                update = await (_unless_stopped(turn, work) if name in _STOPPABLE else work)
            awaited = update.get("status") == "awaiting_reply"
            if awaited and (seconds := state.get("hold")):
                await asyncio.to_thread(turn.lease.keep_for, turn.number, seconds)
            if name == "process_progress" or awaited:
                turn.lease.release()
            return update
        except PersonaLabError as error:
            if said is None:
                language = services.turns.language()
                event = dict(error_event(error, state.get("turn"), language))
                runtime.stream_writer(event)
            else:
                event = said.error(error)
            return {"status": "error", "error": event}

    return node


_STOPPABLE = ("recall_history", "prepare_director")
"""Steps that may take long before the reply begins."""


async def _unless_stopped(turn: OpenTurn, work: Awaitable[Update]) -> Update:
    """Do a step's work, or leave it when someone asks the turn to stop: stream_reply then closes it."""
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            await asyncio.wait([task], timeout=STOP_POLL_SECONDS)
            if not task.done() and turn.lease.stop_asked():
                turn.stopped = True
                return {}
        return task.result()
    finally:
        await end_tasks([task], 0.5)


# The choices between steps are async, for LangGraph runs others in a thread.
async def _after_append(state: TurnState) -> str:
    return "load_state" if state.get("status") == "running" else END


async def _after_load(state: TurnState) -> list[str]:
    if state.get("status") == "error":
        return [END]
    return ["stream_reply"] if state.get("mode") == "end" else ["recall_history", "prepare_director"]


async def _after_assemble(state: TurnState) -> str:
    return END if state.get("status") in ("error", "awaiting_reply") else "stream_reply"


async def _after_reply(state: TurnState) -> str:
    return "process_progress" if state.get("closed") else END
