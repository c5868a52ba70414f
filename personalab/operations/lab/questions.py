"""Questions to a model in the lab: shortened prompts, retries by cause of failure, one retry for an unusable answer."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar, cast

from personalab.data_files import replace_file
from personalab.dialogue import object_in
from personalab.errors import Invalid, ProviderError, Reason, UserError, as_reason
from personalab.lab.calling import (
    Call,
    CallAnswer,
    estimated_tokens,
    exceeds,
    repeats_note,
    restored_params,
    room_beside,
)
from personalab.lab.case_calls import CallRow
from personalab.lab.judging import judge_call
from personalab.lab.projects import ContextConfig
from personalab.ports import Executor
from personalab.services import Services
from personalab.storage.lab.assets import StoredSkill
from personalab.storage.lab.projects import ProjectPlace
from personalab.tasks import run_uncancellable
from personalab.texts import PROMPT_LANGUAGES, Language, PromptLanguage, fill, say


class FailedCallError(ProviderError):
    """An error whose ``reason`` is a call's failure: it is said in the reader's language, as far as it was kept how."""

    def __init__(
        self, code: str, call: CallAnswer | CallRow, /, *, retryable: bool = False, **params: object
    ) -> None:
        reason = restored_params(call.error_params or {}).get("reason") if call.error_code is None else None
        reason = reason or call.error or call.error_code or Reason("no_reason")
        super().__init__(code, retryable=retryable, reason=reason, **params)
        self._call = call

    def message(self, language: Language) -> str:
        """Return what happened, with the call's own failure message."""
        call, reason = self._call, self.params["reason"]
        if call.error_code is not None and call.error_params is not None:
            reason = say(call.error_code, language, **restored_params(call.error_params)) or reason
        return say(self.code, language, **{**self.params, "reason": reason})


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


FOLDER = "x_context"


def export_prompt(place: ProjectPlace, name: str, system: str, text: str) -> str:
    """Write a whole prompt into the project; return the file's path in it."""
    folder = place.folder / FOLDER
    place.make_folder(folder)
    path = folder / f"{name}.md"
    content = f"{system}\n\n{text}\n".encode("utf-8", "backslashreplace")
    replace_file(path, content, place.shown(path), sync=place.sync)
    return path.relative_to(place.folder).as_posix()


def room_for_judging(tokens: int, language: PromptLanguage) -> int:
    """Return the tokens that a judge's instructions leave for the case and the answer."""
    bare = judge_call("", "", "", language)
    return room_beside(tokens, bare.system, bare.text)


def check_context(context: ContextConfig, skills: Sequence[StoredSkill]) -> None:
    """Refuse a threshold into which a skill or a judge's instructions do not fit, before any call is paid."""
    if not context.auto_compress:
        return
    for skill in skills:
        room_beside(context.token_threshold, skill.content, skill=skill.meta.name)
    for language in PROMPT_LANGUAGES:
        room_for_judging(context.token_threshold, language)


def check_whole_prompt(place: ProjectPlace, name: str, system: str, text: str) -> None:
    """Refuse a prompt that is too long and that shortening would spoil, such as segments to be kept exactly."""
    context = place.config.context_config
    if not exceeds(context.token_threshold, system, text):
        return
    if context.auto_export:
        export_prompt(place, name, system, text)
    if context.auto_compress:
        tokens = estimated_tokens(system) + estimated_tokens(text)
        raise UserError("lab_context_over", threshold=context.token_threshold, tokens=tokens)
