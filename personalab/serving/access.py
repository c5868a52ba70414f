"""Access control for HTTP: host names, origins, the token, request bodies, and limits per client.

Plain ASGI, so that streams pass untouched.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import json
import math
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from personalab.serving.server import HostNames
from personalab.texts import Language, say

_KNOWN = 4_096
"""Number of clients remembered; the one seen longest ago is dropped first."""
_REMEMBERED_CREDENTIALS = 32

Clock = Callable[[], float]


def one_client(address: str) -> str:
    """Return the client an address belongs to: in IPv6 a client has a whole /64 network."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Address(int(found) >> 64 << 64))


class Rate:
    """A token bucket per client: so many calls a second on average, and so many at once."""

    def __init__(self, a_second: float, at_once: int, clock: Clock = time.monotonic) -> None:
        self._a_second = a_second
        self._at_once = at_once
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str) -> float:
        """Count a call; return 0 if it may proceed, else the number of seconds until it may."""
        now = self._clock()
        left, seen = self._left.pop(client, (float(self._at_once), now))
        left = min(float(self._at_once), left + (now - seen) * self._a_second)
        allowed = left >= 1
        self._left[client] = (left - 1 if allowed else left, now)
        while len(self._left) > _KNOWN:
            self._left.popitem(last=False)
        return 0.0 if allowed else (1 - left) / self._a_second


@dataclass(slots=True)
class _LoginRecord:
    failures: int = 0
    last_failure: float = 0.0
    blocked_until: float = 0.0
    has_logged_in: bool = False
    credentials: deque[bytes] = field(default_factory=lambda: deque[bytes](maxlen=_REMEMBERED_CREDENTIALS))
    """Digests of the wrong credentials seen last: a program that repeats an old one is not guessing."""


class FailedLogins:
    """Slows down clients that guess the token, each on its own.

    The first wrong credentials of a client cost nothing; each further one blocks its next attempt for twice as long
    as the one before. A blocked attempt is rejected without saying whether it was right, except for a client that has
    logged in before: a stranger who shares its address (behind a proxy that hides addresses) cannot lock it out.
    """

    def __init__(
        self,
        *,
        free_failures: int = 10,
        first_seconds: float = 1.0,
        longest_seconds: float = 60.0,
        forget_seconds: float = 900.0,
        clock: Clock = time.monotonic,
    ) -> None:
        self._free_failures = free_failures
        self._first_seconds = first_seconds
        self._longest_seconds = longest_seconds
        self._forget_seconds = forget_seconds
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._records: OrderedDict[str, _LoginRecord] = OrderedDict()

    def admit(self, client: str, credential: str, *, is_right: bool) -> bool:
        """Return whether a client may log in with a credential; count a wrong one that it has not tried before."""
        record = self._record(client)
        is_blocked = record.blocked_until > self._clock()
        if is_right and (record.has_logged_in or not is_blocked):
            record.has_logged_in = True
            return True
        if not is_blocked:
            self._count(record, credential)
        return False

    def wait(self, client: str) -> float:
        """Return the number of seconds until the client's next attempt is looked at."""
        record = self._records.get(client)
        return max(0.0, record.blocked_until - self._clock()) if record else 0.0

    def _record(self, client: str) -> _LoginRecord:
        record = self._records.setdefault(client, _LoginRecord())
        self._records.move_to_end(client)
        while len(self._records) > _KNOWN:
            self._records.popitem(last=False)
        return record

    def _count(self, record: _LoginRecord, credential: str) -> None:
        now = self._clock()
        if now - record.last_failure > self._forget_seconds:
            record.failures = 0
            record.credentials.clear()
        digest = hashlib.blake2b(
            credential.encode("utf-8", "surrogatepass"), key=self._key, digest_size=16
        ).digest()
        if digest in record.credentials:
            return
        record.credentials.append(digest)
        record.failures += 1
        record.last_failure = now
        if (over := record.failures - self._free_failures) > 0:
            seconds = self._first_seconds * 2.0 ** min(over - 1, 30)
            record.blocked_until = now + min(seconds, self._longest_seconds)


Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Fault = Literal["body_too_large", "body_too_slow"]


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """How large a body may be and how fast it has to arrive.

    Only the time spent waiting for the client counts, not the time the server takes to process what has arrived.
    """

    size: int
    seconds: float = 600.0
    """Deadline of the whole body."""
    grace_seconds: float = 20.0
    """Time before the minimum rate applies."""
    bytes_a_second: float = 8_192.0
    """Minimum rate, on average since the beginning."""

    def seconds_for(self, received: int) -> float:
        """Return how long a client may have taken to send so many bytes and begin the next."""
        return min(self.seconds, self.grace_seconds + received / self.bytes_a_second)


AUTHENTICATED_BODY = BodyLimits(4 * 1024 * 1024)
UNAUTHENTICATED_BODY = BodyLimits(8 * 1024, seconds=10.0, grace_seconds=10.0)
"""Limits of a request without a valid token, where one is set."""


class LimitedBody:
    """Passes a request's body on within its limits; when it exceeds one, the client appears to disconnect."""

    def __init__(
        self, receive: Receive, send: Send, limits: BodyLimits, refuse: Callable[[Fault], Awaitable[None]]
    ) -> None:
        self._receive = receive
        self._send = send
        self._limits = limits
        self._refuse = refuse
        self._received = 0
        self._waited = 0.0
        self._is_complete = False
        self._has_response = False
        self.is_refused = False

    async def receive(self) -> Message:
        """Return the next message from the client."""
        if self.is_refused:
            return {"type": "http.disconnect"}
        if self._is_complete:
            return await self._receive()
        try:
            message = await self._next()
        except TimeoutError:
            return await self._end("body_too_slow")
        if message["type"] != "http.request":
            self._is_complete = True  # a disconnect, or a protocol without bodies
            return message
        self._received += len(message.get("body", b""))
        self._is_complete = not message.get("more_body", False)
        return await self._end("body_too_large") if self._received > self._limits.size else message

    async def _next(self) -> Message:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        try:
            async with asyncio.timeout(self._limits.seconds_for(self._received) - self._waited):
                return await self._receive()
        finally:
            self._waited += loop.time() - begin

    async def _end(self, fault: Fault) -> Message:
        self.is_refused = True
        if not self._has_response:
            await self._refuse(fault)
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Pass the response on, unless the request was refused meanwhile."""
        if not self.is_refused:
            self._has_response = True
            await self._send(message)


Scope = MutableMapping[str, Any]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

AUTHENTICATED = "personalab.authenticated"
"""ASGI extension by which a connection learns whether its current request carries the token."""
COOKIE = "personalab"
_SAFE = ("GET", "HEAD", "OPTIONS")
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")
"""Content types that a form of any page can send without a preflight request."""


@dataclass(frozen=True, slots=True)
class GuardedPaths:
    """Which paths are guarded, and how; others belong to another application in the same server."""

    guarded: tuple[str, ...] | None = None
    """Paths (also as prefixes before a slash) that are protected; all, if the server has no other application."""
    open: tuple[str, ...] = ()
    """Guarded paths that need no token: the page's own files, the way to log in, a sign of life."""
    large: tuple[str, ...] = ()
    """Paths that take large bodies."""

    def guards(self, path: str) -> bool:
        """Return whether a path is protected."""
        return self.guarded is None or _below(path, self.guarded)

    def is_open(self, path: str) -> bool:
        """Return whether a path needs no token."""
        return _below(path, self.open)


def _below(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or (root != "/" and path.startswith(f"{root}/")) for root in roots)


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """How much of a request is taken, with and without the token."""

    body: BodyLimits = AUTHENTICATED_BODY
    large_size: int = 64 * 1024 * 1024
    """Body size on paths that take large bodies."""
    unauthenticated: BodyLimits = UNAUTHENTICATED_BODY


@dataclass(frozen=True, slots=True)
class _Refusal:
    status: int
    code: str
    seconds: float | None = None


class AccessControl:
    """Decides which requests may reach an application, and answers the others."""

    def __init__(
        self,
        *,
        paths: GuardedPaths,
        names: HostNames,
        language: Callable[[], Language],
        token: str | None = None,
        limits: RequestLimits | None = None,
        logins: FailedLogins | None = None,
    ) -> None:
        self.paths = paths
        self._names = names
        self._language = language
        self._token = token
        self._limits = limits or RequestLimits()
        self._logins = logins or FailedLogins()

    async def admit(self, scope: Scope, receive: Receive, send: Send) -> LimitedBody | None:
        """Return the request's body within its limits; ``None`` if the request was refused here."""
        headers = _headers(scope)
        is_known = self._is_known(scope, headers)
        limits = self._limits_of(scope, is_known=is_known)
        refusal = (
            self._foreign(scope, headers)
            or (None if is_known else self._unknown(scope, headers))
            or _from_form(scope, headers)
            or _too_large(headers, limits)
        )
        if refusal is not None:
            await self._refuse(scope, send, refusal, limits)
            return None

        async def refuse_body(fault: Fault) -> None:
            status = 408 if fault == "body_too_slow" else 413
            await self._refuse(scope, send, _Refusal(status, fault), limits)

        return LimitedBody(receive, send, limits, refuse_body)

    def _limits_of(self, scope: Scope, *, is_known: bool) -> BodyLimits:
        if not is_known:
            return self._limits.unauthenticated
        is_large = _below(scope["path"], self.paths.large)
        return replace(self._limits.body, size=self._limits.large_size) if is_large else self._limits.body

    def _foreign(self, scope: Scope, headers: dict[str, list[str]]) -> _Refusal | None:
        """Refuse what comes through another name, or from a page of another site."""
        hosts = headers.get("host", [])
        if len(hosts) != 1 or not self._names.is_ours(hosts[0]):
            return _Refusal(421, "foreign_host")
        for origin in headers.get("origin", []):
            if not self._names.is_our_origin(origin, hosts[0]):
                return _Refusal(403, "foreign_origin")
        # Links to our pages may be on any site; nothing else of ours is for other sites.
        is_link = scope.get("method") in _SAFE and headers.get("sec-fetch-mode") == ["navigate"]
        is_foreign = headers.get("sec-fetch-site", ["none"])[0] in ("cross-site", "same-site")
        return _Refusal(403, "foreign_origin") if is_foreign and not is_link else None

    def _is_known(self, scope: Scope, headers: dict[str, list[str]]) -> bool:
        """Check the token of a request, where one is set, and report the result to its connection."""
        if self._token is None:
            return True
        is_known = False
        if credential := _credential(headers):
            is_right = _is_right(headers, self._token)
            is_known = self._logins.admit(client_of(scope), credential, is_right=is_right)
        extensions: dict[str, Any] = scope.get("extensions") or {}
        if (report := extensions.get(AUTHENTICATED)) is not None:
            report(is_known)
        return is_known

    def _unknown(self, scope: Scope, headers: dict[str, list[str]]) -> _Refusal | None:
        """Refuse a request without the token, unless its path needs none."""
        if self.paths.is_open(scope["path"]):
            return None
        if _credential(headers) and (seconds := self._logins.wait(client_of(scope))):
            return _Refusal(429, "too_many_logins", seconds)
        return _Refusal(401, "token_wanted")

    async def _refuse(self, scope: Scope, send: Send, refusal: _Refusal, limits: BodyLimits) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        seconds = math.ceil(refusal.seconds or 0)
        message = say(refusal.code, self._language(), limit=_size(limits.size), seconds=seconds)
        await refuse(send, refusal.status, refusal.code, message, seconds)


class AccessMiddleware:
    """Stands before an application and refuses what must not reach it."""

    def __init__(self, app: App, access: AccessControl) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it here."""
        if scope["type"] not in ("http", "websocket") or not self._access.paths.guards(scope["path"]):
            await self._app(scope, receive, send)
            return
        body = await self._access.admit(scope, receive, send)
        if body is None:
            return
        try:
            await self._app(scope, body.receive, body.send)
        except Exception:
            if not body.is_refused:
                raise


def client_of(scope: Scope) -> str:
    """Return the client a request comes from; behind a trusted proxy, the one the proxy names."""
    return one_client((scope.get("client") or ("?",))[0])


def _size(size: int) -> str:
    return f"{size // (1024 * 1024)} MiB" if size >= 1024 * 1024 else f"{size // 1024} KiB"


def _from_form(scope: Scope, headers: dict[str, list[str]]) -> _Refusal | None:
    """Refuse what a form could have sent, also where a call has no body that could be wrong."""
    kinds = {value.partition(";")[0].strip().lower() for value in headers.get("content-type", [])}
    is_form = scope.get("method") not in _SAFE and not kinds.isdisjoint(_FORMS)
    return _Refusal(415, "form_refused") if is_form else None


def _too_large(headers: dict[str, list[str]], limits: BodyLimits) -> _Refusal | None:
    """Refuse a body that says it is too large."""
    for length in headers.get("content-length", []):
        if not (length.isascii() and length.isdigit()) or len(length) > 18 or int(length) > limits.size:
            return _Refusal(413, "body_too_large")
    return None


async def refuse(send: Send, status: int, code: str, message: str, seconds: int = 0) -> None:
    """Answer with an error in the shape every entrance over HTTP uses."""
    kind = "busy" if status == 429 else "user"
    error = {"code": code, "kind": kind, "message": message, "retryable": status in (408, 429, 503)}
    body = json.dumps({"error": error}, ensure_ascii=False).encode("utf-8")
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="personalab"'))
    if status == 408:
        headers.append((b"connection", b"close"))
    if status == 429:
        headers.append((b"retry-after", str(max(seconds, 1)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _headers(scope: Scope) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


def _credential(headers: dict[str, list[str]]) -> str:
    """Return what a request presents as its token or pass; empty if nothing."""
    given = headers.get("authorization", [])
    return "\n".join(given or [value for value in _passes(headers.get("cookie", [])) if value])


def _is_right(headers: dict[str, list[str]], token: str) -> bool:
    given = headers.get("authorization", [])
    if given:
        return len(given) == 1 and is_bearer(given[0], token)
    return any(has_pass(value, token) for value in headers.get("cookie", []))


def _passes(cookies: list[str]) -> list[str]:
    named = (part.strip().partition("=") for header in cookies for part in header.split(";"))
    return [value for name, _, value in named if name == COOKIE]


def is_bearer(value: str, token: str) -> bool:
    """Return whether an ``Authorization`` header carries the token, in constant time for every wrong one."""
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
    """Return whether a ``Cookie`` header carries the pass of this token, whatever else other programs put there."""
    wanted = pass_for(token).encode()
    return any(hmac.compare_digest(value.encode("utf-8", "replace"), wanted) for value in _passes([cookies]))
