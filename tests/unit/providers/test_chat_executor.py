"""Tests of the executor on chat models."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from personalab.dialogue import Message
from personalab.errors import ProviderError
from personalab.lab.calling import CallAnswer
from personalab.ports import AnswerNeeded, ReplyChunk
from personalab.providers.chat_executor import ChatExecutor
from personalab.story.events import Usage
from personalab.testing.rehearsal import RehearsalModel
from personalab.testing.scripted import ScriptedModel, ScriptedReply
from tests.support.providers.fake_cli import question

USAGE: Usage = {"input_tokens": 3, "output_tokens": 2, "cached_tokens": 1}
SCHEMA = {"type": "object", "properties": {"tags": {"type": "array"}}, "required": ["tags"]}


def run(model: Any, tmp_path: Path, **changes: Any) -> CallAnswer:
    return asyncio.run(ChatExecutor(model).run(question(**changes), tmp_path))


class Elsewhere:
    """A model of another provider, or one that cannot answer by itself."""

    def __init__(self, name: str = "openai:gpt-4o-mini", error: Exception | None = None) -> None:
        self.name = name
        self._error = error

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        if self._error is not None:
            raise self._error
        yield ReplyChunk("hello")


def test_the_skill_is_the_system_message_and_the_answer_has_its_usage(tmp_path: Path) -> None:
    model = ScriptedModel([ScriptedReply(("The sea ", "rises."), usage=USAGE)])
    answer = run(model, tmp_path)
    assert model.calls == [
        (
            {"role": "system", "content": "Answer briefly."},
            {"role": "user", "content": "What is a tide?"},
        )
    ]
    assert (answer.status, answer.text, answer.usage) == ("ok", "The sea rises.", USAGE)


def test_thoughts_are_no_part_of_the_answer(tmp_path: Path) -> None:
    model = ScriptedModel([ScriptedReply(("<thi", "nk>hm</think>", "The sea."), reasoning=("first",))])
    assert run(model, tmp_path).text == "The sea."


@pytest.mark.parametrize("tag", ["<think>", "</think>", "<think>x</think>"])
def test_tags_that_an_answer_speaks_about_stay_in_it(tmp_path: Path, tag: str) -> None:
    text = f"The filter removes `{tag}` and nothing else."
    assert run(ScriptedModel([text]), tmp_path).text == text
    structured = json.dumps({"tags": [tag]})
    answer = run(ScriptedModel([structured]), tmp_path, call_id="two", schema=SCHEMA)
    assert answer.structured == {"tags": [tag]}


def test_without_a_skill_there_is_no_system_message(tmp_path: Path) -> None:
    model = ScriptedModel(["x"])
    run(model, tmp_path, system=" ")
    assert [message["role"] for message in model.calls[0]] == ["user"]


def test_a_stand_in_never_looks_real(tmp_path: Path) -> None:
    disguised = run(ScriptedModel(["x"], name="openai:gpt-4o"), tmp_path)
    assert disguised.cli_version == "0.0.0-scripted"
    rehearsed = run(RehearsalModel(delay=0), tmp_path, call_id="two")
    assert (rehearsed.status, rehearsed.cli_version) == ("ok", "0.0.0-rehearsal")
    real = run(Elsewhere(), tmp_path, call_id="three")
    assert (real.executor, real.model_version) == ("openai:gpt-4o-mini", "gpt-4o-mini")
    assert real.cli_version == "personalab-openai"


def test_a_structured_answer_is_asked_for_and_read(tmp_path: Path) -> None:
    model = ScriptedModel(['Here you are: {"tags": ["a"]}'])
    answer = run(model, tmp_path, schema=SCHEMA)
    assert answer.structured == {"tags": ["a"]}
    assert json.dumps(SCHEMA) in model.calls[0][0]["content"]


@pytest.mark.parametrize("first", ["no idea", '{"other": 1}', '{"tags": [', "[" * 3_000])
def test_an_answer_without_the_structure_is_its_text_and_no_second_one_is_paid(
    tmp_path: Path, first: str
) -> None:
    model = ScriptedModel([ScriptedReply((first,), usage=USAGE), '{"tags": []}'])
    answer = run(model, tmp_path, schema=SCHEMA)
    assert (answer.status, answer.structured, answer.text) == ("ok", None, first)
    assert answer.usage == USAGE
    assert len(model.calls) == 1


def test_only_what_nobody_is_paid_for_is_free(tmp_path: Path) -> None:
    assert run(ScriptedModel(["x"]), tmp_path).cost_usd == 0.0
    assert run(RehearsalModel(delay=0), tmp_path, call_id="two").cost_usd == 0.0
    assert run(Elsewhere(), tmp_path, call_id="three").cost_usd is None
    assert run(Elsewhere(name="local:tiny"), tmp_path, call_id="four").cost_usd == 0.0


def test_a_structure_nested_without_end_is_none(tmp_path: Path) -> None:
    deep = '{"tags": ' + "[" * 900 + "]" * 900 + "}"
    answer = run(ScriptedModel([deep, '{"tags": [1]}']), tmp_path, schema=SCHEMA)
    assert (answer.status, answer.structured) == ("ok", None)


@pytest.mark.parametrize("retryable", [True, False])
def test_a_failure_of_the_model_is_an_answer(tmp_path: Path, retryable: bool) -> None:
    error = ProviderError("provider.failed", retryable=retryable, reason="x" * 999)
    answer = run(Elsewhere(error=error), tmp_path)
    assert (answer.status, answer.error_code, answer.retryable) == ("failed", "provider.failed", retryable)
    assert len(str(answer.error)) <= 300
    assert answer.error_params == {"reason": "x" * 300}


def test_a_model_that_is_silent_runs_out_of_time(tmp_path: Path) -> None:
    answer = run(ScriptedModel([ScriptedReply(("a",), hang=True)]), tmp_path, timeout_seconds=0.05)
    assert (answer.error_code, answer.retryable) == ("provider.call_timeout", True)


def test_a_model_whose_answers_come_from_elsewhere_may_say_so(tmp_path: Path) -> None:
    with pytest.raises(AnswerNeeded):
        run(Elsewhere(error=AnswerNeeded()), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_cancelling_keeps_nothing(tmp_path: Path) -> None:
    async def cancelled() -> None:
        model = ScriptedModel([ScriptedReply(("a",), hang=True)])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await ChatExecutor(model).run(question(), tmp_path)

    asyncio.run(cancelled())
    assert list(tmp_path.iterdir()) == []


def test_lone_surrogates_do_not_spoil_what_is_kept(tmp_path: Path) -> None:
    model = ScriptedModel(['{"tags": ["\\ud800"]}'])
    answer = run(model, tmp_path, text="a\ud800b", schema=SCHEMA)
    assert answer.structured == {"tags": ["\ufffd"]}
    assert model.calls[0][1]["content"] == "a\ufffdb"
    assert run(ScriptedModel([]), tmp_path, schema=SCHEMA) == answer
