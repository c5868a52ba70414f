"""Who is let in? Nobody through a foreign name or page, nobody without the token, nothing that is too large.

Plain ASGI, so that streams pass untouched.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from personalab.serving.address import Names
from personalab.texts import Language, say

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "personalab"
_SAFE = ("GET", "HEAD", "OPTIONS")
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")
"""What a form of any page can send without being asked."""


@dataclass(frozen=True, slots=True)
class Ours:
    """Which paths a door guards, and how; others belong to whoever else is in the same server."""

    guarded: tuple[str, ...] | None = None
    """Paths (or what begins with them and a slash) that are behind the door; all, if there is nobody else."""
    open: tuple[str, ...] = ()
    """Paths behind the door that need no token: the page's own files, the way to log in, a sign of life."""
    large: tuple[str, ...] = ()
    """Paths that take large bodies."""

    def guards(self, path: str) -> bool:
        """Tell whether a path is behind the door."""
        return self.guarded is None or _below(path, self.guarded)

    def is_open(self, path: str) -> bool:
        """Tell whether a path needs no token."""
        return _below(path, self.open)


def _below(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or (root != "/" and path.startswith(f"{root}/")) for root in roots)


class Door:
    """Stands before an application and refuses what must not reach it."""

    def __init__(
        self,
        app: App,
        *,
        ours: Ours,
        names: Names,
        language: Callable[[], Language],
        token: str | None = None,
        max_body: int = 4 * 1024 * 1024,
        max_large_body: int = 64 * 1024 * 1024,
    ) -> None:
        self._app = app
        self._ours = ours
        self._names = names
        self._language = language
        self._token = token
        self._max_body = max_body
        self._max_large_body = max_large_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] not in ("http", "websocket") or not self._ours.guards(scope["path"]):
            await self._app(scope, receive, send)
            return
        headers = _headers(scope)
        limit = self._max_large_body if _below(scope["path"], self._ours.large) else self._max_body
        refusal = (
            self._foreign(scope, headers)
            or self._unknown(scope, headers)
            or _from_form(scope, headers)
            or _too_large(headers, limit)
        )
        if refusal is not None:
            await self._refuse(scope, send, *refusal, limit)
            return
        sized = _Sized(receive, send, limit, lambda: self._refuse(scope, send, 413, "body_too_large", limit))
        try:
            await self._app(scope, sized.receive, sized.send)
        except Exception:
            if not sized.refused:
                raise

    def _foreign(self, scope: Scope, headers: dict[str, list[str]]) -> tuple[int, str] | None:
        """Refuse what comes through another name, or from a page of another site."""
        hosts = headers.get("host", [])
        if len(hosts) != 1 or not self._names.is_ours(hosts[0]):
            return 421, "foreign_host"
        for origin in headers.get("origin", []):
            if not self._names.is_our_origin(origin, hosts[0]):
                return 403, "foreign_origin"
        # A link to a page of ours may stand anywhere; nothing else of ours is for other sites.
        is_link = scope.get("method") in _SAFE and headers.get("sec-fetch-mode") == ["navigate"]
        is_foreign = headers.get("sec-fetch-site", ["none"])[0] in ("cross-site", "same-site")
        return (403, "foreign_origin") if is_foreign and not is_link else None

    def _unknown(self, scope: Scope, headers: dict[str, list[str]]) -> tuple[int, str] | None:
        """Refuse who has not shown the token, where there is one."""
        if self._token is None or self._ours.is_open(scope["path"]):
            return None
        given = headers.get("authorization", [])
        if len(given) == 1 and is_bearer(given[0], self._token):
            return None
        if not given and any(has_pass(value, self._token) for value in headers.get("cookie", [])):
            return None
        return 401, "token_wanted"

    async def _refuse(self, scope: Scope, send: Send, status: int, code: str, limit: int) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        message = say(code, self._language(), limit=limit // (1024 * 1024))
        await refuse(send, status, code, message)


def _from_form(scope: Scope, headers: dict[str, list[str]]) -> tuple[int, str] | None:
    """Refuse what a form could have sent, also where a call has no body that could be wrong."""
    kinds = {value.partition(";")[0].strip().lower() for value in headers.get("content-type", [])}
    is_form = scope.get("method") not in _SAFE and not kinds.isdisjoint(_FORMS)
    return (415, "form_refused") if is_form else None


def _too_large(headers: dict[str, list[str]], limit: int) -> tuple[int, str] | None:
    """Refuse a body that says it is too large."""
    for length in headers.get("content-length", []):
        if not (length.isascii() and length.isdigit()) or len(length) > 18 or int(length) > limit:
            return 413, "body_too_large"
    return None


class _Sized:
    """Counts a body that does not say how large it is; when it grows too large, the caller seems to go away."""

    def __init__(
        self, receive: Receive, send: Send, limit: int, refuse: Callable[[], Awaitable[None]]
    ) -> None:
        self._receive = receive
        self._send = send
        self._limit = limit
        self._refuse = refuse
        self._seen = 0
        self._started = False
        self.refused = False

    async def receive(self) -> Message:
        """Pass on the next piece of the body."""
        if self.refused:
            return {"type": "http.disconnect"}
        message = await self._receive()
        if message["type"] == "http.request":
            self._seen += len(message.get("body", b""))
            if self._seen > self._limit:
                self.refused = True
                if not self._started:
                    await self._refuse()
                return {"type": "http.disconnect"}
        return message

    async def send(self, message: Message) -> None:
        """Pass on the answer, unless the request was refused meanwhile."""
        if not self.refused:
            self._started = True
            await self._send(message)


async def refuse(send: Send, status: int, code: str, message: str) -> None:
    """Answer with an error in the shape every entrance over HTTP uses."""
    error = {"code": code, "kind": "user", "message": message, "retryable": status in (429, 503)}
    body = json.dumps({"error": error}, ensure_ascii=False).encode("utf-8")
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="personalab"'))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _headers(scope: Scope) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


def is_bearer(value: str, token: str) -> bool:
    """Tell whether an ``Authorization`` header carries the token, taking the same time for every wrong one."""
    scheme, _, rest = value.partition(" ")
    given = rest.strip().encode("latin-1")
    return scheme.lower() == "bearer" and hmac.compare_digest(given, token.encode("utf-8"))


def is_token(given: str, token: str) -> bool:
    """Compare a token as it was typed."""
    return hmac.compare_digest(given.strip().encode("utf-8", "replace"), token.encode("utf-8"))


def pass_for(token: str) -> str:
    """Make what a browser keeps instead of the token itself."""
    made = hmac.new(token.encode("utf-8"), b"personalab browser pass", hashlib.sha256).digest()
    return base64.urlsafe_b64encode(made).decode("ascii").rstrip("=")


def has_pass(cookies: str, token: str) -> bool:
    """Tell whether a ``Cookie`` header carries the pass of this token, whatever else other programs put there."""
    named = (part.strip().partition("=") for part in cookies.split(";"))
    wanted = pass_for(token).encode()
    return any(
        name == COOKIE and hmac.compare_digest(value.encode("utf-8", "replace"), wanted)
        for name, _, value in named
    )
