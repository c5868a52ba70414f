"""One chat turn.

append_input → load_state → (recall_history ∥ recall_player ∥ match_lorebooks ∥ prepare_director) → assemble_prompt
→ stream_reply → process_progress
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END

from graph.post_turn import run_post_turn
from graph.runtime import (
    Choose,
    GraphBuilder,
    RunnableGraph,
    StepContext,
    Update,
    failed_run,
    load_graph,
    read_request_id,
    run_until_stopped,
    stream_graph,
)
from nodes.chat_turn.append_input import append_input
from nodes.chat_turn.assemble_prompt import assemble_prompt
from nodes.chat_turn.load_state import load_state
from nodes.chat_turn.match_lorebooks import match_lorebooks
from nodes.chat_turn.prepare_director import prepare_director
from nodes.chat_turn.process_progress import process_progress
from nodes.chat_turn.recall_history import recall_history
from nodes.chat_turn.recall_player import recall_player
from nodes.chat_turn.state import TurnEmitter, TurnInput, TurnOutput, TurnState
from nodes.chat_turn.stream_reply import stream_reply
from personalab.errors import PersonaLabError
from personalab.ports import TokenCounter
from personalab.services import Services
from personalab.story.events import DoneEvent, Event, error_event
from personalab.story.open_turn import OpenTurn
from personalab.story.records import is_id

T = TypeVar("T")
Work = Callable[[TurnState, OpenTurn, TurnEmitter, StepContext], Awaitable[Update]]


def build_chat_turn(services: Services) -> GraphBuilder:
    """Join the nine steps over the given services."""
    turns, now = services.turns, services.now

    async def begin(state: TurnState, _: None, step: StepContext) -> Update:
        """Append the input; a model that cannot even be opened is an error before anything is written."""
        state = _with_request_id(state, step.config)
        if (state.get("action") or "say") in ("say", "retry") and not await _is_repeated(state, services):
            await services.model(step.model)
        update = await append_input(state, turns=turns, now=now)
        if "status" in update:
            step.emit(_repeated(update))
        return update

    async def read_counter(state: TurnState, turn: OpenTurn, step: StepContext) -> TokenCounter | None:
        from personalab.providers.tokens import encoding_for

        reading = services.counter(step.model)
        if state.get("mode") == "begin" or encoding_for(services.model_name(step.model)) in services.counters:
            return await reading
        return await _unless_stopped(reading, turn)

    async def load(state: TurnState, turn: OpenTurn, emitter: TurnEmitter, step: StepContext) -> Update:
        if state.get("mode") != "end":
            await read_counter(state, turn, step)  # so that parallel steps do not each read the vocabulary
        return await load_state(state, turn=turn, turns=turns, emitter=emitter)

    async def recall(state: TurnState, turn: OpenTurn, emitter: TurnEmitter, step: StepContext) -> Update:
        counter = await services.counter(step.model)
        return await recall_history(
            state, scene=turn, library=services.library, counter=counter, emitter=emitter
        )

    async def recall_memory(
        state: TurnState, turn: OpenTurn, emitter: TurnEmitter, step: StepContext
    ) -> Update:
        counter = await services.counter(step.model)
        return await recall_player(turn, memories=services.memories, counter=counter, emitter=emitter)

    async def match(state: TurnState, turn: OpenTurn, emitter: TurnEmitter, step: StepContext) -> Update:
        counter = await services.counter(step.model)
        return await match_lorebooks(
            turn, stories=services.story_ports.stories, counter=counter, emitter=emitter
        )

    async def direct(state: TurnState, turn: OpenTurn, emitter: TurnEmitter, step: StepContext) -> Update:
        return await prepare_director(state, scene=turn, library=services.library, emitter=emitter)

    async def assemble(state: TurnState, turn: OpenTurn, emitter: TurnEmitter, step: StepContext) -> Update:
        counter = await read_counter(state, turn, step)
        if counter is None:
            return {}
        update = await assemble_prompt(state, scene=turn, counter=counter, emitter=emitter)
        if update.get("status") == "awaiting_reply":
            if seconds := state.get("hold"):
                await turn.lease.hold_for(turn.number, seconds)
            await turn.lease.release()
        return update

    async def reply(state: TurnState, turn: OpenTurn, emitter: TurnEmitter, step: StepContext) -> Update:
        model = step.model
        return await stream_reply(
            state, turn=turn, open_model=lambda: services.model(model), now=now, emitter=emitter
        )

    async def follow(state: TurnState, turn: OpenTurn, emitter: TurnEmitter, step: StepContext) -> Update:
        update = await process_progress(state, turn=turn, emitter=emitter)
        await turn.lease.release()
        return update

    builder = GraphBuilder(services, TurnState, input_schema=TurnInput, output_schema=TurnOutput)

    def add(name: str, work: Work, *then: str, choose: Choose | None = None, parallel: bool = False) -> None:
        def run(state: TurnState, turn: OpenTurn, step: StepContext) -> Awaitable[Update]:
            return work(state, turn, TurnEmitter(step.emit, turn), step)

        builder.add_step(name, run, *then, choose=choose, resource=_open_turn, parallel=parallel)

    builder.add_step("append_input", begin, "load_state", fresh=_fresh, failed=_refused)
    add("load_state", load, *PREPARATION, "stream_reply", choose=_after_load)
    for name, work in zip(PREPARATION, (recall, recall_memory, match, direct), strict=True):
        add(name, _beside_others(work), "assemble_prompt", parallel=True)
    add("assemble_prompt", assemble, "stream_reply")
    add("stream_reply", reply, "process_progress", choose=_after_reply)
    add("process_progress", follow)
    return builder


PREPARATION = ("recall_history", "recall_player", "match_lorebooks", "prepare_director")
"""Steps that run in parallel before the prompt is assembled."""


def _open_turn(state: TurnState, step: StepContext) -> AbstractAsyncContextManager[OpenTurn]:
    """Hold the turn that ``append_input`` began, or open it again."""
    place = (state.get("lease", ""), state.get("instance_id", ""), state.get("turn") or 0)
    for_model = state.get("mode") in ("say", "retry")
    return step.services.turns.step(*place, closed=bool(state.get("closed")), for_model=for_model)


async def _unless_stopped(work: Awaitable[T], turn: OpenTurn) -> T | None:
    """Await what may take long, or cancel it when the turn is stopped: stream_reply then closes the turn."""
    result = await run_until_stopped(work, turn.lease.stop_requested)
    turn.stopped = turn.stopped or result is None
    return result


def _beside_others(work: Work) -> Work:
    """Run a parallel step: it can be stopped, and its error does not release the lock that the others work under."""

    async def run(state: TurnState, turn: OpenTurn, emitter: TurnEmitter, step: StepContext) -> Update:
        if turn.stopped:
            return {}
        try:
            return await _unless_stopped(work(state, turn, emitter, step), turn) or {}
        except PersonaLabError as error:
            turn.failure = turn.failure or error
            return failed_run(dict(error_event(turn.failure, turn.number, emitter.language)))

    return run


def _after_load(state: TurnState) -> str | Sequence[str]:
    if state.get("status") != "running":
        return END
    return "stream_reply" if state.get("mode") == "end" else PREPARATION


def _after_reply(state: TurnState) -> str:
    return "process_progress" if state.get("closed") else END


def _refused(event: Update, _: PersonaLabError) -> Update:
    return {**failed_run(event), "turn": None}


async def make_graph() -> RunnableGraph:
    """Return the graph to a server that loads it by name (``langgraph.json``), and does so for every run."""
    return await load_graph("chat_turn", build_chat_turn)


async def stream_turn(
    services: Services,
    turn: TurnInput,
    *,
    model: str | None = None,
    on_state: Callable[[TurnOutput], None] | None = None,
    config: RunnableConfig | None = None,
) -> AsyncGenerator[Event | TurnOutput]:
    """Run a turn; yield its events as they happen and, last, its result (the one without a ``type``).

    ``on_state`` is called after each step: with session, turn and attempt as soon as the user's line is written, and
    with the prompt before it is sent. Automatic summaries and learning follow the turn. Close the generator
    (``contextlib.aclosing``) to leave early: the reply's line is closed as interrupted.
    """
    result: TurnOutput = {}
    listener = cast("Callable[[dict[str, object]], None] | None", on_state)
    parts = stream_graph(
        services, "chat_turn", build_chat_turn, turn, model, on_state=listener, config=config
    )
    async with aclosing(parts) as stream:
        async for part in stream:
            if "type" in part:
                yield part
            else:
                result = part
    async with aclosing(run_post_turn(services, result, model=model)) as care:
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
    "lore": None,
    "care_due": [],
    "director": None,
}


def _fresh(state: TurnState) -> Update:
    """Clear what an earlier turn left, where a server keeps the state of a thread from run to run."""
    return {**{name: empty for name, empty in _FRESH.items() if name in state}, "status": "running"}


def _with_request_id(state: TurnState, config: RunnableConfig) -> TurnState:
    """Name a call by its run where the caller did not: a run that the server repeats finds its turn."""
    if (state.get("action") or "say") not in ("say", "begin") or state.get("request_id") is not None:
        return state
    request_id = read_request_id(config)
    return state if request_id is None else {**state, "request_id": request_id}


async def _is_repeated(state: TurnState, services: Services) -> bool:
    """Return whether a call began its turn before: then it may have its reply, and needs no model."""
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
