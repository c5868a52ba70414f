"""A judge is asked blindly, its scores are read strictly, and several judges come to one result."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.lab.judging import (
    MAX_REASON,
    Judgement,
    asked_again,
    combine,
    judge_call,
    judge_identity,
    read_judgement,
    unused_mark,
)
from personalab.lab.projects import scores_of
from personalab.lab.records import DIMENSIONS, MAXIMA
from personalab.texts import PROMPT_LANGUAGES, PromptLanguage

WORST: dict[str, Any] = {name: {"score": 0, "reason": "nothing is right"} for name in DIMENSIONS}


def _data(*scores: float, reason: str = "理由") -> dict[str, Any]:
    return {name: {"score": score, "reason": reason} for name, score in zip(DIMENSIONS, scores, strict=True)}


# --- what the judge reads


@pytest.mark.parametrize(
    ("language", "first", "headings"),
    [
        ("zh", "=== 评分任务 ===", ["=== 输入 ===", "=== 期望 ===", "=== 回答 ==="]),
        ("en", "=== Judging task ===", ["=== Input ===", "=== Expected ===", "=== Answer ==="]),
    ],
)
def test_the_question_has_its_headings_in_order(
    language: PromptLanguage, first: str, headings: list[str]
) -> None:
    call = judge_call("写一个函数", "能运行", "def f(): ...", language)
    assert call.system.splitlines()[0] == first
    assert all(f"0–{MAXIMA[name]}" in call.system and name in call.system for name in DIMENSIONS)
    lines = call.text.splitlines()
    assert [line for line in lines if line in headings] == headings
    after = {heading: lines[lines.index(heading) + 2] for heading in headings}
    assert list(after.values()) == ["写一个函数", "能运行", "def f(): ..."]


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=200))
def test_an_answer_stands_between_marks_that_are_not_in_it(asked: str, expected: str, answer: str) -> None:
    call = judge_call(asked, expected, answer, "en")
    mark = call.text.split(".")[1].rpartition(" ")[2]
    assert len(mark) == 12
    assert mark not in answer + asked + expected
    assert call.text.endswith(f"<<<{mark}\n{answer}\n{mark}>>>")
    assert call.text.count(f"{mark}>>>") == 3
    assert call == judge_call(asked, expected, answer, "en")


def test_a_mark_is_drawn_anew_where_it_occurs() -> None:
    digits = "0123456789abcdef"
    for left in digits:
        assert unused_mark("xyz", digits.replace(left, ""), length=1) == left


def test_a_case_without_an_expectation_says_so() -> None:
    assert "(none was given" in judge_call("a", " ", "b", "en").text
    assert "没有给出" in judge_call("a", "", "b", "zh").text


def test_the_schema_allows_six_whole_scores_within_their_maxima() -> None:
    schema = judge_call("a", "b", "c", "en").schema
    assert schema["required"] == list(DIMENSIONS)
    assert schema["additionalProperties"] is False
    for name in DIMENSIONS:
        score = schema["properties"][name]["properties"]["score"]
        assert score == {"type": "integer", "minimum": 0, "maximum": MAXIMA[name]}


def test_asking_again_tells_the_reason_and_everything_else_stays() -> None:
    call = judge_call("a", "b", "c", "zh")
    again = asked_again(call, "readability.score is not a number", "zh")
    assert again.text.startswith(call.text)
    assert "readability.score is not a number" in again.text
    assert (again.system, again.schema) == (call.system, call.schema)


def test_a_judge_is_its_model_and_everything_it_is_told() -> None:
    assert judge_identity("m", "zh").startswith("m#")
    assert judge_identity("m", "zh") == judge_identity("m", "zh")
    assert (
        len({judge_identity(model, language) for model in ("m", "n") for language in PROMPT_LANGUAGES}) == 4
    )


# --- what the judge answers


@given(st.tuples(*(st.integers(0, 2 * MAXIMA[name]) for name in DIMENSIONS)))
def test_whole_and_half_points_within_the_range_are_read(doubled: tuple[int, ...]) -> None:
    data = _data(*(number / 2 for number in doubled))
    found = read_judgement(data)
    assert [found.scores[name] * 2 for name in DIMENSIONS] == list(doubled)
    assert found.total == sum(doubled) / 2
    assert read_judgement(found.fields()) == found


def test_scores_are_found_in_a_text_with_other_words() -> None:
    data = _data(28, 16, 14, 13, 8, 9)
    assert read_judgement(f"好的：\n```json\n{json.dumps(data)}\n```") == read_judgement(data)


@pytest.mark.parametrize("name", DIMENSIONS)
@pytest.mark.parametrize(
    ("score", "reason"),
    [
        (-1, "is not between"),
        (31, "is not between"),
        (math.nan, "is not between"),
        (math.inf, "is not between"),
        (True, "is not a number"),
        ("5", "is not a number"),
        (None, "is not a number"),
        (1.25, "is not a whole number"),
    ],
)
def test_what_is_no_score_is_refused_by_its_field(name: str, score: object, reason: str) -> None:
    data = copy.deepcopy(WORST)
    data[name]["score"] = score
    with pytest.raises(ValueError, match=rf"^{name}\.score {reason}"):
        read_judgement(data)


@pytest.mark.parametrize("name", DIMENSIONS)
def test_a_dimension_or_a_reason_that_is_missing_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name} is missing"):
        read_judgement({key: value for key, value in WORST.items() if key != name})
    for reason in (None, " ", 3):
        with pytest.raises(ValueError, match=rf"^{name}\.reason is blank or missing"):
            read_judgement({**WORST, name: {"score": 0, "reason": reason}})


@pytest.mark.parametrize("data", [None, [], "no scores here", 3])
def test_what_is_no_object_is_refused(data: object) -> None:
    with pytest.raises(ValueError, match="JSON"):
        read_judgement(data)


def test_a_reason_is_one_line_that_any_file_can_hold() -> None:
    data = {**WORST, "readability": {"score": 1, "reason": "a\n\n b\ud800" + "c" * 5_000}}
    reason = read_judgement(data).reasons["readability"]
    assert reason.startswith("a b?ccc")
    assert len(reason) == MAX_REASON
    reason.encode("utf-8")


# --- several judges


def test_reasons_are_told_in_the_style_of_the_source() -> None:
    found = read_judgement(_data(28, 16, 14, 13, 8, 9.5, reason="不错。"))
    assert combine([found], "zh").reasoning == (
        "功能正确性(28/30)：不错；健壮性(16/20)：不错；可读性(14/15)：不错；简洁性(13/15)：不错；"
        "复杂度控制(8/10)：不错；格式规范性(9.5/10)：不错。"
    )
    english = combine([found], "en").reasoning
    assert english.startswith("Functional correctness (28/30): 不错; Robustness (16/20): 不错; ")


@given(st.lists(st.tuples(*(st.integers(0, MAXIMA[name]) for name in DIMENSIONS)), min_size=1, max_size=5))
def test_several_judgements_come_to_their_mean_in_any_order(rows: list[tuple[int, ...]]) -> None:
    judgements = [read_judgement(_data(*row)) for row in rows]
    scores, _ = combine(judgements, "en")
    for at, name in enumerate(DIMENSIONS):
        assert scores[name] == pytest.approx(sum(row[at] for row in rows) / len(rows))
    assert combine(list(reversed(judgements)), "en").scores == scores
    assert combine(judgements[:1], "en").scores == dict(judgements[0].scores)
    assert scores_of(scores).total == pytest.approx(sum(scores.values()), abs=0.05)


def test_different_reasons_of_judges_are_all_told_and_equal_ones_once() -> None:
    one, two = (read_judgement(_data(1, 1, 1, 1, 1, 1, reason=reason)) for reason in ("left", "right"))
    assert "Readability (1/15): left / right;" in combine([one, two, one], "en").reasoning


def test_no_judgement_is_no_score() -> None:
    with pytest.raises(ValueError, match="no judgement"):
        combine(list[Judgement](), "en")
