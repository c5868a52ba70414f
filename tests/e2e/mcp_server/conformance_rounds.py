"""Multi-round answers that the MCP conformance suite expects (2026-07-28, SEP-2322)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)

Server = MCPServer[Any]
Rounds = str | InputRequiredResult


def add_rounds(server: Server) -> None:
    """Put the tools and the prompt that ask before they answer on a server."""
    _add_single_questions(server)
    _add_states(server)
    _add_several_questions(server)


def _form(message: str, field: str, kind: str = "string") -> ElicitRequest:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {field: {"type": kind}},
        "required": [field],
    }
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def _sample(question: str) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(text=question))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=100))


def _answers(ctx: Context) -> Mapping[str, object]:
    return ctx.input_responses or {}


def _field(answer: object, field: str) -> object:
    return answer.content.get(field) if isinstance(answer, ElicitResult) and answer.content else None


def _add_single_questions(server: Server) -> None:
    async def ask_name(ctx: Context) -> Rounds:
        if name := _field(_answers(ctx).get("user_name"), "name"):
            return f"Hello, {name}!"
        return InputRequiredResult(input_requests={"user_name": _form("What is your name?", "name")})

    @server.tool()
    async def test_input_required_result_elicitation(ctx: Context) -> Rounds:
        """Ask the person for a name."""
        return await ask_name(ctx)

    @server.tool()
    async def test_streaming_elicitation(ctx: Context) -> Rounds:
        """Ask the person for a name, after some progress on the same stream."""
        await ctx.report_progress(1, 2, "about to ask")
        return await ask_name(ctx)

    @server.tool()
    async def test_input_required_result_sampling(ctx: Context) -> Rounds:
        """Ask the client's model."""
        answer = _answers(ctx).get("capital_question")
        if isinstance(answer, CreateMessageResult) and isinstance(answer.content, TextContent):
            return f"Model said: {answer.content.text}"
        return InputRequiredResult(input_requests={"capital_question": _sample("Capital of France?")})

    @server.tool()
    async def test_input_required_result_list_roots(ctx: Context) -> Rounds:
        """Ask for the client's roots."""
        answer = _answers(ctx).get("client_roots")
        if isinstance(answer, ListRootsResult):
            return f"Client exposed {len(answer.roots)} root(s)."
        return InputRequiredResult(input_requests={"client_roots": ListRootsRequest()})

    @server.prompt()
    async def test_input_required_result_prompt(ctx: Context) -> list[UserMessage] | InputRequiredResult:
        """Ask the person before a prompt is given."""
        if context := _field(_answers(ctx).get("user_context"), "context"):
            return [UserMessage(TextContent(text=f"Use the following context: {context}"))]
        question = _form("What context should the prompt use?", "context")
        return InputRequiredResult(input_requests={"user_context": question})


def _add_states(server: Server) -> None:
    @server.tool()
    async def test_input_required_result_request_state(ctx: Context) -> Rounds:
        """Finish only for the state that was given out."""
        if "confirm" in _answers(ctx) and ctx.request_state == "request-state-nonce":
            return "state-ok: confirmation received"
        confirm = _form("Please confirm", "ok", "boolean")
        return InputRequiredResult(input_requests={"confirm": confirm}, request_state="request-state-nonce")

    @server.tool()
    async def test_input_required_result_tampered_state(ctx: Context) -> Rounds:
        """Give out a state; the server itself refuses a changed one."""
        if ctx.request_state is not None:
            return f"state-ok: {ctx.request_state}"
        confirm = _form("Please confirm", "ok", "boolean")
        return InputRequiredResult(input_requests={"confirm": confirm}, request_state="round-1")

    @server.tool()
    async def test_input_required_result_multi_round(ctx: Context) -> Rounds:
        """Ask for a name, then for a colour, and finish in the third round."""
        state: dict[str, Any] = json.loads(ctx.request_state) if ctx.request_state else {}
        answers = _answers(ctx)
        if state.get("round") == 2 and (color := _field(answers.get("step2"), "color")):
            return f"{state['name']} likes {color}."
        if state.get("round") == 1 and (name := _field(answers.get("step1"), "name")):
            return InputRequiredResult(
                input_requests={"step2": _form("Step 2: What is your favorite color?", "color")},
                request_state=json.dumps({"round": 2, "name": name}),
            )
        return InputRequiredResult(
            input_requests={"step1": _form("Step 1: What is your name?", "name")},
            request_state=json.dumps({"round": 1}),
        )


def _add_several_questions(server: Server) -> None:
    @server.tool()
    async def test_input_required_result_multiple_inputs(ctx: Context) -> Rounds:
        """Ask the person, the model and for roots in one round."""
        questions: dict[str, InputRequest] = {
            "user_name": _form("What is your name?", "name"),
            "greeting": _sample("Generate a greeting"),
            "client_roots": ListRootsRequest(),
        }
        if questions.keys() <= _answers(ctx).keys():
            return "All inputs received."
        return InputRequiredResult(input_requests=questions, request_state="multiple-inputs")

    @server.tool()
    async def test_input_required_result_capabilities(ctx: Context) -> InputRequiredResult:
        """Ask only for what the client offers."""
        offered = ctx.client_capabilities
        questions: dict[str, InputRequest] = {}
        if offered is None or offered.sampling is not None:
            questions["sample"] = _sample("Say hello")
        if offered is None or offered.elicitation is not None:
            questions["ask"] = _form("What is your name?", "name")
        return InputRequiredResult(input_requests=questions, request_state="capability-gated")
