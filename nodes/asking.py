"""How does a step get an answer it can use? It is read as JSON, asked for once more, and then refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from personalab.dialogue import Message, repair_messages
from personalab.errors import ProviderError, UserError
from personalab.ports import ReplyModel
from personalab.story.events import Usage

T = TypeVar("T")
MAX_ANSWER = 400_000
"""A longer answer is given up: no model needs it."""


@dataclass(frozen=True, slots=True)
class Answered(Generic[T]):
    """What was read from an answer, the answer itself, and what it cost where the provider says so."""

    value: T
    raw: str
    usage: Usage | None


class Asker:
    """Asks a model, and counts what it used."""

    def __init__(
        self,
        model: ReplyModel,
        repair: str,
        *,
        refusal: str = "provider.unusable_answer",
        stopped: str = "work_stopped",
        stop_asked: Callable[[], bool] = lambda: False,
    ) -> None:
        self._model = model
        self._repair = repair
        self._refusal = refusal
        self._stopped = stopped
        self._stop_asked = stop_asked
        self.usage: Usage | None = None

    async def ask(self, messages: Sequence[Message], read: Callable[[str], T]) -> Answered[T]:
        """Ask until ``read`` takes the answer, at most twice; its ``ValueError`` tells the model what was wrong."""
        answer, usage = await self._answer(messages)
        try:
            return Answered(read(answer), answer, usage)
        except ValueError as error:
            again = repair_messages(messages, answer, str(error), self._repair)
        answer, more = await self._answer(again)
        try:
            return Answered(read(answer), answer, added(usage, more))
        except ValueError as error:
            raise ProviderError(self._refusal, retryable=True, reason=str(error)) from error

    async def _answer(self, messages: Sequence[Message]) -> tuple[str, Usage | None]:
        parts: list[str] = []
        length = 0
        usage: Usage | None = None
        async for chunk in self._model.stream(messages):
            if self._stop_asked():
                raise UserError(self._stopped)
            parts.append(chunk.text)
            length += len(chunk.text)
            if length > MAX_ANSWER:
                break
            usage = added(usage, chunk.usage)
        self.usage = added(self.usage, usage)
        return "".join(parts), usage


def added(one: Usage | None, other: Usage | None) -> Usage | None:
    """Add what two answers used."""
    if one is None or other is None:
        return one or other
    return Usage(
        input_tokens=one["input_tokens"] + other["input_tokens"],
        output_tokens=one["output_tokens"] + other["output_tokens"],
        cached_tokens=one["cached_tokens"] + other["cached_tokens"],
    )
