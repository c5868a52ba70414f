"""What all graphs share: steps under a lock, runs that end cleanly, event streams, context."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Generic, TypeVar, cast, get_type_hints

import anyio
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.graph import END, START, StateGraph
from langgraph.graph._branch import BranchSpec
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime, get_runtime

from nodes.chat_turn.state import StreamContext, TurnContext
from nodes.structured_output import never_stop
from personalab.errors import PersonaLabError, UserError
from personalab.leases import STOP_POLL_SECONDS, Lease, Leases, lease_scope
from personalab.services import Services, open_services, tracing_notice
from personalab.story.events import error_event
from personalab.story.records import check_id
from personalab.story.transcript import MAX_REQUEST_ID_CHARACTERS
from personalab.tasks import end_tasks

T = TypeVar("T")
C = TypeVar("C", bound=TurnContext)
Update = dict[str, Any]
Build = Callable[[Services], "GraphBuilder"]
Choose = Callable[[Any], str | Sequence[str]]
"""Finds the next steps in the state after a step."""
_CLEANUP_SECONDS = 0.5
"""Work that was cancelled by a stop and needs longer is no longer awaited."""


# --- steps


@dataclass(frozen=True, slots=True)
class StepContext:
    """What a step is given beside its state."""

    services: Services
    runtime: Runtime[Any]
    config: RunnableConfig
    is_first: bool
    update: Update
    """Values that are part of the step's result even if it fails."""

    @property
    def emit(self) -> Callable[[Any], None]:
        """Emits an event to whoever streams the run."""
        return _emitter(self.runtime)

    @property
    def model(self) -> str | None:
        """The model that was named for this run."""
        return read_context(self.runtime).model

    @property
    def outer_stop_requested(self) -> Callable[[], bool]:
        """Returns whether the run around this one was asked to stop."""
        context = self.runtime.context
        return context.stop_asked if isinstance(context, StreamContext) else never_stop

    def report_progress(self, done: int, total: int) -> None:
        """Emit how much of the work is done."""
        self.emit({"type": "progress", "turn": None, "done": done, "total": total})

    def emit_warnings(self, update: Update) -> Update:
        """Emit the warnings of an update, and return it."""
        for warning in update.get("warnings", []):
            self.emit(warning)
        return update


Work = Callable[[Any, T, StepContext], Awaitable[Update]]
Resource = Callable[[Any, StepContext], AbstractAsyncContextManager[T]]


def _emitter(runtime: Runtime[Any]) -> Callable[[Any], None]:
    context = runtime.context
    return context.emit if isinstance(context, StreamContext) else runtime.stream_writer


def _no_resource(state: Any, step: StepContext) -> AbstractAsyncContextManager[Any]:
    return nullcontext()


def failed_run(event: Update, _: PersonaLabError | None = None) -> Update:
    """Return the values of a run that an error has ended."""
    return {"status": "error", "error": event}


class GraphBuilder(StateGraph[Any, Any, Any, Any]):
    """A builder of graphs whose runs are never orphaned and whose errors are events."""

    def __init__(
        self, services: Services, state: type[Any], context: type[Any] = TurnContext, **schemas: type[Any]
    ) -> None:
        super().__init__(state, context_schema=context, **schemas)
        self.services = services
        self._joins: set[str] = set()
        """Steps that parallel ones lead to."""

    def add_step(
        self,
        name: str,
        work: Work[T],
        *then: str,
        choose: Choose | None = None,
        resource: Resource[T] = _no_resource,
        fresh: Callable[[Any], Update] | None = None,
        failed: Callable[[Update, PersonaLabError], Update] = failed_run,
        parallel: bool = False,
    ) -> None:
        """Add a step; an error of ours is emitted as an event and ends the run.

        ``then`` are the steps that may follow: all of them while the status is ``running``, or those that ``choose``
        finds in the new state. ``resource`` opens what the step works on, mostly a lock. The first step has the values
        a run begins with (``fresh``). ``failed`` makes an error and its event the values of the run. Steps that are
        ``parallel`` all lead to the same one: if any of them fails, that one emits the error instead of working.
        """

        async def node(state: Update, runtime: Runtime[Any], config: RunnableConfig) -> Update:
            if name in self._joins and (failure := state.get("error")):
                _emitter(runtime)(failure)
                return {}
            update: Update = {} if fresh is None else dict(fresh(state))
            step = StepContext(self.services, runtime, config, fresh is not None, update)
            try:
                async with resource(state, step) as held:
                    update |= await work(state, held, step)
            except PersonaLabError as error:
                language = await self.services.turns.language()
                event = error_event(error, None if step.is_first else state.get("turn"), language)
                if not parallel:
                    step.emit(event)
                update |= failed(dict(event), error)
            return update

        def find_next(state: Any) -> str | Sequence[str]:
            if choose is not None:
                return choose(state)
            return then if state.get("status") == "running" else END

        self.add_node(name, cast("Any", node))
        if fresh is not None:
            self.add_edge(START, name)
        if then and not parallel:
            ends: dict[Any, str] = {end: end for end in (*then, END)}
            self.branches[name]["find_next"] = _Branch(_NextSteps(find_next), ends)
            return
        for following in then or (END,):
            self.add_edge(name, following)
        self._joins.update(then)

    def add_chain(
        self, steps: Mapping[str, Work[T]], fresh: Update, resource: Resource[T] = _no_resource
    ) -> None:
        """Add steps that follow one another."""

        def begin(_: Any) -> Update:
            return fresh

        names = list(steps)
        for at, (name, work) in enumerate(steps.items()):
            first = None if at else begin
            self.add_step(name, work, *names[at + 1 : at + 2], resource=resource, fresh=first)

    def compile(self, *args: Any, **kwargs: Any) -> RunnableGraph:
        """Compile as usual; the class is changed afterwards, because LangGraph's builder has no choice of it."""
        graph = super().compile(*args, **kwargs)
        graph.__class__ = RunnableGraph
        return graph  # pyright: ignore[reportReturnType] (it is one now)


class _NextSteps(Runnable[Any, Any]):
    """Finds the steps that follow; LangGraph would trace a function like a step and run it in a task of its own."""

    name = "find_next"

    def __init__(self, find: Choose) -> None:
        self._find = find

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> str | Sequence[str]:
        return self._find(input)


class _Branch(BranchSpec):
    """Finds the steps that follow in the state and the step's values, without LangGraph's copies of every channel.

    These copies took a tenth of a turn. No step adds to what another one wrote: its values replace those before.
    """

    async def _aroute(
        self, input: Any, config: RunnableConfig, *, reader: Callable[..., Any] | None, writer: Any
    ) -> Any:
        state: Update = reader(config, fresh=False) if reader is not None else {}
        following: object = self.path.invoke({**state, **(input or {})})
        return cast("object", self._finish(writer, input, following, config))


@asynccontextmanager
async def locked_step(
    leases: Leases, name: str, task: str, state: Mapping[str, Any], step: StepContext
) -> AsyncGenerator[Lease]:
    """Hold a lock for one step: the first step of a run acquires it, and later ones find or reacquire it."""
    wait = step.services.settings.busy_seconds
    if step.is_first:
        lease = await leases.acquire(name, task, wait=wait)
    else:
        lease = await leases.reacquire(state.get("lease", ""), name, task, wait=wait)
    step.update["lease"] = lease.lease_id
    async with lease.step():
        yield lease


def instance_lock(task: str) -> Resource[Lease]:
    """Return the resource of steps that work on one story."""

    def lock(state: Any, step: StepContext) -> AbstractAsyncContextManager[Lease]:
        instance_id = check_id(state.get("instance_id"), "instance_id")
        return locked_step(step.services.leases, instance_id, task, state, step)

    return lock


async def run_until_stopped(work: Awaitable[T], stop_requested: Callable[[], bool]) -> T | None:
    """Await work, or cancel it and return ``None`` when a stop is requested; its cleanup has limited time."""
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            await asyncio.wait([task], timeout=STOP_POLL_SECONDS)
            if not task.done() and stop_requested():
                return None
        return task.result()
    finally:
        await end_tasks([task], _CLEANUP_SECONDS)


# --- runs


class RunnableGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph whose runs are never orphaned."""

    def astream(  # pyright: ignore[reportIncompatibleMethodOverride] (the same arguments, passed on)
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncGenerator[Any]:
        """Stream like any graph, from a task of its own."""
        context = kwargs.get("context")
        if context is None and (outer := _outer_stream()) is not None:
            context = {"model": outer.model}  # a run inside a step of ours emits to its own consumer
        if context is not None:
            kwargs["context"] = _known_context(self.context_schema, context)
        return cancel_safe(super().astream(input, config, **kwargs), find_parents(config))

    def stream_emitted(
        self,
        input: Any,
        config: RunnableConfig | None,
        context: StreamContext,
        events: PartQueue[Any],
        on_state: Callable[[dict[str, object]], None],
    ) -> AsyncGenerator[Any]:
        """Stream what the steps put into ``events``; ``on_state`` is called with the state after each step.

        Where LangGraph carries events, it runs every step beside a task that waits for them, and each event passes
        through the event loop twice.
        """
        states = cast(
            "AsyncIterator[dict[str, Any]]",
            super().astream(input, config, context=context, stream_mode="values", version="v2"),
        )
        return cancel_safe(states, find_parents(config), events, lambda part: on_state(part["data"]))


def _outer_stream() -> StreamContext | None:
    """Return the context of the streamed run whose step is calling, if there is one."""
    try:
        context: object = getattr(get_runtime(), "context", None)
    except (RuntimeError, KeyError):
        return None
    return context if isinstance(context, StreamContext) else None


class PartQueue(Generic[T]):
    """The parts of a stream that its consumer has not taken yet; they may come from threads."""

    def __init__(self) -> None:
        self.waiting: deque[T] = deque()
        self.news = asyncio.Event()
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()

    def put(self, part: T) -> None:
        """Add a part, and wake the consumer."""
        if threading.get_ident() == self._thread:
            self.waiting.append(part)
            self.news.set()
        else:
            self._loop.call_soon_threadsafe(self.put, part)


async def cancel_safe(
    stream: AsyncIterator[T],
    parents: Sequence[Callable[[], bool]] = (),
    parts: PartQueue[T] | None = None,
    take: Callable[[T], None] | None = None,
) -> AsyncGenerator[T]:
    """Consume a graph's stream in a task of its own; leaving, in whichever way, cancels it and awaits its cleanup.

    LangGraph orphans a run that is consumed inside an anyio cancel scope, as MCP and most web frameworks have them:
    the running step gets no cancellation and continues unseen. Locks that the run holds are released at its end. When
    one of the ``parents`` no longer exists, the consumer is cancelled. With ``take``, which is given its parts,
    only what others put into ``parts`` is yielded.
    """
    parts = parts or PartQueue()
    waiting, news, take = parts.waiting, parts.news, take or parts.put

    async def consume() -> None:
        try:
            async with lease_scope():
                async for part in stream:
                    take(part)
        finally:
            news.set()

    watch = _ParentWatch(parents) if parents else None
    task = asyncio.create_task(consume())
    try:
        while True:
            while waiting:
                yield waiting.popleft()
            if task.done():
                await task
                return
            news.clear()
            if not waiting and not task.done():
                await (news.wait() if watch is None else watch.wait(news))
                await asyncio.sleep(0)
    finally:
        task.cancel()
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError), anyio.CancelScope(shield=True):
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()


class _ParentWatch:
    """Checks every now and then whether the runs around this one still exist."""

    def __init__(self, parents: Sequence[Callable[[], bool]]) -> None:
        self._parents = parents
        self._checked = asyncio.get_running_loop().time()

    async def wait(self, news: asyncio.Event) -> None:
        """Wait for news; raise the cancellation that LangGraph should have sent if an outer run was abandoned."""
        loop = asyncio.get_running_loop()
        while True:
            if loop.time() - self._checked >= STOP_POLL_SECONDS:
                self._checked = loop.time()
                if not all(exists() for exists in self._parents):
                    raise asyncio.CancelledError("the run of the parent graph was abandoned")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), STOP_POLL_SECONDS)
                return


_CALL = "__pregel_call"
"""Where LangGraph puts the means to call a task into a node's config; it leads to the runner and to the outer loop."""
_MAX_DEPTH = 32


def find_parents(config: RunnableConfig | None) -> list[Callable[[], bool]]:
    """List the runs that the calling node is part of, innermost first, each as a check whether it still exists.

    When an anyio cancel scope around a parent's ``astream`` is cancelled, LangGraph ends the parent's run without
    cancelling its nodes (https://github.com/langchain-ai/langgraph/issues/5682). What is left of the run is visible in
    the node's config: the runner that would take the node's result exists no longer.
    """
    found: list[Callable[[], bool]] = []
    given = config or var_child_runnable_config.get()
    while given is not None and len(found) < _MAX_DEPTH:
        call: Any = (given.get("configurable") or {}).get(_CALL)
        keywords = cast("dict[str, Any]", getattr(call, "keywords", {}))
        if (futures := keywords.get("futures")) is None:
            break
        found.append(lambda futures=futures: _has_runner(futures))
        loop = getattr(keywords.get("schedule_task"), "__self__", None)
        given = cast("RunnableConfig | None", getattr(loop, "config", None))
    return found


def _has_runner(futures: Callable[[], Any]) -> bool:
    """Return whether anyone waits for a node; where LangGraph is built otherwise than expected, assume so."""
    waiting = futures()
    if waiting is None:
        return False
    callback = getattr(waiting, "callback", None)
    return callback is None or callback() is not None


_EPOCH = "1970"
"""LangGraph names every run by the time since then, and fails with no error of Python's where there is none."""


async def stream_graph(
    services: Services,
    name: str,
    build: Build,
    call: object,
    model: str | None,
    stop_asked: Callable[[], bool] | None = None,
    on_state: Callable[[dict[str, object]], None] | None = None,
    config: RunnableConfig | None = None,
) -> AsyncGenerator[Any]:
    """Run a graph, compiled once per services; yield its events and, last, its result (the one without a ``type``).

    ``stop_asked`` is for a run inside another one, which alone can be asked to stop. ``on_state`` is called with the
    state after each step while the run goes on.
    """
    if (now := services.now()) < _EPOCH:
        raise UserError("clock_too_early", now=now)
    graph = cast("RunnableGraph | None", services.graphs.get(name))
    if graph is None:
        graph = services.graphs[name] = build(services).compile(name=name)
    events = PartQueue[Any]()
    context = StreamContext(model=model, emit=events.put, stop_asked=stop_asked or never_stop)
    result: dict[str, object] = {}

    def keep(state: dict[str, object]) -> None:
        nonlocal result
        result = state
        if on_state is not None and state.get("status") == "running":
            on_state(state)

    async with aclosing(graph.stream_emitted(call, config, context, events, keep)) as stream:
        async for event in stream:
            yield event
    known = _output_fields(graph.builder.output_schema)
    yield {field: value for field, value in result.items() if field in known}


@cache
def _output_fields(schema: type) -> frozenset[str]:
    return frozenset(get_type_hints(schema))


# --- servers that load graphs by name


async def load_graph(name: str, build: Build) -> RunnableGraph:
    """Return a compiled graph over the services of this process, always the same one."""
    return await asyncio.to_thread(_compiled, name, build)


@cache
def _compiled(name: str, build: Build) -> RunnableGraph:
    return build(services_of_this_process()).compile(name=name)


@cache
def services_of_this_process() -> Services:
    """Open the services once; the graphs and whatever else the server runs share them."""
    services = open_services()
    services.remote = True
    if notice := tracing_notice(services):
        logging.getLogger("personalab.tracing").warning(notice)
    return services


# --- context


def read_context(runtime: Runtime[Any], schema: type[C] = TurnContext) -> C:
    """Read the context of a run, whatever its shape.

    As a subgraph we get the context of the parent graph, which has a schema of its own: fields that we do not know
    are ignored, and fields that it lacks, or that hold no text, have their defaults. A parent whose ``model`` is for
    itself names ours in ``personalab_model``.
    """
    found: object = runtime.context
    if found is None:
        return schema()
    if not isinstance(found, schema):
        return schema(**{field.name: _foreign_value(found, field.name) for field in fields(schema)})
    for field in fields(TurnContext):
        value = getattr(found, field.name)
        if value is not None and not isinstance(value, str):
            raise UserError("context_not_text", field=field.name, kind=type(value).__name__)
    return found


def read_request_id(config: RunnableConfig) -> str | None:
    """Derive a request id from the id of a server's run, which stays the same when the server repeats the run.

    A parent graph may play several turns in one run: there the place of the call in the run is part of the id.
    """
    configurable = cast("dict[str, object]", config.get("configurable") or {})
    run_id = configurable.get("run_id")
    if run_id is None:
        return None
    outer, _, _ = str(configurable.get("checkpoint_ns") or "").rpartition("|")
    place = f":{hashlib.sha256(outer.encode()).hexdigest()[:16]}" if outer else ""
    request_id = f"{run_id}{place}"
    return request_id if len(request_id) <= MAX_REQUEST_ID_CHARACTERS else None


def _known_context(schema: type[Any] | None, context: object) -> object:
    """Drop the keys of a dict that the schema does not know: LangGraph would raise a TypeError for them."""
    if schema is None or not isinstance(context, Mapping):
        return context
    known = {field.name for field in fields(schema)}
    given = cast("Mapping[str, object]", context)
    return {name: value for name, value in given.items() if name in known}


def _foreign_value(found: object, name: str) -> str | None:
    for key in (f"personalab_{name}", name):
        if isinstance(found, Mapping):
            value = cast("Mapping[str, object]", found).get(key)
        else:
            value = getattr(found, key, None)
        if isinstance(value, str) and value:
            return value
    return None
