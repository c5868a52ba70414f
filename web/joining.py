"""The application that combines the API, the page and MCP.

This is the only module in which one entrance imports another, so that a single server offers all of them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_server.http import PATH, bare_app
from mcp_server.server import DEFAULT_TOOLSETS, build_server, check_toolsets
from personalab.services import Services
from personalab.serving.access import GuardedPaths
from web.app import ALONE, Limits, create_app
from web.desk import AppContext


class _Mcp:
    """The MCP server, once the application has started."""

    def __init__(self, toolsets: Sequence[str], host: str) -> None:
        self._toolsets = check_toolsets(toolsets)
        self._host = host
        self._app: ASGIApp | None = None

    @asynccontextmanager
    async def lifespan(self, desk: AppContext) -> AsyncGenerator[None]:
        """Run the server on the same services and places as the API."""
        server = build_server(desk.services, self._toolsets, places=desk.places)
        inner = bare_app(server, host=self._host)
        async with inner.router.lifespan_context(inner):
            self._app = inner
            desk.also_close.append(server.close)
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a call on; before the start and after the end the response is 503."""
        app: ASGIApp = self._app or Response(status_code=503)
        await app({**scope, "path": PATH, "raw_path": PATH.encode(), "root_path": ""}, receive, send)


def whole_app(
    open_services: Callable[[], Services],
    *,
    host: str = "127.0.0.1",
    token: str | None = None,
    allow_hosts: Sequence[str] = (),
    toolsets: Sequence[str] = DEFAULT_TOOLSETS,
    limits: Limits | None = None,
    paths: GuardedPaths = ALONE,
) -> FastAPI:
    """Make the application with everything in it."""
    mcp = _Mcp(toolsets, host)
    app = create_app(
        open_services,
        host=host,
        token=token,
        allow_hosts=allow_hosts,
        limits=limits,
        joined=[mcp.lifespan],
        paths=paths,
    )
    app.add_route(PATH, mcp, methods=None, include_in_schema=False)  # pyright: ignore[reportArgumentType] (plain ASGI)
    return app
