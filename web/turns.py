"""Turns that belong to the server, not to a connection.

The events of a turn that runs here come from memory as it runs. Any other turn, including one that another
program is writing, is read from its file.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from graph.chat_turn import stream_turn
from nodes.chat_turn.state import Action, TurnInput, TurnOutput
from personalab.dialogue import well_formed
from personalab.errors import Busy, NotFound, PersonaLabError, UserError
from personalab.services import Services
from personalab.serving.turn_limiter import TurnLimiter
from personalab.storage.story_lock import running
from personalab.story.events import Event, error_event
from personalab.story.records import check_id
from personalab.story.transcript import AssistantLine, Turn
from personalab.tasks import BackgroundTasks
from personalab.texts import Language, say
from web.metrics import Metrics
from web.watching import Log, after

TURN_TASKS = frozenset(get_args(Action))
"""What turns call what they do when they hold a story."""
_KEPT = 64
"""Number of ended turns whose events are kept."""
_LOOK_SECONDS = 0.1
"""Seconds between two polls of the file of a turn that another program writes."""
_CLOSING_SECONDS = 7.0
"""Seconds that shutdown waits for turns; longer than they take to stop."""
_PIECE = 8_192
"""Characters of each piece in which a file's content is sent."""
_log = logging.getLogger("personalab.web")


@dataclass(frozen=True, slots=True)
class ReplyRef:
    """One try at the reply of one turn."""

    instance_id: str
    session_id: str
    turn: int
    attempt: int


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
        self, services: Services, places: TurnLimiter, metrics: Metrics, language: Callable[[], Language]
    ) -> None:
        self._services = services
        self._language = language
        self._places = places
        self._metrics = metrics
        self._running: dict[str, RunningTurn] = {}
        """The turn of each story whose reply is awaited or being written."""
        self._answered: OrderedDict[ReplyRef, RunningTurn] = OrderedDict()
        """Turns whose reply is complete; automatic work after them may still continue."""
        self._followed: dict[ReplyRef, Log] = {}
        """Turns that another program is writing and that have watchers here."""
        self._tasks = BackgroundTasks(_log)

    # --- beginning

    async def begin(self, call: TurnInput) -> ReplyRef:
        """Start a turn that continues whatever becomes of the caller; return when its user line is written."""
        instance_id = check_id(call.get("instance_id"), "instance_id")
        known = self._running.get(instance_id)
        if known is None:
            known = self._running[instance_id] = RunningTurn(instance_id, call)
            known.log = Log(lambda run=known: self._left(run))
            known.task = self._tasks.start(self._run(known, call))
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
            self._tasks.start(self._interrupt_if_wanted(run))

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
        return self._log_of(await self.find(wanted)).watch(offset)

    async def find(self, wanted: ReplyQuery) -> ReplySnapshot:
        """Read which reply is meant, and how far it is."""
        return await asyncio.to_thread(self._find, wanted)

    def _find(self, wanted: ReplyQuery) -> ReplySnapshot:
        stories = self._services.stories
        folder = stories.instances / check_id(wanted.instance_id, "instance_id")
        was_held = running(folder)
        state = stories.instance(wanted.instance_id)
        session_id = wanted.session_id or state.current_session_id
        if session_id not in (state.current_session_id, *stories.session_ids(wanted.instance_id)):
            raise NotFound("no_session", instance_id=wanted.instance_id, session_id=session_id)
        turns = stories.session(wanted.instance_id, session_id).view().turns
        turn = next((one for one in reversed(turns) if one.number == wanted.turn), None)
        if turn is None:
            raise NotFound("no_turn", turn=wanted.turn, session_id=session_id)
        attempt = wanted.attempt or max(len(turn.replies), 1)
        if attempt > len(turn.replies) + 1:
            raise NotFound("no_attempt", turn=wanted.turn, attempt=attempt)
        attempt = succeeding_attempt(turn, attempt)
        line = turn.replies[attempt - 1] if attempt <= len(turn.replies) else None
        is_last = turn is turns[-1] and attempt >= len(turn.replies)
        is_last = is_last and session_id == state.current_session_id
        # Its writer may have ended, or begun, while the file was read: then the file is to be read again.
        held = running(folder) or was_held
        # A turn that holds the story after its reply is complete is only saving the plot's position.
        written = is_last and held is not None and held.get("task") in TURN_TASKS
        which = ReplyRef(wanted.instance_id, session_id, wanted.turn, attempt)
        return ReplySnapshot(which, _shown(line, written=written), written, state.plot_state.fields())

    def _log_of(self, found: ReplySnapshot) -> Log:
        """Find the events already sent of a reply, if its file still agrees; else read it from there."""
        told = self._answered.get(found.which)
        if told is not None and not found.is_being_written and found.is_told_by(told.log):
            return told.log
        log = self._followed.get(found.which)
        if log is None:
            log = Log()
            self._read(found, log)
            if not log.ended:
                self._followed[found.which] = log
                self._tasks.start(self._follow(found.which, log))
        return log

    async def _follow(self, which: ReplyRef, log: Log) -> None:
        """Report what another program adds to a reply, with one poll of its file for all watchers."""
        wanted = ReplyQuery(which.instance_id, which.turn, which.session_id, which.attempt)
        try:
            while not log.ended and not self._places.closing:
                await asyncio.sleep(_LOOK_SECONDS)
                self._read(await self.find(wanted), log)
        except PersonaLabError as error:  # someone has removed the story meanwhile
            log.tell("error", dict(error_event(error, which.turn, self._language())))
        finally:
            del self._followed[which]
            log.end()

    def _read(self, found: ReplySnapshot, log: Log) -> None:
        """Report what the file holds that was not reported yet, and how it ended if it has.

        Thoughts may turn out to be in the reply's text and leave it then: what follows is told at the end only.
        """
        turn, thought, told = found.which.turn, found.reasoning, log.reasoning
        is_restarted = not thought.startswith(told)
        if is_restarted:
            log.add_reasoning(turn, "", restart=True)
        for piece in _pieces(thought if is_restarted else thought[len(told) :]):
            log.add_reasoning(turn, piece)
        if found.text.startswith(log.text):
            for piece in _pieces(after(found.text, log.offset)):
                log.token(turn, piece)
        if not found.is_being_written:
            log.tell(*self._ending(found))
            log.end()

    def _ending(self, found: ReplySnapshot) -> tuple[str, dict[str, Any]]:
        """Return the event that reports how a stored reply ended."""
        which, line = found.which, found.line
        if line is None:
            message = say("turn_unanswered", self._language(), turn=which.turn)
            error = {"type": "error", "turn": which.turn, "code": "turn_unanswered", "kind": "user"}
            return "error", {**error, "message": message, "retryable": True}
        return "done", done_of(which, line, found.plot_state)


def done_of(which: ReplyRef, line: AssistantLine, plot_state: dict[str, Any]) -> dict[str, Any]:
    """Report a stored reply in the form of one that has just ended."""
    return {
        "type": "done",
        "turn": which.turn,
        "attempt": which.attempt,
        "session_id": which.session_id,
        "content": line.content,
        "interrupted": line.interrupted,
        "empty": line.empty,
        "error": line.error,
        "truncated": line.truncated,
        "plot_state": plot_state,
        "tokens": {},
        "usage": None,
    }


@dataclass(frozen=True, slots=True)
class ReplyQuery:
    """What a watcher asks for; the current session and the newest try where it does not say."""

    instance_id: str
    turn: int
    session_id: str | None = None
    attempt: int | None = None

    def means(self, which: ReplyRef) -> bool:
        """Return whether this is the running turn that is asked for; the model may be asked again during a turn."""
        return (
            self.turn == which.turn
            and self.session_id in (None, which.session_id)
            and self.attempt in (None, which.attempt, which.attempt + 1)
        )


@dataclass(frozen=True, slots=True)
class ReplySnapshot:
    """A reply as its file holds it."""

    which: ReplyRef
    line: AssistantLine | None
    is_being_written: bool
    plot_state: dict[str, Any]

    @property
    def text(self) -> str:
        """The reply's text in the file; empty for an empty reply, even though the file has a note."""
        return "" if self.line is None or self.line.empty else self.line.content

    @property
    def reasoning(self) -> str:
        """What the file holds of the reasoning."""
        return "" if self.line is None else self.line.reasoning

    def is_told_by(self, log: Log) -> bool:
        """Return whether a log holds everything that the file holds."""
        return log.text.strip() == self.text.strip() and log.reasoning == self.reasoning


class TurnRejected(Exception):  # noqa: N818 (what happened, said as it is)
    """A turn was refused before anything was written; carries the graph's error event."""

    def __init__(self, event: dict[str, Any]) -> None:
        super().__init__(event.get("code", ""))
        self.event = event


def succeeding_attempt(turn: Turn, attempt: int) -> int:
    """Find the attempt that answers a waiting watcher: a model that gave no words was asked again automatically."""
    if attempt < len(turn.replies):
        line = turn.replies[attempt - 1]
        return attempt + 1 if line.empty and not line.interrupted else attempt
    return attempt


def _pieces(text: str) -> Iterator[str]:
    for at in range(0, len(text), _PIECE):
        yield text[at : at + _PIECE]


def _shown(line: AssistantLine | None, *, written: bool) -> AssistantLine | None:
    """Return a reply as it can be sent: its file may hold half a character, or what a dead writer left open."""
    if line is None:
        return None
    left = not line.closed and not written  # the next turn will close it so
    return replace(
        line,
        content=well_formed(line.content),
        reasoning=well_formed(line.reasoning),
        timestamp=well_formed(line.timestamp),
        interrupted=line.interrupted or left,
    )


def _named(run: RunningTurn) -> dict[str, Any]:
    which = run.which
    return {"instance_id": run.instance_id, "turn": which.turn if which else None}
