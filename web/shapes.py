"""Base classes and field types that the API's models share."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from personalab.dialogue import well_formed
from personalab.story.records import PlotStatus
from web.jobs import Status

_ID = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"


class RequestModel(BaseModel):
    """What a client sends: fields it does not have are refused, not ignored."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ResponseModel(BaseModel):
    """What a client gets."""


def _readable(text: object) -> object:
    return well_formed(text) if isinstance(text, str) else text


Readable = Annotated[str, BeforeValidator(_readable)]
"""A text of a person, a model or a file, which may hold halves of characters that cannot be sent."""
Id = Annotated[str, Field(pattern=_ID)]
InstanceId = Annotated[str, Path(pattern=_ID, description="The story's id")]
CharacterId = Annotated[str, Path(pattern=_ID)]
BackgroundId = Annotated[str, Path(pattern=_ID)]
SessionId = Annotated[str, Path(pattern=_ID)]
QueryInstanceId = Annotated[str, Query(pattern=_ID, description="The story's id")]
QuerySessionId = Annotated[
    str | None, Query(pattern=_ID, description="One of the story's sessions; the current one if left out")
]
Fields = dict[str, Any]


class Named(ResponseModel):
    """Something of the library and what it is called; its id where it is not there any more."""

    id: Readable
    name: Readable


class Plot(ResponseModel):
    """Where the story stands in its outline, and how many replies came without a marker."""

    current_plot_index: int
    current_status: PlotStatus
    no_update_count: int


class WarningResponse(ResponseModel):
    """Something the reader should know; one a category."""

    category: str
    message: Readable
    current_value: int | None = None
    threshold: int | None = None
    suggestion: Readable | None = None


class JobStarted(ResponseModel):
    """Work that was begun and goes on in the server."""

    job_id: str
    kind: str
    subject: str
    stream: str = Field(description="Where to follow it, as server-sent events")


class JobState(ResponseModel):
    """How a job stands."""

    job_id: str
    kind: str
    subject: str
    status: Status
    progress: Fields | None = None
    result: Fields | None = None
    error: Fields | None = None
