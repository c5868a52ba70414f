"""Tests that chats which would exhaust the memory are refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from personalab.archive.chats import read_chat
from personalab.errors import BadRecord
from personalab.texts import languages


def lines_of_parts(part: bytes, count: int, lines: int) -> Iterator[bytes]:
    """Make a chat whose messages have many parts each, none of them too many by itself."""
    yield b'{"user_name":"U","character_name":"C"}\n'
    for _ in range(lines):
        yield b'{"mes":"m","x":[' + b",".join([part] * count) + b"]}\n"


@pytest.mark.parametrize("part", [b'{"":0}', b"[]", b'"ab"', b"1234567"])
def test_a_chat_of_nothing_but_parts_is_refused_before_it_fills_the_memory(part: bytes) -> None:
    with pytest.raises(BadRecord) as caught:
        read_chat(lines_of_parts(part, 1_000, 3_000))
    assert caught.value.code == "chat_too_many_parts"
    assert cast("int", caught.value.params["actual"]) < 2_000_000
    for language in languages():
        assert str(caught.value.params["line"]) in caught.value.message(language)


def test_one_line_of_too_many_parts_is_named() -> None:
    with pytest.raises(BadRecord) as caught:
        read_chat(lines_of_parts(b"[]", 1_000_000, 1))
    assert (caught.value.code, caught.value.params["line"]) == ("chat_too_many_parts", 2)


def test_a_long_chat_with_swipes_is_no_such_thing() -> None:
    swiped = (
        b'{"name":"Sera","is_user":false,"is_system":false,"mes":"*Smiles.*","send_date":"2025-10-16T10:30:00.000Z",'
        b'"swipe_id":1,"swipes":["Yes, of course.","*Smiles.*"],"swipe_info":[{"send_date":"2025-10-16","extra":{}},'
        b'{"send_date":"2025-10-16T10:30:00.000Z","extra":{"api":"x","model":"y"}}],"extra":{"personalab":'
        b'{"format":1,"lines":[{"fields":{"role":"assistant","turn":1,"timestamp":"2025-10-16T10:30:00Z"},"swipe":0}]}}}\n'
    )
    assert sum(1 for _ in read_chat([swiped] * 30_000).messages) == 30_000
