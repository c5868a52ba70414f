"""Listen addresses of a server, and the host names it accepts."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from personalab.errors import StorageError, UserError, as_reason

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
    """The names a server answers to; ``None`` for any, where a token keeps strangers out.

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


def names_of(host: str, token: str | None, allowed: Sequence[str] = ()) -> HostNames:
    """Return the host names of a server at an address: its own, and those that are allowed.

    On a public address without a list of names every name is fine: the token keeps strangers out.
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
