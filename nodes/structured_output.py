"""Questions to a model whose answer is read as JSON, with one retry before the answer is refused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from personalab.dialogue import AnswerSchema, Message, repair_messages
from personalab.errors import PersonaLabError, ProviderError, UserError, as_reason
from personalab.leases import STOP_POLL_SECONDS
from personalab.ports import AnswerNeeded, ReplyModel, stream_answer
from personalab.story.events import Usage, added_usage
from personalab.tasks import end_tasks

T = TypeVar("T")
ReportProgress = Callable[[int, int], None]
"""Takes how many parts of the work are done, and how many there are."""
MAX_ANSWER = 400_000
"""Maximum characters of an answer; no model needs more."""
_END_SECONDS = 0.5
"""Seconds that a model may take to clean up."""

_log = logging.getLogger("personalab.structured_output")


def never_stop() -> bool:
    """Return that no stop was requested."""
    return False


@dataclass(frozen=True, slots=True)
class StructuredAnswer(Generic[T]):
    """What was read from an answer, the answer itself, and what it cost where the provider says so."""

    value: T
    raw: str
    usage: Usage | None


class StructuredModel:
    """Asks a model, and counts what it used."""

    def __init__(
        self,
        model: ReplyModel,
        repair: str,
        *,
        refusal: str = "provider.unusable_answer",
        stopped: str = "work_stopped",
        stop_asked: Callable[[], bool] = never_stop,
    ) -> None:
        self._model = model
        self._repair = repair
        self._refusal = refusal
        self._stopped = stopped
        self._stop_asked = stop_asked
        self.usage: Usage | None = None

    async def ask(
        self, messages: Sequence[Message], read: Callable[[str], T], schema: AnswerSchema | None = None
    ) -> StructuredAnswer[T]:
        """Ask until ``read`` takes the answer, at most twice; its ``ValueError`` tells the model what was wrong.

        Providers that can enforce the schema do so, both times.
        """
        answer, usage = await self._answer(messages, schema)
        try:
            return StructuredAnswer(read(answer), answer, usage)
        except ValueError as error:
            again = repair_messages(messages, answer, str(error), self._repair)
        answer, more = await self._answer(again, schema)
        try:
            return StructuredAnswer(read(answer), answer, added_usage(usage, more))
        except ValueError as error:
            raise ProviderError(self._refusal, retryable=True, reason=as_reason(error)) from error

    async def _answer(
        self, messages: Sequence[Message], schema: AnswerSchema | None
    ) -> tuple[str, Usage | None]:
        """Wait for an answer, looking now and then whether someone asks to stop; a failure is one of ours."""
        listening = asyncio.create_task(self._listen(messages, schema))
        try:
            while not listening.done():
                if self._stop_asked():
                    raise UserError(self._stopped)
                await asyncio.wait([listening], timeout=STOP_POLL_SECONDS)
            answer, usage = listening.result()
        except (PersonaLabError, AnswerNeeded):
            raise
        except Exception as error:
            _log.exception("the model failed in an unexpected way")
            raise ProviderError("provider.failed", reason=type(error).__name__) from error
        finally:
            await end_tasks([listening], _END_SECONDS)
        self.usage = added_usage(self.usage, usage)
        return answer, usage

    async def _listen(
        self, messages: Sequence[Message], schema: AnswerSchema | None
    ) -> tuple[str, Usage | None]:
        parts: list[str] = []
        length = 0
        usage: Usage | None = None
        stream = stream_answer(self._model, messages, schema)
        try:
            async for chunk in stream:
                if self._stop_asked():
                    raise UserError(self._stopped)
                parts.append(chunk.text)
                length += len(chunk.text)
                if length > MAX_ANSWER:
                    break
                usage = added_usage(usage, chunk.usage)
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
        return "".join(parts), usage
