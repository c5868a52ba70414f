"""What we tell a model about an unusable answer is recognised in its next answer."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from personalab.lab.calling import Call, CallAnswer, repeats_note
from personalab.services import Services
from tests.support.lab.running import FakeExecutor, evaluate, make_project, scores, told, use

NOTE = "=== Why ===\nthese are no exact quotes of their skills: segments[0]: be kind"
LINE = NOTE.splitlines()[1]


@given(st.integers(0, len(LINE) - 24), st.integers(24, len(LINE)), st.text(max_size=20), st.text(max_size=20))
def test_any_long_passage_of_the_note_is_recognised(start: int, length: int, before: str, after: str) -> None:
    passage = LINE[start : start + length].strip()
    assume(len(passage) >= 24)
    assert repeats_note({"issues": [{"description": f"{before} {passage} {after}"}]}, NOTE, ())


@given(st.recursive(st.text(max_size=60), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_quotes_of_the_question_are_no_repetition(data: object) -> None:
    def texts(value: object) -> str:
        if isinstance(value, dict):
            value = list(value.values())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return value if isinstance(value, str) else "\n".join(map(texts, value))  # pyright: ignore

    assert not repeats_note(data, texts(data), (texts(data),))


def test_short_common_words_are_no_repetition() -> None:
    assert not repeats_note(["it has no exact quotes of anybody"], NOTE, ())
    assert not repeats_note(["Why?"], NOTE, ())
    assert repeats_note(["原因 / Why"], "=== 原因 / Why ===", ())


@pytest.mark.anyio
async def test_judge_that_repeats_our_note_is_not_believed(services: Services) -> None:
    """The note on an unreadable judgement must not come back as the reason of a score."""

    def rule(call: Call) -> CallAnswer:
        if call.schema is None:
            return told("an answer")
        last = call.text.splitlines()[-1]
        if "could not be used" not in last:
            return told("no JSON")
        return told(json.dumps(scores(0.5, last)))

    use(services, FakeExecutor(rule))
    place = await make_project(services, cases=1, controls=False, retry_count=1)
    await evaluate(services, place.name)
    results = place.again().all_results()
    assert {row.status for row in results} == {"failed"}
    assert all("could not be used" not in row.score_reasoning for row in results)
