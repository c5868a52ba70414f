"""MCP prompts that a person can pick in the host's menu."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, TextContent
from pydantic import Field

from mcp_server.budget import RESULT_TOKENS
from mcp_server.desk import McpContext
from mcp_server.results import well_formed
from mcp_server.stories import StoryTools, page_text
from mcp_server.texts import tell
from personalab.errors import PersonaLabError

NAMES = ("play", "recap")


class Prompts:
    """Beginning a story, and looking back at one."""

    def __init__(self, desk: McpContext, stories: StoryTools) -> None:
        self._desk = desk
        self._stories = stories

    def add_to(self, server: MCPServer[Any]) -> None:
        """Add the prompts to the server."""
        for ask in (self.play, self.recap):
            server.prompt(ask.__name__, description=ask.__doc__)(ask)

    async def play(
        self,
        ctx: Context[Any],
        character_id: Annotated[str | None, Field(description="Begin a story with this character")] = None,
        background_id: Annotated[str | None, Field(description="In this background")] = None,
        instance_id: Annotated[str | None, Field(description="Or go on with this story")] = None,
    ) -> str:
        """Begin a story, or go on with one."""
        language, services = self._desk.language, self._desk.services
        how = tell(self._writer(ctx), language)
        try:
            if instance_id:
                asked = tell("play_on", language, instance_id=instance_id)
                return f"{asked} {how}\n\n{await self._record(instance_id, 4)}"
            if character_id:
                character = services.stories.character(character_id)
                world = services.stories.background(background_id) if background_id else None
                names = {
                    "character": f"{well_formed(character.name)} ({character_id})",
                    "background": f"{well_formed(world.name)} ({background_id})"
                    if world
                    else tell("none", language),
                }
                return f"{tell('play_new', language, **names)} {how}"
            if background_id:
                services.stories.background(background_id)
        except PersonaLabError as error:
            raise self._worded(error) from error
        listing = await self._stories.persona_library("all")
        shown = "".join(block.text for block in listing.content if isinstance(block, TextContent))
        if background_id:
            how = f"{tell('in_background', language, background=background_id)} {how}"
        return f"{tell('play_choose', language)} {how}\n\n{shown}"

    def _writer(self, ctx: Context[Any]) -> str:
        """Name the text that tells who will write the replies."""
        if self._desk.has_provider:
            return "how_writer"
        return "how_sampling" if self._desk.can_ask(ctx) else "how_host"

    async def recap(self, instance_id: Annotated[str, Field(description="The story")]) -> str:
        """Tell what has happened so far."""
        try:
            record = await self._record(instance_id, 1)
        except PersonaLabError as error:
            raise self._worded(error) from error
        return f"{tell('recap_ask', self._desk.language, instance_id=instance_id)}\n\n{record}"

    async def _record(self, instance_id: str, share: int) -> str:
        budget = await self._desk.budget()
        page = await self._desk.app.read_page(
            instance_id,
            None,
            None,
            budget=RESULT_TOKENS // share,
            cost=budget.cost,
            cut=budget.cut,
        )
        return well_formed(page_text(page, self._desk.language))

    def _worded(self, error: PersonaLabError) -> MCPError:
        message = self._desk.worded(error.message(self._desk.language))
        return MCPError(code=INVALID_PARAMS, message=well_formed(message))
