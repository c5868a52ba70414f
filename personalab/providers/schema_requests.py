"""How each kind of provider is asked to enforce a JSON schema, and which ones have refused to.

OpenAI's protocol takes a ``response_format`` (OpenAI, llama.cpp, vLLM, Ollama, LM Studio and many more).
Anthropic's models call a tool whose input has the schema. ``ChatOllama`` takes a ``format``. Other providers
get no schema.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

from personalab.dialogue import AnswerSchema

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessageChunk

_TEXT_LENGTHS = frozenset({"minLength", "maxLength"})
"""OpenAI's strict mode refuses a schema that has them."""
_TOOL_NOTE = "Give your whole answer as the input of this tool."


@dataclass(slots=True)
class SchemaSupport:
    """What is known in this process about one model at one address."""

    refused: bool = False
    known: ClassVar[dict[tuple[str, str], SchemaSupport]] = {}

    @classmethod
    def of(cls, model: str, base_url: str | None) -> SchemaSupport:
        """Return what is known about a model, which is changed in place."""
        return cls.known.setdefault((model, base_url or ""), cls())


def schema_options(chat: BaseChatModel, schema: AnswerSchema) -> dict[str, Any]:
    """Return what ``astream`` of a chat model takes for a schema; nothing for a provider that takes none."""
    form = without_text_lengths(schema.schema)
    # By name: only the package of the provider that is used is installed.
    for kind in type(chat).__mro__:
        if (options := _OPTIONS.get(kind.__name__)) is not None:
            return options(chat, schema.name, form)
    return {}


def openai_format(schema: AnswerSchema, *, text_lengths: bool = False) -> dict[str, Any]:
    """Return the ``response_format`` of OpenAI's protocol."""
    form = dict(schema.schema) if text_lengths else without_text_lengths(schema.schema)
    return _response_format(schema.name, form)


def tool_input(chunk: AIMessageChunk) -> str:
    """Return what a chunk has of a tool's input."""
    return "".join(call["args"] or "" for call in chunk.tool_call_chunks)


def without_text_lengths(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a schema without the lengths of its texts."""
    return {name: _without(value) for name, value in schema.items() if name not in _TEXT_LENGTHS}


def _without(value: object) -> object:
    if isinstance(value, Mapping):
        return without_text_lengths(cast("Mapping[str, Any]", value))
    if isinstance(value, list):
        return [_without(row) for row in cast("list[object]", value)]
    return value


def _response_format(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": True}}


def _openai(chat: BaseChatModel, name: str, schema: dict[str, Any]) -> dict[str, Any]:
    # LangChain's advice on its own methods, printed where a provider refuses the schema.
    warnings.filterwarnings("ignore", message=".*OpenAI's structured output feature")
    wanted = _response_format(name, schema)
    uses_responses = cast(
        "Callable[[dict[str, Any]], bool] | None", getattr(chat, "_use_responses_api", None)
    )
    if uses_responses is not None and uses_responses({}):
        return {"response_format": wanted}
    # As an argument of its own it would switch LangChain to a stream that parses and sends the answer twice.
    body = cast("Mapping[str, Any]", getattr(chat, "extra_body", None) or {})
    return {"extra_body": {**body, "response_format": wanted}}


def _anthropic(chat: BaseChatModel, name: str, schema: dict[str, Any]) -> dict[str, Any]:
    tool = {"name": name, "description": _TOOL_NOTE, "input_schema": schema}
    bound = chat.bind_tools([tool], tool_choice=name)
    return dict(cast("Mapping[str, Any]", getattr(bound, "kwargs", {})))


def _ollama(chat: BaseChatModel, name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"format": schema}


_OPTIONS: Mapping[str, Callable[[BaseChatModel, str, dict[str, Any]], dict[str, Any]]] = {
    "BaseChatOpenAI": _openai,
    "ChatAnthropic": _anthropic,
    "ChatOllama": _ollama,
}
