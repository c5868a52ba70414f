"""Tests of the scripted model."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from personalab.errors import ProviderError
from personalab.story.events import Usage
from personalab.testing.scripted import ScriptedModel, ScriptedReply
from tests.support.providers.asking import HELLO, ask, listen

USAGE: Usage = {"input_tokens": 1, "output_tokens": 2, "cached_tokens": 0}


def written(path: Path, script: object) -> Path:
    path.write_text(json.dumps(script), encoding="utf-8")
    return path


def test_replies_come_in_order_and_the_calls_are_kept() -> None:
    model = ScriptedModel(["first", ScriptedReply(("sec", "ond"), usage=USAGE)])
    assert ask(model).text == "first"
    second = ask(model, ({"role": "user", "content": "again"},))
    assert second.pieces == ("sec", "ond")
    assert second.usage == USAGE
    assert model.calls == [HELLO, ({"role": "user", "content": "again"},)]
    assert model.name == "scripted"


def test_after_the_last_reply_it_says_that_there_is_no_more() -> None:
    model = ScriptedModel(["only"])
    ask(model)
    heard = ask(model)
    assert heard.code == "provider.script_ended"
    assert "1" in str(heard.error)


def test_a_looping_script_begins_again() -> None:
    model = ScriptedModel(["a", "b"], loop=True)
    assert [ask(model).text for _ in range(5)] == ["a", "b", "a", "b", "a"]


def test_an_empty_script_ends_even_if_it_loops() -> None:
    assert ask(ScriptedModel([], loop=True)).code == "provider.script_ended"


def test_a_reply_fails_where_it_is_told_to() -> None:
    model = ScriptedModel([ScriptedReply(("a", "b", "c"), fail_after=2, error="provider.connection")])
    heard = ask(model)
    assert heard.pieces == ("a", "b")
    assert heard.code == "provider.connection"


def test_an_error_alone_comes_after_all_pieces() -> None:
    heard = ask(ScriptedModel([ScriptedReply(("a", "b"), error="provider.stall")]))
    assert (heard.pieces, heard.code) == (("a", "b"), "provider.stall")


def test_a_hanging_reply_ends_when_it_is_cancelled() -> None:
    async def cancelled() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await listen(ScriptedModel([ScriptedReply(("a",), hang=True)]))

    asyncio.run(cancelled())


def test_it_lets_the_event_loop_run() -> None:
    async def counted() -> int:
        ran = 0

        async def count() -> None:
            nonlocal ran
            while True:
                ran += 1
                await asyncio.sleep(0)

        counter = asyncio.create_task(count())
        await listen(ScriptedModel([ScriptedReply(("x",) * 1600)], rest_every=16))
        counter.cancel()
        return ran

    assert asyncio.run(counted()) >= 100


def test_its_pieces_are_well_formed() -> None:
    assert ask(ScriptedModel([ScriptedReply(("a\ud800", "b"))])).text == "a\ufffdb"


def test_a_script_is_read_from_a_file(tmp_path: Path) -> None:
    path = written(
        tmp_path / "script.json",
        {
            "replies": ["one", {"pieces": ["t", "wo"], "delay": 0.001, "usage": USAGE}],
            "loop": True,
        },
    )
    model = ScriptedModel.from_file(path)
    assert [ask(model).text for _ in range(3)] == ["one", "two", "one"]


@pytest.mark.parametrize(
    "content",
    ["", "{", "5", '{"replies": 1}', '[{"pieces": ["a"], "speed": 3}]', '[{"delay": -1}]', '[["a"]]'],
)
def test_a_script_that_cannot_be_read_says_which_and_why(tmp_path: Path, content: str) -> None:
    path = tmp_path / "script.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ProviderError) as caught:
        ScriptedModel.from_file(path)
    assert caught.value.code == "provider.bad_script"
    assert str(path) in str(caught.value)


def test_a_script_that_is_missing_says_so(tmp_path: Path) -> None:
    with pytest.raises(ProviderError) as caught:
        ScriptedModel.from_file(tmp_path / "none.json")
    assert caught.value.code == "provider.bad_script"
