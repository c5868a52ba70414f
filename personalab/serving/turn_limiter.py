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
_PREPARED_AT_ONCE = 4
"""Turns that begin together are prepared one after the other, but for so many: the first ones need not wait until
all of them are prepared, and the last ones wait no longer."""
_PREPARATION_SECONDS = 0.25
"""Seconds after which the next turn may begin: a slow one, as one that waits for its story, holds up nobody."""


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
        self._starts = asyncio.Semaphore(_PREPARED_AT_ONCE)

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

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[Callable[[], None]]:
        """Take a place for a turn, in the order of the calls; give what to call when its prompt is ready."""
        async with self.place():
            await self._starts.acquire()
            timer: asyncio.TimerHandle | None = None

            def begin_next() -> None:
                nonlocal timer
                if timer is not None:
                    timer.cancel()
                    timer = None
                    self._starts.release()

            timer = asyncio.get_running_loop().call_later(_PREPARATION_SECONDS, begin_next)
            try:
                if self.closing:
                    raise Busy("server_ending")
                yield begin_next
            finally:
                begin_next()

    async def close(self) -> None:
        """Stop what is running, so that every reply is closed and its caller hears of it. No other turn begins."""
        self.closing = True
        deadline = asyncio.get_running_loop().time() + _CLOSING_SECONDS
        self._services.turns.stop_all()  # also for those who only wait for a lock
        while self.taken and asyncio.get_running_loop().time() < deadline:
            self._services.turns.stop_all()
            await asyncio.sleep(0.02)
