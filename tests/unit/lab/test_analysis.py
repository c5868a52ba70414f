"""Leaders are computed, and segments that are named by line numbers are exact quotes."""

from __future__ import annotations

import asyncio
import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from personalab.errors import ProviderError, UserError
from personalab.lab.analysis import (
    MAX_SKILLS,
    AnalysedSkill,
    AnalysisFindings,
    AnalysisReader,
    analysis_call,
    leaders_of,
    report_of,
    shown_skills,
    spans_of,
)
from personalab.lab.findings import AnalysisReport
from personalab.lab.projects import Breakdown, RankRow, RunSummary
from personalab.lab.records import DIMENSIONS
from personalab.lab.segments import numbered_spans, text_hash
from personalab.operations.lab.findings import run_analysis
from personalab.services import Services
from personalab.storage.lab.projects import ProjectPlace
from personalab.testing.scripted import ScriptedModel
from tests.support.lab.running import NOW, SKILLS, FakeExecutor, evaluate, make_project, use

CODER = "你是一个专业的Python开发者。\n\n请遵循PEP8规范。\n"
HELPER = "必须检查参数类型。\n"


def _rank(rank: int, skill_id: str, average: float, *parts: float) -> RankRow:
    breakdown = Breakdown(**dict(zip(DIMENSIONS, parts, strict=True))) if parts else None
    return RankRow(
        rank=rank,
        skill_id=skill_id,
        skill_name=f"name of {skill_id}",
        skill_version="v1",
        completed_cases=1 if parts else 0,
        failed_cases=0,
        avg_score=average if parts else None,
        score_breakdown=breakdown,
    )


FIRST = _rank(1, "a", 87.3, 27.5, 16.8, 13.2, 12.1, 8.9, 8.8)
SECOND = _rank(2, "d", 79.2, 24.1, 18.3, 11.0, 10.5, 8.1, 7.2)
SKILLS_SHOWN = [AnalysedSkill(FIRST, CODER, ("可读性(9/15)：命名含糊",)), AnalysedSkill(SECOND, HELPER)]


def _segment(skill: str = "A", first: object = 2, **other: object) -> dict[str, object]:
    row = {"skill": skill, "first": first, "last": first, "type": "format", "reason": "规范"}
    return {**row, "dimension": "readability", **other}


def _reader(skills: list[AnalysedSkill] | None = None) -> AnalysisReader:
    return AnalysisReader(shown_skills(skills or SKILLS_SHOWN)[0])


# --- what is computed


def test_leaders_are_who_has_most_in_a_dimension() -> None:
    """Resolution 3: the source's own example gives complexity_control to the one with less."""
    leaders = leaders_of([FIRST, SECOND])
    assert leaders is not None
    assert leaders.model_dump() == {**dict.fromkeys(DIMENSIONS, "a"), "robustness": "d"}


def test_of_equals_the_better_average_leads_and_then_the_smaller_id() -> None:
    rows = [_rank(1, "c", 60, 10, 10, 10, 10, 10, 10), _rank(2, "b", 50, 10, 10, 10, 10, 5, 5)]
    found = leaders_of([*rows, _rank(3, "a", 50, 10, 10, 10, 10, 5, 5)])
    assert found is not None
    assert found.robustness == "c"
    same = leaders_of([rows[1], _rank(3, "a", 50, 10, 10, 10, 10, 5, 5)])
    assert same is not None
    assert set(same.model_dump().values()) == {"a"}


def test_who_has_no_scores_leads_nowhere() -> None:
    assert leaders_of([_rank(1, "a", 0)]) is None
    summary = RunSummary(project_id="p", generated_at=NOW, total_cases=1, ranking=(_rank(1, "a", 0),))
    with pytest.raises(UserError) as caught:
        report_of(summary, NOW, AnalysisFindings(), "the project")
    assert caught.value.code == "lab_not_run_yet"


# --- what the analyst reads


def test_skills_are_shown_under_letters_without_their_names() -> None:
    call = analysis_call(shown_skills(SKILLS_SHOWN)[0], "zh")
    assert call.system.splitlines()[0] == "=== 分析任务 ==="
    lines = call.text.splitlines()
    assert lines.index("=== Skill A ===") < lines.index("=== Skill B ===")
    assert "\n[1] 你是一个专业的Python开发者。\n\n[2] 请遵循PEP8规范。\n" in call.text
    assert "命名含糊" in call.text
    assert "name of" not in call.text
    assert (
        analysis_call(shown_skills(SKILLS_SHOWN)[0], "en").system.splitlines()[0] == "=== Analysis task ==="
    )
    kinds = [kind["properties"] for kind in call.schema["properties"]["segments"]["items"]["anyOf"]]
    assert [(kind["skill"]["enum"], kind["last"]["maximum"]) for kind in kinds] == [(["A"], 2), (["B"], 1)]


def test_what_does_not_fit_is_left_out_and_said() -> None:
    long = AnalysedSkill(FIRST, "x" * 1_000)
    shown, doubts = shown_skills([long, AnalysedSkill(SECOND, "y" * 10)], most=100)
    assert [len(row.text) for row in shown] == [90, 10]
    assert doubts == [{"code": "lab_skill_shortened", "skill_name": "name of a", "shown": 90}]
    shown, doubts = shown_skills([AnalysedSkill(SECOND, "y")] * (MAX_SKILLS + 1))
    assert len(shown) == MAX_SKILLS
    assert [row["code"] for row in doubts] == ["lab_skill_not_shown"]


# --- what the analyst answers


def test_segments_are_named_in_the_order_they_stand_in() -> None:
    rows = [_segment("B", 1), _segment(), _segment("A", "1", type="role")]
    issue = {"skill": "B", "dimension": "readability", "description": "没有说明\n格式"}
    found = _reader()({"segments": rows, "issues": [issue, issue]})
    assert [(row.id, row.skill_id, row.content) for row in found.segments] == [
        ("seg_001", "a", "你是一个专业的Python开发者。"),
        ("seg_002", "a", "请遵循PEP8规范。"),
        ("seg_003", "d", "必须检查参数类型。"),
    ]
    assert [(row.skill_id, row.skill_name, row.description) for row in found.issues] == [
        ("d", "name of d", "没有说明 格式")
    ]
    spans = spans_of(found.segments, {"a": CODER, "d": HELPER})
    for row in found.segments:
        span = spans[row.id]
        assert {"a": CODER, "d": HELPER}[row.skill_id][span["start"] : span["end"]] == row.content
        assert span["sha256"] == text_hash(row.content)


skill_texts = st.one_of(
    st.text(max_size=400),
    st.lists(
        st.sampled_from(["Be brief. ", "先看错误，再看风格。", "\n", "\n\n", "- 1. a;\r\n", "x" * 50, "[1] "])
    ).map("".join),
)


@given(skill_texts, st.integers(1, 500), st.data())
def test_segments_named_by_line_numbers_are_exact_quotes(text: str, most: int, data: st.DataObject) -> None:
    """Resolution 28."""
    shown, _ = shown_skills([AnalysedSkill(FIRST, text)], most)
    lines = len(shown[0].lines)
    assume(lines)
    number = st.integers(1, lines)
    first, last = data.draw(number), data.draw(number)
    answer = {"segments": [_segment("A", first, last=last)], "issues": []}
    (segment,) = AnalysisReader(shown)(answer).segments
    assert segment.content in text[:most]
    assert segment.content == segment.content.strip() != ""
    start, end = shown[0].lines[min(first, last) - 1][0], shown[0].lines[max(first, last) - 1][1]
    assert segment.content == text[start:end]


@given(skill_texts)
def test_numbered_lines_leave_out_nothing_but_white_space(text: str) -> None:
    shown, _ = shown_skills([AnalysedSkill(FIRST, text)])
    spans = numbered_spans(text)
    assert all(start < end for start, end in spans)
    gaps = pairwise([0, *(place for span in spans for place in span), len(text)])
    assert all(not text[start:end].strip() for start, end in list(gaps)[::2])
    numbered = shown[0].numbered()
    for number, (start, end) in enumerate(spans, start=1):
        assert f"[{number}] {text[start:end]}" in numbered
    assert numbered.count("\n\n") <= text.count("\n")


def test_long_lines_are_numbered_by_sentences_and_short_ones_are_not() -> None:
    short = "先指出错误。再谈风格。"
    long = "1. Name every error first; then speak of style. Quote the line of version 2.5 that is meant! Be brief."
    spans = numbered_spans(f"{short}\n\n{long}\n")
    found = [f"{short}\n\n{long}\n"[start:end] for start, end in spans]
    assert found == [
        short,
        "1. Name every error first;",
        "then speak of style.",
        "Quote the line of version 2.5 that is meant!",
        "Be brief.",
    ]


def test_skill_without_a_line_can_have_issues_but_no_segments() -> None:
    shown, _ = shown_skills([AnalysedSkill(FIRST, " \n")])
    schema = analysis_call(shown, "en").schema
    assert schema["properties"]["segments"]["maxItems"] == 0
    with pytest.raises(ValueError, match="is not a line from"):
        AnalysisReader(shown)({"segments": [_segment("A", 1)], "issues": []})


def test_the_same_quote_twice_is_one_segment() -> None:
    found = _reader()({"segments": [_segment(), _segment(dimension="robustness")], "issues": []})
    assert len(found.segments) == 1


@pytest.mark.parametrize(
    ("segment", "reason"),
    [
        (_segment("C"), r"segments\[0\]\.skill must be one of A, B"),
        (_segment(type="poem"), r"segments\[0\]\.type must be one of"),
        (_segment(dimension="beauty"), r"segments\[0\]\.dimension must be one of"),
        (_segment(first=0), r"segments\[0\]\.first is not a line from 1 to 2 of A"),
        (_segment(last=3), r"segments\[0\]\.last is not a line from 1 to 2 of A"),
        (_segment(last=[1, 2]), r"segments\[0\]\.last is not a line"),
        (_segment(first=None), r"segments\[0\]\.first is not a line"),
        (_segment(reason=None), r"segments\[0\]\.reason is blank"),
        ("text", "not all segments are objects"),
    ],
)
def test_what_is_no_segment_is_refused_by_its_field(segment: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        _reader()({"segments": [segment], "issues": []})
    with pytest.raises(ValueError, match='no list "segments"'):
        _reader()({"issues": []})


# --- a project's analysis


@pytest.fixture
def services(services: Services, root: Path) -> Services:
    """A workspace without the shipped samples."""
    shutil.rmtree(root / "workspace", ignore_errors=True)
    return services


async def _evaluated(services: Services) -> ProjectPlace:
    """Run a project with calls that cost nothing; what comes after asks real models again."""
    use(services, FakeExecutor())
    place = await make_project(services)
    await evaluate(services, place.name)
    del services.__dict__["executor"]
    return place.again()


def _answers(services: Services, *replies: str) -> None:
    services.models["scripted"] = ScriptedModel(list(replies))


def test_an_analysis_is_kept_with_its_spans(services: Services) -> None:
    answer = {
        "segments": [_segment("A", 1)],
        "issues": [{"skill": "B", "dimension": "robustness", "description": "too short"}],
    }
    _answers(services, json.dumps(answer))

    async def run() -> tuple[ProjectPlace, Any]:
        place = await _evaluated(services)
        return place, await run_analysis(services, place.config.name, model="scripted")

    place, report = asyncio.run(run())
    assert (report.best_skill_id, report.best_skill_name) == (SKILLS[0], "alpha")
    assert set(report.dimension_leaders.model_dump().values()) == {SKILLS[0]}
    assert [row.content for row in report.advantage_segments] == ["alpha answers briefly."]
    assert [row.skill_id for row in report.issues] == [SKILLS[1]]
    assert place.analysis() == report
    extra = place.read_extra(place.folder / "x_analysis.json")
    assert extra["segments"]["seg_001"]["start"] == 0
    assert extra["segments"]["seg_001"]["sha256"] == text_hash("alpha answers briefly.")
    assert extra["model"] == "scripted"


def test_without_an_answer_the_leaders_are_kept_and_a_better_analysis_stays(services: Services) -> None:
    async def run() -> ProjectPlace:
        place = await _evaluated(services)
        _answers(services, "no", "no again")
        with pytest.raises(ProviderError):
            await run_analysis(services, place.name, model="scripted")
        return place

    place = asyncio.run(run())
    leaders = place.analysis()
    assert leaders is not None
    assert leaders.dimension_leaders.robustness == SKILLS[0]
    assert leaders.advantage_segments == ()
    _answers(services, json.dumps({"segments": [_segment("A", 1)], "issues": []}))
    found = asyncio.run(run_analysis(services, place.name, model="scripted"))
    _answers(services, "no", "no again")
    with pytest.raises(ProviderError):
        asyncio.run(run_analysis(services, place.name, model="scripted"))
    assert place.analysis() == found


@pytest.mark.parametrize("echo", ["segments[0].first is not a line from 1 to 1 of A", "=== 原因 / Why ==="])
def test_correction_note_is_never_stored_as_an_issue(services: Services, echo: str) -> None:
    def answer(description: str, line: int) -> str:
        issue = {"skill": "A", "dimension": "readability", "description": description}
        return json.dumps({"segments": [_segment("A", line)], "issues": [issue]}, ensure_ascii=False)

    async def run() -> ProjectPlace:
        place = await _evaluated(services)
        _answers(services, answer("too short", 2), answer(f"Note: {echo}", 1))
        with pytest.raises(ProviderError) as caught:
            await run_analysis(services, place.name, model="scripted")
        assert caught.value.code == "lab_answer_repeats_note"
        return place

    place = asyncio.run(run())
    report = place.analysis()
    assert report is not None
    assert (report.advantage_segments, report.issues) == ((), ())
    _answers(services, answer("too short", 2), answer("too short", 1))
    found = asyncio.run(run_analysis(services, place.name, model="scripted"))
    assert [row.description for row in found.issues] == ["too short"]


def test_analysis_that_finds_no_segments_is_kept_as_empty(services: Services) -> None:
    async def run() -> AnalysisReport:
        place = await _evaluated(services)
        _answers(services, json.dumps({"segments": [], "issues": []}))
        return await run_analysis(services, place.name, model="scripted")

    assert asyncio.run(run()).advantage_segments == ()


def test_a_project_without_scores_has_nothing_to_analyse(services: Services) -> None:
    async def run() -> None:
        place = await make_project(services)
        await run_analysis(services, place.name, model="scripted")

    with pytest.raises(UserError) as caught:
        asyncio.run(run())
    assert caught.value.code == "lab_not_run_yet"
