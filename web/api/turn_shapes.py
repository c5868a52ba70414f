"""Request and response models of turns, and of the events in their streams."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from nodes.chat_turn.append_input import MAX_INPUT_CHARACTERS
from personalab.results import ResultModel
from personalab.results.stories import PlotResult
from personalab.story.transcript import MAX_REQUEST_ID_CHARACTERS
from web.errors import ErrorDetail
from web.shapes import Fields, RequestModel, WarningResponse
from web.streaming import described


class Saying(RequestModel):
    """What a person says."""

    text: str = Field(min_length=1, max_length=MAX_INPUT_CHARACTERS, description="Word for word")
    request_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_REQUEST_ID_CHARACTERS,
        description="A fresh id of this call; the same again gives the same turn instead of another one",
    )


class TurnStartedResponse(ResultModel):
    """A turn that was begun; it goes on in the server."""

    instance_id: str
    session_id: str
    turn: int
    attempt: int = Field(description="Which try at the turn's reply this is, from 1")
    stream: str = Field(description="Where to watch it, as server-sent events")


class CurrentResponse(ResultModel):
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


class TokenResponse(ResultModel):
    """More of the reply; the event's id is the offset it leads to."""

    turn: int
    text: str
    content: str = Field(description="The same, under the name that others know")
    offset: int = Field(description="How many bytes of UTF-8 of the reply stand before it")


class ReasoningEventData(ResultModel):
    """More of what the model thinks, apart from the reply; the event has no id."""

    turn: int
    text: str
    offset: int = Field(
        description="How many bytes of UTF-8 of the reasoning stand before it; 0 starts it over, also on a return"
    )


class TurnWarning(WarningResponse):
    """Something the reader should know about a turn."""

    turn: int | None


class DoneResponse(ResultModel):
    """The reply is whole and its line is closed."""

    turn: int
    attempt: int = Field(
        description="Which try this is: a model that says nothing is asked once more automatically"
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


class CareResponse(ResultModel):
    """Something was started or done automatically after the turn."""

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
