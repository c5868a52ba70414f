"""Models under a temporary name for one operation, and a model that caches its answers."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Generator, MutableMapping, Sequence
from contextlib import contextmanager

from personalab.dialogue import AnswerSchema, Message, digest
from personalab.ports import ReplyChunk, ReplyModel, stream_answer


@contextmanager
def temporary_model(models: MutableMapping[str, ReplyModel], model: ReplyModel) -> Generator[str]:
    """Register a model under a temporary name that ends with its own, so that what is known by that name applies."""
    name = f"{secrets.token_hex(8)}:{model.name}"
    models[name] = model
    try:
        yield name
    finally:
        models.pop(name, None)


class CachingModel:
    """A model that repeats its earlier answer to the same question."""

    def __init__(self, model: ReplyModel, answers: MutableMapping[str, str]) -> None:
        self.name = model.name
        self._model = model
        self._answers = answers

    def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        """Return the answer that is known, or ask for one and remember it."""
        return self._stream(messages, None)

    def stream_json(self, messages: Sequence[Message], schema: AnswerSchema) -> AsyncIterator[ReplyChunk]:
        """Do the same with a schema; the question is known by its messages alone."""
        return self._stream(messages, schema)

    async def _stream(
        self, messages: Sequence[Message], schema: AnswerSchema | None
    ) -> AsyncIterator[ReplyChunk]:
        question = digest(messages)
        if (known := self._answers.get(question)) is not None:
            yield ReplyChunk(known)
            return
        said: list[str] = []
        stream = stream_answer(self._model, messages, schema)
        try:
            async for chunk in stream:
                said.append(chunk.text)
                yield chunk
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
        self._answers[question] = "".join(said)
