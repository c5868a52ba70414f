"""The MCP server: its tools by toolset, prompts, resources and the panel.

Nothing heavy is imported here: the graphs are imported with the first turn, so that a host can list the tools
at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import Any, cast

from mcp.server import MCPServer
from mcp.server.apps import Apps
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.request_state import RequestStateSecurity
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolResult,
    EmptyResult,
    GetPromptResult,
    InputRequiredResult,
    ListResourcesResult,
    PaginatedRequestParams,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    ToolAnnotations,
    UnsubscribeRequestParams,
)
from mcp_types import Prompt as ListedPrompt
from mcp_types import Tool as ListedTool
from pydantic import AnyUrl, ValidationError

from mcp_server import prompts
from mcp_server.arguments import PlainArguments, unknown_arguments, word_faults, word_missing, word_unknown
from mcp_server.asking import Asking
from mcp_server.desk import McpContext
from mcp_server.growing import GrowthTools
from mcp_server.lab_runs import Runs
from mcp_server.looking import LookingTools
from mcp_server.memories import MemoryTools
from mcp_server.panel import panel_html
from mcp_server.progress import HEARTBEAT_SECONDS, ReportingContext
from mcp_server.resources import Resources
from mcp_server.results import well_formed
from mcp_server.schemas import brief_arguments, brief_result
from mcp_server.sessions import SessionTable
from mcp_server.stories import StoryTools
from mcp_server.texts import DESCRIPTIONS, INSTRUCTIONS, TITLES, tell
from mcp_server.turns import TurnTools
from mcp_server.updates import MAX_SUBSCRIPTIONS, Updates
from personalab.errors import PersonaLabError, UserError
from personalab.services import Services
from personalab.serving.turn_limiter import MAX_TURNS, TurnLimiter
from personalab.tasks import end_tasks
from personalab.texts import say
from personalab.texts.actions import rendering_for

TOOLSETS = ("chat", "memory", "archive", "lab")
DEFAULT_TOOLSETS = ("chat", "memory")
PANEL = "ui://personalab/story.html"
PAGE = 100
"""Maximum stories, characters and backgrounds listed at once."""

_CLOSING_SECONDS = 2.0
"""Seconds that shutdown waits for a database."""

_log = logging.getLogger("personalab.mcp")

_READS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_ADDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
_ASKS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=True
)
_SETTLES = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_REPLACES = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)

_CHANGES = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False
)


def build_server(
    services: Services,
    toolsets: Iterable[str] = DEFAULT_TOOLSETS,
    *,
    max_turns: int = MAX_TURNS,
    places: TurnLimiter | None = None,
) -> PersonaServer:
    """Make the server of a data root; one that shares a process with another entrance shares its places."""
    services.remote = True
    places = places or TurnLimiter(services, max_turns)
    return PersonaServer(McpContext(services, Updates(services.stories), places), check_toolsets(toolsets))


def check_toolsets(names: Iterable[str]) -> tuple[str, ...]:
    """Return the toolsets in their order, or refuse a name there is none of."""
    wanted = set(names)
    if unknown := sorted(wanted - set(TOOLSETS)):
        raise UserError("unknown_toolset", names=", ".join(unknown)[:80], known=", ".join(TOOLSETS))
    return tuple(name for name in TOOLSETS if name in wanted)


class PersonaServer(MCPServer[None]):
    """The MCP server: its own words for bad arguments, in the reader's language, and never a traceback."""

    def __init__(self, desk: McpContext, toolsets: tuple[str, ...]) -> None:
        self.desk = desk
        self._resources = Resources(desk)
        self._listening = ListenHandler(desk.updates.bus)
        self._runs = Runs()
        self.heartbeat_seconds = HEARTBEAT_SECONDS
        self.sessions: SessionTable | None = None
        """Sessions over HTTP; a call keeps its session open, also when its client has gone."""
        stories = StoryTools(desk)
        apps = Apps()
        apps.add_html_resource(PANEL, panel_html(), name="story", title="PersonaLab", prefers_border=True)
        super().__init__(
            "personalab",
            title="PersonaLab",
            instructions=_instructions(desk, toolsets),
            version=_version(),
            tools=_tools(desk, stories, toolsets, self._runs),
            extensions=[apps],
            lifespan=_watching,
            log_level="WARNING",
            subscriptions=desk.updates.bus,
            request_state_security=_state_security(desk.services),
        )
        self._resources.add_to(self)
        prompts.Prompts(desk, stories).add_to(self)
        self._serve_subscriptions()

    # --- tools

    async def list_tools(self) -> list[ListedTool]:
        """List the tools, titled in the reader's language."""
        language = self.desk.language
        tools = await super().list_tools()
        for tool in tools:
            tool.title = TITLES.say(tool.name, language)
        return tools

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool; whatever goes wrong is said so that a model can act on it."""
        tool = self._tool_manager.get_tool(name)
        if tool is None:
            known = ", ".join(tool.name for tool in self._tool_manager.list_tools())
            message = tell("unknown_tool", self.desk.language, tool=name[:80], known=known)
            raise MCPError(code=INVALID_PARAMS, message=well_formed(message))
        if unknown := unknown_arguments(arguments, tool.parameters):
            fault = word_unknown(unknown, tool.parameters, self.desk.language)
            raise ToolError(well_formed(f"{name}: {fault}"))
        with rendering_for("mcp"):
            try:
                return await self._run_tool(name, arguments, context)
            except ToolError as error:
                said = self._worded(name, tool.parameters, error)
                raise ToolError(well_formed(said)) from error.__cause__

    async def _run_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None
    ) -> CallToolResult | InputRequiredResult:
        """Run a tool with a heartbeat for the waiting client."""
        if context is None:
            return await super().call_tool(name, arguments)
        reporting = ReportingContext(context, mcp_server=self, subscriptions=self.desk.updates.bus)
        session_id = (context.headers or {}).get("mcp-session-id")
        with self.sessions.used(session_id) if self.sessions else nullcontext():
            async with reporting.heartbeat(self.heartbeat_seconds):
                return await super().call_tool(name, arguments, reporting)

    def _worded(self, name: str, schema: Mapping[str, Any], error: ToolError) -> str:
        cause, language = error.__cause__, self.desk.language
        if isinstance(cause, PersonaLabError):
            return self.desk.worded(cause.message(language))
        if isinstance(cause, ToolError):
            return str(cause)
        if isinstance(error, UnexpectedToolError):
            _log.error("%s failed", name, exc_info=cause)
            return tell("internal", language, tool=name, error=type(cause).__name__)
        if isinstance(cause, ValidationError):
            return f"{name}: {word_faults(cause, schema, language)}"
        return str(error)

    # --- prompts and resources

    async def list_prompts(self) -> list[ListedPrompt]:
        """List the prompts, titled in the reader's language."""
        language = self.desk.language
        listed = await super().list_prompts()
        for prompt in listed:
            prompt.title = tell(f"prompt.{prompt.name}", language) or prompt.title
            prompt.description = prompt.title or prompt.description
        return listed

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Context[None, Any] | None = None
    ) -> GetPromptResult | InputRequiredResult:
        """Return a prompt; an unusable name or argument is the caller's error."""
        language = self.desk.language
        found = self._prompt_manager.get_prompt(name)
        if found is None:
            known = ", ".join(prompt.name for prompt in self._prompt_manager.list_prompts())
            message = tell("unknown_prompt", language, prompt=name[:80], known=known)
            raise MCPError(code=INVALID_PARAMS, message=well_formed(message))
        known = [argument.name for argument in found.arguments or []]
        needed = [argument.name for argument in found.arguments or [] if argument.required]
        schema = {"properties": dict.fromkeys(known), "required": needed}
        missing = [name for name in needed if name not in (arguments or {})]
        unknown = unknown_arguments(arguments or {}, schema)
        fault = word_unknown(unknown, schema, language) if unknown else ""
        if missing:
            fault = word_missing(missing[0], schema, language)
        if fault:
            raise MCPError(code=INVALID_PARAMS, message=well_formed(f"{name}: {fault}"))
        with rendering_for("mcp"):
            return await super().get_prompt(name, arguments, context)

    async def read_resource(
        self, uri: AnyUrl | str, context: Context[None, Any] | None = None
    ) -> Iterable[ReadResourceContents] | InputRequiredResult:
        """Read an address; one there is none of is said in the reader's language."""
        try:
            with rendering_for("mcp"):
                return await super().read_resource(uri, context)
        except ResourceNotFoundError as error:
            if isinstance(error.__cause__, PersonaLabError):
                raise
            message = tell("unknown_resource", self.desk.language, uri=str(uri)[:200])
            raise ResourceNotFoundError(well_formed(message)) from error

    async def _handle_list_resources(
        self, ctx: ServerRequestContext[None], params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        cursor = params.cursor if params else None
        start = int(cursor) if cursor and cursor.isascii() and cursor.isdigit() and len(cursor) < 9 else 0
        if cursor and str(start) != cursor:
            message = say("bad_cursor", self.desk.language, value=cursor[:40])
            raise MCPError(code=INVALID_PARAMS, message=well_formed(message))
        fixed = [] if start else await self.list_resources()
        listed, more = await asyncio.to_thread(self._resources.listed, start, PAGE)
        return ListResourcesResult(
            resources=[*fixed, *listed], next_cursor=str(start + PAGE) if more else None
        )

    async def serve_streams(self, read: Any, write: Any) -> None:
        """Serve one client over a pair of streams."""
        options = self._lowlevel_server.create_initialization_options()
        await self._lowlevel_server.run(read, write, options)

    async def close(self) -> None:
        """Close what is open: interrupt runs and replies, end streams of updates, close memories."""
        await self._runs.close()
        await self.desk.close_turns()
        self._listening.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING_SECONDS):
                await self.desk.services.close()

    def _serve_subscriptions(self) -> None:
        """Serve listeners, and older clients, which subscribe to single addresses; the SDK has no public way to it."""
        updates = self.desk.updates

        async def subscribe(ctx: ServerRequestContext[None], params: SubscribeRequestParams) -> EmptyResult:
            if not updates.subscribe(str(params.uri), _connection(ctx)):
                message = tell("too_many_subscriptions", self.desk.language, limit=MAX_SUBSCRIPTIONS)
                raise MCPError(code=INVALID_PARAMS, message=message)
            return EmptyResult()

        async def unsubscribe(
            ctx: ServerRequestContext[None], params: UnsubscribeRequestParams
        ) -> EmptyResult:
            updates.unsubscribe(str(params.uri), _connection(ctx))
            return EmptyResult()

        serve = self._lowlevel_server.add_request_handler
        serve("subscriptions/listen", SubscriptionsListenRequestParams, self._listening)
        serve("resources/subscribe", SubscribeRequestParams, subscribe)
        serve("resources/unsubscribe", UnsubscribeRequestParams, unsubscribe)


def _connection(ctx: ServerRequestContext[None]) -> Connection:
    """Find the connection of a request; the session that the SDK gives out lives only as long as the request."""
    return ctx.session._connection  # pyright: ignore[reportPrivateUsage] (there is no other way)


@asynccontextmanager
async def _watching(server: MCPServer[None]) -> AsyncGenerator[None]:
    """Poll for changes by other programs while the server runs."""
    task = asyncio.create_task(cast("PersonaServer", server).desk.updates.watch())
    try:
        yield None
    finally:
        await end_tasks([task])


def _tools(desk: McpContext, stories: StoryTools, toolsets: tuple[str, ...], runs: Runs) -> list[Tool]:
    asking = Asking(desk)
    tools: list[Tool] = []
    if "chat" in toolsets:
        tools += _chat_tools(desk, stories, asking)
    if "memory" in toolsets:
        tools += _memory_tools(desk, asking)
    if "archive" in toolsets:
        tools += _archive_tools(desk, asking)
    if "lab" in toolsets:
        tools += _lab_tools(desk, asking, runs)
    return tools


def _instructions(desk: McpContext, toolsets: tuple[str, ...]) -> str:
    parts = ("chat", *(name for name in ("archive", "lab") if name in toolsets))
    return "".join(INSTRUCTIONS.say(part, desk.language) for part in parts)


def _archive_tools(desk: McpContext, asking: Asking) -> list[Tool]:
    from mcp_server.archives import (
        ArchiveTools,
    )  # few hosts want them, and readers of many formats come along

    archives = ArchiveTools(desk, asking)
    return [
        _tool(archives.archive_import, _ADDS),
        _tool(archives.archive_export, _ADDS),
        _tool(archives.archive_compact, _ASKS),
    ]


def _lab_tools(desk: McpContext, asking: Asking, runs: Runs) -> list[Tool]:
    from mcp_server.lab_baselines import BaselineTools  # few hosts want them, and much comes along
    from mcp_server.lab_desk import LabDesk
    from mcp_server.lab_findings import FindingTools
    from mcp_server.lab_projects import ProjectTools
    from mcp_server.lab_skills import SkillTools

    lab = LabDesk(desk, asking, runs)
    skills, baselines = SkillTools(lab), BaselineTools(lab)
    projects, findings = ProjectTools(lab), FindingTools(lab)
    return [
        _tool(skills.skill_list, _READS),
        _tool(skills.skill_get, _READS),
        _tool(skills.skill_save, _ADDS),
        _tool(skills.skill_tag, _ASKS),
        _tool(baselines.baseline_list, _READS),
        _tool(baselines.baseline_get, _READS),
        _tool(baselines.baseline_save, _ASKS),
        _tool(projects.project_create, _ADDS),
        _tool(projects.project_run, _ASKS),
        _tool(projects.project_status, _READS),
        _tool(projects.project_report, _ADDS),
        _tool(findings.analysis_run, _ASKS),
        _tool(findings.skill_recompose, _ASKS),
        _tool(findings.iteration_start, _ASKS),
        _tool(findings.iteration_stop, _SETTLES),
        _tool(findings.leaderboard_query, _READS),
    ]


def _memory_tools(desk: McpContext, asking: Asking) -> list[Tool]:
    memories = MemoryTools(desk, asking)
    return [
        _tool(memories.memory_save_conversation, _ASKS),
        _tool(memories.memory_get, _READS),
        _tool(memories.memory_search, _READS),
        _tool(memories.memory_edit, _CHANGES),
        _tool(memories.memory_forget, _REPLACES),
    ]


def _chat_tools(desk: McpContext, stories: StoryTools, asking: Asking) -> list[Tool]:
    turns, looking, growth = TurnTools(desk), LookingTools(desk), GrowthTools(desk, asking)
    return [
        _tool(turns.persona_chat, _ASKS),
        _tool(turns.persona_begin_turn, _ADDS),
        _tool(turns.persona_end_turn, _SETTLES),
        _tool(turns.persona_retry, _ASKS),
        _tool(turns.persona_stop, _SETTLES),
        _tool(stories.persona_read, _READS),
        _tool(stories.persona_library, _READS),
        _tool(stories.persona_new_instance, _ADDS),
        _tool(stories.persona_save_character, _REPLACES),
        _tool(stories.persona_save_background, _REPLACES),
        _tool(stories.persona_switch_background, _SETTLES),
        _tool(growth.persona_summarize, _ASKS),
        _tool(growth.persona_update_memory, _ASKS),
        _tool(looking.persona_recall, _READS),
        _tool(looking.persona_prompt, _READS, {"ui": {"resourceUri": PANEL}}),
        _tool(looking.persona_settings, _REPLACES),
    ]


def _tool(fn: Any, annotations: ToolAnnotations, meta: dict[str, Any] | None = None) -> Tool:
    """Describe a tool briefly, and closed to arguments it does not have."""
    name = fn.__name__
    tool = Tool.from_function(
        fn, title=name, description=DESCRIPTIONS[name], annotations=annotations, meta=meta
    )
    tool.parameters = brief_arguments(tool.parameters)
    known = tool.fn_metadata
    tool.fn_metadata = PlainArguments(
        rules=tool.parameters,
        arg_model=known.arg_model,
        output_schema=brief_result(known.output_schema or {}),
        output_model=known.output_model,
        wrap_output=known.wrap_output,
    )
    return tool


def _state_security(services: Services) -> RequestStateSecurity:
    """Seal the state that a client carries between two halves of a call, so that a restarted server accepts it.

    It names a turn, or carries what a client's model answered: whoever could forge it could as well write both.
    """
    settings = services.settings
    secret = f"personalab request state:{settings.data_root}:{settings.token or ''}"
    return RequestStateSecurity(keys=[hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()])


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("personalab")
    except PackageNotFoundError:
        return "0"
