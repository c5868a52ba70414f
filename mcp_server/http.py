"""The server over HTTP.

It listens on this machine only unless a token is set. A web page cannot reach it through a host name of its
own (DNS rebinding), and the size of a request body is limited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcp.server.transport_security import TransportSecuritySettings

from mcp_server.sessions import IDLE_SECONDS, SessionLimits, SessionMiddleware, SessionTable
from personalab.serving.access import (
    AccessControl,
    AccessMiddleware,
    BodyLimits,
    GuardedPaths,
    RequestLimits,
)
from personalab.serving.server import Address, host_names, run_server

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from mcp_server.server import PersonaServer

PATH = "/mcp"
MAX_BODY_BYTES = 4 * 1024 * 1024


def bare_app(
    server: PersonaServer, *, host: str = "127.0.0.1", limits: SessionLimits | None = None
) -> Starlette:
    """Make the ASGI application with the server at ``/mcp``, without access control."""
    limits = limits or SessionLimits()
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=MAX_BODY_BYTES,
        max_sessions=None,  # the middleware makes room before the SDK would refuse
        session_idle_timeout=IDLE_SECONDS,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        host=host,
    )
    server.sessions = SessionTable(limits)
    app.add_middleware(
        SessionMiddleware, table=server.sessions, limits=limits, language=lambda: server.desk.language
    )
    return app


def build_app(
    server: PersonaServer,
    *,
    host: str = "127.0.0.1",
    token: str | None = None,
    allow_hosts: Sequence[str] = (),
    sessions: SessionLimits | None = None,
) -> AccessMiddleware:
    """Make the whole application, its door before it."""
    access = AccessControl(
        paths=GuardedPaths(),
        names=host_names(host, token, allow_hosts),
        token=token,
        language=lambda: server.desk.language,
        limits=RequestLimits(BodyLimits(2 * MAX_BODY_BYTES)),  # the SDK refuses sooner, in its own words
    )
    return AccessMiddleware(bare_app(server, host=host, limits=sessions), access)


def serve(server: PersonaServer, address: Address, allow_hosts: Sequence[str] = ()) -> None:
    """Serve until asked to stop; replies that are being written are closed then."""
    app = build_app(server, host=address.host, token=address.token, allow_hosts=allow_hosts)
    run_server(app, address, told=lambda url: f"PersonaLab MCP: {url}{PATH}", close=server.close)
