"""Events of OpenAI's protocol are read wherever the stream is cut, and in every form that servers send."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.errors import ProviderError
from personalab.providers.openai_source import EventReader, OpenAIError
from tests.openai_server import Answer, OpenAIServer, says
from tests.providers.asking import ask, listen, model_at


def event(content: object = None, **choice: Any) -> str:
    delta = {"content": content, **choice.pop("delta", {})}
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta, **choice}]})}\n\n"


END = event(finish_reason="stop") + "data: [DONE]\n\n"


def read(pieces: list[bytes]) -> tuple[str, str]:
    """Return the text and the reasoning of a stream."""
    reader = EventReader()
    found = [chunk for data in pieces for _ in [reader.feed(data)] for chunk in reader.pieces()]
    found += reader.end()
    return "".join(chunk.text for chunk in found), "".join(chunk.reasoning for chunk in found)


@given(
    texts=st.lists(st.tuples(st.booleans(), st.text(max_size=6)), max_size=6),
    newline=st.sampled_from(["\n", "\r\n"]),
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
        (event([{"type": "text", "text": "a"}, {"type": "thinking", "thinking": "b"}]), "a", "b"),
        (
            event([{"type": "thinking", "thinking": [{"type": "text", "text": "deep"}]}, "odd", 5]),
            "",
            "deep",
        ),
        (event(None, delta={"reasoning": "r", "tool_calls": [{"index": 0}]}), "", "r"),
        (event("x", delta={"reasoning_content": "r", "reasoning": "the same"}), "x", "r"),
    ],
)
def test_every_form_of_an_event(stream: str, text: str, reasoning: str) -> None:
    assert read([(stream + END).encode()]) == (text, reasoning)


def test_what_follows_the_end_is_not_read() -> None:
    assert read([(event("a") + END + event("b") + "data: nonsense\n\n").encode()]) == ("a", "")


def test_a_stream_without_its_last_line_end_is_whole() -> None:
    assert read([(event("a") + event(finish_reason="stop").rstrip()).encode()]) == ("a", "")


@pytest.mark.parametrize(
    "stream", ["", "data: [1]\n\n", "data: {\n\n", "<html>\n</html>\n", "data: 5\n\n", "data: {"]
)
def test_what_is_no_answer_is_refused(stream: str) -> None:
    with pytest.raises(ValueError, match="answer"):
        read([stream.encode()])


@pytest.mark.parametrize(
    "stream", ['event: error\ndata: {"message": "bad"}\n\n', 'data: {"error": "bad"}\n\n']
)
def test_an_error_among_the_events_is_raised(stream: str) -> None:
    with pytest.raises(OpenAIError, match="bad"):
        read([event("a").encode(), stream.encode()])


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
