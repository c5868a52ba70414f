"""Middleware for metrics, security headers, unexpected errors and rate limits."""

from __future__ import annotations

import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from personalab.errors import PersonaLabError
from personalab.serving.access import GuardedPaths, client_of
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


class MetricsMiddleware:
    """Counts requests, adds the headers that keep the page safe, and words what nobody expected.

    Stands before the door, so that a refusal has the same headers.
    """

    def __init__(self, app: ASGIApp, *, state: Any, paths: GuardedPaths) -> None:
        self._app = app
        self._state = state
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and watch what becomes of it."""
        if scope["type"] != "http" or not self._paths.guards(scope["path"]):
            await self._app(scope, receive, send)
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
                await self._app(scope, receive, sent)
        except Exception as error:
            if status:
                raise  # half an answer is out; the server breaks the connection off
            log_unexpected(scope["path"], error)
            count_error(self._state, "internal_error")
            told = fields_of(PersonaLabError("internal_error"), language_of(self._state))
            await error_response(500, told)(scope, receive, sent)
        finally:
            self._count(scope, status, None if streams else time.monotonic() - begun)

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


class RateLimitMiddleware:
    """Slows down a client that changes things too often.

    Stands behind the door, so that what is refused there does not count against anyone.
    """

    def __init__(self, app: ASGIApp, *, state: Any, paths: GuardedPaths) -> None:
        self._app = app
        self._state = state
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, unless its client calls too often."""
        seconds = 0.0
        if scope["type"] == "http" and self._paths.guards(scope["path"]) and scope["path"] != "/mcp":
            seconds = (
                self._state.rate.wait(client_of(scope)) if scope["method"] not in ("GET", "HEAD") else 0.0
            )
        app = _too_often(self._state, seconds) if seconds else self._app
        await app(scope, receive, send)


def _too_often(state: Any, seconds: float) -> ASGIApp:
    count_error(state, "too_many_requests")
    message = say("too_many_requests", language_of(state), seconds=f"{max(seconds, 0.1):.1f}")
    told = {"code": "too_many_requests", "kind": "busy", "message": message, "retryable": True}
    return error_response(429, {**told, "seconds": seconds})
