"""What is wrong with a file of the lab is said in Chinese, whatever it is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from personalab.dialogue import object_in
from personalab.errors import BadRecord, PersonaLabError, Reason, UserError, as_reason, worded
from personalab.lab.analysis import AnalysedSkill, AnalysisReader, shown_skills
from personalab.lab.assets import Cases
from personalab.lab.calling import Call
from personalab.lab.formats.yaml_text import load_yaml
from personalab.lab.generating import read_cases
from personalab.lab.judging import read_judgement
from personalab.lab.options import RunOptions
from personalab.lab.projects import RankRow, breakdown_of
from personalab.lab.records import DIMENSIONS
from personalab.lab.tagging import read_tags
from personalab.storage.lab.workspace import Workspace
from tests.support.lab.running import scores
from tests.unit.lab.test_records import EXAMPLES, FILES

ENGLISH = re.compile(r"[A-Za-z]{2,} [a-z]{2,}")
EXAMPLE_ROW = RankRow(
    rank=1,
    skill_id="a",
    skill_name="a",
    skill_version="v1",
    completed_cases=1,
    failed_cases=0,
    avg_score=60.0,
    score_breakdown=breakdown_of(dict.fromkeys(DIMENSIONS, 10.0)),
)
STRANGE: tuple[Any, ...] = (None, [], {}, "", "x", -1, 1.5, 1e999, True, [None], ["x"], {"a": 1}, [{}])


def _is_chinese(error: PersonaLabError) -> bool:
    """Tell whether no English is left, apart from names and values."""
    return not ENGLISH.search(re.sub(r"'[^']*'|personalab doctor", "", error.message("zh")))


def _refused(record: Callable[[], object]) -> BadRecord | None:
    try:
        record()
    except BadRecord as error:
        return error
    return None


@pytest.mark.parametrize("number", FILES)
def test_every_field_that_is_wrong_is_told_in_chinese(number: str) -> None:
    told: list[BadRecord] = []
    for field in EXAMPLES[number]:
        missing = {name: value for name, value in EXAMPLES[number].items() if name != field}
        for data in (missing, *({**EXAMPLES[number], field: value} for value in STRANGE)):
            if (error := _refused(partial(FILES[number].read, data, "a.json"))) is not None:
                told.append(error)
    assert len(told) > len(EXAMPLES[number]) / 2
    assert [error.message("zh") for error in told if not _is_chinese(error)] == []


@pytest.mark.parametrize("number", FILES)
def test_what_may_not_be_written_is_told_in_chinese(number: str) -> None:
    error = _refused(partial(FILES[number].read(EXAMPLES[number], number).fields, "a.json"))
    assert error is None or _is_chinese(error), error.message("zh")


@pytest.mark.parametrize(
    "options",
    [
        {"timeout_seconds": 0},
        {"timeout_seconds": 100_000},
        {"repeats": 101},
        {"judges": [str(number) for number in range(17)]},
        {"extra_flags": ["--model=x"]},
        {"extra_flags": ["x"]},
        {"concurrency": "many"},
        {"concurrency": 1.5},
        {"language": "fr"},
        {"controls": "maybe"},
    ],
)
def test_options_that_cannot_be_are_told_in_chinese(options: dict[str, object]) -> None:
    with pytest.raises(BadRecord) as raised:
        RunOptions.read({"model": "fake", **options}, "x_run.json")
    assert _is_chinese(raised.value), raised.value.message("zh")


@pytest.mark.parametrize(
    "raw", [b"", b"{", b'{"a" 1}', b'{"a": 1,}', b'{"a": "b', b"[" * 100_000, b"\xff", b"1" * 5_000, b"1 2"]
)
def test_a_file_that_is_no_json_is_told_in_chinese(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "a.json").write_bytes(raw)
    with pytest.raises(PersonaLabError) as raised:
        Workspace(tmp_path).read_json(tmp_path / "a.json")
    assert _is_chinese(raised.value), raised.value.message("zh")


@pytest.mark.parametrize(
    "answer",
    [
        "no JSON at all",
        '{"functional_correctness": ',
        "[1]",
        json.dumps({**scores(0.5), "robustness": None}),
        json.dumps({**scores(0.5), "robustness": {"score": "many", "reason": "x"}}),
        json.dumps({**scores(0.5), "robustness": {"score": 1.3, "reason": "x"}}),
        json.dumps({**scores(0.5), "robustness": {"score": 21, "reason": "x"}}),
        json.dumps({**scores(0.5), "robustness": {"score": 2, "reason": " "}}),
    ],
)
def test_an_unusable_judgement_is_told_in_chinese(answer: str) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        read_judgement(answer)
    said = worded(as_reason(raised.value), "zh")
    assert said != str(raised.value)
    assert not ENGLISH.search(said.partition("（")[0])


@pytest.mark.parametrize(
    "read",
    [
        lambda: read_tags({}),
        lambda: read_tags({"tags": [3]}),
        lambda: read_tags({"tags": [""]}),
        lambda: read_cases({"standard": []}, 3),
        lambda: read_cases({"standard": [3]}, 3),
        lambda: read_cases({"standard": [{"name": ""}]}, 3),
        lambda: read_cases({"standard": [{"name": "x" * 100_001}]}, 3),
        lambda: AnalysisReader([])({"segments": 3}),
        lambda: AnalysisReader([])({"segments": [3], "issues": []}),
        lambda: AnalysisReader([])({"segments": [{"skill": "A"}], "issues": []}),
        lambda: AnalysisReader(shown_skills([AnalysedSkill(EXAMPLE_ROW, "One line.")])[0])(
            {"segments": [{"skill": "A", "first": 2}], "issues": []}
        ),
        lambda: object_in("<think>and", "tags"),
    ],
)
def test_other_unusable_answers_are_told_in_chinese(read: Any) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        read()
    said = worded(as_reason(raised.value), "zh")
    assert not ENGLISH.search(said), said


@pytest.mark.parametrize("text", ["a: b: c", "a: [1", "a:\n\t- b", '"', "- a\nb: c", "{a: 1"])
def test_broken_yaml_is_told_in_chinese(text: str) -> None:
    with pytest.raises(UserError) as raised:
        load_yaml(text, "a.yaml")
    assert _is_chinese(raised.value), raised.value.message("zh")


def test_a_call_that_cannot_be_made_is_told_in_chinese() -> None:
    for wrong in ({"call_id": "../x"}, {"model": "a\x00"}, {"timeout_seconds": 0}, {"extra_flags": ("-p",)}):
        given: dict[str, Any] = {"call_id": "a", "model": "m", "timeout_seconds": 1.0, **wrong}
        with pytest.raises(UserError) as raised:
            Call(system="", system_file=None, text="x", schema=None, **given)
        assert _is_chinese(raised.value), raised.value.message("zh")


def test_a_field_before_a_reason_stays_and_the_reason_is_said() -> None:
    inner = Reason("other_case_count", value=9, count=2)
    reason = Reason("at_field", field="case_count", reason=inner)
    assert reason.message("zh") == "case_count：9，实际有 2 个用例"
    assert str(reason) == "case_count: 9, but there are 2 cases"
    twice = {**EXAMPLES["3.2"], "cases": [EXAMPLES["3.2"]["cases"][0]] * 2}
    with pytest.raises(BadRecord) as raised:
        Cases.read(twice, "cases.json")
    assert "case_001 出现了两次" in raised.value.message("zh")
