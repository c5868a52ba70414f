"""Executor that runs calls of the lab on any chat model.

The answer is kept in the spool folder like that of a program, so that a later process of ours finds it. A
call that was in progress when the process was killed is made again: a stream ends with its process.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from personalab.dialogue import AnswerSchema, Message, object_in, well_formed
from personalab.errors import ProviderError, Reason
from personalab.lab.calling import Call, CallAnswer, CallUsage, plain_params
from personalab.ports import ReplyChunk, ReplyModel, stream_answer
from personalab.providers.call_spool import CallFiles, forget_call, spooling
from personalab.providers.claude_cli import error_sentence, well_formed_json
from personalab.reasoning import without_thoughts

_SCHEMA_NOTE = "Answer with one JSON object that fits this JSON schema, and with nothing else:\n{schema}"
MAX_TEXT = 4_000_000
"""Maximum characters of an answer."""
_LOCAL = "local:"


@dataclass(slots=True)
class _Heard:
    """What a call has brought so far."""

    text: str = ""
    usage: CallUsage | None = None
    structured: object | None = None


class ChatExecutor:
    """Runs calls on a chat model, each with one request; a stand-in model is named in the version.

    Where a structured answer was asked for and none comes, the answer has only its text: whoever asked knows best what
    is wrong with it, and whether to pay for another.
    """

    def __init__(self, model: ReplyModel) -> None:
        self.name = model.name
        self._model = model

    async def version(self) -> str:
        """Return the model's identity in place of a program's version."""
        return self._version()

    def forget(self, spool: Path, call_id: str) -> None:
        """Remove a call's files, once its answer is stored elsewhere or before it is asked again."""
        forget_call(spool, call_id)

    async def run(self, call: Call, spool: Path) -> CallAnswer:
        """Return the answer that was kept, or ask the model; an answer, also a failed one, stays until ``forget``."""
        files = CallFiles(spool, call.call_id)
        if files.is_kept():  # mostly not: no thread is asked for that
            kept = await asyncio.to_thread(_kept, files)
            if kept is not None:
                return kept
        heard, begun = _Heard(), time.monotonic()
        failure: ProviderError | None = None
        try:
            async with asyncio.timeout(call.timeout_seconds):
                await self._ask(call, heard)
        except TimeoutError:
            seconds = f"{call.timeout_seconds:g}"
            failure = ProviderError("provider.call_timeout", retryable=True, seconds=seconds)
        except ProviderError as error:
            failure = error
        answer = self._answer(heard, failure, time.monotonic() - begun)
        await asyncio.to_thread(_keep, files, answer)
        return answer

    async def _ask(self, call: Call, heard: _Heard) -> None:
        schema = AnswerSchema("answer", call.schema) if call.schema is not None else None
        await self._listen(self._messages(call), schema, heard)
        if call.schema is not None:
            heard.structured = _structured(heard.text, call.schema)

    def _messages(self, call: Call) -> list[Message]:
        told = [well_formed(call.system)] if call.system.strip() else []
        if call.schema is not None:
            schema = json.dumps(call.schema, ensure_ascii=False)
            told.append(_SCHEMA_NOTE.replace("{schema}", well_formed(schema)))
        system: list[Message] = [{"role": "system", "content": "\n\n".join(told)}] if told else []
        return [*system, {"role": "user", "content": well_formed(call.text)}]

    async def _listen(self, messages: Sequence[Message], schema: AnswerSchema | None, heard: _Heard) -> None:
        pieces: list[str] = []
        length = 0
        stream = cast("AsyncGenerator[ReplyChunk]", stream_answer(self._model, messages, schema))
        async with aclosing(stream):
            async for chunk in stream:
                pieces.append(chunk.text)
                length += len(chunk.text)
                if chunk.usage is not None:
                    heard.usage = _added(heard.usage, cast("CallUsage", chunk.usage))
                if length > MAX_TEXT:
                    raise ProviderError(
                        "provider.bad_answer", reason=Reason("over_characters", limit=MAX_TEXT)
                    )
        heard.text = without_thoughts(well_formed("".join(pieces)))

    def _answer(self, heard: _Heard, failure: ProviderError | None, took: float) -> CallAnswer:
        return CallAnswer(
            status="failed" if failure else "ok",
            text=heard.text,
            structured=heard.structured,
            error=error_sentence(failure) if failure else None,
            error_code=failure.code if failure else None,
            error_params=plain_params(failure.params) if failure else None,
            retryable=failure.retryable if failure else False,
            duration_ms=round(took * 1000),
            executor=self.name,
            cli_version=self._version(),
            model_version=self._model.name.partition(":")[2] or self._model.name,
            usage=heard.usage,
            cost_usd=0.0 if self._is_free() else None,
        )

    def _is_free(self) -> bool:
        """Return whether an answer is free."""
        from personalab.testing.rehearsal import RehearsalModel
        from personalab.testing.scripted import ScriptedModel

        is_stand_in = isinstance(self._model, RehearsalModel | ScriptedModel)
        return is_stand_in or self._model.name.startswith(_LOCAL)

    def _version(self) -> str:
        from personalab.testing.rehearsal import RehearsalModel
        from personalab.testing.scripted import ScriptedModel

        match self._model:
            case RehearsalModel():
                return "0.0.0-rehearsal"
            case ScriptedModel():
                return "0.0.0-scripted"
            case _:
                return f"personalab-{self._model.name.partition(':')[0]}"


def _structured(text: str, schema: Mapping[str, object]) -> object | None:
    """Find the object in an answer; the caller checks the schema itself."""
    required = schema.get("required")
    names = [str(name) for name in cast("list[object]", required)] if isinstance(required, list) else []
    try:
        found = object_in(text, names[0] if names else "")
    except ValueError:
        return None
    return well_formed_json(found) if all(name in found for name in names) else None


def _kept(files: CallFiles) -> CallAnswer | None:
    with spooling(files):
        return files.kept()


def _keep(files: CallFiles, answer: CallAnswer) -> None:
    with spooling(files):
        files.keep(answer)


def _added(one: CallUsage | None, other: CallUsage) -> CallUsage:
    if one is None:
        return other
    return CallUsage(
        input_tokens=one["input_tokens"] + other["input_tokens"],
        output_tokens=one["output_tokens"] + other["output_tokens"],
        cached_tokens=one["cached_tokens"] + other["cached_tokens"],
    )
