"""Limits of concurrently open streams."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from personalab.errors import Busy


class StreamLimiter:
    """A limit of concurrently open streams."""

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
