"""A judge that cannot tell planted good answers from bad ones is found out."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.dialogue import is_in
from personalab.lab.controls import CONTROLS, LEAST_GAP, choose_controls, verdict
from personalab.texts import PROMPT_LANGUAGES

_TOTALS = st.integers(0, 200).map(lambda number: number / 2)


def test_each_language_has_a_coding_and_a_persona_pair_and_each_flaw_occurs_once() -> None:
    for language in PROMPT_LANGUAGES:
        assert sorted(control.subject for control in choose_controls(language)) == ["coding", "persona"]
        assert all(is_in(language, control.input) for control in choose_controls(language))
    assert len({control.flaw for control in CONTROLS}) == len(CONTROLS) == 4
    assert len({control.control_id for control in CONTROLS}) == 4
    assert all(control.good.strip() and control.bad.strip() != control.good.strip() for control in CONTROLS)


def test_the_planted_code_does_what_its_request_says() -> None:
    code: dict[str, object] = {}
    for control in CONTROLS:
        if control.subject == "coding":
            exec(control.good, code)
    assert code["count_vowels"]("AbEcde") == 3  # pyright: ignore[reportCallIssue] (it was just defined)
    assert code["safe_divide"](1, 0) is None  # pyright: ignore[reportCallIssue]
    assert code["safe_divide"](6, 3) == 2  # pyright: ignore[reportCallIssue]


@given(st.lists(st.tuples(_TOTALS, _TOTALS), min_size=1, max_size=4))
def test_a_judge_passes_if_every_good_one_is_ahead_and_by_enough_on_average(
    pairs: list[tuple[float, float]],
) -> None:
    found = verdict(pairs)
    gap = sum(good - bad for good, bad in pairs) / len(pairs)
    assert found.passed == (all(good > bad for good, bad in pairs) and gap >= LEAST_GAP)
    assert found.gap == pytest.approx(gap, abs=0.01)


@pytest.mark.parametrize(
    ("pairs", "cause"),
    [
        ([(90, 20), (80, 30)], "told_apart"),
        ([(90, 75), (80, 65)], "told_apart"),
        ([(90, 76), (80, 65)], "gap_too_small"),
        ([(90, 20), (50, 50)], "bad_one_preferred"),
        ([(95, 10), (40, 41)], "bad_one_preferred"),
        ([(70, 70), (70, 70)], "all_the_same"),
        ([(math.nan, 10), (80, 10)], "bad_one_preferred"),
        ([], "no_pairs"),
    ],
)
def test_the_verdict_says_why_with_its_figures(pairs: list[tuple[float, float]], cause: str) -> None:
    found = verdict(pairs)
    assert found.cause == cause
    assert found.passed == (cause == "told_apart")
    for good, bad in pairs:
        assert f"{good:g}:{bad:g}" in found.reason
        assert f"{good:g}:{bad:g}" in found.told("zh")
