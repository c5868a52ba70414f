"""The context that every route of the API uses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Request

from personalab.app import Application
from personalab.i18n import FALLBACK, Language
from personalab.services import Services
from personalab.serving.turn_limiter import MAX_TURNS, TurnLimiter
from web.jobs import Jobs
from web.metrics import Metrics
from web.previews import Previews
from web.streaming import StreamLimiter
from web.turns import Turns

MAX_STREAMS = 4_096


class AppContext:
    """The services, the turns and jobs of this server, and what it counts."""

    def __init__(
        self, services: Services, *, max_turns: int = MAX_TURNS, max_streams: int = MAX_STREAMS
    ) -> None:
        self.services = services
        self.app = Application(services)
        self.language: Language = FALLBACK
        """The reader's language, as it was when the last request came."""
        self.places = TurnLimiter(services, max_turns)
        self.metrics = Metrics()
        self.places.on_turn = self.metrics.turn_elsewhere
        self.seats = StreamLimiter(max_streams)
        self.turns = Turns(services, self.places, self.metrics, lambda: self.language, self.seats)
        self.jobs = Jobs(lambda: self.language)
        self.previews = Previews()
        self.also_close: list[Callable[[], Awaitable[None]]] = []
        """What shares this process and has something to end, too."""
        self._closed = False
        self.metrics.gauge("turns_running", "Turns that run now", lambda: self.turns.count)
        self.metrics.gauge("jobs_running", "Jobs that run now", lambda: self.jobs.count)
        self.metrics.gauge("streams_open", "Streams that are open now", lambda: self.seats.taken)

    async def look_up_language(self) -> None:
        """Read the reader's language as it is set now; whoever has to say something has it at hand then."""
        preferences = self.services.preferences
        self.language = preferences.known_language() or await asyncio.to_thread(preferences.language)

    async def close(self) -> None:
        """Close every reply as interrupted and end every job; streams end with what they tell."""
        if self._closed:
            return  # the server's end comes before the application's
        self._closed = True
        closing = [self.places.close, self.turns.close, self.jobs.close, *self.also_close]
        await asyncio.gather(*(close() for close in closing))
        await self.services.close()


async def _desk(request: Request) -> AppContext:
    return request.app.state.desk


ContextDep = Annotated[AppContext, Depends(_desk)]
