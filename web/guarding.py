"""Middleware of the page's API: access, rate limits, security headers, unexpected errors and metrics."""

from __future__ import annotations

import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from personalab.errors import PersonaLabError
from personalab.serving.access import AccessControl, client_of
from personalab.texts import say
from personalab.texts.actions import rendering_for
from web.desk import AppContext
from web.errors import count_error, error_response, fields_of, language_of, log_unexpected

_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", _CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class GuardMiddleware:
    """Refuses what must not reach the API, slows down who changes things too often, and counts every response.

    A refusal has the same headers as any other response and counts against nobody's rate.
    """

    def __init__(self, app: ASGIApp, *, state: Any, access: AccessControl) -> None:
        self._app = app
        self._state = state
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and watch what becomes of it."""
        if scope["type"] not in ("http", "websocket") or not self._access.paths.guards(scope["path"]):
            await self._app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await self._admit(scope, receive, send)
            return
        begun, status, streams = time.monotonic(), 0, False
        await self._look_up_language(scope["path"])

        async def sent(message: Message) -> None:
            nonlocal status, streams
            if message["type"] == "http.response.start":
                status = message["status"]
                given = {name.lower(): value for name, value in message["headers"]}
                streams = given.get(b"content-type", b"").startswith(b"text/event-stream")
                extra = [(name, value) for name, value in _HEADERS if name not in given]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        try:
            with rendering_for("page"):
                await self._admit(scope, receive, sent)
        except Exception as error:
            if status:
                raise  # half an answer is out; the server breaks the connection off
            log_unexpected(scope["path"], error)
            count_error(self._state, "internal_error")
            told = fields_of(PersonaLabError("internal_error"), language_of(self._state))
            await error_response(500, told)(scope, receive, sent)
        finally:
            self._count(scope, status, None if streams else time.monotonic() - begun)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await self._access.admit(scope, receive, send)
        if body is None:
            return
        seconds = self._seconds_to_wait(scope)
        app = _too_often(self._state, seconds) if seconds else self._app
        try:
            await app(scope, body.receive, body.send)
        except Exception:
            if not body.is_refused:
                raise

    def _seconds_to_wait(self, scope: Scope) -> float:
        """Count a request that changes something against its client's rate."""
        is_free = scope["type"] != "http" or scope["path"] == "/mcp" or scope["method"] in ("GET", "HEAD")
        return 0.0 if is_free else self._state.rate.wait(client_of(scope))

    async def _look_up_language(self, path: str) -> None:
        desk: AppContext | None = getattr(self._state, "desk", None)
        if desk is not None and not path.startswith("/page/"):
            await desk.look_up_language()

    def _count(self, scope: Scope, status: int, seconds: float | None) -> None:
        desk: AppContext | None = getattr(self._state, "desk", None)
        if desk is None:
            return
        method = scope["method"] if scope["method"] in _METHODS else "other"
        route = getattr(scope.get("route"), "path", "other")
        desk.metrics.requests.labels(method, route, str(status)).inc()
        if seconds is not None:
            desk.metrics.request_seconds.labels(method, route).observe(seconds)


def _too_often(state: Any, seconds: float) -> ASGIApp:
    count_error(state, "too_many_requests")
    message = say("too_many_requests", language_of(state), seconds=f"{max(seconds, 0.1):.1f}")
    told = {"code": "too_many_requests", "kind": "busy", "message": message, "retryable": True}
    return error_response(429, {**told, "seconds": seconds})
