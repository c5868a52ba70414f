"""Conformance tests of executors: one suite for the program and for chat models.

``PERSONALAB_REAL_CLAUDE=1`` also runs it on a real ``claude``; that costs some tokens.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from personalab.dialogue import Message
from personalab.lab.calling import Call, CallAnswer
from personalab.ports import Executor, ReplyChunk
from personalab.providers.chat_executor import ChatExecutor
from personalab.providers.claude_cli import ClaudeCli
from tests.support.providers.fake_cli import install, question

pytestmark = pytest.mark.anyio

REAL = ["real_claude"] if os.environ.get("PERSONALAB_REAL_CLAUDE") == "1" else []
SCHEMA = {
    "type": "object",
    "properties": {"word": {"type": "string"}},
    "required": ["word"],
    "additionalProperties": False,
}


class Echo:
    """A model that gives back the question's last word, letter by letter, so that others come in between."""

    name = "echo"

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        word = messages[-1]["content"].split()[-1].rstrip(".")
        for letter in json.dumps({"word": word}):
            await asyncio.sleep(0)
            yield ReplyChunk(letter)


@pytest.fixture(params=["claude_cli", "chat", *REAL])
def executor(request: pytest.FixtureRequest, tmp_path: Path) -> Executor:
    """Each executor in turn."""
    if request.param == "chat":
        return ChatExecutor(Echo())
    if request.param == "real_claude":
        return ClaudeCli("claude", environment=dict(os.environ))
    return install(tmp_path / "fake").executor()


def asked(text: str = "Say one word.", **changes: Any) -> Call:
    return question(text, timeout_seconds=300.0, model="", **changes)


async def test_it_answers_and_says_who_it_is(executor: Executor, tmp_path: Path) -> None:
    answer = await executor.run(asked(), tmp_path / "spool")
    assert (answer.status, answer.error, answer.error_code) == ("ok", None, None)
    assert answer.text
    assert answer.executor == executor.name
    assert answer.cli_version == await executor.version()
    assert answer.model_version


async def test_a_structured_answer_is_an_object(executor: Executor, tmp_path: Path) -> None:
    answer = await executor.run(asked(schema=SCHEMA), tmp_path / "spool")
    assert isinstance(answer.structured, dict)
    assert "word" in answer.structured


async def test_the_answer_stays_until_it_is_forgotten(executor: Executor, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    first = await executor.run(asked(), spool)
    again = await executor.run(asked(), spool)
    assert (again.text, again.usage, again.cli_version) == (first.text, first.usage, first.cli_version)
    assert list(spool.iterdir()) != []
    executor.forget(spool, "call_1")
    assert list(spool.iterdir()) == []
    executor.forget(spool, "call_1")


async def test_calls_at_once_do_not_mix(executor: Executor, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    words = ("harbour", "lantern", "orchard", "thimble")
    calls = [
        asked(f"Say only this one word: {word}", call_id=f"c{number}") for number, word in enumerate(words)
    ]
    answers = await asyncio.gather(*(executor.run(call, spool) for call in calls))
    for answer, word in zip(answers, words, strict=True):
        assert answer.status == "ok"
        assert [one for one in words if one in answer.text.lower()] == [word]
    executor.forget(spool, "c2")
    assert {path.name.partition(".")[0] for path in spool.iterdir()} == {"c0", "c1", "c3"}


async def test_an_answer_is_json_and_back(executor: Executor, tmp_path: Path) -> None:
    answer = await executor.run(asked(schema=SCHEMA), tmp_path / "spool")
    assert CallAnswer.read(json.loads(json.dumps(answer.fields()))) == answer
