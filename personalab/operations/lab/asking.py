"""Questions to a model in the lab, with retries by cause of failure and one retry for an unusable answer."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar, cast

from personalab.dialogue import object_in
from personalab.errors import Invalid, ProviderError, as_reason
from personalab.lab.calling import Call, CallAnswer
from personalab.lab.repairing import repeats_note
from personalab.operations.lab.call_failures import FailedCallError
from personalab.ports import Executor
from personalab.services import Services
from personalab.tasks import run_uncancellable
from personalab.texts import fill

T = TypeVar("T")
LONGEST_PAUSE = 20.0
_FIRST_PAUSE = 0.5
_SHOWN_ANSWER = 4_000
_AGAIN = """{text}

=== 上一次的回答不能用 / Your last answer cannot be used ===
{answer}
=== 原因 / Why ===
{reason}"""


@dataclass(frozen=True, slots=True)
class ParsedAnswer(Generic[T]):
    """What was read from an answer, and the answer itself."""

    value: T
    answer: CallAnswer


async def ask_json(
    services: Services,
    *,
    model: str,
    system: str,
    text: str,
    schema: Mapping[str, object],
    read: Callable[[Mapping[str, object]], T],
    timeout: float,  # noqa: ASYNC109 (of one call, which the executor ends)
    retries: int,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> ParsedAnswer[T]:
    """Ask for a JSON object until ``read`` accepts it; its ``ValueError`` is sent to the model once.

    What fails in another way is a ``ProviderError``, after so many retries where trying again may help; so is a second
    answer that repeats what we told the model about its first one.
    """
    executor = await services.executor(model)
    spool = await asyncio.to_thread(services.lab_sessions.new_spool)
    first = Call(
        call_id="ask_1",
        system=system,
        system_file=None,
        text=text,
        schema=schema,
        model=model,
        timeout_seconds=timeout,
    )
    asker = _Asker(executor, spool, retries, pause)
    try:
        answer = await asker.answer(first)
        try:
            return ParsedAnswer(read(_object(answer, schema)), answer)
        except ValueError as error:
            reason, before = str(error), answer.text
        again = fill(_AGAIN, text=text, answer=before[:_SHOWN_ANSWER], reason=reason)
        answer = await asker.answer(replace(first, call_id="ask_2", text=again))
        try:
            data = _object(answer, schema)
            found = read(data)
        except ValueError as error:
            raise ProviderError(
                "provider.unusable_answer", retryable=True, reason=as_reason(error)
            ) from error
        if repeats_note(data, fill(_AGAIN, text="", answer="", reason=reason), (system, text, before)):
            raise ProviderError("lab_answer_repeats_note", retryable=True, model=model)
        return ParsedAnswer(found, answer)
    finally:
        await run_uncancellable(partial(shutil.rmtree, spool, ignore_errors=True))


async def version_of(executor: Executor) -> str:
    """Return the version that logs name; blank where the program cannot be asked for it."""
    try:
        return await executor.version()
    except ProviderError:
        return ""


class _Asker:
    """Makes a call until it succeeds, or until trying again is no use."""

    def __init__(
        self, executor: Executor, spool: Path, retries: int, pause: Callable[[float], Awaitable[None]]
    ) -> None:
        self._executor = executor
        self._spool = spool
        self._retries = retries
        self._pause = pause

    async def answer(self, call: Call) -> CallAnswer:
        """Return an answer that is not a failure."""
        tried = 0
        while True:
            # A call that failed keeps its answer under its id.
            made = replace(call, call_id=f"{call.call_id}_{tried}")
            answer = await self._executor.run(made, self._spool)
            if answer.status == "ok":
                return answer
            if not answer.retryable or tried >= self._retries:
                raise FailedCallError("lab_ask_failed", answer, retryable=answer.retryable, model=call.model)
            await self._pause(min(LONGEST_PAUSE, answer.retry_after or _FIRST_PAUSE * 2**tried))
            tried += 1


def _object(answer: CallAnswer, schema: Mapping[str, object]) -> Mapping[str, object]:
    """Take the structured answer, or the object in the text that has the schema's first name."""
    if isinstance(answer.structured, Mapping):
        return cast("Mapping[str, object]", answer.structured)
    if answer.structured is not None:
        raise Invalid("not_object_shown", shown=json.dumps(answer.structured)[:80])
    required = schema.get("required")
    names = cast("list[object]", required) if isinstance(required, list) else []
    return object_in(answer.text, str(names[0]) if names else "")
