"""The context that every tool of the server uses, and error messages without absolute paths."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from mcp_server.budget import VOCABULARY, Budget
from mcp_server.sampling import SamplingClients
from mcp_server.updates import Updates
from personalab.app import Application
from personalab.errors import PersonaLabError
from personalab.services import Services
from personalab.serving.turn_limiter import TurnLimiter
from personalab.texts import Language


@dataclass(eq=False)
class McpContext:
    """The services, the reader's language, and how many turns may run at once."""

    services: Services
    updates: Updates
    places: TurnLimiter
    sampling: SamplingClients = field(default_factory=SamplingClients)

    @property
    def app(self) -> Application:
        """The operations on the data root."""
        return Application(self.services)

    @property
    def language(self) -> Language:
        """The reader's language, as it is set now."""
        return self.services.preferences.language()

    @property
    def has_provider(self) -> bool:
        """Whether a model of the server's own writes the replies."""
        return self.services.model_name() != "rehearsal"

    def can_ask(self, ctx: Context[Any]) -> bool:
        """Return whether the client's model may be asked: not if any model was chosen, even the stand-in."""
        chosen = self.has_provider or self.services.settings.model_chosen
        return not chosen and self.sampling.can_be_asked(ctx)

    def worded(self, message: str) -> str:
        """Name the local model without its folder."""
        path = self.services.settings.model.partition(":")[2]
        if "/" in path:
            for known in (path, os.path.expanduser(path)):
                message = message.replace(known, os.path.basename(path))
        return message

    async def budget(self) -> Budget:
        """Count what results cost."""
        return Budget(await self.services.counter(VOCABULARY))

    def place(self) -> AbstractAsyncContextManager[None]:
        """Take one of the places for running turns."""
        return self.places.place()

    async def close_turns(self) -> None:
        """Stop what is running, so that every reply is closed and its caller hears of it."""
        await self.places.close()


def worded(desk: McpContext, message: str) -> str:
    """Word a message for this entrance; files are named from the data root on."""
    root = desk.services.settings.data_root
    for folder in (root, os.path.realpath(root)):
        message = message.replace(f"{folder}/", "")
    return desk.worded(message)


@contextmanager
def without_paths(desk: McpContext) -> Generator[None]:
    """Raise errors with files named relative to the data root."""
    try:
        yield
    except PersonaLabError as error:
        raise ToolError(worded(desk, error.message(desk.language))) from None
