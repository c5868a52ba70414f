"""Limits per client address: request rates and failed logins."""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

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
