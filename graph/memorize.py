"""Learning from a conversation, and from the turns of a story that its character has not learned from yet.

open_conversation → modify → update → theory_of_mind → store_memory

Only the last step changes the memory. A stage that fails goes straight there: the conversation stays saved,
the failure is recorded in its ``pipeline_result``, and the memory is unchanged.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from langgraph.graph import END

from graph.runtime import (
    Choose,
    GraphBuilder,
    RunnableGraph,
    StepContext,
    Update,
    Work,
    load_graph,
    stream_graph,
)
from nodes.memorize import (
    UNUSABLE,
    MemorizeInput,
    MemorizeOutput,
    MemorizeState,
    modify,
    open_conversation,
    read_subject,
    store_memory,
    theory_of_mind,
    update,
)
from nodes.structured_output import ReportProgress
from personalab.errors import PersonaLabError
from personalab.operations.learning import unlearned
from personalab.services import Services
from personalab.story.events import Event
from personalab.texts.actions import rendering_for

STAGES = {"modify": modify, "update": update, "theory_of_mind": theory_of_mind}


def build_memorize(services: Services) -> GraphBuilder:
    """Join the five steps over the given services."""

    async def open_saved(state: MemorizeState, _: None, step: StepContext) -> Update:
        return await open_conversation(state, services=services)

    async def store(state: MemorizeState, _: None, step: StepContext) -> Update:
        subject = await read_subject(services, state, step.model)
        return await store_memory(state, subject=subject, services=services)

    builder = GraphBuilder(services, MemorizeState, input_schema=MemorizeInput, output_schema=MemorizeOutput)
    first, *following = STAGES
    builder.add_step("open_conversation", open_saved, first, fresh=lambda _: _FRESH)
    for name, then in zip(STAGES, [*following, "store_memory"], strict=True):
        nexts = dict.fromkeys([then, "store_memory"])
        builder.add_step(name, _stage(name), *nexts, choose=_after_stage(then), failed=_failed_stage)
    builder.add_step("store_memory", store)
    return builder


async def make_graph() -> RunnableGraph:
    """Return the graph to a server that loads it by name (``langgraph.json``), and does so for every run."""
    return await load_graph("memorize", build_memorize)


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
            yield part


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


def _stage(name: str) -> Work[None]:
    """Run a stage of the pipeline on the person the conversation is with; a failure is kept with it, too."""

    async def work(state: MemorizeState, _: None, step: StepContext) -> Update:
        done = list(STAGES).index(name)
        step.emit({"type": "progress", "turn": None, "done": done, "total": len(STAGES), "stage": name})
        try:
            found = await read_subject(step.services, state, step.model)
            subject = replace(found, stop_asked=step.outer_stop_requested)
            return await STAGES[name](state, subject=subject, now=step.services.now)
        except PersonaLabError as error:
            language = await step.services.story_ports.settings.language()
            with rendering_for("terminal"):  # a file is the same from every entrance
                message = error.message(language)
            step.update["failure"] = {"stage": name, "code": error.code, "message": message}
            raise

    return work


def _failed_stage(event: Update, _: PersonaLabError) -> Update:
    """Keep the status ``running``: the run continues to ``store_memory``."""
    return {"error": event}


def _after_stage(following: str) -> Choose:
    def choose(state: MemorizeState) -> str:
        if state.get("status") != "running":
            return END
        return "store_memory" if state.get("failure") else following

    return choose


@dataclass(slots=True)
class LearningResult:
    """What came of it."""

    turns: int = 0
    steps: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    dropped: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    conversations: list[str] = field(default_factory=list[str])
    left_out: int = 0
    error: dict[str, Any] | None = None

    def fields(self) -> dict[str, Any]:
        """Return its JSON object."""
        return asdict(self)


async def learn_story(
    services: Services,
    instance_id: str,
    *,
    model: str | None,
    report_progress: ReportProgress = lambda done, total: None,
    stop_asked: Callable[[], bool] | None = None,
) -> LearningResult:
    """Save the turns since the last time as conversations and learn from each, one learner at a time.

    A conversation that no answer fits does not hold up the others; any other failure ends it.
    """
    ports = services.story_ports
    preferences = await ports.settings.preferences()
    learned = LearningResult()
    async with ports.learning.hold(instance_id, wait=services.settings.busy_seconds):
        found = await unlearned(services, instance_id, preferences.memory.user_id)
        learned.left_out = found.left_out
        total = len(found.conversations)
        for done, conversation in enumerate(found.conversations):
            report_progress(done, total)
            saved = await services.memories.save_conversation(conversation)
            error = await _learn(services, saved.conversation_id, model, stop_asked, learned)
            if error is None:
                learned.turns += len(conversation.messages) // 2
            elif error["code"] != UNUSABLE:
                break
        report_progress(len(learned.conversations), total)
    return learned


async def _learn(
    services: Services,
    conversation_id: str,
    model: str | None,
    stop_asked: Callable[[], bool] | None,
    learned: LearningResult,
) -> dict[str, Any] | None:
    """Learn from one conversation and note what came of it; return its error, if it has one."""
    error: dict[str, Any] | None = None
    named: MemorizeInput = {"conversation_id": conversation_id}
    call = stream_memorize(services, named, model=model, stop_asked=stop_asked)
    async with aclosing(call) as stream:
        async for part in stream:
            if "type" in part:
                continue
            learned.steps += part.get("steps", [])
            learned.dropped += part.get("dropped", [])
            error = part.get("error")
    learned.conversations.append(conversation_id)
    learned.error = learned.error or error
    return error
