"""The growth of a character.

read_turns → evolve_persona → memorize_turns → save_persona

Until the last step the persona is unchanged, whatever happens. What the character learns about the player is
stored conversation by conversation before that: a retry finds it stored, and nothing is duplicated.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from graph.memorize import learn_story
from graph.runtime import (
    GraphBuilder,
    RunnableGraph,
    StepContext,
    Update,
    Work,
    instance_lock,
    load_graph,
    stream_graph,
)
from nodes.structured_output import ReportProgress
from nodes.update_memory import (
    UpdateInput,
    UpdateOutput,
    UpdateState,
    evolve_persona,
    read_turns,
    save_persona,
)
from personalab.errors import PersonaLabError, UserError
from personalab.leases import Lease
from personalab.operations.learning import unlearned
from personalab.services import Services
from personalab.story.events import Event, Notice

_FRESH: Update = {
    "status": "running", "error": None, "changes": [], "diff": [], "warnings": [], "usage": None,
    "memory": None,
}  # fmt: skip


def build_update_memory(services: Services) -> GraphBuilder:
    """Join the steps over the given services."""

    async def evolve(state: UpdateState, lease: Lease, step: StepContext) -> Update:
        return await evolve_persona(
            state,
            services=services,
            lease=lease,
            model=await services.model(step.model),
            counter=await services.counter(step.model),
            report_progress=step.report_progress,
        )

    async def memorize(state: UpdateState, lease: Lease, step: StepContext) -> Update:
        def report_progress(done: int, total: int) -> None:
            step.report_progress(done + 1, total + 1)

        return step.emit_warnings(
            await memorize_turns(state, services, step.model, report_progress, lease.stop_requested)
        )

    steps: dict[str, Work[Lease]] = {
        "read_turns": lambda state, lease, step: read_turns(state, ports=services.story_ports),
        "evolve_persona": evolve,
        "memorize_turns": memorize,
        "save_persona": lambda state, lease, step: save_persona(
            state, ports=services.story_ports, lease=lease, now=services.now
        ),
    }
    builder = GraphBuilder(services, UpdateState, input_schema=UpdateInput, output_schema=UpdateOutput)
    builder.add_chain(steps, _FRESH, instance_lock("update-memory"))
    return builder


async def memorize_turns(
    state: UpdateState,
    services: Services,
    model: str | None,
    report_progress: ReportProgress,
    stop_asked: Callable[[], bool],
) -> Update:
    """Learn about the player from the turns since the last time; where that fails, the persona still grows."""
    instance_id = state.get("instance_id", "")
    module = (await services.story_ports.settings.preferences()).memory
    if not module.enabled:
        return {"memory": None}
    try:
        if state.get("preview"):
            waiting = await unlearned(services, instance_id, module.user_id)
            return {"memory": {"turns": waiting.turns, "steps": [], "left_out": waiting.left_out}}
        learned = await learn_story(
            services, instance_id, model=model, report_progress=report_progress, stop_asked=stop_asked
        )
    except PersonaLabError as error:
        return await _not_learned(error, services)
    if learned.error and learned.error["code"] == "work_stopped":
        raise UserError("work_stopped")
    update: Update = {"memory": learned.fields()}
    if learned.error:
        update |= await _not_learned(str(learned.error["message"]), services)
    return update


async def _not_learned(reason: object, services: Services) -> Update:
    notice = Notice("memory_not_learned", {"reason": reason})
    return {"warnings": [dict(notice.event(None, await services.story_ports.settings.language()))]}


async def make_graph() -> RunnableGraph:
    """Return the graph to a server that loads it by name (``langgraph.json``), and does so for every run."""
    return await load_graph("update_memory", build_update_memory)


async def stream_update(
    services: Services, update: UpdateInput, *, model: str | None = None
) -> AsyncGenerator[Event | UpdateOutput]:
    """Let a character grow; yield progress and warnings as they happen and, last, the result (without a ``type``)."""
    async with aclosing(
        stream_graph(services, "update_memory", build_update_memory, update, model)
    ) as stream:
        async for part in stream:
            yield part
