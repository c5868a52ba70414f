"""Writers of a turn's reply: the server's provider, else the client's own model, else the rehearsal model.

A client's model is reached in two ways. Up to protocol 2025-11-25 the server asks while the call runs: such a
client is a ``ReplyModel`` like any other. From 2026-07-28 on the call ends with a question and is made again
with the answer: the turn is then started and ended by the caller. If a client offers its model and then
refuses, the rehearsal model writes the reply.
"""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    CreateMessageRequest,
    CreateMessageRequestParams,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
)
from pydantic import ValidationError

from mcp_server.results import well_formed
from personalab.dialogue import Message
from personalab.errors import ProviderError
from personalab.ports import AnswerNeeded, ReplyChunk, ReplyModel, stream_speech
from personalab.reasoning import split_reasoning

if TYPE_CHECKING:
    from mcp_types import CreateMessageResult

    from nodes.chat_turn.state import TurnOutput

MAX_REPLY_TOKENS = 8_192
HOLD_SECONDS = 60.0
"""Seconds for which a story is held for a client that was asked by ending its call; it may not come back."""
_REPLY = "reply"


class SamplingRefused(AnswerNeeded):
    """A client offers its model and does not use it: a reason to ask someone else, not an error."""


# --- while the call runs


class ClientModel:
    """The client's model, asked while the call runs; its reply comes in one piece.

    Where the client refuses, another model answers instead; without one, ``SamplingRefused`` is raised.
    """

    name = "client"

    def __init__(self, ctx: Context[Any], seconds: float, instead: ReplyModel | None = None) -> None:
        self._ctx = ctx
        self._seconds = seconds
        self._instead = instead
        self.has_refused = False

    def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        """Ask the client, or the other model if the client refuses."""
        return self._stream(messages)

    def stream_speech(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        """Do the same for a character's reply, whose thoughts are taken apart while it is whole.

        All clients' models have one name here: what is known about one must not decide how another's reply is read.
        """
        return self._stream(messages, is_speech=True)

    async def _stream(
        self, messages: Sequence[Message], *, is_speech: bool = False
    ) -> AsyncGenerator[ReplyChunk]:
        try:
            reply = await self._sample(messages)
        except SamplingRefused:
            self.has_refused = True
            if self._instead is None:
                raise
        else:
            reasoning, speech = split_reasoning(reply.text) if is_speech else ("", reply.text)
            yield replace(reply, text=speech, reasoning=reasoning)
            return
        async with aclosing(
            cast("AsyncGenerator[ReplyChunk]", stream_speech(self._instead, messages))
        ) as stream:
            async for chunk in stream:
                yield chunk

    async def _sample(self, messages: Sequence[Message]) -> ReplyChunk:
        """Ask the client; an error, no answer in time and an answer without words are refusals."""
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
            async with asyncio.timeout(self._seconds):
                answer = await asked
        except MCPError as error:
            if error.error.code == CONNECTION_CLOSED:
                raise ProviderError("provider.client", retryable=True, reason=str(error)[:200]) from error
            raise SamplingRefused(str(error)[:200]) from error
        except (TimeoutError, ValidationError) as error:
            raise SamplingRefused(type(error).__name__) from error
        return sampled_reply(answer)


# --- by ending the call


@dataclass(frozen=True, slots=True)
class Brought:
    """What a call that is made again brings: the turn it began, what was odd about it, and the reply, if any."""

    turn: int
    session_id: str
    warnings: list[dict[str, Any]]
    reply: ReplyChunk | None
    asked_again: bool = False
    """Whether the question was asked a second time, because the first answer had no words."""


def question(turn: TurnOutput, *, asked_again: bool = False) -> InputRequiredResult:
    """End the call with the question that the client's model answers."""
    prompt = turn.get("prompt") or {"messages": []}
    system: list[Message] = [{"role": "system", "content": prompt.get("system") or ""}]
    state = {name: turn.get(name) for name in ("turn", "session_id", "warnings")}
    return asked(_REPLY, [*system, *prompt["messages"]], json.dumps({**state, "asked_again": asked_again}))


def asked(name: str, messages: Sequence[Message], request_state: str) -> InputRequiredResult:
    """End the call with a question; its answer comes under a name, with the state."""
    told, said = _split(messages)
    params = CreateMessageRequestParams(messages=said, max_tokens=MAX_REPLY_TOKENS, system_prompt=told)
    return InputRequiredResult(
        request_state=well_formed(request_state),
        input_requests={name: CreateMessageRequest(params=params)},
    )


def answered(ctx: Context[Any], request_state: str) -> Brought:
    """Read what a call brings that is made again with its answer; one without an answer brings no reply."""
    state = json.loads(request_state)
    try:
        reply = brought_reply(ctx, _REPLY)
    except SamplingRefused:
        reply = None
    asked_again = bool(state.get("asked_again"))
    return Brought(state["turn"], state["session_id"], state["warnings"] or [], reply, asked_again)


def brought_reply(ctx: Context[Any], name: str) -> ReplyChunk:
    """Take the answer that a call brings under a name."""
    answer = (ctx.input_responses or {}).get(name)
    if answer is None or not hasattr(answer, "content"):
        raise SamplingRefused("no answer")
    return sampled_reply(cast("CreateMessageResult", answer))


def sampled_reply(answer: CreateMessageResult) -> ReplyChunk:
    """Take what a client's model wrote, and whether it was cut off; an answer without text is a refusal."""
    content = answer.content
    blocks = content if isinstance(content, list) else [content]
    texts = [block.text for block in blocks if isinstance(block, TextContent)]
    if not texts:
        raise SamplingRefused("no text")
    return ReplyChunk("".join(texts), truncated=answer.stop_reason == "maxTokens")


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
