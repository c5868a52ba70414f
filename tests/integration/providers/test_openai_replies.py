"""Tests of successful replies from an OpenAI-compatible server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

import pytest
from langgraph.constants import TAG_NOSTREAM

from personalab.ports import ReplyChunk
from personalab.providers.chat_models import open_model
from personalab.providers.langchain_source import NOSTREAM_TAG
from personalab.providers.model_settings import ModelSettings
from tests.support.openai_server import DONE, OpenAIServer, delta, hangs_after, says, usage
from tests.support.providers import asking
from tests.support.providers.asking import HELLO, KEY, ask, listen, model_at


@pytest.fixture(autouse=True, params=["wire", "langchain"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] (a fixture)
    """Ask the servers by our own reader and through LangChain."""
    monkeypatch.setattr(asking, "WAY", request.param)


def test_a_reply_comes_with_its_usage(server: OpenAIServer) -> None:
    server.script(says("你好", ", ", "there"))
    heard = ask(model_at(server))
    assert heard.text == "你好, there"
    assert heard.usage == {"input_tokens": 11, "output_tokens": 3, "cached_tokens": 3}
    assert heard.error is None


def test_the_request_carries_the_messages_the_model_and_the_key(server: OpenAIServer) -> None:
    ask(
        model_at(server),
        (
            {"role": "system", "content": "Be brief"},
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "c"},
        ),
    )
    [request] = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.body["model"] == "some-model"
    assert request.body["stream"] is True
    assert [(said["role"], said["content"]) for said in request.body["messages"]] == [
        ("system", "Be brief"),
        ("user", "a"),
        ("assistant", "b"),
        ("user", "c"),
    ]
    assert request.headers["authorization"] == f"Bearer {KEY}"


def test_a_server_without_a_key_gets_a_placeholder(server: OpenAIServer) -> None:
    heard = ask(open_model("openai:x", settings=ModelSettings(base_url=server.url)))
    assert heard.text == "Hello"
    assert server.requests[0].headers["authorization"] == "Bearer no-key"


def test_a_reply_cut_by_its_length_is_whole(server: OpenAIServer) -> None:
    server.script(says("Long", finish="length"))
    heard = ask(model_at(server))
    assert (heard.text, heard.error) == ("Long", None)


def test_a_reply_of_nothing_ends_without_an_error(server: OpenAIServer) -> None:
    server.script(says())
    heard = ask(model_at(server))
    assert (heard.pieces, heard.error) == ((), None)


def test_reasoning_is_not_part_of_the_reply(server: OpenAIServer) -> None:
    server.script([delta("", reasoning_content="Let me think"), *says("Yes")])
    assert ask(model_at(server)).text == "Yes"


def test_usage_told_with_every_event_is_counted_once(server: OpenAIServer) -> None:
    server.script([delta("a"), usage(5, 1), delta("b", finish="stop"), usage(5, 2), DONE])
    assert ask(model_at(server)).usage == {"input_tokens": 5, "output_tokens": 2, "cached_tokens": 0}


def test_a_surrogate_pair_split_between_two_events_is_joined(server: OpenAIServer) -> None:
    server.script(says("a\ud83d", "\ude00b"))
    assert ask(model_at(server)).text == "a😀b"


def test_lone_surrogates_are_replaced_in_the_reply(server: OpenAIServer) -> None:
    server.script(says("a\ud83d", "b", "\ude00", "c\ud83d"))
    assert ask(model_at(server)).text == "a\ufffdb\ufffdc\ufffd"


def test_lone_surrogates_are_replaced_in_the_request(server: OpenAIServer) -> None:
    ask(model_at(server), ({"role": "user", "content": "x\ud800y \ud83d\ude00 \0"},))
    assert server.requests[0].body["messages"][0]["content"] == "x\ufffdy 😀 \0"


def test_a_server_on_this_machine_is_reached_past_a_proxy(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("OPENAI_PROXY", "http://127.0.0.1:9")
    assert ask(model_at(server, max_tries=1)).text == "Hello"


def test_one_model_answers_in_several_event_loops(server: OpenAIServer) -> None:
    model = model_at(server)
    assert [ask(model).text for _ in range(3)] == ["Hello"] * 3


def test_replies_may_run_side_by_side(server: OpenAIServer) -> None:
    model = model_at(server)

    async def both() -> list[str]:
        return [heard.text for heard in await asyncio.gather(*(listen(model) for _ in range(5)))]

    assert asyncio.run(both()) == ["Hello"] * 5


@pytest.mark.parametrize("pieces", [(), ("Hel",)])
def test_cancelling_closes_the_connection_at_once(server: OpenAIServer, pieces: tuple[str, ...]) -> None:
    server.script(hangs_after(*pieces))
    model = model_at(server)

    async def cancelled() -> None:
        task = asyncio.create_task(listen(model))
        while not server.requests:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.client_left.wait, 2)

    asyncio.run(cancelled())


def test_closing_the_stream_closes_the_connection_at_once(server: OpenAIServer) -> None:
    server.script(hangs_after("Hel", "lo"))
    model = model_at(server)

    async def left_early() -> None:
        async with aclosing(cast("AsyncGenerator[ReplyChunk]", model.stream(HELLO))) as stream:
            assert (await anext(stream)).text.startswith("Hel")
        assert await asyncio.to_thread(server.client_left.wait, 2)

    asyncio.run(left_early())


def test_the_tag_is_the_one_langgraph_knows() -> None:
    assert NOSTREAM_TAG == TAG_NOSTREAM


def test_langgraph_shows_no_message_of_its_own(server: OpenAIServer) -> None:
    from langgraph.graph import START, StateGraph
    from typing_extensions import TypedDict

    class State(TypedDict):
        reply: str

    model = model_at(server)

    async def speak(state: State) -> State:
        return {"reply": (await listen(model)).text}

    builder = cast("Any", StateGraph(State))
    graph = builder.add_node("speak", speak).add_edge(START, "speak").compile()

    async def run() -> list[tuple[str, Any]]:
        return [part async for part in graph.astream({"reply": ""}, stream_mode=["messages", "values"])]

    assert asyncio.run(run()) == [("values", {"reply": ""}), ("values", {"reply": "Hello"})]


def test_the_settings_never_show_the_key() -> None:
    settings = ModelSettings(api_key=KEY, base_url="http://x")
    model = open_model("openai:x", settings=settings)
    assert KEY not in repr(settings)
    assert KEY not in repr(model)
