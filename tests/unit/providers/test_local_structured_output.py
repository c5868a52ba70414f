"""A real small model, made to answer in the form of every question's schema."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest

from personalab.dialogue import AnswerSchema, Message
from personalab.ports import ReplyChunk, SchemaModel
from personalab.providers.chat_models import open_model
from personalab.providers.model_settings import ModelSettings
from personalab.providers.provider_model import SchemaSupport
from tests.support.answer_schemas import JSON_QUESTIONS, JsonQuestion

SETTINGS = ModelSettings(local_context=2048, local_threads=1, max_output_tokens=1_200, temperature=1.0)
ASKED: tuple[Message, ...] = ({"role": "user", "content": "Tell me about the sea. Answer as JSON."},)

each_question = pytest.mark.parametrize("question", JSON_QUESTIONS.values(), ids=JSON_QUESTIONS)


def shortened(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Bound texts and lists so far that even a model that rambles comes to an end."""
    short = dict(schema)
    if "properties" in schema:
        short["properties"] = {name: shortened(part) for name, part in schema["properties"].items()}
    if "anyOf" in schema:
        short["anyOf"] = [shortened(part) for part in schema["anyOf"]]
    if schema.get("type") == "array":
        short |= {"items": shortened(schema["items"]), "maxItems": max(1, schema.get("minItems", 0))}
    if schema.get("type") == "string" and "enum" not in schema:
        short["maxLength"] = min(8, schema.get("maxLength", 8))
    return short


async def answer_to(path: Path, schema: AnswerSchema, settings: ModelSettings) -> str:
    model = open_model(f"local:{path}", settings=settings)
    assert isinstance(model, SchemaModel)
    async with aclosing(cast("AsyncGenerator[ReplyChunk]", model.stream_json(ASKED, schema))) as stream:
        return "".join([chunk.text async for chunk in stream])


@each_question
def test_the_answer_is_json_of_the_schema(gguf_path: Path, question: JsonQuestion) -> None:
    schema = AnswerSchema(question.schema.name, shortened(question.schema.schema))
    answer = asyncio.run(answer_to(gguf_path, schema, SETTINGS))
    cast("Any", jsonschema).validate(json.loads(answer), schema.schema)
    assert not SchemaSupport.of(f"local:{gguf_path}", None).refused


@each_question
def test_whole_schemas_are_taken_without_a_word_on_the_terminal(
    gguf_path: Path, question: JsonQuestion, capfd: pytest.CaptureFixture[str]
) -> None:
    brief = replace(SETTINGS, max_output_tokens=12)
    answer = asyncio.run(answer_to(gguf_path, question.schema, brief))
    assert answer.startswith("{")
    assert not SchemaSupport.of(f"local:{gguf_path}", None).refused
    assert capfd.readouterr() == ("", "")
