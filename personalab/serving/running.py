"""Runs an application at an address until it is asked to stop, with a shutdown that loses nothing."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from personalab.serving.address import check_address, in_url, listen
from personalab.startup import freeze_startup

_SHUTDOWN_SECONDS = 1
_UNREAD_SECONDS = 60.0
"""A client that takes nothing of what is sent to it for so long is cut off."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens, and what it asks of who comes from elsewhere."""

    host: str = "127.0.0.1"
    port: int = 0
    token: str | None = None


def run_server(
    app: Any, address: Address, *, told: Callable[[str], str], close: Callable[[], Awaitable[None]]
) -> None:
    """Serve until asked to stop; ``close`` ends what is being written before connections are ended.

    ``told`` words, for stderr, where the server is.
    """
    import uvicorn

    from personalab.serving.connections import (
        MAX_UNAUTHENTICATED,
        PatientProtocol,
        UnauthenticatedConnections,
        allow_many_connections,
    )

    host = address.host.strip("[]")
    check_address(host, address.token)
    listener = listen(host, address.port)
    max_files = allow_many_connections()
    cut_off_unread(listener, _UNREAD_SECONDS)

    class Protocol(PatientProtocol):
        """Limits the connections without a token, where one is set."""

        unauthenticated = (
            UnauthenticatedConnections(total=min(MAX_UNAUTHENTICATED, max_files // 2))
            if address.token
            else None
        )

    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        log_level="warning",
        log_config=None,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        lifespan="on",
        server_header=False,
    )
    sys.stderr.write(f"{told(f'http://{in_url(host)}:{listener.getsockname()[1]}')}\n")
    sys.stderr.flush()

    class Server(uvicorn.Server):
        """Closes the replies and the streams before it waits for connections to end."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            asyncio.get_running_loop().add_signal_handler(
                signal.SIGHUP, self.handle_exit, signal.SIGHUP, None
            )
            await super().startup(sockets)
            freeze_startup()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            await close()
            # Connections that are still open then are dropped without a message.
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
            await super().shutdown(sockets)

    Server(config).run(sockets=[listener])


def cut_off_unread(listener: socket.socket, seconds: float) -> None:
    """Let the kernel end connections whose client takes nothing, with what waits for it.

    Closing one in the usual way waits for such a client for ever. Where the kernel cannot do it, it stays so.
    """
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(seconds * 1000))
