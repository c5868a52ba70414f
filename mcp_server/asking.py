"""Model answers in JSON for operations such as a summary, a character's growth or learning.

They come from the server's provider, else the client's own model, else the host. A provider, and a client of
the older protocol, are asked while the call runs. A client of the newer one and a host are asked by ending
the call: the operation is run again with the answers so far, and ends where the next one is missing. Nothing
is written before its questions are answered.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, InputRequiredResult

from mcp_server import writers
from mcp_server.budget import FIRST, page_of
from mcp_server.desk import McpContext
from mcp_server.results import result, well_formed
from mcp_server.sampling import OpenQuestion, is_modern
from mcp_server.texts import tell
from personalab.dialogue import Message, digest
from personalab.ports import AnswerNeeded, ReplyChunk
from personalab.providers.temporary_model import temporary_model

T = TypeVar("T")
Mark = dict[str, Any]
"""What was noted when a work began, for its last round to compare with."""
Run = Callable[[str | None], Awaitable[T]]
"""Does the work with the model of a name."""

MAX_ANSWER = 400_000
MAX_ROUNDS = 200
MAX_STATE = 1_000_000
"""Maximum bytes of one operation's answers: a client carries them from call to call."""
_WORKS = 32
"""Maximum pending operations of hosts; the oldest is dropped."""
_ANSWER = "answer"


class Needed(AnswerNeeded):
    """A question without an answer yet: not an error of ours, so that it ends the operation wherever it occurs."""

    def __init__(self, messages: Sequence[Message]) -> None:
        super().__init__("an answer is needed")
        self.messages = list(messages)


class TooManyRounds(ToolError):  # noqa: N818 (as ours are named)
    """An operation has used up its questions for one call."""

    def __init__(self, message: str, mark: Mark) -> None:
        super().__init__(message)
        self.mark = mark


class AnswerBook:
    """A model that knows only the answers it was given before."""

    def __init__(self, name: str, answers: Mapping[str, str]) -> None:
        self.name = name
        self._answers = answers

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        """Yield the answer to these messages, or ask for it."""
        answer = self._answers.get(digest(messages))
        if answer is None:
            raise Needed(messages)
        yield ReplyChunk(answer)


async def nothing_to_note() -> Mark:
    """Return a mark for an operation whose last round reports everything."""
    return {}


@dataclass(frozen=True, slots=True)
class Work:
    """A call that may have to ask; ``key`` tells it from others of its tool."""

    tool: str
    key: str
    shown: Mapping[str, Any]
    """What a result that asks says about the work."""
    again: str
    """The call by which a host answers, without its answer."""
    answer: str | None = None
    cursor: str | None = None
    rounds: int = MAX_ROUNDS
    """Maximum questions to a client of the newer protocol in one call; some clients support ten rounds at most."""

    @property
    def about(self) -> str:
        """Return the subject of a question to the client."""
        return f"{self.tool}\n{self.key}"


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A host's work: the answers so far and the question that is open."""

    mark: Mark
    answers: dict[str, str] = field(default_factory=dict[str, str])
    question: tuple[Message, ...] = ()


class Asking:
    """Runs operations with answers from the provider, the client or the host."""

    def __init__(self, desk: McpContext) -> None:
        self._desk = desk
        self._waiting: OrderedDict[tuple[str, str], _Waiting] = OrderedDict()

    async def settle(
        self, ctx: Context[Any], work: Work, run: Run[T], begin: Callable[[], Awaitable[Mark]]
    ) -> tuple[T, Mark] | CallToolResult | InputRequiredResult:
        """Do a work, or give the result that asks for what it needs."""
        if ctx.request_state is None and self._desk.has_provider:
            self._refuse_answer(work)
            return await self._run_at_once(run, None, begin)
        try:
            settled = await self._by_client(ctx, work, run, begin)
        except writers.SamplingRefused:
            self._desk.sampling.note_refused(ctx)
            settled = None
        return settled or await self._by_host(work, run, begin)

    async def _by_client(
        self, ctx: Context[Any], work: Work, run: Run[T], begin: Callable[[], Awaitable[Mark]]
    ) -> tuple[T, Mark] | InputRequiredResult | None:
        """Return the client model's answer, if there is a client model that answers."""
        sampling = self._desk.sampling
        if ctx.request_state is not None:
            answers, mark = self._brought(ctx, ctx.request_state)
            sampling.note_answered(ctx, work.about)
            return await self._by_rounds(ctx, work, run, answers, mark)
        if not self._desk.can_ask(ctx):
            return None
        if sampling.open_question(ctx, work.about) is not None:
            raise writers.SamplingRefused("the last question was not answered")
        self._refuse_answer(work)
        if is_modern(ctx):
            return await self._by_rounds(ctx, work, run, {}, await begin())
        if not ctx.session.can_send_request:
            return None
        with temporary_model(self._desk.services.models, writers.ClientModel(ctx, sampling.seconds)) as model:
            return await self._run_at_once(run, model, begin)

    async def _run_at_once(
        self, run: Run[T], model: str | None, begin: Callable[[], Awaitable[Mark]]
    ) -> tuple[T, Mark]:
        mark = await begin()
        return await run(model), mark

    def _refuse_answer(self, work: Work) -> None:
        if work.answer is not None or work.cursor is not None:
            raise ToolError(tell("nothing_asked", self._desk.language, tool=work.tool))

    # --- a client of the newer protocol

    async def _by_rounds(
        self, ctx: Context[Any], work: Work, run: Run[T], answers: dict[str, str], mark: Mark
    ) -> tuple[T, Mark] | InputRequiredResult:
        try:
            with temporary_model(self._desk.services.models, AnswerBook("client", answers)) as model:
                return await run(model), mark
        except Needed as needed:
            state = {"asked": digest(needed.messages), "answers": answers, "mark": mark}
            self._check_bounds(answers, mark, work.rounds)
            self._desk.sampling.note_asked(ctx, work.about, OpenQuestion())
            return writers.asked(_ANSWER, needed.messages, json.dumps(state, ensure_ascii=False))

    def _brought(self, ctx: Context[Any], request_state: str) -> tuple[dict[str, str], Mark]:
        """Read what a call brings that is made again with its answer."""
        state = json.loads(request_state)
        said = writers.brought_reply(ctx, _ANSWER).text[:MAX_ANSWER]
        return {**state["answers"], state["asked"]: said}, state["mark"]

    def _check_bounds(self, answers: Mapping[str, str], mark: Mark, rounds: int) -> None:
        size = sum(len(answer.encode("utf-8", "replace")) for answer in answers.values())
        if len(answers) >= rounds or size > MAX_STATE:
            raise TooManyRounds(tell("too_many_rounds", self._desk.language, count=len(answers)), mark)

    # --- a host

    async def _by_host(
        self, work: Work, run: Run[T], begin: Callable[[], Awaitable[Mark]]
    ) -> tuple[T, Mark] | CallToolResult:
        place = (work.tool, work.key)
        found = self._waiting.get(place)
        if work.answer is None and work.cursor is None:
            found = _Waiting(await begin())
        elif found is None:
            raise ToolError(tell("nothing_asked", self._desk.language, tool=work.tool))
        if work.answer is None and work.cursor is not None:
            return await self._question(work, found.question, work.cursor)
        answers = dict(found.answers)
        if work.answer is not None:
            answers[digest(found.question)] = well_formed(work.answer)
        try:
            with temporary_model(self._desk.services.models, AnswerBook("host", answers)) as model:
                done = await run(model)
        except Needed as needed:
            self._check_bounds(answers, found.mark, MAX_ROUNDS)
            fresh = tuple(needed.messages)
            self._keep(place, _Waiting(found.mark, answers, fresh))
            return await self._question(work, fresh, _after(found.question, fresh))
        self._waiting.pop(place, None)
        return done, found.mark

    def _keep(self, place: tuple[str, str], waiting: _Waiting) -> None:
        self._waiting[place] = waiting
        self._waiting.move_to_end(place)
        while len(self._waiting) > _WORKS:
            self._waiting.popitem(last=False)

    async def _question(self, work: Work, messages: Sequence[Message], cursor: str | None) -> CallToolResult:
        """Show a prompt, a long one page by page: no part of it is left out."""
        budget, language = await self._desk.budget(), self._desk.language
        shown, following = await asyncio.to_thread(page_of, messages, cursor, budget)
        words = {"again": work.again, "cursor": following}
        rows = [tell("prompt_goes_on" if following else "answer_now", language, **words)]
        if cursor not in (None, FIRST):
            rows.append(tell("prompt_before", language, first=FIRST, **words))
        rows += [f"=== {message['role']} ===\n{message['content']}" for message in shown]
        prompt = {
            "system": "".join(message["content"] for message in shown if message["role"] == "system"),
            "messages": [message for message in shown if message["role"] != "system"],
        }
        data = {**work.shown, "status": "awaiting_answer", "prompt": prompt, "cursor": following}
        return result("\n\n".join(rows), data)


def _after(before: Sequence[Message], fresh: Sequence[Message]) -> str | None:
    """Where a question only adds to the one before, begin with what the host has not read: not with its own answer."""
    if not before or len(fresh) <= len(before) + 1 or list(fresh[: len(before)]) != list(before):
        return None
    return f"{len(before) + 1}:0"
