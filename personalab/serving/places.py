"""The limit of concurrent turns in a server, and the end of all turns at shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from personalab.errors import Busy
from personalab.services import Services

MAX_TURNS = 64
_CLOSING_SECONDS = 5.0
"""Seconds that shutdown waits for turns to close."""


OnTurn = Callable[[Mapping[str, Any], float], None]
"""Hears of a turn that has ended: its result, and how many seconds it took."""


class TurnLimiter:
    """The places for running turns; entrances in one process share them."""

    def __init__(self, services: Services, limit: int = MAX_TURNS) -> None:
        self._services = services
        self.limit = limit
        self.closing = False
        self.taken = 0
        self.on_turn: OnTurn | None = None
        self._free: asyncio.Semaphore | None = None

    @asynccontextmanager
    async def place(self) -> AsyncGenerator[None]:
        """Take one of the places; wait for one as long as for a busy story."""
        if self.closing:
            raise Busy("server_ending")
        if self._free is None:
            self._free = asyncio.Semaphore(self.limit)
        try:
            async with asyncio.timeout(self._services.settings.busy_seconds):
                await self._free.acquire()
        except TimeoutError:
            raise Busy("too_many_turns", limit=self.limit) from None
        if self.closing:
            self._free.release()
            raise Busy("server_ending")
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1
            self._free.release()

    async def close(self) -> None:
        """Stop what is running, so that every reply is closed and its caller hears of it. No other turn begins."""
        self.closing = True
        deadline = asyncio.get_running_loop().time() + _CLOSING_SECONDS
        self._services.turns.stop_all()  # also for those who only wait for a lock
        while self.taken and asyncio.get_running_loop().time() < deadline:
            self._services.turns.stop_all()
            await asyncio.sleep(0.02)
