"""Routes for the state of a story and the turns of its sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from personalab.dialogue import well_formed
from personalab.errors import NotFound, PersonaLabError
from personalab.operations.instances import PAGE_TURNS
from personalab.results import ResultModel
from personalab.results.stories import PlotResult
from personalab.services import Services
from personalab.storage.story_lock import held_turn, running
from personalab.story.director import current_point, mark_outline
from personalab.story.records import NO_BACKGROUND, Background, InstanceState, PlotStatus
from personalab.story.transcript import AssistantLine, Transcript, Turn, usable_reply
from web.desk import ContextDep
from web.replies import TURN_TASKS, ReplyRef, succeeding_attempt
from web.shapes import InstanceId, Named, SessionId

router = APIRouter(prefix="/api/instances/{instance_id}", tags=["sessions"])

_MOST = 200
_PAGE_CHARACTERS = 1_000_000
"""A page has no more turns than fit this, but at least one."""


class OutlinePointResponse(ResultModel):
    """A point of the outline with where it stands, as the prompt shows it."""

    index: int
    content: str
    status: PlotStatus


class Doing(ResultModel):
    """What is being done with a story right now; where a reply is being written, which one."""

    task: str = Field(description="say, retry, summarize, update-memory, …")
    session_id: str
    turn: int | None = None
    attempt: int | None = None


class StoryState(ResultModel):
    """Everything a chat shows around what is said."""

    instance_id: str
    created_at: str
    character: Named
    background: Named | None
    current_session_id: str
    session_ids: list[str] = Field(description="The oldest first")
    plot_state: PlotResult
    outline: list[OutlinePointResponse]
    current_point: int | None = Field(description="The index of the point the story should move to")
    director_enabled: bool = Field(description="Whether replies move the plot")
    show_markers: bool = Field(description="Whether views show the plot markers in replies")
    running: Doing | None
    awaited_turn: int | None = Field(description="The turn whose reply a client of MCP writes elsewhere")
    total: int = Field(description="How many turns the current session has")
    version: str = Field(description="Changes whenever something was said, answered or summed up")


class UserLineResponse(ResultModel):
    """What the person said."""

    content: str
    timestamp: str


class Replied(ResultModel):
    """One try at a reply; it is not closed while it is being written, or where its writer died."""

    attempt: int
    content: str
    timestamp: str
    interrupted: bool
    empty: bool = Field(description="Whether it has no words")
    error: bool
    truncated: bool = Field(description="Whether the model stopped at its length limit")
    closed: bool
    note: str = Field(
        description="The end of the content that says why the reply failed, and is no speech; mostly empty"
    )
    has_reasoning: bool = Field(description="Whether the model thought before it spoke")
    reasoning: str | None = Field(description="What it thought; only where ``reasoning=true`` asks for it")


class TurnShown(ResultModel):
    """One turn."""

    turn: int
    user: UserLineResponse | None = Field(description="Empty where the character opens the story")
    replies: list[Replied]
    summaries: list[str] = Field(description="What stands right before it about earlier times")


class TurnPage(ResultModel):
    """Some turns of a session, the oldest first."""

    session_id: str
    continued_from: str | None
    turns: list[TurnShown]
    first: int = Field(description="The place of the first of them in the session, from 0")
    older: int | None = Field(description="Give it as ``before`` for the page before this one")
    trailing_summaries: list[str] = Field(description="What stands after the last turn")
    total: int


class SessionShown(ResultModel):
    """One session of a story."""

    session_id: str
    continued_from: str | None
    turns: int | None = Field(description="Empty where its file cannot be read")
    is_current: bool


class SessionList(ResultModel):
    """The sessions of a story, the oldest first."""

    sessions: list[SessionShown]


@router.get("")
async def story_state(desk: ContextDep, instance_id: InstanceId) -> StoryState:
    """Tell where a story stands: who, where, in which session, at which point, and what is being done with it."""
    return await asyncio.to_thread(_state, desk.services, instance_id, desk.turns.running(instance_id))


@router.get("/sessions")
async def list_sessions(desk: ContextDep, instance_id: InstanceId) -> SessionList:
    """List a story's sessions; each but the first goes on from another one."""
    return await asyncio.to_thread(_sessions, desk.services, instance_id)


@router.get("/sessions/{session_id}/turns")
async def read_turns(
    desk: ContextDep,
    instance_id: InstanceId,
    session_id: SessionId,
    before: Annotated[
        int | None, Query(ge=0, le=10**9, description="Turns before this place; the newest if left out")
    ] = None,
    count: Annotated[int, Query(ge=1, le=_MOST)] = PAGE_TURNS,
    *,
    reasoning: Annotated[bool, Query(description="Whether to include what the model thought")] = False,
) -> TurnPage:
    """Read a session's newest turns, or those before a place; what is being written is shown as far as it is.

    A page may have fewer turns than asked for: together they have at most a million characters, or it is one turn.
    """
    page = _PageRequest(instance_id, session_id, before, count, with_reasoning=reasoning)
    return await asyncio.to_thread(_page, desk.services, page)


@dataclass(frozen=True, slots=True)
class _PageRequest:
    """Which turns to read."""

    instance_id: str
    session_id: str
    before: int | None
    count: int
    with_reasoning: bool


# --- the story


def _state(services: Services, instance_id: str, here: ReplyRef | None) -> StoryState:
    stories = services.stories
    state = stories.instance(instance_id)
    session = stories.session(instance_id, state.current_session_id)
    background, preferences = _background(services, state), services.preferences.read()
    point = current_point(background, state.plot_state)
    return StoryState(
        instance_id=instance_id,
        created_at=well_formed(state.created_at),
        character=Named(id=state.character_id, name=_character_name(services, state)),
        background=_named(state, background),
        current_session_id=state.current_session_id,
        session_ids=_session_ids(services, state),
        plot_state=PlotResult(**state.plot_state.fields()),
        outline=[_point(**point) for point in mark_outline(background, state.plot_state)],
        current_point=point.index if point else None,
        director_enabled=preferences.director.enabled,
        show_markers=preferences.config.show_markers,
        running=_doing(services, state, here, session.view()),
        awaited_turn=held_turn(stories.instances / instance_id),
        total=len(session.transcript.turns),
        version=f"{state.current_session_id}:{session.size}",
    )


def _character_name(services: Services, state: InstanceState) -> str:
    character = services.stories.character_state(state.instance_id)
    return well_formed(services.stories.people(state, character, "").character)


def _background(services: Services, state: InstanceState) -> Background:
    """Read the background; one that cannot be read has no outline, as in the prompt."""
    if state.background_id is None:
        return NO_BACKGROUND
    try:
        return services.stories.background(state.background_id)
    except PersonaLabError:
        return NO_BACKGROUND


def _named(state: InstanceState, background: Background) -> Named | None:
    if state.background_id is None:
        return None
    known = well_formed(state.background_id)
    return Named(id=known, name=well_formed(background.name) or known)


def _point(index: int, content: str, status: PlotStatus) -> OutlinePointResponse:
    return OutlinePointResponse(index=index, content=well_formed(content), status=status)


def _doing(services: Services, state: InstanceState, here: ReplyRef | None, seen: Transcript) -> Doing | None:
    """Find what is being done, by this server or by another program."""
    held = running(services.stories.instances / state.instance_id)
    task = str((held or {}).get("task", "say"))[:80]
    if here is not None:
        turn = seen.last if seen.last and seen.last.number == here.turn else None
        attempt = succeeding_attempt(turn, here.attempt) if turn else here.attempt
        return Doing(task=task, session_id=here.session_id, turn=here.turn, attempt=attempt)
    if held is None:
        return None
    last, doing = seen.last, Doing(task=well_formed(task), session_id=state.current_session_id)
    if task not in TURN_TASKS or last is None or last.settled:
        return doing
    is_open = last.last_reply is not None and not last.last_reply.closed
    return doing.model_copy(
        update={"turn": last.number, "attempt": len(last.replies) + (0 if is_open else 1)}
    )


# --- its sessions


def _session_ids(services: Services, state: InstanceState) -> list[str]:
    """List the sessions; the current one by the name the story calls it, also where its file has the older name."""
    current = services.stories.session_path(state.instance_id, state.current_session_id).stem
    found = services.stories.session_ids(state.instance_id)
    return [state.current_session_id if name == current else name for name in found]


def _sessions(services: Services, instance_id: str) -> SessionList:
    state = services.stories.instance(instance_id)
    rows: list[SessionShown] = []
    for session_id in _session_ids(services, state):
        try:
            transcript = services.stories.session(instance_id, session_id).transcript
        except PersonaLabError:
            transcript = None
        rows.append(
            SessionShown(
                session_id=session_id,
                continued_from=services.stories.session_before(instance_id, session_id),
                turns=len(transcript.turns) if transcript else None,
                is_current=session_id == state.current_session_id,
            )
        )
    return SessionList(sessions=rows)


def _page(services: Services, asked: _PageRequest) -> TurnPage:
    stories, instance_id, session_id = services.stories, asked.instance_id, asked.session_id
    if session_id not in _session_ids(services, stories.instance(instance_id)):
        raise NotFound("no_session", instance_id=instance_id, session_id=session_id)
    transcript = stories.session(instance_id, session_id).view()
    total = len(transcript.turns)
    end = total if asked.before is None else min(asked.before, total)
    first = _first_of_page(transcript.turns, end, asked)
    return TurnPage(
        session_id=session_id,
        continued_from=stories.session_before(instance_id, session_id),
        turns=[_turn(turn, with_reasoning=asked.with_reasoning) for turn in transcript.turns[first:end]],
        first=first,
        older=first or None,
        trailing_summaries=[well_formed(note.content) for note in transcript.trailing]
        if end == total
        else [],
        total=total,
    )


def _first_of_page(turns: Sequence[Turn], end: int, asked: _PageRequest) -> int:
    """Find where the page that ends at a place begins: it has so many turns, or fewer where they are huge."""
    first, left = end, _PAGE_CHARACTERS
    while first > max(end - asked.count, 0):
        turn = turns[first - 1]
        left -= turn.characters
        if asked.with_reasoning:
            left -= sum(len(line.reasoning) for line in turn.replies)
        if left < 0 and first < end:
            break
        first -= 1
    return first


def _turn(turn: Turn, *, with_reasoning: bool) -> TurnShown:
    user = turn.user
    return TurnShown(
        turn=turn.number,
        user=UserLineResponse(content=well_formed(user.content), timestamp=well_formed(user.timestamp))
        if user
        else None,
        replies=[
            _reply(line, attempt, with_reasoning=with_reasoning)
            for attempt, line in enumerate(turn.replies, start=1)
        ],
        summaries=[well_formed(note.content) for note in turn.notes],
    )


def _is_wordless(line: AssistantLine) -> bool:
    """Return whether an ended reply has nothing but markers, as ones of earlier versions may."""
    return line.closed and not line.error and usable_reply(line) is None


def _reply(line: AssistantLine, attempt: int, *, with_reasoning: bool) -> Replied:
    line = replace(line, content=well_formed(line.content))
    return Replied(
        attempt=attempt,
        content=line.content,
        timestamp=well_formed(line.timestamp),
        interrupted=line.interrupted,
        empty=line.empty or _is_wordless(line),
        error=line.error,
        truncated=line.truncated,
        closed=line.closed,
        note=line.content[len(usable_reply(line) or "") :].lstrip() if line.error and not line.empty else "",
        has_reasoning=bool(line.reasoning.strip()),
        reasoning=well_formed(line.reasoning) if with_reasoning else None,
    )
