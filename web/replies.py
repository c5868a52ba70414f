"""Replies as their files hold them, also while another program writes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, get_args

from nodes.chat_turn.state import Action
from personalab.dialogue import well_formed
from personalab.errors import NotFound, PersonaLabError
from personalab.services import Services
from personalab.serving.turn_limiter import TurnLimiter
from personalab.storage.story_lock import running
from personalab.story.events import error_event
from personalab.story.records import check_id
from personalab.story.transcript import AssistantLine, Turn
from personalab.tasks import BackgroundTasks
from personalab.texts import Language, say
from web.watching import Log, after

TURN_TASKS = frozenset(get_args(Action))
"""What turns call what they do when they hold a story."""
_LOOK_SECONDS = 0.1
"""Seconds between two polls of the file of a turn that another program writes."""
_PIECE = 8_192
"""Characters of each piece in which a file's content is sent."""


@dataclass(frozen=True, slots=True)
class ReplyRef:
    """One try at the reply of one turn."""

    instance_id: str
    session_id: str
    turn: int
    attempt: int


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


class StoredReplies:
    """Finds replies in the files of stories, and follows those that another program writes."""

    def __init__(
        self,
        services: Services,
        places: TurnLimiter,
        language: Callable[[], Language],
        tasks: BackgroundTasks,
    ) -> None:
        self._services = services
        self._places = places
        self._language = language
        self._tasks = tasks
        self._followed: dict[ReplyRef, Log] = {}
        """Turns that another program is writing and that have watchers here."""

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

    def log_of(self, found: ReplySnapshot) -> Log:
        """Find the events already sent of a reply, or read it from its file."""
        log = self._followed.get(found.which)
        if log is None:
            log = Log()
            self._read(found, log)
            if not log.ended:
                self._followed[found.which] = log
                self._tasks.keep(asyncio.create_task(self._follow(found.which, log)))
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

        The reply's text may turn out to begin with thoughts, which are then removed: the rest is sent at the end only.
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
