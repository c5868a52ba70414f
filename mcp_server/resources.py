"""MCP resources: stories, their sessions and prompts, characters and backgrounds."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp_types import (
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
)
from mcp_types import Resource as ListedResource

from mcp_server.desk import McpContext
from mcp_server.results import well_formed
from mcp_server.stories import KINDS, line_text, shortened
from mcp_server.texts import tell
from personalab.errors import NotFound, PersonaLabError, UserError
from personalab.operations.reading import plain_lines
from personalab.storage.stories import Kind, StoryListing
from personalab.story.records import Background, Character, InstanceState, check_id

JSON = "application/json"
MARKDOWN = "text/markdown"
INSTANCE = "persona://instances/{instance_id}"
SESSION = "persona://instances/{instance_id}/sessions/{session_id}"
PROMPT = "persona://instances/{instance_id}/prompt"
CHARACTER = "persona://characters/{character_id}"
BACKGROUND = "persona://backgrounds/{background_id}"
MAX_CHARACTERS = 400_000
"""Maximum characters shown of a session; older turns are available through persona_read."""
_COMPLETIONS = 100


class Resources:
    """The stories as addresses."""

    def __init__(self, desk: McpContext) -> None:
        self._desk = desk

    def add_to(self, server: MCPServer[Any]) -> None:
        """Add the resource templates and the completion of ids to the server."""
        for template, name, mime, read in (
            (INSTANCE, "instance", JSON, self.instance),
            (SESSION, "session", MARKDOWN, self.session),
            (PROMPT, "prompt", "text/plain", self.prompt),
            (CHARACTER, "character", JSON, self.character),
            (BACKGROUND, "background", JSON, self.background),
        ):
            server.resource(template, name=name, description=(read.__doc__ or "").strip(), mime_type=mime)(
                read
            )
        server.completion()(self.complete)

    # --- reading

    async def instance(self, instance_id: str) -> str:
        """A story: its character, background, session and place in the plot."""

        def read() -> dict[str, Any]:
            state = self._desk.services.stories.instance(check_id(instance_id, "instance_id"))
            sessions = self._desk.services.stories.session_ids(instance_id)
            return {**shortened(self._desk.app.describe_story(state)).model_dump(), "sessions": sessions}

        return await self._json(read)

    async def session(self, instance_id: str, session_id: str) -> str:
        """A session's turns in order, as text."""

        def read() -> str:
            stories, language = self._desk.services.stories, self._desk.language
            check_id(instance_id, "instance_id")
            if check_id(session_id, "session_id") not in stories.session_ids(instance_id):
                raise NotFound("no_session", instance_id=instance_id, session_id=session_id)
            transcript = stories.session(instance_id, session_id).view()
            rows = [f"{tell('by_summary', language)}: {note.content}" for note in transcript.trailing]
            left = MAX_CHARACTERS
            for turn in reversed(transcript.turns):
                said = [line_text(line, language) for line in plain_lines(turn)]
                row = "\n".join([f"## {tell('turn_head', language, turn=turn.number)}", *said])
                rows.append(row[:left])
                left -= len(row)
                if left < 0:
                    rows.append(tell("session_cut", language, turns=len(transcript.turns)))
                    break
            return "\n\n".join(reversed(rows))

        return await self._text(read)

    async def prompt(self, instance_id: str) -> str:
        """What a story's next turn would send, as one text."""
        preview = await asyncio.to_thread(importlib.import_module, "graph.preview")
        try:
            found = await preview.preview_prompt(self._desk.services, instance_id)
        except PersonaLabError as error:
            raise self._worded(error) from error
        return well_formed(found.prompt.text())

    async def character(self, character_id: str) -> str:
        """A character as its author wrote it."""
        stories = self._desk.services.stories
        return await self._json(lambda: stories.character(character_id).fields())

    async def background(self, background_id: str) -> str:
        """A world and the outline of its story."""
        stories = self._desk.services.stories
        return await self._json(lambda: stories.background(background_id).fields())

    async def _json(self, read: Callable[[], Mapping[str, Any]]) -> str:
        return await self._text(lambda: json.dumps(read(), ensure_ascii=False, indent=2))

    async def _text(self, read: Callable[[], str]) -> str:
        try:
            return well_formed(await asyncio.to_thread(read))
        except PersonaLabError as error:
            raise self._worded(error) from error

    def _worded(self, error: PersonaLabError) -> ResourceError:
        kind = ResourceNotFoundError if isinstance(error, UserError) else ResourceError
        return kind(well_formed(self._desk.worded(error.message(self._desk.language))))

    # --- listing

    def listed(self, start: int, count: int) -> tuple[list[ListedResource], bool]:
        """List what can be attached, from one entry on: each story, its current session, characters, backgrounds.

        Only what is listed is read. Tell also whether more follows.
        """
        stories = self._desk.services.stories
        names: list[tuple[Kind, str]] = [(kind, name) for kind in KINDS[::-1] for name in stories.names(kind)]
        entries = (stories.listed(kind, name) for kind, name in names[start : start + count])
        return [found for entry in entries for found in self._listed(entry)], start + count < len(names)

    def _listed(self, entry: StoryListing) -> Iterator[ListedResource]:
        language = self._desk.language
        match entry.record:
            case InstanceState() as state:
                title = tell("resource.instance", language, id=entry.entry_id, character=state.character_id)
                base = INSTANCE.format(instance_id=entry.entry_id)
                yield ListedResource(uri=base, name=entry.entry_id, title=title, mime_type=JSON)
                session = f"{base}/sessions/{state.current_session_id}"
                name = f"{entry.entry_id}/{state.current_session_id}"
                yield ListedResource(uri=session, name=name, title=title, mime_type=MARKDOWN)
            case Character() as character:
                title = well_formed(tell("resource.character", language, name=character.name[:100]))
                uri = CHARACTER.format(character_id=entry.entry_id)
                yield ListedResource(uri=uri, name=entry.entry_id, title=title, mime_type=JSON)
            case Background() as background:
                title = well_formed(tell("resource.background", language, name=background.name[:100]))
                uri = BACKGROUND.format(background_id=entry.entry_id)
                yield ListedResource(uri=uri, name=entry.entry_id, title=title, mime_type=JSON)
            case None:
                pass

    # --- completion

    async def complete(
        self,
        ref: PromptReference | ResourceTemplateReference,
        argument: CompletionArgument,
        context: CompletionContext | None,
    ) -> Completion | None:
        """Complete an id of a template or a prompt by its beginning."""
        known = context.arguments if context and context.arguments else {}
        names = await asyncio.to_thread(self._names, argument.name, known)
        begun = [name for name in names if name.startswith(argument.value)]
        return Completion(values=begun[:_COMPLETIONS], total=len(begun), has_more=len(begun) > _COMPLETIONS)

    def _names(self, argument: str, known: Mapping[str, str]) -> list[str]:
        stories = self._desk.services.stories
        if argument == "session_id":
            try:
                return stories.session_ids(check_id(known.get("instance_id"), "instance_id"))
            except UserError:
                return []
        kind = f"{argument.removesuffix('_id')}s"
        return stories.names(kind) if kind in KINDS else []
