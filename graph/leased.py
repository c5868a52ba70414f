"""How are the steps of a long work on one story joined, so that an error of ours ends it with an event?

The first step takes the instance's lock; the later ones work under it, one after the other, while all goes well.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from itertools import pairwise
from typing import Any

from langgraph.graph import END, START
from langgraph.runtime import Runtime

from graph.context import context_of
from graph.pumped import PumpedBuilder
from nodes.chat_turn.state import TurnContext
from personalab.errors import PersonaLabError
from personalab.services import Services
from personalab.storage.leases import Lease
from personalab.story.events import error_event

Update = dict[str, Any]
Opening = Callable[[Any], Awaitable[Update]]
Work = Callable[[Any, Lease, Runtime[TurnContext]], Awaitable[Update]]


def told_by(runtime: Runtime[TurnContext]) -> Callable[[int, int], None]:
    """Give what tells how far the work is."""

    def tell(done: int, total: int) -> None:
        runtime.stream_writer({"type": "progress", "turn": None, "done": done, "total": total})

    return tell


def model_of(runtime: Runtime[TurnContext]) -> str | None:
    """Find the model that was named for this run."""
    return context_of(runtime).model


def join(
    builder: PumpedBuilder,
    services: Services,
    task: str,
    opening: tuple[str, Opening],
    steps: Mapping[str, Work],
    fresh: Update,
) -> PumpedBuilder:
    """Join an opening step, which begins with ``fresh`` values, and the steps that follow in their order."""
    first, open_work = opening
    builder.add_node(first, _opening(open_work, services, fresh))
    for name, step in steps.items():
        builder.add_node(name, _guarded(step, services, task))
    builder.add_edge(START, first)
    order = [first, *steps]
    for name, following in pairwise(order):
        builder.add_conditional_edges(name, _then(following), [following, END])
    builder.add_edge(order[-1], END)
    return builder


def _opening(work: Opening, services: Services, fresh: Update) -> Callable[..., Awaitable[Update]]:
    async def node(state: dict[str, Any], runtime: Runtime[TurnContext]) -> Update:
        try:
            return {**fresh, **await work(state)}
        except PersonaLabError as error:
            return {**fresh, **_failed(error, services, runtime)}

    return node


def _guarded(step: Work, services: Services, task: str) -> Callable[..., Awaitable[Update]]:
    """Run a later step under the lease; an error of ours ends the work."""

    async def node(state: dict[str, Any], runtime: Runtime[TurnContext]) -> Update:
        try:
            wait = services.settings.busy_seconds
            lease = await services.leases.again(
                state.get("lease", ""), state.get("instance_id", ""), task, wait=wait
            )
            update = await step(state, lease, runtime)
        except PersonaLabError as error:
            return _failed(error, services, runtime)
        for warning in update.get("warnings", []):
            runtime.stream_writer(warning)
        return update

    return node


def _failed(error: PersonaLabError, services: Services, runtime: Runtime[TurnContext]) -> Update:
    event = error_event(error, None, services.turns.language())
    runtime.stream_writer(event)
    return {"status": "error", "error": dict(event)}


def _then(following: str) -> Callable[[dict[str, Any]], Awaitable[str]]:
    async def choose(state: dict[str, Any]) -> str:
        return following if state.get("status") == "running" else END

    return choose
