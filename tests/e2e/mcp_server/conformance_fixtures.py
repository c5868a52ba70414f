"""Tools, resources and prompts that the MCP conformance suite expects, added to the server.

The suite calls them by names of its own; the product has no use for them. ``add_fixtures`` adds them to the
product's own on the same server object, so that the protocol is tested in the product's own server. Those
that answer over several rounds are in ``conformance_rounds``.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from mcp import MCPError
from mcp.server import MCPServer, ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import Prompt, UserMessage
from mcp.types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    EmbeddedResource,
    EmptyResult,
    ImageContent,
    SamplingMessage,
    SetLevelRequestParams,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel, Field, JsonValue

from tests.e2e.mcp_server.conformance_rounds import add_rounds

Server = MCPServer[Any]

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
SILENCE = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="


def add_fixtures(server: Server) -> None:
    """Put everything that scored scenarios of both revisions ask for on a server."""
    _add_contents(server)
    _add_conduct(server)
    _add_changes(server)
    _add_questions(server)
    _add_resources(server)
    _add_prompts(server)
    _add_log_level(server)
    add_rounds(server)


def _image() -> ImageContent:
    return ImageContent(data=PIXEL, mime_type="image/png")


def _embedded(uri: str, text: str, mime_type: str = "text/plain") -> EmbeddedResource:
    return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type=mime_type, text=text))


def _add_contents(server: Server) -> None:
    @server.tool()
    async def test_simple_text() -> str:
        """Return a text."""
        return "This is a simple text response for testing."

    @server.tool()
    async def test_image_content() -> list[ImageContent]:
        """Return an image."""
        return [_image()]

    @server.tool()
    async def test_audio_content() -> list[AudioContent]:
        """Return a sound."""
        return [AudioContent(data=SILENCE, mime_type="audio/wav")]

    @server.tool()
    async def test_embedded_resource() -> list[EmbeddedResource]:
        """Return a resource."""
        return [_embedded("test://embedded-resource", "This is an embedded resource content.")]

    @server.tool()
    async def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
        """Return a text, an image and a resource."""
        data = _embedded(
            "test://mixed-content-resource", '{"test": "data", "value": 123}', "application/json"
        )
        return [TextContent(text="Multiple content types test:"), _image(), data]


def _add_conduct(server: Server) -> None:
    @server.tool()
    async def test_tool_with_logging(ctx: Context) -> str:
        """Log while working, as a server of the handshake era does."""
        for step in ("started", "processing data", "completed"):
            await ctx.info(f"Tool execution {step}")  # pyright: ignore[reportDeprecated] (still scored)
        return "Tool with logging executed successfully"

    @server.tool()
    async def test_logging_tool(ctx: Context) -> str:
        """Log for a client that has not asked for it: nothing of it may arrive."""
        await ctx.info("unheard")  # pyright: ignore[reportDeprecated] (still scored)
        return "logged"

    @server.tool()
    async def test_tool_with_progress(ctx: Context) -> str:
        """Report progress in three steps."""
        for done in (0, 50, 100):
            await ctx.report_progress(done, 100, f"Completed step {done} of 100")
        return "done"

    @server.tool()
    async def test_error_handling() -> str:
        """Fail."""
        raise ToolError("This tool intentionally returns an error for testing")

    @server.tool()
    async def test_missing_capability(ctx: Context) -> str:
        """Refuse a client that offers no sampling."""
        offered = ctx.session.client_capabilities
        if offered is None or offered.sampling is None:
            raise MCPError(
                MISSING_REQUIRED_CLIENT_CAPABILITY,
                "This tool requires the client 'sampling' capability",
                {"requiredCapabilities": {"sampling": {}}},
            )
        return "The client offers sampling."


def _add_changes(server: Server) -> None:
    def nothing() -> str:
        """Stand on a list for a moment."""
        return "nothing"

    @server.tool()
    async def test_trigger_tool_change(ctx: Context) -> str:
        """Change the list of tools and say so."""
        server.add_tool(nothing, name="test_dynamic_tool")
        server.remove_tool("test_dynamic_tool")
        await ctx.notify_tools_changed()
        return "tool list changed"

    @server.tool()
    async def test_trigger_prompt_change(ctx: Context) -> str:
        """Change the list of prompts and say so."""
        server.add_prompt(Prompt.from_function(nothing, name="test_dynamic_prompt"))
        server.remove_prompt("test_dynamic_prompt")
        await ctx.notify_prompts_changed()
        return "prompt list changed"


class _Answer(BaseModel):
    username: str = Field(description="User's response")
    email: str = Field(description="User's email address")


class _Defaults(BaseModel):
    name: str = Field(default="John Doe", description="User name")
    age: int = Field(default=30, description="User age")
    score: float = Field(default=95.5, description="User score")
    status: str = Field(default="active", json_schema_extra={"enum": ["active", "inactive", "pending"]})
    verified: bool = Field(default=True, description="Verification status")


def _titled(**titles: str) -> list[JsonValue]:
    return [{"const": value, "title": title} for value, title in titles.items()]


class _Enums(BaseModel):
    untitled_single: str = Field(
        alias="untitledSingle", json_schema_extra={"enum": ["active", "inactive", "pending"]}
    )
    titled_single: str = Field(
        alias="titledSingle",
        json_schema_extra={"oneOf": _titled(low="Low", medium="Medium", high="High")},
    )
    untitled_multi: list[str] = Field(
        alias="untitledMulti",
        json_schema_extra={"items": {"type": "string", "enum": ["read", "write", "execute"]}},
    )
    titled_multi: list[str] = Field(
        alias="titledMulti",
        json_schema_extra={"items": {"anyOf": _titled(feature="New", bug="Fix", docs="Text")}},
    )
    legacy_enum: str = Field(
        alias="legacyEnum",
        json_schema_extra={"enum": ["small", "large"], "enumNames": ["Small Size", "Large Size"]},
    )


def _add_questions(server: Server) -> None:
    async def ask(ctx: Context, message: str, schema: type[BaseModel]) -> str:
        answer = await ctx.elicit(message, schema)
        content = answer.data.model_dump_json(by_alias=True) if answer.action == "accept" else "{}"
        return f"action={answer.action}, content={content}"

    @server.tool()
    async def test_sampling(prompt: str, ctx: Context) -> str:
        """Ask the client's model, as a server of the handshake era does."""
        message = SamplingMessage(role="user", content=TextContent(text=prompt))
        result = await ctx.session.create_message(  # pyright: ignore[reportDeprecated] (still scored)
            [message], max_tokens=100, related_request_id=ctx.request_id
        )
        said = result.content.text if isinstance(result.content, TextContent) else "no text"
        return f"LLM response: {said}"

    @server.tool()
    async def test_elicitation(message: str, ctx: Context) -> str:
        """Ask the person."""
        return await ask(ctx, message, _Answer)

    @server.tool()
    async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
        """Ask the person, with a default for each primitive type."""
        return await ask(ctx, "Please provide user information", _Defaults)

    @server.tool()
    async def test_elicitation_sep1330_enums(ctx: Context) -> str:
        """Ask the person, with every way to write a choice."""
        return await ask(ctx, "Please select values", _Enums)


def _add_resources(server: Server) -> None:
    @server.resource("test://static-text")
    async def static_text() -> str:
        """Give a text."""
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", mime_type="image/png")
    async def static_binary() -> bytes:
        """Give an image."""
        return base64.b64decode(PIXEL)

    @server.resource("test://template/{key}/data", mime_type="application/json")
    async def by_template(key: str) -> str:
        """Give what the address names."""
        return json.dumps({"id": key, "templateTest": True, "data": f"Data for ID: {key}"})

    @server.resource("test://watched-resource")
    async def watched() -> str:
        """Give what can be watched."""
        return "Watched resource content"


def _add_prompts(server: Server) -> None:
    def said(content: str | ImageContent | EmbeddedResource) -> UserMessage:
        return UserMessage(TextContent(text=content) if isinstance(content, str) else content)

    @server.prompt()
    async def test_simple_prompt() -> list[UserMessage]:
        """Give a plain prompt."""
        return [said("This is a simple prompt for testing.")]

    @server.prompt()
    async def test_prompt_with_arguments(arg1: str, arg2: str) -> list[UserMessage]:
        """Give a prompt with its arguments filled in."""
        return [said(f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")]

    @server.prompt()
    async def test_prompt_with_embedded_resource(
        resourceUri: str,  # noqa: N803 (the suite's name)
    ) -> list[UserMessage]:
        """Give a prompt that carries a resource."""
        embedded = _embedded(resourceUri, "Embedded resource content for testing.")
        return [said(embedded), said("Please process the embedded resource above.")]

    @server.prompt()
    async def test_prompt_with_image() -> list[UserMessage]:
        """Give a prompt that carries an image."""
        return [said(_image()), said("Please analyze the image above.")]


def _add_log_level(server: Server) -> None:
    async def set_level(ctx: ServerRequestContext[Any], params: SetLevelRequestParams) -> EmptyResult:
        return EmptyResult()

    # MCPServer has no public way to serve this method of the handshake era once it is built.
    low = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]
    low.add_request_handler("logging/setLevel", SetLevelRequestParams, set_level)
