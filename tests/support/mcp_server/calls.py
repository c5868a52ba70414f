"""How tests call tools and look at what came back."""

from __future__ import annotations

from typing import Any

from mcp import Client
from mcp_types import CallToolResult, CreateMessageRequestParams, CreateMessageResult, TextContent

CHAT = [
    "persona_chat",
    "persona_begin_turn",
    "persona_end_turn",
    "persona_retry",
    "persona_stop",
    "persona_read",
    "persona_library",
    "persona_new_instance",
    "persona_save_character",
    "persona_save_background",
    "persona_switch_background",
    "persona_summarize",
    "persona_update_memory",
    "persona_recall",
    "persona_prompt",
    "persona_settings",
]
"""The toolset chat, in its order."""
MEMORY = [
    "memory_save_conversation",
    "memory_get",
    "memory_search",
    "memory_edit",
    "memory_forget",
]
"""The toolset memory, in its order."""


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool that must succeed; return its structured content, whose reply stands in the text as well."""
    found = await client.call_tool(tool, arguments)
    assert not found.is_error, text_of(found)
    assert found.structured_content is not None
    if "reply" in found.structured_content:
        assert found.structured_content["reply"] in text_of(found)
    return found.structured_content


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    """Call a tool that must fail; return what it says."""
    found = await client.call_tool(tool, arguments)
    assert found.is_error, found.structured_content
    return text_of(found)


def text_of(found: CallToolResult) -> str:
    """Take a result's words."""
    return "".join(block.text for block in found.content if isinstance(block, TextContent))


def data_of(found: Any) -> dict[str, Any]:
    """Take a result's structured content."""
    return found.structured_content or {}


class Sampler:
    """A client's own model; it notes what it was asked."""

    def __init__(self, *replies: str, stop_reason: str | None = None) -> None:
        self.replies = list(replies)
        self.stop_reason = stop_reason
        self.asked: list[CreateMessageRequestParams] = []

    async def __call__(self, context: Any, params: CreateMessageRequestParams) -> CreateMessageResult:
        """Give the next reply."""
        self.asked.append(params)
        content = TextContent(type="text", text=self.replies.pop(0))
        return CreateMessageResult(
            role="assistant", content=content, model="the client's", stop_reason=self.stop_reason
        )
