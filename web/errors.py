"""Error responses of the API: one shape, in the reader's language, without paths or tracebacks."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from personalab.errors import (
    Because,
    Busy,
    ErrorKind,
    NotFound,
    PersonaLabError,
    ProviderError,
    Reason,
    StorageError,
    UserError,
    pydantic_reason,
    worded,
)
from personalab.i18n import FALLBACK
from personalab.serving.access import GuardedPaths
from personalab.texts import Language
from web.replies import TurnRejected

_log = logging.getLogger("personalab.web")


class ErrorDetail(BaseModel):
    """What went wrong, for programs and for people."""

    code: str = Field(description="A name that stays the same in every language")
    kind: ErrorKind = Field(description="Who has to act")
    message: str = Field(description="What, which, and what to do, in the reader's language")
    retryable: bool = Field(description="Whether the same call may succeed later")


class ErrorBody(BaseModel):
    """Every error has this shape."""

    error: ErrorDetail


_MEANINGS = {
    400: "The request cannot be done as it is",
    401: "The token is missing or wrong",
    403: "The request comes from a page of another site",
    404: "What was named does not exist",
    409: "Someone else is writing; try again later",
    408: "The body arrives too slowly",
    413: "The body is too large",
    415: "The request was sent as a form",
    421: "The server was called by a name that is not its own",
    422: "The request is not in the form that is described here",
    429: "Too much at once; try again later",
    500: "A file is missing or broken, or something went wrong inside",
    502: "The model or the embedder failed",
    503: "The server is ending, or cannot write now",
}
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody, "description": text} for status, text in _MEANINGS.items()
}
"""What any route may answer, as its description says."""


def status_of(error: PersonaLabError) -> int:
    """Choose the HTTP status of an error."""
    match error:
        case NotFound():
            return 404
        case UserError():
            return 401 if error.code == "token_wrong" else 400
        case Busy():
            return (
                429 if error.code.startswith("too_many_") else 503 if error.code == "server_ending" else 409
            )
        case ProviderError():
            return 502
        case StorageError():
            return 503 if error.code == "disk_full" else 500
        case _:
            return 500


def add_error_handlers(app: FastAPI, paths: GuardedPaths) -> None:
    """Word every error that can leave a route of ours."""

    async def known(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, PersonaLabError)
        status = status_of(error)
        if status >= 500:
            _log.warning("request failed", extra={"path": request.scope["path"], "code": error.code})
        told = fields_of(error, language_of(request.app.state))
        return answered(request, status, {**told, "seconds": error.params.get("seconds", 1)})

    async def refused(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, TurnRejected)
        return answered(request, _status_of_event(error.event), error.event)

    async def unreadable(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        language = language_of(request.app.state)
        return answered(request, 422, fields_of(_first_fault(error, language), language))

    async def http(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        if not paths.guards(request.scope["path"]):
            return JSONResponse({"detail": error.detail}, error.status_code, error.headers)
        code = {404: "no_such_address", 405: "wrong_method"}.get(error.status_code, "bad_request")
        words = {
            "path": request.scope["path"][:200],
            "method": request.method,
            "field": "body",
            "reason": _body_reason(error),
        }
        told = UserError(code, **words)
        return answered(
            request, error.status_code, fields_of(told, language_of(request.app.state)), error.headers
        )

    def answered(
        request: Request, status: int, told: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> JSONResponse:
        count_error(request.app.state, told["code"])
        return error_response(status, told, headers)

    app.add_exception_handler(PersonaLabError, known)
    app.add_exception_handler(TurnRejected, refused)
    app.add_exception_handler(RequestValidationError, unreadable)
    app.add_exception_handler(HTTPException, http)


def log_unexpected(path: str, error: Exception) -> None:
    """Log an unexpected error."""
    _log.error("request failed", exc_info=error, extra={"path": path})


def error_response(
    status: int, told: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Answer with an error."""
    detail = {name: told[name] for name in ("code", "kind", "message", "retryable")}
    found = {"cache-control": "no-store", **(headers or {})}
    if status in (429, 503):
        found.setdefault("retry-after", str(math.ceil(float(told.get("seconds", 1)))))
    return JSONResponse({"error": detail}, status_code=status, headers=found)


def fields_of(error: PersonaLabError, language: Language) -> dict[str, Any]:
    """Return an error's fields as they are sent."""
    return {
        "code": error.code,
        "kind": error.kind,
        "message": error.message(language),
        "retryable": error.retryable,
    }


def language_of(state: Any) -> Language:
    """Find the reader's language, also before the application has started."""
    desk = getattr(state, "desk", None)
    return desk.language if desk is not None else FALLBACK


def count_error(state: Any, code: str) -> None:
    """Count an error that is answered."""
    if (desk := getattr(state, "desk", None)) is not None:
        desk.metrics.errors.labels(code).inc()


def _status_of_event(event: Mapping[str, Any]) -> int:
    """Choose the status of a refusal that a graph reported as an event."""
    code, kind = str(event.get("code", "")), event.get("kind")
    if code in ("no_instance", "no_character", "no_background"):
        return 404
    known: dict[str, PersonaLabError] = {
        "user": UserError(code),
        "busy": Busy(code),
        "storage": StorageError(code),
        "provider": ProviderError(code),
    }
    return status_of(known.get(str(kind), PersonaLabError(code)))


def _body_reason(error: HTTPException) -> Because:
    """Return why a request was refused; FastAPI names a body that it could not parse by the cause alone."""
    parsed = error.__cause__ is None
    return error.detail if parsed else Reason("pydantic_json_invalid", text=error.detail)


def _first_fault(error: RequestValidationError, language: Language) -> UserError:
    """Name the first field that is wrong, as the caller wrote it."""
    first = error.errors()[0]
    # What is no JSON has no fields, only a place in the text.
    parts = () if first["type"] == "json_invalid" else first["loc"]
    place = ".".join(str(part) for part in parts if part not in ("body", "query", "path"))
    reason = worded(pydantic_reason(first), language)[:300]
    return UserError("bad_request", field=(place or "body")[:120], reason=reason)
