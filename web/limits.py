"""How often may one client call, and how many may listen?"""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager

from personalab.errors import Busy

_KNOWN = 4_096
"""So many clients are told apart; the one that was silent longest is forgotten first."""


def one_client(address: str) -> str:
    """Name whoever calls from an address: in IPv6 each has a whole network of them."""
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
    """Lets a client call so often a second on average, and so often at once (a token bucket each)."""

    def __init__(self, a_second: float, at_once: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._a_second = a_second
        self._at_once = at_once
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str) -> float:
        """Count a call; return 0 if it may go on, else in how many seconds it may."""
        now = self._clock()
        left, seen = self._left.pop(client, (float(self._at_once), now))
        left = min(float(self._at_once), left + (now - seen) * self._a_second)
        allowed = left >= 1
        self._left[client] = (left - 1 if allowed else left, now)
        while len(self._left) > _KNOWN:
            self._left.popitem(last=False)
        return 0.0 if allowed else (1 - left) / self._a_second


class Seats:
    """So many streams may be open at once."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0

    def check(self) -> None:
        """Refuse a stream when all seats are taken."""
        if self.taken >= self.limit:
            raise Busy("too_many_watchers", limit=self.limit)

    @contextmanager
    def seat(self) -> Generator[None]:
        """Take a seat for as long as a stream is open."""
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1
