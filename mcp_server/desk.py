"""What does every tool of the server work with?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from mcp_server.budget import Budget
from mcp_server.updates import Updates
from personalab.errors import Busy
from personalab.services import Services
from personalab.texts import Language

MAX_TURNS = 64


@dataclass(eq=False)
class Desk:
    """The services, the reader's language, and how many turns may run at once."""

    services: Services
    updates: Updates
    max_turns: int = MAX_TURNS
    _places: asyncio.Semaphore | None = None
    running: set[asyncio.Task[object]] = field(default_factory=set[asyncio.Task[object]])
    """The calls that are in a turn right now."""
    closing: bool = False

    @property
    def language(self) -> Language:
        """The reader's language, as it is set now."""
        return self.services.preferences.language()

    @property
    def has_provider(self) -> bool:
        """Whether a model of the server's own writes the replies."""
        return self.services.model_name() != "rehearsal"

    async def budget(self) -> Budget:
        """Count as the answering model does."""
        return Budget(await self.services.counter())

    @asynccontextmanager
    async def place(self) -> AsyncGenerator[None]:
        """Take one of the places for running turns; wait for one as long as for a busy story."""
        if self.closing:
            raise Busy("server_ending")
        if self._places is None:
            self._places = asyncio.Semaphore(self.max_turns)
        try:
            async with asyncio.timeout(self.services.settings.busy_seconds):
                await self._places.acquire()
        except TimeoutError:
            raise Busy("too_many_turns", limit=self.max_turns) from None
        task = asyncio.current_task()
        try:
            if task is not None:
                self.running.add(task)
            yield
        finally:
            if task is not None:
                self.running.discard(task)
            self._places.release()

    async def close_turns(self) -> None:
        """End what is running: replies are closed as interrupted. No other turn begins."""
        self.closing = True
        tasks = list(self.running)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5)
