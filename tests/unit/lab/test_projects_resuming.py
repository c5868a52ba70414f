"""Which call comes next follows from those that were made, and its name from what it is for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.errors import BadRecord
from personalab.lab.calling import Call, CallAnswer
from personalab.lab.case_calls import (
    CallRow,
    CaseCalls,
    Known,
    TaskLeft,
    answer_of,
    arm_folder,
    attempts_of,
    case_file,
    control_calls,
    execute_calls,
    hash_of,
    judge_calls,
    nth,
    plan_of,
    role_of,
    row_of,
    standing,
    wait_before,
)
from personalab.lab.options import NO_SKILL_ID, RunOptions
from personalab.lab.records import is_uuid4

AT = "2025-10-16T10:30:00Z"


def _row(status: str, call_id: str = "x-a1", **more: Any) -> CallRow:
    return CallRow.read({"call_id": call_id, "role": "execute", "at": AT, "status": status, **more}, "x")


FAILED, REFUSED, ODD, OK = _row("failed", retryable=True), _row("failed"), _row("unreadable"), _row("ok")


@pytest.mark.parametrize(
    ("rows", "retries", "wanted"),
    [
        ([], 0, "again"),
        ([FAILED], 0, "failed"),
        ([FAILED, FAILED], 2, "again"),
        ([FAILED, FAILED, FAILED], 2, "failed"),
        ([FAILED, FAILED, OK], 2, "ok"),
        ([REFUSED], 9, "failed"),
        ([ODD], 0, "again"),
        ([ODD, ODD], 9, "failed"),
        ([ODD, FAILED], 1, "again"),
    ],
)
def test_attempts_end_with_an_answer_or_when_none_is_left(
    rows: list[CallRow], retries: int, wanted: str
) -> None:
    assert standing(rows, retries) == wanted


def test_each_retry_waits_twice_as_long_and_what_a_service_asks_for_counts() -> None:
    slow = _row("failed", retryable=True, retry_after=7)
    assert [wait_before([FAILED] * n, 1, 60) for n in range(5)] == [0, 1, 2, 4, 8]
    assert wait_before([slow], 1, 60) == 7
    assert wait_before([slow], 1, 5) == 5
    assert wait_before([FAILED, ODD], 1, 60) == 0
    assert wait_before([slow], 0, 0) == 0


_ID = st.from_regex(r"[A-Za-z0-9-]{8}", fullmatch=True)
_CASES = st.from_regex(r"case_[0-9]{3,6}", fullmatch=True)


@given(_ID, _CASES, st.one_of(st.none(), _ID), st.integers(1, 100), st.text(max_size=20), st.integers(1, 99))
def test_names_lead_back_to_what_they_are_for(
    skill: str, case: str, baseline: str | None, repeat: int, judge: str, attempt: int
) -> None:
    prefix = execute_calls(arm_folder(skill, "v12"), case_file(case, baseline), repeat)
    asked = nth(prefix, attempt)
    judging = nth(judge_calls(asked, judge, 3), attempt)
    assert attempts_of(asked) == prefix
    assert attempts_of(judging) == judge_calls(asked, judge, 3)
    for call_id in (asked, judging):
        Call(call_id, "", None, "text", None, "m", 1.0)
        assert row_of(CallAnswer("ok"), call_id=call_id, role="judge", at=AT, model="m").attempt == attempt


@pytest.mark.parametrize("wrong", ["", "..", "a/b", "a.b", "x_case_001", "用例", "a\n", "a" * 49])
def test_what_is_no_part_of_a_file_name_is_refused(wrong: str) -> None:
    with pytest.raises(BadRecord):
        case_file(wrong, None)


def test_the_last_answer_counts_and_another_answer_is_judged_under_another_name() -> None:
    rows = (
        _row("ok", "x-c-r1-a1", text="old"),
        _row("failed", "x-c-r1-a2"),
        _row("ok", "x-c-r1-a3", text="new"),
    )
    calls = CaseCalls(
        case_id="c",
        skill_id="s",
        skill_version="v1",
        baseline_id="b",
        baseline_version="v1",
        content_hash="",
        case_hash="",
        calls=rows,
    )
    found = answer_of(calls, "x-c-r1")
    assert found is not None
    assert found.text == "new"
    assert judge_calls("x-c-r1-a1", "m", 1) != judge_calls("x-c-r1-a3", "m", 1)


def test_no_two_lists_of_texts_have_one_hash() -> None:
    assert len({hash_of("ab", "c"), hash_of("a", "bc"), hash_of("abc"), hash_of("abc", "")}) == 4


def test_the_arm_without_a_skill_has_an_id_like_any_other() -> None:
    assert is_uuid4(NO_SKILL_ID)


def test_who_names_no_judge_is_judged_by_the_same_model() -> None:
    assert RunOptions(model="m").judging() == ("m",)
    assert RunOptions(model="m", judges=("a", "b", "a")).judging() == ("a", "b")


def test_a_plan_adds_up_and_knows_money_only_where_every_kind_of_call_has_told_it() -> None:
    left = [TaskLeft(100, 20, 10, 1, 2), TaskLeft(100, 20, 10, 0, 1)]
    known = Known(5, 1.0, {"execute": 0.5, "judge": 0.25}, {"execute": 40.0, "judge": 30.0})
    plan = plan_of(left, tasks=10, control_calls=4, known=known, max_calls=12, max_usd=None)
    assert (plan.done, plan.execute_calls, plan.judge_calls, plan.control_calls, plan.calls) == (
        8,
        1,
        3,
        4,
        8,
    )
    assert plan.cost_usd == 0.5 + 3 * 0.25 + 4 * 0.25
    assert plan.within_budget is False  # 5 + 8 calls are more than 12
    dear = plan_of(left, tasks=10, control_calls=0, known=known, max_calls=None, max_usd=2.0)
    assert (dear.cost_usd, dear.within_budget) == (1.25, False)
    blank = plan_of(left, tasks=10, control_calls=0, known=Known(), max_calls=None, max_usd=2.0)
    assert (blank.cost_usd, blank.within_budget) == (None, None)
    silent = Known(5, 1.0, known.mean_cost, unpriced=True)
    for spent, limit, within in ((1.0, 2.0, None), (3.0, 2.0, False), (9.0, None, True)):
        told = replace(silent, spent_usd=spent)
        plan = plan_of(left, tasks=10, control_calls=0, known=told, max_calls=None, max_usd=limit)
        assert (plan.cost_usd, plan.within_budget) == (None, within)
    assert plan_of([], tasks=10, control_calls=0, known=silent, max_calls=None, max_usd=2.0).within_budget
    few = plan_of(left, tasks=10, control_calls=0, known=Known(), max_calls=1, max_usd=2.0)
    assert few.within_budget is False


def test_what_ended_a_whole_run_is_no_attempt_at_a_case() -> None:
    ended = _row("failed", "x-c-r1-a1", error_code="provider.cli_login")
    assert standing([ended], 0) == "again"
    assert standing([ended, _row("failed", "x-c-r1-a2", retryable=True)], 0) == "failed"


def test_the_name_of_a_call_tells_what_it_is_for() -> None:
    answer = nth(execute_calls("aaaaaaaa_v1", "case_001", 1), 1)
    assert role_of(answer) == "execute"
    assert role_of(nth(judge_calls(answer, "m", 1), 1)) == "judge"
    assert role_of(nth(control_calls("m", 1, "good"), 1)) == "control"
    assert role_of("ask_1_0") is None
