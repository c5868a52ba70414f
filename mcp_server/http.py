"""How is the server reached over HTTP?

On this machine alone unless a token is set; a page in a browser cannot reach it through a name of its own (DNS
rebinding); a body is never larger than a set size.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import signal
import socket
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcp.server.transport_security import TransportSecuritySettings

from personalab.errors import StorageError, UserError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from mcp_server.server import PersonaServer

PATH = "/mcp"
MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_SESSIONS = 1_000
_SHUTDOWN_SECONDS = 1


def is_loopback(host: str) -> bool:
    """Tell whether an address is reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def build_app(
    server: PersonaServer,
    *,
    host: str = "127.0.0.1",
    token: str | None = None,
    allow_hosts: Sequence[str] = (),
) -> ASGIApp:
    """Make the ASGI application with the server at ``/mcp``."""
    app: ASGIApp = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=MAX_BODY_BYTES,
        max_sessions=MAX_SESSIONS,
        transport_security=_security(host, token, allow_hosts),
        host=host,
    )
    return BearerToken(app, token) if token else app


def _security(host: str, token: str | None, allow_hosts: Sequence[str]) -> TransportSecuritySettings:
    """Say under which names the server may be addressed: its own, and those that are allowed.

    On a public address without a list of names every name is fine: the token keeps strangers out.
    """
    if not is_loopback(host) and token and not allow_hosts:
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    shown = f"[{host}]" if ":" in host else host
    known = dict.fromkeys(["127.0.0.1", "localhost", "[::1]", shown, *allow_hosts])
    names = [name for given in known for name in (given, f"{given}:*")]
    origins = [f"{scheme}://{name}" for name in names for scheme in ("http", "https")]
    return TransportSecuritySettings(allowed_hosts=names, allowed_origins=origins)


class BearerToken:
    """Lets in only requests that carry the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401 where the token is missing or wrong."""
        if scope["type"] == "http" and not self._is_allowed(scope):
            headers = [(b"www-authenticate", b'Bearer realm="personalab"'), (b"content-type", b"text/plain")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            body = b"401: send the token of PERSONALAB_TOKEN as 'Authorization: Bearer TOKEN'\n"
            await send({"type": "http.response.body", "body": body})
            return
        await self._app(scope, receive, send)

    def _is_allowed(self, scope: Scope) -> bool:
        given: list[bytes] = [value for name, value in scope["headers"] if name == b"authorization"]
        return len(given) == 1 and hmac.compare_digest(_bearer(given[0]), self._expected)


def _bearer(value: bytes) -> bytes:
    scheme, _, rest = value.partition(b" ")
    return b"Bearer " + rest.strip() if scheme.lower() == b"bearer" else b""


def check_address(host: str, token: str | None) -> None:
    """Refuse to be reachable from other machines without a token."""
    if not is_loopback(host) and not token:
        raise UserError("token_needed", host=host)


def serve(
    server: PersonaServer, *, host: str, port: int, token: str | None, allow_hosts: Sequence[str] = ()
) -> None:
    """Serve until asked to stop; replies that are being written are closed then."""
    import uvicorn

    host = host.strip("[]")
    check_address(host, token)
    listener = _listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listener.getsockname()[1]}{PATH}"
    config = uvicorn.Config(
        build_app(server, host=host, token=token, allow_hosts=allow_hosts),
        log_level="warning",
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        lifespan="on",
    )
    sys.stderr.write(f"PersonaLab MCP: {address}\n")
    sys.stderr.flush()

    class Server(uvicorn.Server):
        """Closes the replies and the streams before it waits for connections to end."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            asyncio.get_running_loop().add_signal_handler(
                signal.SIGHUP, self.handle_exit, signal.SIGHUP, None
            )
            await super().startup(sockets)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            await server.close()
            # What is still open then is dropped: nobody needs to hear how.
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
            await super().shutdown(sockets)

    Server(config).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    """Open the port before anything is said of it."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1024)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise StorageError("port_not_free", host=host, port=port, reason=reason) from error
    return listener
