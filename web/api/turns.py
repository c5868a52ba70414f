"""Routes that start, retry, watch and stop turns."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from nodes.chat_turn.append_input import MAX_INPUT_CHARACTERS
from nodes.chat_turn.state import TurnInput
from personalab.results import Result
from personalab.results.stories import PlotResult
from personalab.story.lines import MAX_REQUEST_ID_CHARACTERS, AssistantLine
from web.desk import ContextDep
from web.errors import ErrorDetail
from web.shapes import (
    Fields,
    InstanceId,
    QueryInstanceId,
    QuerySessionId,
    RequestModel,
    SessionId,
    WarningResponse,
)
from web.streaming import described, events, resumed_at
from web.turns import ReplyQuery, ReplyRef
from web.watching import size_of

router = APIRouter(prefix="/api", tags=["turns"])

TurnNumber = Annotated[int, Query(ge=0, le=10**9)]
Attempt = Annotated[
    int | None, Query(ge=1, le=10**6, description="Which try at the reply; the newest if left out")
]


class Saying(RequestModel):
    """What a person says."""

    text: str = Field(min_length=1, max_length=MAX_INPUT_CHARACTERS, description="Word for word")
    request_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_REQUEST_ID_CHARACTERS,
        description="A fresh id of this call; the same again gives the same turn instead of another one",
    )


class TurnStartedResponse(Result):
    """A turn that was begun; it goes on in the server."""

    instance_id: str
    session_id: str
    turn: int
    attempt: int = Field(description="Which try at the turn's reply this is, from 1")
    stream: str = Field(description="Where to watch it, as server-sent events")


class StopResponse(Result):
    """What was interrupted."""

    instance_id: str
    stopped: str = Field(description="What was being done: say, retry, summarize, …")


class CurrentResponse(Result):
    """A reply as its file holds it now."""

    instance_id: str
    session_id: str
    turn: int
    attempt: int
    status: Literal["writing", "unanswered", "done", "interrupted", "empty", "error"]
    content: str
    offset: int = Field(
        description="How many bytes of UTF-8 the content has: where a stream goes on after it"
    )
    reasoning: str = Field(description="What the model thought")
    timestamp: str | None = None
    interrupted: bool = False
    empty: bool = False
    error: bool = False
    truncated: bool = Field(default=False, description="Whether the model stopped at its length limit")
    plot_state: PlotResult


# --- events of a stream


class TokenResponse(Result):
    """More of the reply; the event's id is the offset it leads to."""

    turn: int
    text: str
    content: str = Field(description="The same, under the name that others know")
    offset: int = Field(description="How many bytes of UTF-8 of the reply stand before it")


class ReasoningEventData(Result):
    """More of what the model thinks, apart from the reply; the event has no id."""

    turn: int
    text: str
    offset: int = Field(
        description="How many bytes of UTF-8 of the reasoning stand before it; 0 starts it over, also on a return"
    )


class TurnWarning(WarningResponse):
    """Something the reader should know about a turn."""

    turn: int | None


class DoneResponse(Result):
    """The reply is whole and its line is closed."""

    turn: int
    attempt: int = Field(
        description="Which try this is: a model that says nothing is asked once more by itself"
    )
    session_id: str
    content: str = Field(description="The reply; it counts where the tokens differ from it")
    interrupted: bool
    empty: bool
    error: bool
    truncated: bool = Field(description="Whether the model stopped at its length limit")
    plot_state: Fields
    tokens: Fields = Field(description="How long the prompt was; empty where it is not known any more")
    usage: Fields | None = Field(description="What the provider says it used")


class TurnError(ErrorDetail):
    """The turn ended early, or its reply did."""

    turn: int | None


class CareResponse(Result):
    """Something was begun or done by itself after the turn."""

    turn: int | None
    task: str
    status: str
    message: str


TURN_STREAM = described(
    reasoning=ReasoningEventData,
    token=TokenResponse,
    warning=TurnWarning,
    error=TurnError,
    done=DoneResponse,
    care=CareResponse,
)


# --- calls


@router.post("/instances/{instance_id}/turns", status_code=202)
async def begin_turn(desk: ContextDep, instance_id: InstanceId, asked: Saying) -> TurnStartedResponse:
    """Say something. The answer comes as soon as it is in the file; the reply is watched at ``stream``."""
    call: TurnInput = {"instance_id": instance_id, "user_input": asked.text, "action": "say"}
    if asked.request_id is not None:
        call["request_id"] = asked.request_id
    return _begun(await desk.turns.begin(call))


@router.post("/instances/{instance_id}/retry", status_code=202)
async def retry_turn(desk: ContextDep, instance_id: InstanceId) -> TurnStartedResponse:
    """Answer the last turn again, if its reply is missing, broken off, empty or failed."""
    return _begun(await desk.turns.begin({"instance_id": instance_id, "action": "retry"}))


@router.post("/instances/{instance_id}/stop")
async def stop_turn(desk: ContextDep, instance_id: InstanceId) -> StopResponse:
    """Interrupt what is being written; what is written so far stays, marked as interrupted."""
    return StopResponse(instance_id=instance_id, stopped=await desk.turns.stop(instance_id))


@router.get("/chat/stream", response_class=StreamingResponse, responses=TURN_STREAM)
async def watch_turn(
    desk: ContextDep,
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
    stream = await desk.turns.watch(wanted, resumed_at(last_event_id, offset))
    return events(stream, desk.seats)


@router.get("/sessions/{session_id}/current_response")
async def current_response(
    desk: ContextDep,
    session_id: SessionId,
    instance_id: QueryInstanceId,
    turn: TurnNumber,
    attempt: Attempt = None,
) -> CurrentResponse:
    """Read what the file holds of a reply, also while it is being written."""
    found = await desk.turns.find(ReplyQuery(instance_id, turn, session_id, attempt))
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


def _begun(which: ReplyRef) -> TurnStartedResponse:
    """Return where to watch a turn."""
    query = urlencode(asdict(which))
    return TurnStartedResponse(**asdict(which), stream=f"/api/chat/stream?{query}")
