"""Addresses, options, start and shutdown of a server."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import logging
import os
import re
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from personalab.errors import PersonaLabError, StorageError, UserError, as_reason
from personalab.services import Services, tracing_notice
from personalab.serving.turn_limiter import MAX_TURNS
from personalab.settings import spoken_language
from personalab.startup import freeze_startup

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
_PLACE = re.compile(r"(\[[0-9A-Za-z:.%]+\]|[^\s\[\]:/?#@\\]+)(?::[0-9]*)?")
"""A name or an address and perhaps a port, as in a ``Host`` header; nothing else that a URL could hold."""


def is_loopback(host: str) -> bool:
    """Return whether an address is reachable from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def in_url(host: str) -> str:
    """Write an address in the form of a URL's host."""
    return f"[{host}]" if ":" in host else host


def check_address(host: str, token: str | None) -> None:
    """Refuse to be reachable from other machines without a token."""
    if not is_loopback(host) and not token:
        raise UserError("token_needed", host=host)


def listen(host: str, port: int) -> socket.socket:
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
        reason = as_reason(error)
        raise StorageError("port_not_free", host=host, port=port, reason=reason) from error
    return listener


@dataclass(frozen=True, slots=True)
class HostNames:
    """The names a server answers to; ``None`` for any, where a token is required.

    A page of another site that lets its own name point here (DNS rebinding) has none of them.
    """

    known: frozenset[str] | None
    allowed: frozenset[str] = frozenset()
    """Those that were allowed by name, for instance a proxy's, which may call this server by another."""

    def is_ours(self, host: str) -> bool:
        """Return whether a ``Host`` header names this server, at any port."""
        return self.known is None or _name(host) in self.known

    def is_our_origin(self, origin: str, host: str) -> bool:
        """Return whether an ``Origin`` header is a page of this server, which was addressed as ``host``.

        A page at another port of this machine is another site's.
        """
        scheme, _, place = origin.lower().partition("://")
        return scheme in ("http", "https") and (place == host.lower() != "" or _name(place) in self.allowed)


def _name(place: str) -> str | None:
    found = _PLACE.fullmatch(place)
    return found[1].lower() if found else None


def host_names(host: str, token: str | None, allowed: Sequence[str] = ()) -> HostNames:
    """Return the host names of a server at an address: its own, and those that are allowed.

    On a public address without a list of names every name is accepted, since a token is required.
    """
    if not is_loopback(host) and token and not allowed:
        return HostNames(None)
    for given in allowed:
        if _name(given) is None:
            raise UserError("host_name_wrong", name=given[:80])
    own, more = (_names(given) for given in ((*LOOPBACK_NAMES, in_url(host)), allowed))
    return HostNames(own | more, more)


def _names(given: Sequence[str]) -> frozenset[str]:
    return frozenset(name for one in given if (name := _name(one)))


DEFAULT_PORT = 8765


class Parser(argparse.ArgumentParser):
    """Refuses in one sentence, as every entrance does."""

    def error(self, message: str) -> NoReturn:
        """Refuse."""
        raise UserError("bad_usage", reason=message)


def server_options(name: str, description: str) -> Parser:
    """Describe the options that every server has."""
    parser = Parser(prog=f"python -m {name}", description=description)
    parser.add_argument(
        "--toolsets", default="chat,memory", help="chat, memory, archive, lab (default: chat,memory) / 工具集"
    )
    parser.add_argument(
        "--max-turns",
        type=_number("--max-turns", 1, 10_000),
        default=MAX_TURNS,
        help="turns at once / 同时进行的轮次",
    )
    parser.add_argument("--debug", action="store_true", help="log more, to stderr / 更多日志")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address; others than loopback need PERSONALAB_TOKEN / 地址"
    )
    parser.add_argument(
        "--port", type=_number("--port", 0, 65_535), default=DEFAULT_PORT, help="0 takes a free one / 端口"
    )
    parser.add_argument(
        "--allow-host", action="append", default=[], help="a name clients may use / 允许的主机名"
    )
    return parser


def _number(name: str, low: int, high: int) -> Callable[[str], int]:
    def whole(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 9 and low <= int(text) <= high):
            raise UserError("setting_out_of_range", field=name, value=text[:40], range=f"{low}–{high}")
        return int(text)

    return whole


def toolsets_of(options: argparse.Namespace) -> list[str]:
    """Read the names of the toolsets."""
    return [name.strip() for name in options.toolsets.split(",") if name.strip()]


def show_tracing_notice(services: Services) -> None:
    """Print on stderr, when a server starts, what tracing sends to other machines."""
    if notice := tracing_notice(services):
        sys.stderr.write(f"{notice}\n")
        sys.stderr.flush()


def run_program(
    parser: argparse.ArgumentParser,
    arguments: Sequence[str] | None,
    serve: Callable[[argparse.Namespace], None],
) -> int:
    """Run a server; return the exit code: 2 for bad usage or input, 1 for anything else that went wrong."""
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison] (it is, after 2>&-)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.stderr = os.fdopen(2, "w")
    try:
        serve(parser.parse_args(arguments))
    except PersonaLabError as error:
        sys.stderr.write(f"{error.message(spoken_language())}\n")
        return 2 if isinstance(error, UserError) else 1
    except KeyboardInterrupt:
        return 130
    return 0


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
