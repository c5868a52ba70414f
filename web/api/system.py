"""Routes for health, metrics, server information and login."""

from __future__ import annotations

import asyncio
import math
from typing import Annotated, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import Field

from personalab.errors import Busy, UserError
from personalab.results import ResultModel
from personalab.serving.access import COOKIE, FailedLogins, client_of, is_token, pass_for
from web.desk import ContextDep
from web.shapes import RequestModel

router = APIRouter(tags=["system"])
_TEXT = "text/plain; version=0.0.4; charset=utf-8"


class Health(ResultModel):
    """A sign of life."""

    status: Literal["ok", "ending"]


class Info(ResultModel):
    """What a page needs to know first."""

    name: str
    version: str
    language: str
    language_is_chosen: bool = Field(
        description="Whether a person has set the language, or it is the default"
    )
    model: str
    is_rehearsal: bool = Field(description="Whether a stand-in answers because no model is configured")
    turns_running: int


class Login(RequestModel):
    """The way in for a browser."""

    token: Annotated[str, Field(min_length=1, max_length=4096)]


class LoggedIn(ResultModel):
    """Whether a token is needed at all; if so, the browser has a pass now."""

    needed: bool


@router.get("/healthz")
async def healthz(desk: ContextDep) -> Health:
    """Tell whether the server takes turns."""
    return Health(status="ending" if desk.places.closing else "ok")


@router.get("/metrics", response_class=PlainTextResponse, responses={200: {"content": {"text/plain": {}}}})
async def metrics(desk: ContextDep) -> PlainTextResponse:
    """Tell what was counted, in Prometheus' format."""
    return PlainTextResponse(desk.metrics.page(), media_type=_TEXT)


@router.get("/api/info")
async def info(desk: ContextDep, request: Request) -> Info:
    """Tell what this server is."""
    model = desk.services.model_name()
    language, chosen = await asyncio.to_thread(desk.services.preferences.chosen_language)
    return Info(
        name="PersonaLab",
        version=request.app.version,
        language=language,
        language_is_chosen=chosen,
        model=model if "/" not in model else f"{model.partition(':')[0]}:…",
        is_rehearsal=model == "rehearsal",
        turns_running=desk.turns.count,
    )


@router.post("/api/login")
async def login(desk: ContextDep, request: Request, response: Response, asked: Login) -> LoggedIn:
    """Exchange the token for a pass that the browser keeps and pages cannot read."""
    token: str | None = request.app.state.token
    if token is None:
        return LoggedIn(needed=False)
    logins: FailedLogins = request.app.state.logins
    client = client_of(request.scope)
    seconds = logins.wait(client)
    if not logins.admit(client, asked.token, is_right=is_token(asked.token, token)):
        raise Busy("too_many_logins", seconds=math.ceil(seconds)) if seconds else UserError("token_wrong")
    response.set_cookie(
        COOKIE,
        pass_for(token),
        max_age=30 * 24 * 3600,
        httponly=True,
        samesite="strict",
        secure=request.scope["scheme"] == "https",
    )
    return LoggedIn(needed=True)


@router.post("/api/logout")
async def logout(response: Response) -> LoggedIn:
    """Take the pass back from this browser."""
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return LoggedIn(needed=True)
