"""Turns that belong to the server, not to a connection, and the routes that start, watch and stop them.

The events of a turn that runs here come from memory as it runs. Any other turn, including one that another
program is writing, is read from its file.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from graph.chat_turn import stream_turn
from nodes.chat_turn.state import TurnInput, TurnOutput
from personalab.errors import Busy, PersonaLabError, UserError
from personalab.results.stories import PlotResult, StopResult
from personalab.services import Services
from personalab.serving.turn_limiter import TurnLimiter
from personalab.story.events import Event, error_event
from personalab.story.records import check_id
from personalab.story.transcript import AssistantLine
from personalab.tasks import BackgroundTasks
from personalab.texts import Language
from web.api.turn_shapes import TURN_STREAM, CurrentResponse, Saying, TurnStartedResponse
from web.metrics import Metrics
from web.replies import ReplyQuery, ReplyRef, ReplySnapshot, StoredReplies, TurnRejected
from web.shapes import InstanceId, QueryInstanceId, QuerySessionId, SessionId
from web.streaming import StreamLimiter, events, resumed_at
from web.watching import Log, size_of

router = APIRouter(prefix="/api", tags=["turns"])

_KEPT = 64
"""Number of ended turns whose events are kept."""
_CLOSING_SECONDS = 7.0
"""Seconds that shutdown waits for turns; longer than they take to stop."""
_log = logging.getLogger("personalab.web")


@dataclass(eq=False)
class RunningTurn:
    """A turn of this server, while it runs and a while after."""

    instance_id: str
    call: TurnInput
    log: Log = field(default_factory=Log)
    which: ReplyRef | None = None
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    refused: dict[str, Any] | None = None
    """The error that ended it before anything was written."""
    repeated: bool = False
    """Whether the call only repeated one that was answered before."""
    is_waiting: bool = True
    """Whether it waits for a place; nothing was written yet."""
    started: float = field(default_factory=time.monotonic)
    first_token: float | None = None
    task: asyncio.Task[None] = field(init=False)

    def repeats(self, call: TurnInput) -> bool:
        """Return whether a call repeats this one."""
        request_id = self.call.get("request_id")
        return request_id is not None and request_id == call.get("request_id")


class Turns:
    """The turns of this server, one a story."""

    def __init__(
        self,
        services: Services,
        places: TurnLimiter,
        metrics: Metrics,
        language: Callable[[], Language],
        streams: StreamLimiter,
    ) -> None:
        self.streams = streams
        self._services = services
        self._language = language
        self._places = places
        self._metrics = metrics
        self._running: dict[str, RunningTurn] = {}
        """The turn of each story whose reply is awaited or being written."""
        self._answered: OrderedDict[ReplyRef, RunningTurn] = OrderedDict()
        """Turns whose reply is complete; automatic work after them may still continue."""
        self._tasks = BackgroundTasks(_log)
        self._stored = StoredReplies(services, places, language, self._tasks)

    # --- beginning

    async def begin(self, call: TurnInput) -> ReplyRef:
        """Start a turn that continues whatever becomes of the caller; return when its user line is written."""
        instance_id = check_id(call.get("instance_id"), "instance_id")
        known = self._running.get(instance_id)
        if known is None:
            known = self._running[instance_id] = RunningTurn(instance_id, call)
            known.log = Log(lambda run=known: self._left(run))
            known.task = self._tasks.keep(asyncio.create_task(self._run(known, call)))
        elif not known.repeats(call):
            raise Busy("turn_running", instance_id=instance_id)
        found = await self._begun(known)
        if known.call.get("user_input") != call.get("user_input"):
            raise UserError("request_id_reused", request_id=call.get("request_id"), turn=found.turn)
        return found

    async def _begun(self, run: RunningTurn) -> ReplyRef:
        await run.begun.wait()
        if run.which is None:
            ending = error_event(Busy("server_ending"), None, self._language())
            raise TurnRejected(run.refused or dict(ending))
        return run.which

    async def _run(self, run: RunningTurn, call: TurnInput) -> None:
        """Run the graph to its end and tell what happens."""
        status = "error"
        try:
            async with self._places.turn() as is_prepared:
                run.is_waiting = False

                def follow(state: TurnOutput) -> None:
                    if run.which is None:
                        self._note(run, state)
                    if state.get("prompt"):
                        is_prepared()

                async with aclosing(stream_turn(self._services, call, on_state=follow)) as parts:
                    async for part in parts:
                        if "type" in part:
                            self._tell(run, part)
                        else:
                            status = self._result(run, part)
        except PersonaLabError as error:
            self._fail(run, error)
        except asyncio.CancelledError:
            is_open = self._running.get(run.instance_id) is run
            status = "interrupted" if is_open else "done"  # automatic work follows only a completed turn
            raise
        except Exception:  # noqa: BLE001 (whatever it is, its watchers hear of it)
            _log.exception("a turn failed", extra=_named(run))
            self._fail(run, PersonaLabError("internal_error"))
        finally:
            self._end(run, status)

    def _note(self, run: RunningTurn, state: TurnOutput) -> None:
        """Take down which turn it is, and let the caller go."""
        turn = state.get("turn")
        if turn is None:
            return
        run.which = ReplyRef(run.instance_id, state.get("session_id", ""), turn, state.get("attempt", 1))
        if not run.repeated:
            _log.info("turn begun", extra=_named(run))
        run.begun.set()

    def _tell(self, run: RunningTurn, event: Event) -> None:
        match event["type"]:
            case "token":
                if run.first_token is None:
                    run.first_token = time.monotonic()
                    self._metrics.first_token.observe(run.first_token - run.started)
                run.log.token(event["turn"], event["text"])
            case "reasoning":
                run.log.add_reasoning(event["turn"], event["text"], restart=event["offset"] == 0)
            case "warning":
                run.log.tell("warning", dict(event), again=True)
            case "error" if run.which is None:
                run.refused = dict(event)
            case "done":
                run.log.tell("done", event)
                if run.which is not None:
                    run.which = replace(run.which, attempt=event["attempt"])
                self._free(run)
            case _:
                if event["type"] == "error":
                    self._metrics.errors.labels(event["code"]).inc()
                run.log.tell(event["type"], dict(event))

    def _result(self, run: RunningTurn, result: TurnOutput) -> str:
        if run.which is None:
            run.repeated = True
            self._note(run, result)
        else:
            self._metrics.tokens_of(result.get("usage") or {}, result.get("tokens") or {})
        return result.get("status", "error")

    def _fail(self, run: RunningTurn, error: PersonaLabError) -> None:
        turn = run.which.turn if run.which else None
        told = dict(error_event(error, turn, self._language()))
        if run.which is None:
            run.refused = told  # it is counted where it is answered
        else:
            self._metrics.errors.labels(error.code).inc()
            run.log.tell("error", told)

    def _free(self, run: RunningTurn) -> None:
        """Release the story for further turns; watchers of this turn keep watching."""
        if self._running.get(run.instance_id) is run:
            del self._running[run.instance_id]
        if run.which is not None and not run.repeated:
            self._answered[run.which] = run
        while len(self._answered) > _KEPT:
            self._answered.popitem(last=False)

    def _end(self, run: RunningTurn, status: str) -> None:
        self._free(run)
        run.log.end()
        run.log = run.log.merged()  # watchers have the complete log
        if run.which is not None and not run.repeated:
            self._metrics.turn_ended(status, time.monotonic() - run.started)
            _log.info("turn ended", extra={**_named(run), "status": status})
        run.begun.set()

    # --- ending

    def running(self, instance_id: str) -> ReplyRef | None:
        """Return the turn of a story that runs here."""
        found = self._running.get(instance_id)
        return found.which if found else None

    @property
    def count(self) -> int:
        """How many turns run here."""
        return len(self._running)

    async def stop(self, instance_id: str) -> str:
        """Interrupt what is being written in a story, here or in another program; say what it was."""
        run = self._running.get(instance_id)
        if run is not None and run.is_waiting:
            run.refused = dict(error_event(UserError("work_stopped"), None, self._language()))
            run.task.cancel()
            await asyncio.wait([run.task])
            return run.call.get("action") or "say"
        task = await self._services.leases.stop(instance_id)
        if run is not None and run.which is not None:  # one that waits may only begin now
            await asyncio.wait([run.task], timeout=5.0)  # so that what is read next is what was written
        return task

    def _left(self, run: RunningTurn) -> None:
        """The last watcher left: some people want the reply to end then."""
        if self._running.get(run.instance_id) is run and not self._places.closing:
            self._tasks.keep(asyncio.create_task(self._interrupt_if_wanted(run)))

    async def _interrupt_if_wanted(self, run: RunningTurn) -> None:
        preferences = await asyncio.to_thread(self._services.preferences.read)
        is_alone = self._running.get(run.instance_id) is run and not run.log.watchers
        if preferences.config.on_disconnect == "interrupt" and is_alone:
            with suppress(PersonaLabError):  # it has just ended on its own
                await self._services.leases.stop(run.instance_id)

    async def close(self) -> None:
        """Cancel automatic work after replies, and wait until the turns that were asked to stop have ended."""
        deadline = time.monotonic() + _CLOSING_SECONDS
        left: set[asyncio.Task[None]] = set()
        while self._tasks and time.monotonic() < deadline:
            for task in self._tasks - left - {run.task for run in self._running.values()}:
                left.add(task)
                task.cancel()
            await asyncio.wait(self._tasks, timeout=0.1)

    # --- watching

    async def watch(self, wanted: ReplyQuery, offset: int | None) -> AsyncGenerator[bytes]:
        """Find a turn and tell it after an offset of its reply, to its end."""
        run = self._running.get(wanted.instance_id)
        if run is not None and run.which is not None and wanted.means(run.which):
            return run.log.watch(offset)
        found = await self.find(wanted)
        told = self._answered.get(found.which)
        if told is not None and not found.is_being_written and found.is_told_by(told.log):
            return told.log.watch(offset)
        return self._stored.log_of(found).watch(offset)

    async def find(self, wanted: ReplyQuery) -> ReplySnapshot:
        """Read which reply is meant, and how far it is."""
        return await self._stored.find(wanted)


def _named(run: RunningTurn) -> dict[str, Any]:
    which = run.which
    return {"instance_id": run.instance_id, "turn": which.turn if which else None}


# --- routes


async def _turns(request: Request) -> Turns:
    return request.app.state.desk.turns


TurnsDep = Annotated[Turns, Depends(_turns)]
TurnNumber = Annotated[int, Query(ge=0, le=10**9)]
Attempt = Annotated[
    int | None, Query(ge=1, le=10**6, description="Which try at the reply; the newest if left out")
]


@router.post("/instances/{instance_id}/turns", status_code=202)
async def begin_turn(turns: TurnsDep, instance_id: InstanceId, asked: Saying) -> TurnStartedResponse:
    """Say something. The answer comes as soon as it is in the file; the reply is watched at ``stream``."""
    call: TurnInput = {"instance_id": instance_id, "user_input": asked.text, "action": "say"}
    if asked.request_id is not None:
        call["request_id"] = asked.request_id
    return _started(await turns.begin(call))


@router.post("/instances/{instance_id}/retry", status_code=202)
async def retry_turn(turns: TurnsDep, instance_id: InstanceId) -> TurnStartedResponse:
    """Answer the last turn again, if its reply is missing, broken off, empty or failed."""
    return _started(await turns.begin({"instance_id": instance_id, "action": "retry"}))


@router.post("/instances/{instance_id}/stop")
async def stop_turn(turns: TurnsDep, instance_id: InstanceId) -> StopResult:
    """Interrupt what is being written; what is written so far stays, marked as interrupted."""
    return StopResult(instance_id=instance_id, stopped=await turns.stop(instance_id))


@router.get("/chat/stream", response_class=StreamingResponse, responses=TURN_STREAM)
async def watch_turn(
    turns: TurnsDep,
    instance_id: QueryInstanceId,
    turn: TurnNumber,
    session_id: QuerySessionId = None,
    attempt: Attempt = None,
    offset: Annotated[
        int | None, Query(ge=0, le=10**15, description="How many bytes of the reply the client has already")
    ] = None,
    last_event_id: Annotated[str | None, Header(max_length=64)] = None,
) -> Response:
    """Watch a turn: ``reasoning``, ``token``, ``warning``, ``error``, ``done``; ``care`` for automatic work after it.

    The id of a token event is the offset in the reply, in bytes of UTF-8, that it leads to: a client that comes back
    with it (``Last-Event-ID``) goes on exactly there. What is in the file already comes first, then what is written.
    Reasoning is sent again to a client that comes back: a ``reasoning`` event with offset 0 replaces what it has, any
    other one is added to it.
    """
    wanted = ReplyQuery(instance_id, turn, session_id, attempt)
    stream = await turns.watch(wanted, resumed_at(last_event_id, offset))
    return events(stream, turns.streams)


@router.get("/sessions/{session_id}/current_response")
async def current_response(
    turns: TurnsDep,
    session_id: SessionId,
    instance_id: QueryInstanceId,
    turn: TurnNumber,
    attempt: Attempt = None,
) -> CurrentResponse:
    """Read what the file holds of a reply, also while it is being written."""
    found = await turns.find(ReplyQuery(instance_id, turn, session_id, attempt))
    which, line = found.which, found.line or AssistantLine("", turn, "")
    ended = "unanswered" if found.line is None else line.status
    content = found.text if found.is_being_written else line.content
    return CurrentResponse(
        instance_id=instance_id,
        session_id=session_id,
        turn=turn,
        attempt=which.attempt,
        status="writing" if found.is_being_written else ended,
        content=content,
        offset=size_of(content),
        reasoning=line.reasoning,
        timestamp=line.timestamp or None,
        interrupted=line.interrupted and not found.is_being_written,
        empty=line.empty and not found.is_being_written,
        error=line.error,
        truncated=line.truncated,
        plot_state=PlotResult(**found.plot_state),
    )


def _started(which: ReplyRef) -> TurnStartedResponse:
    """Return where to watch a turn."""
    query = urlencode(asdict(which))
    return TurnStartedResponse(**asdict(which), stream=f"/api/chat/stream?{query}")
