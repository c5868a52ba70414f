"""Connections to servers that speak OpenAI's protocol: kept open, through the proxies of the environment.

One client for each event loop. Errors of ``aiohttp`` hold the headers of a request, and with them its key, so they
leave this module as a ``LostConnectionError``.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import io
import os
import socket
import ssl
import threading
import time
import weakref
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from personalab.errors import ProviderError
from personalab.providers.failures import clean_reason

if TYPE_CHECKING:
    import aiohttp

    from personalab.providers.model_settings import ModelSettings

OPENAI_URL = "https://api.openai.com/v1"
# Local servers want no key, but the client library wants one.
NO_KEY = "no-key"


@dataclass(frozen=True, slots=True)
class OpenAIEndpoint:
    """Where a model is, and what is said to it besides the messages."""

    model: str
    base_url: str = OPENAI_URL
    api_key: str = field(default=NO_KEY, repr=False)
    extra_body: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def use_proxy(self) -> bool:
        """Whether the environment's proxy settings hold: not for a server on this machine."""
        return not is_loopback(self.base_url)


def is_loopback(url: str) -> bool:
    """Return whether a URL names this machine."""
    host = urlsplit(url).hostname or ""
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost"
    return address.is_loopback or address.is_unspecified


@functools.cache
def tls() -> ssl.SSLContext:
    """Trust the machine's certificates and certifi's; making this takes 40 ms, so it is made once."""
    import certifi

    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


_KEEP_SECONDS = 4.0
"""A connection that had no request for so long is not used again: many servers close theirs after 5 s."""
_PROBE_SECONDS, _PROBE_INTERVAL, _PROBES = 15, 5, 3
_UNACKNOWLEDGED_SECONDS = 30
"""So long another machine may leave what it is sent unacknowledged."""
_MAX_REDIRECTS = 5
_PROXY_KINDS = ("http", "https")
_STALE_SECONDS = 0.5
"""A kept connection that is lost within this time was closed before; later, the server may have begun to work."""


class LostConnectionError(ConnectionError):
    """A connection that could not be made or was lost, without anything of the request."""


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """Where requests go."""

    url: str
    authorization: str | None = field(default=None, repr=False)
    """The header for the name and the password of the address, if it has them."""

    @classmethod
    def parse(cls, base_url: str, path: str) -> RequestTarget:
        """Join a base URL and a path; a name and a password are taken out of the URL."""
        try:
            parts = urlsplit(base_url)
        except ValueError:
            raise LostConnectionError("invalid URL") from None
        user, at, host = parts.netloc.rpartition("@")
        url = urlunsplit((parts.scheme, host, parts.path.rstrip("/") + path, parts.query, ""))
        if not at:
            return cls(url)
        name, _, password = user.partition(":")
        said = f"{unquote(name)}:{unquote(password)}".encode()
        return cls(url, f"Basic {base64.b64encode(said).decode('ascii')}")


def proxy_for(url: str, proxies: Mapping[str, str]) -> str | None:
    """Choose the proxy for a URL, by the addresses for each kind of URL (``ModelSettings.proxies``)."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return None  # the request will fail
    address = proxies.get(parts.scheme) or proxies.get("all")
    if not address or is_loopback(url) or _is_excepted(host, port, proxies.get("no", "")):
        return None
    if "://" not in address:
        address = f"http://{address}"
    kind = address.partition("://")[0].lower()
    if kind not in _PROXY_KINDS:
        raise ProviderError("provider.proxy", kind=clean_reason(kind)[:20])
    return address


def _is_excepted(host: str, port: int | None, exceptions: str) -> bool:
    """Return whether a host, or a domain it belongs to, is among the exceptions of ``NO_PROXY``."""
    for exception in exceptions.lower().split(","):
        name = exception.strip().rpartition("://")[2].removeprefix("*.").lstrip(".")
        if name == "*":
            return True
        if name and any(
            f".{one}".endswith(f".{name}")
            for one in (host, f"{host}:{port}", f"[{host}]", f"[{host}]:{port}")
        ):
            return True
    return False


class Client:
    """Sends requests in one event loop."""

    def __init__(self) -> None:
        self._session = _new_session(keeps=True)
        self._single: aiohttp.ClientSession | None = None
        """A session whose connections are new and serve one request."""

    async def post(
        self, address: RequestTarget, body: bytes, headers: Mapping[str, str], settings: ModelSettings
    ) -> aiohttp.ClientResponse:
        """Send a request and return the beginning of its response.

        A request that a kept connection lost before a response began is sent once more, on a new connection.
        """
        url, sent = address.url, dict(headers)
        if address.authorization is not None:
            sent["Authorization"] = address.authorization
        status = 0
        for _ in range(_MAX_REDIRECTS):
            reuse = SimpleNamespace(happened=False)
            response = await self._post(self._session, url, body, sent, settings, reuse)
            if response is None:
                if self._single is None:
                    self._single = _new_session(keeps=False)
                response = cast(
                    "aiohttp.ClientResponse",
                    await self._post(self._single, url, body, sent, settings, None),
                )
            if not 300 <= (status := response.status) < 400:
                return response
            url = _redirected(url, response, sent)
        raise ProviderError("provider.redirect", status=status, url=_shown(url))

    async def _post(
        self,
        session: aiohttp.ClientSession,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        settings: ModelSettings,
        reuse: SimpleNamespace | None,
    ) -> aiohttp.ClientResponse | None:
        """Send a request; ``None`` if a connection that was used before has lost it."""
        from aiohttp import ClientConnectionError

        proxy = None if is_loopback(url) else proxy_for(url, settings.proxies())
        is_secure = url.startswith("https:") or (proxy is not None and proxy.lower().startswith("https:"))
        if is_secure and not tls.cache_info().currsize:
            await asyncio.to_thread(tls)
        begun = time.monotonic()
        try:
            return await session.post(
                url,
                data=io.BytesIO(body),
                headers=headers,
                proxy=proxy,
                ssl=tls() if is_secure else True,
                allow_redirects=False,
                timeout=_connect_timeout(settings.connect_seconds),
                trace_request_ctx=reuse,
            )
        except client_errors() as error:
            was_stale = reuse is not None and reuse.happened and time.monotonic() - begun < _STALE_SECONDS
            if was_stale and isinstance(error, ClientConnectionError):
                return None
            lost = lost_connection(error)
        raise lost  # here, so that the error of aiohttp is no part of it

    async def close(self) -> None:
        """Close all connections."""
        for session in (self._session, self._single):
            if session is not None:
                with suppress(Exception):
                    await session.close()

    def abandon(self) -> None:
        """Leave the connections of a loop that was closed before its generators to the garbage collection."""
        for session in (self._session, self._single):
            if session is not None and (connector := session.connector) is not None:
                session.detach()
                connector.__exit__(None, None, None)


def _redirected(url: str, response: aiohttp.ClientResponse, headers: dict[str, str]) -> str:
    """Return where a request is to be sent again; its key goes only to the same server."""
    response.close()
    try:
        target = urljoin(url, response.headers.get("Location", ""))
        after = urlsplit(target)
    except ValueError:
        raise ProviderError("provider.redirect", status=response.status, url="?") from None
    if response.status not in (307, 308) or target == url:
        raise ProviderError("provider.redirect", status=response.status, url=_shown(target))
    before = urlsplit(url)
    is_upgrade = (before.scheme, after.scheme) == ("http", "https") and before.hostname == after.hostname
    if (before.scheme, before.netloc) != (after.scheme, after.netloc) and not is_upgrade:
        headers.pop("Authorization", None)
    return urlunsplit(after._replace(netloc=after.netloc.rpartition("@")[2]))


def _shown(url: str) -> str:
    """Return a URL without what may be secret."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return clean_reason(urlunsplit((parts.scheme, host, parts.path, "", "")))


def client_errors() -> tuple[type[Exception], ...]:
    """Return what ``aiohttp`` raises."""
    from aiohttp import ClientError
    from aiohttp.http_exceptions import HttpProcessingError

    return ClientError, HttpProcessingError, OSError


def lost_connection(error: Exception) -> LostConnectionError:
    """Say what happened to a connection, without what the error holds of the request."""
    number = getattr(error, "errno", None)
    said = os.strerror(number) if isinstance(number, int) and number > 0 else None
    kind = type(error).__name__
    return LostConnectionError(f"{kind}: {said}" if said else kind)


def buffered(response: aiohttp.ClientResponse) -> bytes:
    """Take what arrived before a connection was lost: ``aiohttp`` raises the loss first."""
    read = getattr(response.content, "_read_nowait", None)
    with suppress(Exception):
        return bytes(read(-1)) if read is not None else b""
    return b""


# --- clients of event loops

_registering = threading.Lock()
"""Several threads may have an event loop each."""
_clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Client] = weakref.WeakKeyDictionary()
_keepers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncGenerator[None]] = (
    weakref.WeakKeyDictionary()
)


async def client_of_loop() -> Client:
    """Return the client of this event loop."""
    loop = asyncio.get_running_loop()
    if (client := _clients.get(loop)) is not None:
        return client
    await asyncio.to_thread(_prepare)
    with _registering:
        if (client := _clients.get(loop)) is not None:
            return client
        for other in [other for other in _keepers if other.is_closed()]:
            _forget(other)
        client = _clients[loop] = Client()
        # A loop that ends closes its asynchronous generators, and this one closes the client.
        keeper = _keepers[loop] = _keep(client, weakref.ref(loop))
    await anext(keeper)
    return client


async def _keep(client: Client, loop: weakref.ref[asyncio.AbstractEventLoop]) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        await client.close()
        if (ended := loop()) is not None:
            with _registering:
                _forget(ended)


def _forget(loop: asyncio.AbstractEventLoop) -> None:
    """Let go of a loop: its generators refer to it, so that it would stay for ever."""
    client = _clients.pop(loop, None)
    _keepers.pop(loop, None)
    if client is not None and loop.is_closed():
        client.abandon()


def _prepare() -> None:
    """Do what takes long about a client; this runs in a thread."""
    import aiohttp  # noqa: F401  # pyright: ignore[reportUnusedImport]


def _new_session(*, keeps: bool) -> aiohttp.ClientSession:
    import aiohttp

    limits: dict[str, Any] = {"keepalive_timeout": _KEEP_SECONDS} if keeps else {"force_close": True}
    connector = aiohttp.TCPConnector(limit=0, socket_factory=watched_socket, **limits)
    connector._factory = functools.partial(_protocol(), asyncio.get_running_loop())  # pyright: ignore[reportPrivateUsage]
    tracing = aiohttp.TraceConfig()
    tracing.on_connection_reuseconn.append(_note_reuse)
    return aiohttp.ClientSession(
        connector=connector,
        trust_env=False,
        cookie_jar=aiohttp.DummyCookieJar(),  # several keys and servers share a client
        auto_decompress=False,
        trace_configs=[tracing] if keeps else [],
    )


@functools.cache
def _protocol() -> type[Any]:
    """Make a protocol that tells of a malformed chunk, after what came before it.

    That of ``aiohttp`` forgets the response if its head came with the chunk, and else lets its reader wait.
    """
    from aiohttp.client_proto import ResponseHandler

    class TellingHandler(ResponseHandler):
        def data_received(self, data: bytes) -> None:
            if self._payload is None or self._payload.is_eof():
                head, blank_line, body = data.partition(b"\r\n\r\n")
                if body:
                    super().data_received(head + blank_line)
                    data = body
            super().data_received(data)

        def set_exception(self, exc: BaseException, *args: Any, **kwargs: Any) -> None:
            if (payload := self._payload) is not None and not payload.is_eof():
                payload.set_exception(exc)
            super().set_exception(exc, *args, **kwargs)

    return TellingHandler


async def _note_reuse(_session: object, context: Any, _params: object) -> None:
    context.trace_request_ctx.happened = True


def watched_socket(info: tuple[Any, ...]) -> socket.socket:
    """Make a socket that notices within half a minute when its other end has vanished."""
    family, kind, protocol, _, address = info
    made = socket.socket(family=family, type=kind, proto=protocol)
    if str(address[0]).startswith("127.") or address[0] == "::1":
        return made  # this machine does not vanish
    options = {
        "TCP_KEEPIDLE": _PROBE_SECONDS,
        "TCP_KEEPALIVE": _PROBE_SECONDS,  # its name on macOS
        "TCP_KEEPINTVL": _PROBE_INTERVAL,
        "TCP_KEEPCNT": _PROBES,
        "TCP_USER_TIMEOUT": _UNACKNOWLEDGED_SECONDS * 1000,
    }
    with suppress(OSError):
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in options.items():
        if (option := getattr(socket, name, None)) is not None:
            with suppress(OSError):
                made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


@functools.cache
def _connect_timeout(seconds: float) -> aiohttp.ClientTimeout:
    """Limit the time to connect; ``Patience`` limits the rest."""
    import aiohttp

    return aiohttp.ClientTimeout(sock_connect=seconds)
