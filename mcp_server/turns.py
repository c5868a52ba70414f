"""Tools that play a story: a whole turn, a turn that the host answers, retry and stop."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, nullcontext
from typing import TYPE_CHECKING, Annotated, Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, InputRequiredResult
from pydantic import Field

from mcp_server import writers
from mcp_server.desk import McpContext
from mcp_server.rendering import begun_turn, turn_result
from mcp_server.results import BegunTurn, TurnResult, result, well_formed
from mcp_server.sampling import OpenQuestion, is_modern
from mcp_server.texts import tell
from personalab.errors import UserError
from personalab.providers.temporary_model import temporary_model
from personalab.reasoning import split_reasoning
from personalab.results.stories import StopResult
from personalab.story.director import has_speech

if TYPE_CHECKING:
    from nodes.chat_turn.state import TurnInput, TurnOutput
    from personalab.story.events import Event

InstanceId = Annotated[str, Field(description="The story's id")]
Said = Annotated[str, Field(description="What the user says, word for word")]
RequestId = Annotated[
    str | None, Field(description="A fresh id of this call; the same again gives the same turn")
]
Reasoning = Annotated[bool, Field(description="With the model's reasoning")]
StreamTurn = Callable[..., "AsyncGenerator[Event | TurnOutput]"]
Answer = Annotated[CallToolResult, TurnResult]

_PAUSE_SECONDS = 0.1
"""Minimum seconds between two progress notifications."""


class TurnRefused(ToolError):  # noqa: N818 (as ours are named)
    """A turn that was not begun; nothing was written."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class TurnTools:
    """Turns of a story, each by the one graph."""

    def __init__(self, desk: McpContext) -> None:
        self._desk = desk

    async def persona_chat(
        self,
        ctx: Context[Any],
        instance_id: InstanceId,
        text: Said,
        request_id: RequestId = None,
        reasoning: Reasoning = False,
    ) -> Answer | InputRequiredResult:
        """Play one whole turn."""
        turn: TurnInput = {"instance_id": instance_id, "user_input": text, "action": "say"}
        if request_id is not None:
            turn["request_id"] = request_id
        return await self._result(await self._answer(ctx, turn), reasoning=reasoning)

    async def persona_retry(
        self, ctx: Context[Any], instance_id: InstanceId, reasoning: bool = False
    ) -> Answer | InputRequiredResult:
        """Answer the last turn again."""
        turn: TurnInput = {"instance_id": instance_id, "action": "retry"}
        return await self._result(await self._answer(ctx, turn), reasoning=reasoning)

    async def persona_begin_turn(
        self, ctx: Context[Any], instance_id: InstanceId, text: Said, request_id: RequestId = None
    ) -> Annotated[CallToolResult, BegunTurn]:
        """Hand the prompt of a new turn to the host."""
        turn: TurnInput = {"instance_id": instance_id, "user_input": text, "action": "begin"}
        if request_id is not None:
            turn["request_id"] = request_id
        found = await self._run_unheld(ctx, turn)
        return await begun_turn(found, self._desk)

    async def persona_end_turn(
        self,
        ctx: Context[Any],
        instance_id: InstanceId,
        turn: Annotated[int, Field(description="The turn that persona_begin_turn named", ge=1, le=10**9)],
        reply: Annotated[str, Field(description="The character's whole reply")],
        reasoning: bool = False,
    ) -> Answer:
        """Take the host's reply."""
        found = await self._run(ctx, _ending(instance_id, turn, reply))
        return await turn_result(found, self._desk, reasoning=reasoning)

    async def persona_stop(self, instance_id: InstanceId) -> Annotated[CallToolResult, StopResult]:
        """Stop what is being written."""
        found = await self._desk.app.stop(instance_id)
        task, language = found.stopped, self._desk.language
        if task == "sampling":
            text = tell("freed", language, instance_id=instance_id)
        else:
            done = tell(f"task.{task}", language) or task
            text = tell("stopped", language, instance_id=instance_id, task=done)
        return result(text, found.model_dump())

    # --- who writes

    async def _result(
        self, found: TurnOutput | InputRequiredResult, *, reasoning: bool
    ) -> CallToolResult | InputRequiredResult:
        if isinstance(found, InputRequiredResult):
            return found
        return await turn_result(found, self._desk, reasoning=reasoning)

    async def _answer(self, ctx: Context[Any], turn: TurnInput) -> TurnOutput | InputRequiredResult:
        """Get the reply from whichever model can write it, chosen for each call."""
        desk = self._desk
        if ctx.request_state is not None:
            return await self._bring(ctx, turn, writers.answered(ctx, ctx.request_state))
        if desk.has_provider:
            return await self._run(ctx, turn)
        if desk.can_ask(ctx):
            if is_modern(ctx):
                return await self._ask(ctx, turn)
            if ctx.session.can_send_request:
                return await self._sample(ctx, turn)
        return await self._stand_in(ctx, turn)

    async def _stand_in(self, ctx: Context[Any], turn: TurnInput) -> TurnOutput:
        """Get the reply from the rehearsal model, and say why."""
        return self._noted(await self._run_unheld(ctx, turn))

    def _noted(self, found: TurnOutput) -> TurnOutput:
        """Add to a reply by the rehearsal model what it is."""
        if found.get("tokens") is None:  # answered before, by whomever
            return found
        code = "rehearsal_chosen" if self._desk.services.settings.model_chosen else "rehearsal"
        note = {"category": "rehearsal", "message": tell(code, self._desk.language)}
        return {**found, "warnings": [*found.get("warnings", []), note]}

    async def _sample(self, ctx: Context[Any], turn: TurnInput) -> TurnOutput:
        """Ask the client's model while the call runs; if the client refuses, the rehearsal model writes."""
        services, sampling = self._desk.services, self._desk.sampling
        client = writers.ClientModel(ctx, sampling.seconds, await services.model())
        with temporary_model(services.models, client) as model:
            found = await self._run(ctx, turn, model)
        if not client.has_refused:
            return found
        sampling.note_refused(ctx)
        return self._noted(found)

    async def _ask(self, ctx: Context[Any], turn: TurnInput) -> TurnOutput | InputRequiredResult:
        """Start the turn and end the call with the question for the client's model."""
        instance_id, sampling = turn.get("instance_id", ""), self._desk.sampling
        unanswered = sampling.open_question(ctx, instance_id)
        if unanswered is not None and _is_again(turn, unanswered):
            sampling.note_refused(ctx)
            return await self._stand_in(ctx, _resumed(turn))
        action = "begin_again" if turn.get("action") == "retry" else "begin"
        asking: TurnInput = {**turn, "action": action, "hold_seconds": writers.HOLD_SECONDS}
        try:
            found = await self._run(ctx, asking)
        except TurnRefused as refused:
            if not await self._free(ctx, instance_id, refused):
                raise
            return await self._stand_in(ctx, turn)
        if found.get("status") != "awaiting_reply":
            return found
        question = OpenQuestion(found.get("turn") or 0, turn.get("user_input", ""), turn.get("request_id"))
        sampling.note_asked(ctx, instance_id, question)
        return writers.question(found)

    async def _free(self, ctx: Context[Any], instance_id: str, refused: TurnRefused) -> bool:
        """Free a story that is kept for this very client: it has not answered, and now wants something else."""
        question = self._desk.sampling.open_question(ctx, instance_id)
        if refused.code != "awaiting_client" or question is None:
            return False
        self._desk.sampling.note_refused(ctx)
        await self._desk.services.leases.release_hold(instance_id, question.turn)
        return True

    async def _run_unheld(self, ctx: Context[Any], turn: TurnInput) -> TurnOutput:
        """Run the graph, also if the story is kept for this client, which did not answer."""
        try:
            return await self._run(ctx, turn)
        except TurnRefused as refused:
            if not await self._free(ctx, turn.get("instance_id", ""), refused):
                raise
        return await self._run(ctx, turn)

    async def _bring(
        self, ctx: Context[Any], turn: TurnInput, brought: writers.Brought
    ) -> TurnOutput | InputRequiredResult:
        """Take what the client's model wrote; a repeated call gets the answer that came first."""
        instance_id, services = turn.get("instance_id", ""), self._desk.services
        if brought.reply is None:
            self._desk.sampling.note_refused(ctx)
            await self._check_session(instance_id, brought)
            await self._check_last(instance_id, brought)
            return await self._stand_in(ctx, {"instance_id": instance_id, "action": "retry"})
        self._desk.sampling.note_answered(ctx, instance_id)
        if not has_speech(split_reasoning(brought.reply.text)[1]):
            if not brought.asked_again:
                return await self._ask_again(ctx, turn, brought)
            await services.leases.release_hold(instance_id, brought.turn)
            raise ToolError(tell("no_text_sampled", self._desk.language, turn=brought.turn))
        await self._check_session(instance_id, brought)
        ending = _ending(instance_id, brought.turn, brought.reply.text)
        ending["caller_truncated"] = brought.reply.truncated
        ending["caller_is_model"] = True
        if (request_id := turn.get("request_id")) is not None:
            ending["request_id"] = request_id
        found = await self._run(ctx, ending)
        return {**found, "warnings": [*brought.warnings, *found.get("warnings", [])]}

    async def _ask_again(
        self, ctx: Context[Any], turn: TurnInput, brought: writers.Brought
    ) -> TurnOutput | InputRequiredResult:
        """Ask the client's model once more, and say that its first answer had no words."""
        instance_id, sampling = turn.get("instance_id", ""), self._desk.sampling
        await self._check_session(instance_id, brought)
        await self._check_last(instance_id, brought)
        found = await self._run(
            ctx,
            {
                "instance_id": instance_id,
                "action": "begin_again",
                "hold_seconds": writers.HOLD_SECONDS,
                "wordless_before": True,
            },
        )
        if found.get("status") != "awaiting_reply":
            return found
        question = OpenQuestion(brought.turn, turn.get("user_input", ""), turn.get("request_id"))
        sampling.note_asked(ctx, instance_id, question)
        return writers.question(found, asked_again=True)

    async def _check_session(self, instance_id: str, brought: writers.Brought) -> None:
        """Refuse what is brought for a turn of an older session."""
        state = await asyncio.to_thread(self._desk.services.stories.instance, instance_id)
        if state.current_session_id != brought.session_id:
            raise UserError("turn_overtaken", turn=brought.turn)

    async def _check_last(self, instance_id: str, brought: writers.Brought) -> None:
        """Refuse what is brought for another turn than the last one."""
        read = self._desk.services.stories.session
        last = (await asyncio.to_thread(read, instance_id, brought.session_id)).transcript.last
        if last is None or last.number != brought.turn:
            raise UserError("turn_overtaken", turn=brought.turn)

    # --- one run of the graph

    async def _run(self, ctx: Context[Any], turn: TurnInput, model: str | None = None) -> TurnOutput:
        """Run the graph, tell its sentences; a turn that was refused is a tool error and left nothing behind."""
        stream_turn = await _graph()
        desk, instance_id = self._desk, turn.get("instance_id", "")
        begun = time.monotonic()
        found: TurnOutput = {}
        sentences = Sentences(ctx) if turn.get("action") in ("say", "retry") else None
        repeated = "request_id" in turn and await desk.services.turns.is_requested(
            instance_id, turn["request_id"]
        )
        async with nullcontext() if repeated or turn.get("action") == "end" else desk.place():
            async with aclosing(stream_turn(desk.services, turn, model=model)) as stream:
                async for part in stream:
                    if "type" not in part:
                        found = part
                    elif part["type"] == "token" and sentences is not None:
                        await sentences.hear(part["text"])
            if sentences is not None:
                await sentences.end()
        if desk.places.on_turn is not None and not repeated and found.get("status") != "awaiting_reply":
            desk.places.on_turn(found, time.monotonic() - begun)
        if found.get("turn") is None:
            error = found.get("error") or {}
            raise TurnRefused(desk.worded(str(error.get("message", ""))), str(error.get("code", "")))
        await desk.updates.story_changed(instance_id)
        return found


async def _graph() -> StreamTurn:
    """Find the graph; its libraries take a second to load the first time, aside from the event loop."""
    found = getattr(sys.modules.get("graph.chat_turn"), "stream_turn", None)
    if found is not None:
        return found

    def load() -> StreamTurn:
        from graph.chat_turn import stream_turn

        return stream_turn

    return await asyncio.to_thread(load)


def _is_again(turn: TurnInput, question: OpenQuestion) -> bool:
    """Return whether a call is about the turn that an unanswered question was about."""
    if turn.get("action") == "retry":
        return True
    if (request_id := turn.get("request_id")) is not None:
        return request_id == question.request_id
    return question.request_id is None and turn.get("user_input") == question.text


def _resumed(turn: TurnInput) -> TurnInput:
    """Answer the turn that waits instead of beginning another one."""
    return turn if "request_id" in turn else {"instance_id": turn.get("instance_id", ""), "action": "retry"}


def _ending(instance_id: str, turn: int, reply: str) -> TurnInput:
    return {"instance_id": instance_id, "turn": turn, "caller_reply": reply, "action": "end"}


_SENTENCE = re.compile(r"[。！？!?…][”’」』）)\"']*|[.][”’)\"']*\s|\n+")


class Sentences:
    """Tells a client how far a reply is, sentence by sentence."""

    def __init__(self, ctx: Context[Any]) -> None:
        self._ctx = ctx
        self._text = ""
        self._fresh: list[str] = []
        self._told = 0
        self._seen = 0
        self._last = 0.0

    async def hear(self, text: str) -> None:
        """Take in more of the reply; tell whole sentences, but not too often."""
        self._fresh.append(text)
        now = asyncio.get_running_loop().time()
        if now - self._last < _PAUSE_SECONDS:
            return
        self._last = now
        self._join()
        ends = [found.end() for found in _SENTENCE.finditer(self._text, max(self._told, self._seen - 4))]
        self._seen = len(self._text)
        if ends:
            await self._tell(ends[-1])

    async def end(self) -> None:
        """Send the remaining text."""
        self._join()
        await self._tell(len(self._text))

    def _join(self) -> None:
        self._text += "".join(self._fresh)
        self._fresh.clear()

    async def _tell(self, end: int) -> None:
        said, self._told = self._text[self._told : end].strip(), end
        if said:
            await self._ctx.report_progress(end, None, well_formed(said))
