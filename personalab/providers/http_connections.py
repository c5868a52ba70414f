"""An HTTP transport that keeps open connections in a list per server.

The pool of ``httpcore2`` checks every connection whenever a request begins or ends: 200 streams cost 200 × 200 checks.
Here a request takes the connection that became free last, or opens one. HTTP/1.1 only, without proxies.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from typing import Any, cast

import httpcore2
import httpx2


class ConnectionsTransport(httpx2.AsyncBaseTransport):
    """Sends each request over a connection that no other request uses meanwhile."""

    def __init__(self, tls: Callable[[], ssl.SSLContext], *, keep: int, keep_seconds: float) -> None:
        self._tls = tls
        self._keep = keep
        self._keep_seconds = keep_seconds
        self._free: dict[str, list[httpcore2.AsyncHTTPConnection]] = {}
        self._is_closed = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; its connection is free again once the response is closed."""
        url = request.url
        if url.scheme not in ("http", "https"):
            raise httpx2.UnsupportedProtocol(f"the address does not begin with http:// or https://: {url}")
        target = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        sent = httpcore2.Request(
            method=request.method,
            url=target,
            headers=request.headers.raw,
            content=cast("AsyncIterator[bytes]", request.stream),
            extensions=request.extensions,
        )
        connection = await self._take(target.origin)
        try:
            with _httpx_errors():
                response = await connection.handle_async_request(sent)
        except BaseException:
            await connection.aclose()
            raise
        return httpx2.Response(
            status_code=response.status,
            headers=response.headers,
            stream=_Body(self, target.origin, connection, response),
            extensions=cast("dict[str, Any]", response.extensions),
        )

    async def _take(self, origin: httpcore2.Origin) -> httpcore2.AsyncHTTPConnection:
        free = self._free.get(str(origin), [])
        while free:
            connection = free.pop()
            if connection.is_idle() and not connection.has_expired():
                return connection
            await connection.aclose()
        context = self._tls() if origin.scheme == b"https" else None
        return httpcore2.AsyncHTTPConnection(origin, ssl_context=context, keepalive_expiry=self._keep_seconds)

    async def give_back(self, origin: httpcore2.Origin, connection: httpcore2.AsyncHTTPConnection) -> None:
        """Keep a connection that can take another request; the one that was free longest makes room."""
        if not connection.is_idle():  # closed by one side, or its response was not read to the end
            return
        if self._is_closed:
            await connection.aclose()
            return
        free = self._free.setdefault(str(origin), [])
        free.append(connection)
        while len(free) > self._keep or free[0].has_expired():
            await free.pop(0).aclose()
            if not free:
                break

    async def aclose(self) -> None:
        """Close the free connections; the others are closed with their responses."""
        self._is_closed = True
        for free in self._free.values():
            while free:
                await free.pop().aclose()


class _Body(httpx2.AsyncByteStream):
    def __init__(
        self,
        transport: ConnectionsTransport,
        origin: httpcore2.Origin,
        connection: httpcore2.AsyncHTTPConnection,
        response: httpcore2.Response,
    ) -> None:
        self._transport = transport
        self._origin = origin
        self._connection = connection
        self._response = response
        self._is_open = True

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _httpx_errors():
            async for part in self._response.aiter_stream():
                yield part

    async def aclose(self) -> None:
        if self._is_open:
            self._is_open = False
            with _httpx_errors():
                await self._response.aclose()
            await self._transport.give_back(self._origin, self._connection)


@contextmanager
def _httpx_errors() -> Generator[None]:
    """Raise the errors of ``httpcore2`` as those of ``httpx2``, which have the same names."""
    try:
        yield
    except Exception as error:
        kind = type(error)
        known = getattr(httpx2, kind.__name__, None) if kind.__module__ == "httpcore2" else None
        if known is None:
            raise
        raise known(str(error)) from error
