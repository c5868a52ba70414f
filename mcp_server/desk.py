"""What does every tool of the server work with?"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from mcp_server.budget import VOCABULARY, Budget
from mcp_server.texts import for_tools
from mcp_server.updates import Updates
from personalab.errors import Busy
from personalab.services import Services
from personalab.texts import Language

MAX_TURNS = 64
_CLOSING_SECONDS = 5.0
"""So long the end of the server waits for turns to close."""


@dataclass(eq=False)
class Desk:
    """The services, the reader's language, and how many turns may run at once."""

    services: Services
    updates: Updates
    max_turns: int = MAX_TURNS
    _places: asyncio.Semaphore | None = None
    _running: int = 0
    _closing: bool = False

    @property
    def language(self) -> Language:
        """The reader's language, as it is set now."""
        return self.services.preferences.language()

    @property
    def has_provider(self) -> bool:
        """Whether a model of the server's own writes the replies."""
        return self.services.model_name() != "rehearsal"

    def worded(self, message: str) -> str:
        """Word a message for this entrance: tools instead of commands, no folder that is not the data root's."""
        path = self.services.settings.model.partition(":")[2]
        if "/" in path:
            for known in (path, os.path.expanduser(path)):
                message = message.replace(known, os.path.basename(path))
        return for_tools(message)

    async def budget(self) -> Budget:
        """Count what results cost."""
        return Budget(await self.services.counter(VOCABULARY))

    @asynccontextmanager
    async def place(self) -> AsyncGenerator[None]:
        """Take one of the places for running turns; wait for one as long as for a busy story."""
        if self._closing:
            raise Busy("server_ending")
        if self._places is None:
            self._places = asyncio.Semaphore(self.max_turns)
        try:
            async with asyncio.timeout(self.services.settings.busy_seconds):
                await self._places.acquire()
        except TimeoutError:
            raise Busy("too_many_turns", limit=self.max_turns) from None
        if self._closing:
            self._places.release()
            raise Busy("server_ending")
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            self._places.release()

    async def close_turns(self) -> None:
        """Stop what is running, so that every reply is closed and its caller hears of it. No other turn begins."""
        self._closing = True
        deadline = asyncio.get_running_loop().time() + _CLOSING_SECONDS
        self.services.turns.stop_all()  # also for those who only wait for a lock
        while self._running and asyncio.get_running_loop().time() < deadline:
            self.services.turns.stop_all()
            await asyncio.sleep(0.02)
