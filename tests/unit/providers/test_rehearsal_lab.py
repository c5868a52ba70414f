"""Tests of the stand-in's answers to the lab's tasks, which are valid and identify it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.lab.analysis import AnalysedSkill, AnalysisReader, analysis_call, shown_skills
from personalab.lab.assets import NO_TAGS
from personalab.lab.calling import Call, CallAnswer
from personalab.lab.controls import LEAST_GAP, choose_controls, verdict
from personalab.lab.findings import AdvantageSegment, AnalysisReport
from personalab.lab.generating import cases_schema, generation_prompt, read_cases
from personalab.lab.judging import Judgement, asked_again, judge_call, read_judgement
from personalab.lab.projects import RankRow, breakdown_of
from personalab.lab.recomposing import SegmentSelection, WriterReader, select_segments, writer_call
from personalab.lab.records import CATEGORIES, DIMENSIONS, MAXIMA
from personalab.lab.tagging import TAG_SCHEMA, read_tags, tag_prompt
from personalab.providers.chat_executor import ChatExecutor
from personalab.testing.rehearsal import RehearsalModel
from personalab.texts import PROMPT_LANGUAGES, PromptLanguage
from tests.unit.lab.test_records import EXAMPLES

LABELS = {"zh": "排练", "en": "rehearsal"}
TEXTS: dict[PromptLanguage, tuple[str, str]] = {
    "zh": (
        "你是一个严谨的 Python 开发者。\n\n只输出代码，不要解释。\n\n处理空输入和类型错误。\n\n最后给出一个例子。",
        "你是代码助手。\n\n请写代码。",
    ),
    "en": (
        "You are a careful developer.\n\nGive code only.\n\nHandle empty input.\n\nEnd with an example.",
        "You help with code.\n\nWrite code.",
    ),
}


def ask(tmp_path: Path, system: str, text: str, schema: Mapping[str, object], name: str = "q") -> CallAnswer:
    """Ask the stand-in as the lab asks any chat model."""
    call = Call(
        call_id=name,
        system=system,
        system_file=None,
        text=text,
        schema=schema,
        model="rehearsal",
        timeout_seconds=60,
    )
    answer = asyncio.run(ChatExecutor(RehearsalModel(delay=0)).run(call, tmp_path))
    assert (answer.status, answer.error) == ("ok", None)
    assert answer.cli_version == "0.0.0-rehearsal"
    return answer


def structured(answer: CallAnswer) -> Mapping[str, object]:
    assert isinstance(answer.structured, dict)
    return cast("Mapping[str, object]", answer.structured)


def judged(
    tmp_path: Path, request: str, expected: str, said: str, language: PromptLanguage, name: str
) -> Judgement:
    asked = judge_call(request, expected, said, language)
    return read_judgement(ask(tmp_path, asked.system, asked.text, asked.schema, name).structured)


# --- judging


@pytest.mark.parametrize("language", PROMPT_LANGUAGES)
def test_the_judge_tells_planted_answers_apart_and_says_what_it_is(
    tmp_path: Path, language: PromptLanguage
) -> None:
    pairs: list[tuple[float, float]] = []
    for number, control in enumerate(choose_controls(language)):
        sides = [
            judged(tmp_path, control.input, control.expected, said, language, f"{number}-{side}")
            for side, said in enumerate((control.good, control.bad))
        ]
        pairs.append((sides[0].total, sides[1].total))
        assert all(LABELS[language] in reason for side in sides for reason in side.reasons.values())
    found = verdict(pairs)
    assert found.passed, found.reason
    assert found.gap >= LEAST_GAP


@pytest.mark.parametrize("language", PROMPT_LANGUAGES)
def test_an_answer_that_says_nothing_gets_nothing(tmp_path: Path, language: PromptLanguage) -> None:
    assert judged(tmp_path, "Say hello.", "It says hello.", "…", language, "a").total == 0


def test_a_judge_that_is_asked_again_answers_all_the_same(tmp_path: Path) -> None:
    asked = asked_again(judge_call("Say hello.", "It says hello.", "Hello!", "en"), "it is blank", "en")
    read_judgement(ask(tmp_path, asked.system, asked.text, asked.schema).structured)


@given(st.text(max_size=200), st.text(max_size=200), st.text(max_size=300), st.sampled_from(PROMPT_LANGUAGES))
def test_whatever_is_judged_the_scores_are_within_their_range(
    request: str, expected: str, said: str, language: PromptLanguage
) -> None:
    model = RehearsalModel(delay=0)
    asked = judge_call(request, expected, said, language)

    async def answer() -> str:
        messages: Any = [
            {"role": "system", "content": asked.system},
            {"role": "user", "content": asked.text},
        ]
        return "".join([chunk.text async for chunk in model.stream(messages)])

    found = read_judgement(asyncio.run(answer()))
    assert all(0 <= found.scores[name] <= MAXIMA[name] for name in DIMENSIONS)


# --- tags and cases


@pytest.mark.parametrize("language", PROMPT_LANGUAGES)
def test_tags_can_be_read_and_one_names_the_rehearsal(tmp_path: Path, language: PromptLanguage) -> None:
    content = TEXTS[language][0]
    system, text = tag_prompt("skill", "Coder", "", content, NO_TAGS, language)
    tags = read_tags(structured(ask(tmp_path, system, text, TAG_SCHEMA)))
    assert tags[0] == LABELS[language]
    assert len(tags) > 1
    assert all(tag.lower() in content.lower() for tag in tags[1:])


@pytest.mark.parametrize("language", PROMPT_LANGUAGES)
@pytest.mark.parametrize("count", [1, 3, 7])
def test_as_many_cases_as_were_asked_for_can_be_read(
    tmp_path: Path, language: PromptLanguage, count: int
) -> None:
    goal = {"zh": "测试礼貌的拒绝", "en": "Tests a polite refusal"}[language]
    system, text = generation_prompt("Manners", goal, count, (), language)
    cases = read_cases(structured(ask(tmp_path, system, text, cases_schema(count))), count)
    assert len(cases) == count
    assert len({case.input for case in cases}) == count
    assert {case.category for case in cases} == set(CATEGORIES[: min(3, count)])
    for case in cases:
        assert goal in case.input
        assert LABELS[language] in case.name.lower()
        assert LABELS[language] in case.description


# --- analysis and recomposition


def ranked(name: str, rank: int, total: float) -> RankRow:
    return RankRow(
        rank=rank,
        skill_id=f"{rank}1111111-0000-4000-8000-000000000000",
        skill_name=name,
        skill_version="v1",
        completed_cases=2,
        failed_cases=0,
        avg_score=total,
        score_breakdown=breakdown_of(
            {dimension: total * MAXIMA[dimension] / 100 for dimension in DIMENSIONS}
        ),
    )


def analysed(tmp_path: Path, language: PromptLanguage) -> tuple[AdvantageSegment, ...]:
    skills = [
        AnalysedSkill(ranked(name, rank, 90.0 - rank), content, (f"{LABELS[language]} evidence",))
        for rank, (name, content) in enumerate(zip(("one", "two"), TEXTS[language], strict=True), 1)
    ]
    shown, _ = shown_skills(skills)
    asked = analysis_call(shown, language)
    found = AnalysisReader(shown)(
        structured(ask(tmp_path, asked.system, asked.text, asked.schema, "analysis"))
    )
    assert found.doubts == ()
    return found.segments


@pytest.mark.parametrize("language", PROMPT_LANGUAGES)
def test_an_analysis_quotes_every_skill_to_the_letter(tmp_path: Path, language: PromptLanguage) -> None:
    segments = analysed(tmp_path, language)
    assert {segment.skill_name for segment in segments} == {"one", "two"}
    for segment in segments:
        assert segment.content in TEXTS[language][segment.skill_name == "two"]
        assert LABELS[language] in segment.reason


@pytest.mark.parametrize("language", PROMPT_LANGUAGES)
def test_a_recomposition_keeps_what_must_stay_and_drops_what_must_go(
    tmp_path: Path, language: PromptLanguage
) -> None:
    segments = analysed(tmp_path, language)
    report = AnalysisReport.read({**EXAMPLES["6.1"], "advantage_segments": []}, "x").model_copy(
        update={"advantage_segments": segments}
    )
    rules = {"zh": "必须保留seg_002，去掉seg_003", "en": "Keep seg_002 and drop seg_003"}[language]
    choice: SegmentSelection = select_segments(report, None, rules)
    assert (list(choice.kept), list(choice.gone)) == (["seg_002"], ["seg_003"])
    asked = writer_call(choice, rules, language)
    answer = ask(tmp_path, asked.system, asked.text, asked.schema, "recompose")
    content = WriterReader(choice, 100_000)(structured(answer))
    wanted = [segment.content for segment in segments if segment.id != "seg_003"]
    assert content == "\n\n".join(wanted)


def test_what_is_no_task_of_the_lab_is_answered_like_any_turn(tmp_path: Path) -> None:
    call = Call(
        call_id="plain",
        system="You are a keeper of a lighthouse.",
        system_file=None,
        text="Judging task? No, only a question.",
        schema=None,
        model="rehearsal",
        timeout_seconds=60,
    )
    answer = asyncio.run(ChatExecutor(RehearsalModel(delay=0)).run(call, tmp_path))
    assert answer.status == "ok"
    assert answer.text.strip()
    assert not answer.text.startswith("{")
