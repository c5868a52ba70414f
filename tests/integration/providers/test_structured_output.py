"""Answers in a schema's form: what is sent to which provider, and what follows where it can't enforce one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from pydantic import Field

from personalab.dialogue import AnswerSchema, Message, list_schema, object_schema, text_schema
from personalab.errors import ProviderError
from personalab.ports import ReplyChunk, ReplyModel, SchemaModel, stream_answer, stream_speech
from personalab.providers.chat_executor import ChatExecutor
from personalab.providers.connections import OpenAIEndpoint
from personalab.providers.langchain_source import LangChainSource, open_chat_openai
from personalab.providers.model_settings import ModelSettings
from personalab.providers.openai_source import OpenAISource
from personalab.providers.provider_model import (
    ProviderModel,
    ReplySource,
    SchemaSupport,
    openai_format,
    schema_options,
)
from personalab.providers.temporary_model import CachingModel
from personalab.testing.scripted import ScriptedModel
from tests.support.openai_server import (
    CONTEXT_OVERFLOWS,
    SCHEMA_REFUSALS,
    Behaviour,
    OpenAIServer,
    delta,
    errs_after,
    hangs_after,
    refuses,
    says,
)
from tests.support.providers import asking
from tests.support.providers.asking import HELLO, Heard, ask, model_at
from tests.support.providers.fake_cli import question

TAGS = AnswerSchema("tags", object_schema(tags=list_schema(text_schema(at_most=40), at_least=1, at_most=12)))
SENT: dict[str, Any] = {
    "type": "json_schema",
    "json_schema": {
        "name": "tags",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {
                "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 12}
            },
            "required": ["tags"],
            "additionalProperties": False,
        },
    },
}
ANSWER = '{"tags": ["sea"]}'


@pytest.fixture(autouse=True)
def _nothing_known() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] (a fixture)
    """Forget what other tests found out."""
    SchemaSupport.known.clear()
    yield
    SchemaSupport.known.clear()


@pytest.fixture(autouse=True, params=["wire", "langchain"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] (a fixture)
    """Ask the servers by our own reader and through LangChain."""
    monkeypatch.setattr(asking, "WAY", request.param)


class Asked:
    """A model that is asked for tags whenever it is asked."""

    def __init__(self, model: ReplyModel, schema: AnswerSchema = TAGS) -> None:
        self.name = model.name
        self._model = model
        self._schema = schema

    def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        return stream_answer(self._model, messages, self._schema)


def ask_json(model: ReplyModel, schema: AnswerSchema = TAGS) -> Heard:
    return ask(Asked(model, schema))


def both_ways(
    endpoint: OpenAIEndpoint, settings: ModelSettings, speech: Mapping[str, object] | None = None
) -> list[ProviderModel]:
    """Make a model that is asked through LangChain, and one that is asked by our own reader."""

    async def ready() -> OpenAIEndpoint:
        return endpoint

    chat = partial(open_chat_openai, endpoint, settings)
    sources: list[ReplySource] = [
        LangChainSource(chat, settings, openai_wire=True),
        OpenAISource(ready, settings, speech_body=speech or {}),
    ]
    return [ProviderModel("m", source, settings) for source in sources]


def formats(server: OpenAIServer) -> list[Any]:
    return [request.body.get("response_format") for request in server.requests]


# --- OpenAI's protocol


def test_schema_is_sent_as_response_format_and_the_answer_streams(server: OpenAIServer) -> None:
    server.script(says('{"tags"', ': ["sea"]}'))
    heard = ask_json(model_at(server))
    assert heard.text == '{"tags": ["sea"]}'
    assert heard.usage == {"input_tokens": 11, "output_tokens": 2, "cached_tokens": 3}
    assert formats(server) == [SENT]
    assert server.requests[0].body["stream"] is True


def test_replies_carry_no_response_format(server: OpenAIServer) -> None:
    ask(model_at(server))
    assert formats(server) == [None]


def test_model_that_thinks_before_its_server_refuses_the_schema_is_asked_without_it(
    server: OpenAIServer,
) -> None:
    thought = delta(None, reasoning_content="hm")
    server.script([thought, *SCHEMA_REFUSALS["event"]], says(ANSWER))
    model = model_at(server)
    assert [ask_json(model).text, ask_json(model).text] == [ANSWER, ANSWER]
    assert formats(server) == [SENT, None, None]


@pytest.mark.parametrize("way", [0, 1], ids=["langchain", "wire"])
def test_schema_joins_what_else_is_sent_to_a_server(server: OpenAIServer, way: int) -> None:
    endpoint = OpenAIEndpoint("m", server.url, extra_body={"return_progress": True})
    settings = ModelSettings(max_output_tokens=9)
    ask_json(both_ways(endpoint, settings)[way])
    body = server.requests[0].body
    assert (body["return_progress"], body["max_tokens"], body["response_format"]) == (True, 9, SENT)


@pytest.mark.parametrize("refusal", SCHEMA_REFUSALS.values(), ids=SCHEMA_REFUSALS)
def test_refused_schema_is_left_out_and_the_refusal_is_remembered(
    server: OpenAIServer, refusal: Behaviour
) -> None:
    server.script(refusal, says(ANSWER))
    heard = ask_json(model_at(server))
    assert (heard.text, heard.error) == (ANSWER, None)
    assert formats(server) == [SENT, None]
    assert server.requests[0].body["messages"] == server.requests[1].body["messages"]
    # Another model object of the same name and address knows it, too.
    assert ask_json(model_at(server)).text == ANSWER
    assert formats(server) == [SENT, None, None]


def test_refusal_of_one_address_says_nothing_about_another(server: OpenAIServer) -> None:
    server.script(SCHEMA_REFUSALS["openai"], says(ANSWER))
    ask_json(model_at(server))
    with OpenAIServer() as other:
        other.script(says(ANSWER))
        assert ask_json(model_at(other)).text == ANSWER
        assert formats(other) == [SENT]


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        pytest.param(refuses(401), "provider.wrong_key", id="wrong key"),
        pytest.param(refuses(403), "provider.wrong_key", id="forbidden"),
        pytest.param(refuses(404), "provider.not_found", id="no such model"),
        pytest.param(
            refuses(401, {"message": "no key for structured outputs (response_format)"}),
            "provider.wrong_key",
            id="wrong key, told with our field",
        ),
        pytest.param(
            errs_after(error={"message": "no key for structured outputs", "code": 401}),
            "provider.mid_stream",
            id="wrong key, told in the stream with our field",
        ),
        *(
            pytest.param(behaviour, "provider.context_overflow", id=f"context overflow: {name}")
            for name, behaviour in CONTEXT_OVERFLOWS.items()
        ),
    ],
)
def test_other_refusals_are_reported_at_once(server: OpenAIServer, behaviour: Behaviour, code: str) -> None:
    server.script(behaviour, says(ANSWER))
    assert ask_json(model_at(server)).code == code
    assert formats(server) == [SENT]
    assert ask_json(model_at(server)).text == ANSWER
    assert formats(server) == [SENT, SENT]


@pytest.mark.parametrize(
    "behaviour",
    [
        pytest.param(refuses(429, headers={"Retry-After": "0"}), id="rate limit"),
        pytest.param(refuses(503), id="overloaded"),
    ],
)
def test_passing_failures_are_tried_again_with_the_schema(server: OpenAIServer, behaviour: Behaviour) -> None:
    server.script(behaviour, behaviour, says(ANSWER))
    assert ask_json(model_at(server)).text == ANSWER
    assert formats(server) == [SENT, SENT, SENT]


def test_bad_request_that_fails_without_the_schema_too_is_not_remembered(server: OpenAIServer) -> None:
    server.script(refuses(400), refuses(400), says(ANSWER))
    assert ask_json(model_at(server)).code == "provider.refused"
    assert ask_json(model_at(server)).text == ANSWER
    assert formats(server) == [SENT, None, SENT]


def test_failure_after_some_text_is_not_asked_again(server: OpenAIServer) -> None:
    server.script(errs_after('{"tags"', error={"message": "grammar", "code": 500}), says(ANSWER))
    heard = ask_json(model_at(server))
    assert (heard.text, heard.code) == ('{"tags"', "provider.mid_stream")
    assert formats(server) == [SENT]


def test_closing_the_stream_closes_the_connection(server: OpenAIServer) -> None:
    server.script(hangs_after('{"tags"'))
    model = model_at(server)
    assert isinstance(model, SchemaModel)

    async def left_early() -> None:
        stream = cast("AsyncGenerator[ReplyChunk]", model.stream_json(HELLO, TAGS))
        async with aclosing(stream):
            assert (await anext(stream)).text == '{"tags"'
        assert await asyncio.to_thread(server.client_left.wait, 10)

    asyncio.run(left_early())


@pytest.mark.parametrize(
    ("model", "expected"), [("gpt-4o-mini", "extra_body"), ("gpt-5-pro", "response_format")]
)
def test_models_of_the_responses_api_get_the_schema_in_its_field(model: str, expected: str) -> None:
    from langchain_openai import ChatOpenAI

    chat = ChatOpenAI(model=model, api_key=cast("Any", "sk-none"))
    options = schema_options(chat, TAGS)
    assert list(options) == [expected]
    sent = options if expected == "response_format" else options["extra_body"]
    assert sent["response_format"] == SENT


def test_lengths_of_texts_are_kept_where_they_can_be_enforced() -> None:
    sent = openai_format(TAGS, text_lengths=True)
    assert sent["json_schema"]["schema"] == TAGS.schema


# --- other providers


class FakeChat(BaseChatModel):
    """A chat model that notes what it was asked with and plays chunks."""

    chunks: list[Any]
    asked: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])

    @property
    def _llm_type(self) -> str:
        return "fake"

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        kwargs.pop("stop", None)
        kwargs.pop("run_manager", None)
        self.asked.append(kwargs)
        for chunk in self.chunks:
            yield ChatGenerationChunk(message=chunk)


class ChatAnthropic(FakeChat):
    """Takes tools as the class of this name does."""

    def bind_tools(self, tools: Any, *, tool_choice: Any = None, **kwargs: Any) -> Runnable[Any, Any]:
        return self.bind(tools=list(tools), tool_choice={"type": "tool", "name": tool_choice})


class ChatOllama(FakeChat):
    """Takes a format as the class of this name does."""


def opened(chat: BaseChatModel) -> ProviderModel:
    @asynccontextmanager
    async def open_chat() -> AsyncGenerator[BaseChatModel]:
        yield chat

    settings = ModelSettings(max_tries=1)
    return ProviderModel("other:name", LangChainSource(open_chat, settings), settings)


def input_chunk(part: str, name: str | None = None) -> AIMessageChunk:
    call = {"type": "tool_call_chunk", "name": name, "args": part, "id": None, "index": 0}
    return AIMessageChunk(content="", tool_call_chunks=[cast("Any", call)])


def test_anthropic_is_made_to_call_a_tool_whose_input_is_the_answer() -> None:
    chat = ChatAnthropic(chunks=[input_chunk("", "tags"), input_chunk('{"tags"'), input_chunk(': ["sea"]}')])
    heard = ask_json(opened(chat))
    assert heard.pieces == ('{"tags"', ': ["sea"]}')
    [asked] = chat.asked
    assert asked["tool_choice"] == {"type": "tool", "name": "tags"}
    assert asked["tools"][0]["input_schema"] == SENT["json_schema"]["schema"]


def test_anthropic_may_answer_in_words_all_the_same() -> None:
    assert ask_json(opened(ChatAnthropic(chunks=[AIMessageChunk(content=ANSWER)]))).text == ANSWER


def test_ollama_gets_the_schema_as_its_format() -> None:
    chat = ChatOllama(chunks=[AIMessageChunk(content=ANSWER)])
    assert ask_json(opened(chat)).text == ANSWER
    assert chat.asked == [{"format": SENT["json_schema"]["schema"]}]


def test_other_providers_are_asked_without_a_schema() -> None:
    chat = FakeChat(chunks=[AIMessageChunk(content=ANSWER)])
    assert ask_json(opened(chat)).text == ANSWER
    assert chat.asked == [{}]


# --- who passes the schema on


def test_models_without_schemas_are_asked_as_before() -> None:
    model = ScriptedModel([ANSWER])
    assert ask_json(model).text == ANSWER
    assert model.calls == [HELLO]


def test_remembering_model_passes_the_schema_on_and_knows_the_question_by_its_messages(
    server: OpenAIServer,
) -> None:
    server.script(says(ANSWER), says("never asked for"))
    answers: dict[str, str] = {}
    assert ask_json(CachingModel(model_at(server), answers)).text == ANSWER
    assert formats(server) == [SENT]
    assert ask(CachingModel(model_at(server), answers)).text == ANSWER
    assert len(server.requests) == 1
    plain = CachingModel(ScriptedModel(["x"]), {})
    assert ask_json(plain).text == "x"


def test_calls_of_the_lab_carry_their_schema_and_the_note_about_it(
    server: OpenAIServer, tmp_path: Path
) -> None:
    server.script(says(ANSWER))
    call = question(schema=dict(TAGS.schema))
    answer = asyncio.run(ChatExecutor(model_at(server)).run(call, tmp_path))
    assert answer.structured == {"tags": ["sea"]}
    [sent] = formats(server)
    assert sent == {**SENT, "json_schema": {**SENT["json_schema"], "name": "answer"}}
    assert json.dumps(TAGS.schema) in server.requests[0].body["messages"][0]["content"]


def test_calls_of_the_lab_without_a_schema_carry_none(server: OpenAIServer, tmp_path: Path) -> None:
    asyncio.run(ChatExecutor(model_at(server)).run(question(), tmp_path))
    assert formats(server) == [None]


def test_refusal_inside_a_call_of_the_lab_is_no_failure(server: OpenAIServer, tmp_path: Path) -> None:
    server.script(SCHEMA_REFUSALS["groq"], says(ANSWER))
    call = question(schema=dict(TAGS.schema))
    answer = asyncio.run(ChatExecutor(model_at(server)).run(call, tmp_path))
    assert (answer.status, answer.structured) == ("ok", {"tags": ["sea"]})


def test_provider_errors_stay_provider_errors() -> None:
    class Refusing(FakeChat):
        async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
            raise ProviderError("provider.filtered")
            yield

    assert ask_json(opened(Refusing(chunks=[]))).code == "provider.filtered"


def test_only_replies_of_a_character_are_sampled_as_speech(server: OpenAIServer) -> None:
    sampling = {"dry_multiplier": 0.8}
    endpoint = OpenAIEndpoint("m", server.url, extra_body={"return_progress": True})
    settings = ModelSettings(max_output_tokens=9)
    model = both_ways(endpoint, settings, sampling)[1]

    class Speaking:
        name = "m"

        def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
            return stream_speech(model, messages)

    ask(Speaking())
    ask(model)
    ask_json(model)
    sent = [request.body for request in server.requests]
    assert [body.get("dry_multiplier") for body in sent] == [0.8, None, None]
    assert [body["max_tokens"] for body in sent] == [9, 9, 9]
    assert [body["return_progress"] for body in sent] == [True, True, True]
