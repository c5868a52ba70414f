"""Who writes the reply of a turn? The server's provider, else the client's own model, else the rehearsal model.

A client's model is reached in two ways. Up to protocol 2025-11-25 the server asks while the call runs: such a
client is a ``ReplyModel`` like any other. From 2026-07-28 on the call ends with a question and is made again with
the answer: there the turn is begun and ended by the caller.
"""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types import (
    ClientCapabilities,
    CreateMessageRequest,
    CreateMessageRequestParams,
    InputRequiredResult,
    SamplingCapability,
    SamplingMessage,
    TextContent,
)

from mcp_server.results import well_formed
from mcp_server.texts import tell
from personalab.dialogue import Message
from personalab.errors import ProviderError
from personalab.ports import ReplyChunk
from personalab.texts import Language

if TYPE_CHECKING:
    from mcp_types import CreateMessageResult

    from nodes.chat_turn.state import TurnOutput

MODERN = "2026-07-28"
MAX_REPLY_TOKENS = 8_192
SAMPLING_SECONDS = 180.0
"""So long a client's model may take while the call runs."""
HOLD_SECONDS = 60.0
"""So long a story is kept for a client that was asked by ending its call; it may not come back."""
_REPLY = "reply"


def offers_sampling(ctx: Context[Any]) -> bool:
    """Tell whether the client lets us use its model."""
    return ctx.session.check_client_capability(ClientCapabilities(sampling=SamplingCapability()))


def is_modern(ctx: Context[Any]) -> bool:
    """Tell whether the client speaks the protocol in which a server asks by ending the call."""
    return (ctx.protocol_version or "") >= MODERN


# --- while the call runs


class ClientModel:
    """The client's model, asked while the call runs; its reply comes in one piece."""

    name = "client"

    def __init__(self, ctx: Context[Any]) -> None:
        self._ctx = ctx

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        """Ask the client; its refusal is a provider's failure."""
        system, said = _split(messages)
        with warnings.catch_warnings():  # sampling is deprecated, and the only way to these clients' models
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            asked = self._ctx.session.create_message(  # pyright: ignore[reportDeprecated] (see above)
                said,
                max_tokens=MAX_REPLY_TOKENS,
                system_prompt=system,
                related_request_id=self._ctx.request_id,
            )
        try:
            async with asyncio.timeout(SAMPLING_SECONDS):
                answer = await asked
        except TimeoutError as error:
            reason = f"{SAMPLING_SECONDS:g} s"
            raise ProviderError("provider.client", retryable=True, reason=reason) from error
        except MCPError as error:
            raise ProviderError("provider.client", retryable=True, reason=str(error)[:200]) from error
        if text := sampled_text(answer):
            yield ReplyChunk(text)


# --- by ending the call


@dataclass(frozen=True, slots=True)
class Brought:
    """What a call that is made again brings: the turn it began, what was odd about it, and the reply."""

    turn: int
    session_id: str
    warnings: list[dict[str, Any]]
    reply: str


def question(turn: TurnOutput) -> InputRequiredResult:
    """End the call with the question that the client's model answers."""
    prompt = turn.get("prompt") or {"messages": []}
    system: list[Message] = [{"role": "system", "content": prompt.get("system") or ""}]
    state = json.dumps({name: turn.get(name) for name in ("turn", "session_id", "warnings")})
    return asked(_REPLY, [*system, *prompt["messages"]], state)


def asked(name: str, messages: Sequence[Message], request_state: str) -> InputRequiredResult:
    """End the call with a question; its answer comes under a name, with the state."""
    told, said = _split(messages)
    params = CreateMessageRequestParams(messages=said, max_tokens=MAX_REPLY_TOKENS, system_prompt=told)
    return InputRequiredResult(
        request_state=well_formed(request_state),
        input_requests={name: CreateMessageRequest(params=params)},
    )


def answered(ctx: Context[Any], request_state: str, language: Language) -> Brought:
    """Read what a call brings that is made again with its answer."""
    state = json.loads(request_state)
    answer = (ctx.input_responses or {}).get(_REPLY)
    if answer is None or not hasattr(answer, "content"):
        raise ToolError(tell("no_answer", language, turn=state["turn"]))
    reply = sampled_text(cast("CreateMessageResult", answer))
    return Brought(state["turn"], state["session_id"], state["warnings"] or [], reply)


def sampled_text(answer: CreateMessageResult) -> str:
    """Take the words of what a client's model wrote."""
    content = answer.content
    blocks = content if isinstance(content, list) else [content]
    return "".join(block.text for block in blocks if isinstance(block, TextContent))


def _split(messages: Sequence[Message]) -> tuple[str | None, list[SamplingMessage]]:
    system = [message["content"] for message in messages if message["role"] == "system"]
    said = [
        SamplingMessage(
            role=message["role"], content=TextContent(type="text", text=well_formed(message["content"]))
        )
        for message in messages
        if message["role"] != "system"
    ]
    return well_formed("\n\n".join(system)) or None, said
