"""Requests in OpenAI's protocol: the JSON that is sent, and what of it is kept from turn to turn."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from personalab.dialogue import Message, well_formed
from personalab.providers import openai_source
from personalab.providers.openai_source import MessageTexts

_TEXTS = st.text(st.characters(exclude_categories=()) | st.sampled_from('"\\{}[]\n\ud83d\ude00'), max_size=30)
_MESSAGES = st.lists(
    st.builds(Message, role=st.sampled_from(["system", "user", "assistant"]), content=_TEXTS), max_size=8
)
_BODIES = st.dictionaries(
    st.text("abc", min_size=1),
    st.recursive(_TEXTS | st.booleans(), lambda inner: st.dictionaries(_TEXTS, inner)),
)


def encode_request(body: dict[str, object], messages: Sequence[Message], *, keep: bool = False) -> bytes:
    return asyncio.run(openai_source.encode_request(body, messages, keep=keep))


def _expected(messages: Sequence[Message]) -> list[dict[str, str]]:
    return [{"role": one["role"], "content": well_formed(one["content"])} for one in messages]


@given(st.lists(_MESSAGES, max_size=5), st.booleans())
def test_request_holds_the_messages_of_each_turn(turns: list[list[Message]], keep: bool) -> None:
    said: list[Message] = []
    for messages in turns:
        said += messages  # a story's past is sent again with every turn
        request = json.loads(encode_request({"model": "m"}, said, keep=keep))
        assert request == {"model": "m", "messages": _expected(said)}


@given(_BODIES, _MESSAGES)
def test_request_holds_the_options(body: dict[str, object], messages: list[Message]) -> None:
    request = json.loads(encode_request({"model": "m", **body}, messages))
    assert request.pop("messages") == _expected(messages)
    assert request.keys() == {"model", *body}


def test_changed_message_is_written_again() -> None:
    message = Message(role="user", content="before")
    encode_request({"model": "m"}, [message], keep=True)
    message["content"] = "after"
    assert b"after" in encode_request({"model": "m"}, [message], keep=True)


def test_message_at_the_address_of_an_old_one_is_written_anew() -> None:
    for number in range(2_000):
        message = Message(role="user", content=f"line {number}")
        request = json.loads(encode_request({"model": "m"}, [message], keep=True))
        assert request["messages"] == [{"role": "user", "content": f"line {number}"}]
        del message
        gc.collect(0)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 60)), max_size=40), st.integers(500, 20_000))
def test_kept_messages_stay_within_their_limit(requests: list[tuple[int, int]], limit: int) -> None:
    """Stories of any size take turns; every request is right, and what is kept has a bound."""
    past = [
        Message(role="user", content=f"line {number} " + "很" * (number % 7) * 20) for number in range(100)
    ]
    kept = MessageTexts(limit)
    for start, count in requests:
        said = past[start : start + count]
        assert kept(said) == [json.dumps(message, ensure_ascii=False) for message in said]
        assert kept.size <= limit


def test_part_of_a_story_above_the_limit_is_kept() -> None:
    past = [Message(role="user", content="x" * 200) for _ in range(1_000)]
    kept = MessageTexts(100_000)
    first, second = kept(past), kept(past)
    same = sum(one is other for one, other in zip(first, second, strict=True))
    assert 100 < same < 1_000


def test_changed_role_is_written_again() -> None:
    message = Message(role="user", content="who")
    encode_request({"model": "m"}, [message], keep=True)
    message["role"] = "assistant"
    assert b'"assistant"' in encode_request({"model": "m"}, [message], keep=True)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2_000)), max_size=12), st.booleans())
def test_long_request_leaves_no_message_out(lengths: list[tuple[int, int]], keep: bool) -> None:
    said = [
        Message(role="user", content=("\ud800" if kind == 3 else "很") * kind + "x" * length * 400)
        for kind, length in lengths
    ] + [Message(role="assistant", content="short") for _ in range(600)]
    request = json.loads(encode_request({"model": "m"}, said, keep=keep))
    assert request["messages"] == _expected(said)


async def _turns_of_others(messages: Sequence[Message]) -> int:
    """Count how often another task has its turn while a request is written."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(count())
    await openai_source.encode_request({"model": "m"}, messages, keep=True)
    other.cancel()
    return turns


def test_others_have_their_turn_while_a_long_request_is_written() -> None:
    short = [Message(role="user", content="x")] * 20
    many, long = short * 500, [Message(role="user", content="x" * 200_000)] * 20
    assert [asyncio.run(_turns_of_others(said)) > 5 for said in (short, many, long)] == [False, True, True]
