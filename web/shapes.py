"""Base classes and field types that the API's models share."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import BaseModel, ConfigDict, Field

from personalab.results import Readable, ResultModel
from web.jobs import Status

_ID = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"


class RequestModel(BaseModel):
    """What a client sends: fields it does not have are refused, not ignored."""

    model_config = ConfigDict(extra="forbid", strict=True)


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


class Named(ResultModel):
    """Something of the library and what it is called; its id where it is not there any more."""

    id: Readable
    name: Readable


class WarningResponse(ResultModel):
    """Something the reader should know; one a category."""

    category: str
    message: Readable
    current_value: int | None = None
    threshold: int | None = None
    suggestion: Readable | None = None


class JobStarted(ResultModel):
    """Work that was begun and goes on in the server."""

    job_id: str
    kind: str
    subject: str
    stream: str = Field(description="Where to follow it, as server-sent events")


class JobState(ResultModel):
    """How a job stands."""

    job_id: str
    kind: str
    subject: str
    status: Status
    progress: Fields | None = None
    result: Fields | None = None
    error: Fields | None = None
