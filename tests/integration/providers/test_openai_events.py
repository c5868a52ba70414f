"""Events of OpenAI's protocol are read wherever the stream is cut, and in every form that servers send."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import weakref
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.errors import ProviderError
from personalab.ports import ReplyChunk
from personalab.providers.openai_source import EventReader, OpenAIError
from tests.support.openai_server import Answer, OpenAIServer, says
from tests.support.providers.asking import HELLO, ask, listen, model_at


def event(content: object = None, **choice: Any) -> str:
    delta = {"content": content, **choice.pop("delta", {})}
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta, **choice}]})}\n\n"


END = event(finish_reason="stop") + "data: [DONE]\n\n"


def read(pieces: list[bytes]) -> tuple[str, str]:
    """Return the text and the reasoning of a stream."""
    reader, found = EventReader(), list[ReplyChunk]()
    for data in pieces:
        reader.feed(data)
        found += reader.pieces()
        reader.check()
    found += reader.end()
    return "".join(chunk.text for chunk in found), "".join(chunk.reasoning for chunk in found)


@given(
    texts=st.lists(st.tuples(st.booleans(), st.text(max_size=6)), max_size=6),
    newline=st.sampled_from(["\n", "\r\n", "\r"]),
    size=st.integers(1, 40),
)
def test_where_the_stream_is_cut_does_not_matter(
    texts: list[tuple[bool, str]], newline: str, size: int
) -> None:
    stream = ": ping\n\n" + "".join(
        event(delta={"reasoning_content": text}) if is_reasoning else event(text)
        for is_reasoning, text in texts
    )
    data = (stream + END).replace("\n", newline).encode()
    wanted = tuple("".join(text for kind, text in texts if kind is wanted) for wanted in (False, True))

    assert read([data[at : at + size] for at in range(0, len(data), size)]) == wanted
    assert read([data]) == wanted


@pytest.mark.parametrize(
    ("stream", "text", "reasoning"),
    [
        ('data:{"choices":[{"delta":{"content":"no index"}}]}\n\n', "no index", ""),
        ('data: {"choices":\ndata: [{"index":0,"delta":{"content":"two lines"}}]}\n\n', "two lines", ""),
        ('event: completion\nid: 1\nretry: 5\ndata: {"choices":[{"delta":{"content":"x"}}]}\n\n', "x", ""),
        ('data: {"choices":[{"index":1,"delta":{"content":"another"}}]}\n\n', "", ""),
        ('data: {"choices":null}\n\ndata: {}\n\n', "", ""),
        ('event: error\n\ndata: {"choices":[{"delta":{"content":"fine"}}]}\n\n', "fine", ""),
        (event([{"type": "text", "text": "a"}, {"type": "thinking", "thinking": "b"}]), "a", "b"),
        (
            event([{"type": "thinking", "thinking": [{"type": "text", "text": "deep"}]}, "odd", 5]),
            "",
            "deep",
        ),
        (event(None, delta={"reasoning": "r", "tool_calls": [{"index": 0}]}), "", "r"),
        (event("x", delta={"reasoning_content": "r", "reasoning": "the same"}), "x", "r"),
        ('data: {"choices":[{"index":"0","delta":{"content":"quoted"}}]}\n\n', "quoted", ""),
        ('data: {"choices":[{"index":0,"message":{"content":"message"}}]}\n\n', "message", ""),
        (
            event("said once") + 'data: {"choices":[{"index":0,"message":{"content":"said once"}}]}\n\n',
            "said once",
            "",
        ),
    ],
)
def test_every_form_of_an_event(stream: str, text: str, reasoning: str) -> None:
    data = (stream + END).encode()
    assert read([data]) == (text, reasoning)
    assert read([data[at : at + 1] for at in range(len(data))]) == (text, reasoning)
    assert read(data.splitlines(keepends=True)) == (text, reasoning)


def test_reasoning_and_text_that_arrive_together_keep_their_order() -> None:
    reader = EventReader()
    thoughts = [event(delta={"reasoning_content": text}) for text in ("r1", "r2")]
    reader.feed("".join([event("a"), thoughts[0], event("b"), event("c"), thoughts[1]]).encode())
    pieces = [("text", one.text) if one.text else ("reasoning", one.reasoning) for one in reader.pieces()]
    assert pieces == [("text", "a"), ("reasoning", "r1"), ("text", "bc"), ("reasoning", "r2")]


def test_what_follows_the_end_is_not_read() -> None:
    assert read([(event("a") + END + event("b") + "data: nonsense\n\n").encode()]) == ("a", "")


WHOLE = {
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"},
        {"index": 1, "message": {"role": "assistant", "content": "Goodbye"}, "finish_reason": "stop"},
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 4},
}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_whole_answer_instead_of_events_is_read(indent: int | None, size: int) -> None:
    data = json.dumps(WHOLE, indent=indent).encode()
    assert read([data[at : at + size] for at in range(0, len(data), size)]) == ("Hello", "")


def test_error_instead_of_events_tells_the_message_of_the_server(server: OpenAIServer) -> None:
    body = {"error": {"message": "Insufficient balance", "code": 1113}}
    server.script([Answer(200, json.dumps(body).encode())])
    error = ask(model_at(server)).error
    assert error is not None
    assert "Insufficient balance" in error.message("en")
    assert len(server.requests) == 1


@pytest.mark.parametrize("body", ['{"message": "no such plan"}', '{"error": "no such plan"}'])
def test_error_of_any_form_is_told(body: str) -> None:
    with pytest.raises(OpenAIError, match="no such plan"):
        read([body.encode()])


@pytest.mark.parametrize("cut", range(8, 60, 10))
def test_stream_cut_within_an_event_was_cut(cut: int) -> None:
    with pytest.raises(ProviderError) as refused:
        read([(event("a") + event("b")[:cut]).encode()])
    assert refused.value.code == "provider.no_finish"


def test_a_stream_without_its_last_line_end_is_whole() -> None:
    assert read([(event("a") + event(finish_reason="stop").rstrip()).encode()]) == ("a", "")


@pytest.mark.parametrize(
    "stream", ["", "data: [1]\n\n", "data: {\n\n", "<html>\n</html>\n", "data: 5\n\n", "data: {"]
)
def test_what_is_no_answer_is_refused(stream: str) -> None:
    with pytest.raises(ValueError, match=r"answer|Expecting"):
        read([stream.encode()])


@pytest.mark.parametrize(
    "stream", ['event: error\ndata: {"message": "bad"}\n\n', 'data: {"error": "bad"}\n\n']
)
def test_an_error_among_the_events_is_raised(stream: str) -> None:
    with pytest.raises(OpenAIError, match="bad"):
        read([event("a").encode(), stream.encode()])


def test_what_came_before_an_error_is_not_lost(server: OpenAIServer) -> None:
    stream = event("Hel") + event("lo") + 'data: {"error": {"message": "bad", "code": 503}}\n\n'
    server.script([Answer(200, stream.encode(), {}, "text/event-stream")])
    heard = ask(model_at(server))
    assert (heard.text, heard.code) == ("Hello", "provider.mid_stream")
    assert len(server.requests) == 1


def test_an_answer_without_a_finish_reason_was_cut() -> None:
    with pytest.raises(ProviderError) as refused:
        read([event("a").encode()])
    assert refused.value.code == "provider.no_finish"


def test_an_event_without_end_does_not_fill_the_memory() -> None:
    with pytest.raises(ValueError, match="too long"):
        read([b"data: ", *([b"x" * 1_000_000] * 5)])


def test_connections_are_used_again(server: OpenAIServer) -> None:
    server.script(says("a"))
    model = model_at(server)

    async def several() -> list[str]:
        return [(await listen(model)).text for _ in range(4)]

    assert asyncio.run(several()) == ["a"] * 4
    assert len({request.client for request in server.requests}) == 1


def test_a_long_error_is_not_read_to_its_end(server: OpenAIServer) -> None:
    server.script([Answer(400, b"x" * 5_000_000, {}, "text/plain")])
    heard = ask(model_at(server))
    assert heard.code == "provider.refused"
    assert len(str(heard.error)) < 1_000


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_a_loop_that_has_ended_is_let_go(server: OpenAIServer) -> None:
    model, loops = model_at(server), list[weakref.ref[asyncio.AbstractEventLoop]]()

    async def once() -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        await listen(model)

    asyncio.run(once())
    careless = asyncio.new_event_loop()
    careless.run_until_complete(once())
    careless.close()  # without shutdown_asyncgens
    del careless
    asyncio.run(once())
    gc.collect()
    assert [loop() for loop in loops] == [None] * 3


def test_cookies_are_not_kept(server: OpenAIServer) -> None:
    answer = Answer(200, (event("a") + END).encode(), {"Set-Cookie": "sid=1"}, "text/event-stream")
    server.script([answer])
    model = model_at(server)

    async def twice() -> None:
        await listen(model)
        await listen(model)

    asyncio.run(twice())
    assert [request.headers.get("cookie") for request in server.requests] == [None, None]


def test_a_slow_reader_is_no_stalled_server(server: OpenAIServer) -> None:
    server.script(says("a", "b", "c"))
    model = model_at(server, stall_seconds=0.2)

    async def slowly() -> str:
        found = ""
        async for chunk in model.stream(HELLO):
            found += chunk.text
            await asyncio.sleep(0.3)
        return found

    assert asyncio.run(slowly()) == "abc"


@pytest.mark.parametrize("status", [200, 401, 429])
def test_a_compressed_answer_is_not_unpacked(server: OpenAIServer, status: int) -> None:
    body = gzip.compress(b":\n" * 1_000_000)
    server.script([Answer(status, body, {"Content-Encoding": "gzip"}, "text/event-stream")])
    codes = {200: "provider.bad_answer", 401: "provider.wrong_key", 429: "provider.rate_limit"}
    assert ask(model_at(server, max_tries=1)).code == codes[status]


def test_an_error_that_cannot_be_read_keeps_its_status(server: OpenAIServer) -> None:
    server.script([Answer(401, b"[" * 60_000)])
    assert ask(model_at(server)).code == "provider.wrong_key"


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ([{"prompt_tokens": 5, "completion_tokens": 2.0}, {}], (5, 2, 0)),
        ([{"prompt_tokens": "x", "completion_tokens": -1, "prompt_tokens_details": [1]}], (0, 0, 0)),
        ([{"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}], (5, 0, 4)),
    ],
)
def test_usage_of_every_form(usage: list[object], tokens: tuple[int, int, int]) -> None:
    reader = EventReader()
    for told in usage:
        reader.feed(f"data: {json.dumps({'choices': [], 'usage': told})}\n\n".encode())
    reader.feed(END.encode())
    found = next(chunk.usage for chunk in reader.end() if chunk.usage)
    assert tuple(found.values()) == tokens


def test_others_have_their_turn_while_a_burst_is_read(server: OpenAIServer) -> None:
    burst = event("word ") * 5_000 + END
    server.script([Answer(200, burst.encode(), {}, "text/event-stream")])
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def read_beside() -> list[int]:
        found: list[int] = []
        other = asyncio.create_task(count())
        async for piece in model_at(server).stream(HELLO):
            found += [turns] * len(piece.text)
        other.cancel()
        return found

    found = asyncio.run(read_beside())
    assert max(Counter(found).values()) < len(found) / 10, "no turn sees more than a part of the burst"
