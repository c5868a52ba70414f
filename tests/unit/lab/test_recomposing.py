"""A recomposed skill holds every kept segment to the letter, or it does not come into being."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.errors import UserError
from personalab.lab.findings import AdvantageSegment, AnalysisReport, DimensionLeaders
from personalab.lab.recomposing import (
    WriterReader,
    checked_content,
    iteration_strategy,
    join_segments,
    provenance_of,
    recomposed_name,
    select_segments,
    strategy_text,
    writer_call,
)
from personalab.lab.records import DIMENSIONS
from personalab.operations.lab.findings import recompose, retention_of_analysis
from personalab.operations.lab.skills import get_skill
from personalab.services import Services
from personalab.storage.lab.projects import ProjectPlace
from personalab.testing.scripted import ScriptedModel
from tests.support.lab.running import NOW, SKILLS, make_project

PROJECT = "c3d4e5f6-a7b8-4012-8def-234567890123"
CODER = "你是一个专业的Python开发者。\n\n请遵循PEP8规范。直接给出代码。\n"
HELPER = "你是助手。\n\n必须检查参数类型。\n"
CONTENTS = {"a": CODER, "b": HELPER}


def _segment(number: int, skill_id: str, content: str) -> AdvantageSegment:
    return AdvantageSegment(
        id=f"seg_{number:03d}",
        skill_id=skill_id,
        skill_name=f"name of {skill_id}",
        type="constraint",
        content=content,
        reason="",
        dimension="robustness",
    )


SEGMENTS = (
    _segment(1, "a", "你是一个专业的Python开发者。"),
    _segment(2, "a", "请遵循PEP8规范。"),
    _segment(3, "b", "必须检查参数类型。"),
)


def _report(segments: tuple[AdvantageSegment, ...] = SEGMENTS) -> AnalysisReport:
    return AnalysisReport(
        project_id=PROJECT,
        generated_at=NOW,
        best_skill_id="a",
        best_skill_name="name of a",
        dimension_leaders=DimensionLeaders(**dict.fromkeys(DIMENSIONS, "a")),
        advantage_segments=segments,
        issues=(),
    )


def _ids(report: AnalysisReport, segments: list[str] | None, rules: str) -> list[str]:
    return [row.id for row in select_segments(report, segments, rules).segments]


# --- what goes in


def test_without_a_choice_all_segments_go_in_but_those_the_rules_drop() -> None:
    """Resolution 29."""
    assert _ids(_report(), None, "") == ["seg_001", "seg_002", "seg_003"]
    assert _ids(_report(), None, "去掉seg_002") == ["seg_001", "seg_003"]


def test_what_the_rules_keep_goes_in_whatever_was_chosen() -> None:
    choice = select_segments(_report(), ["seg_002"], "必须保留seg_003")
    assert [row.id for row in choice.segments] == ["seg_002", "seg_003"]
    assert choice.kept == {"seg_003": "必须检查参数类型。"}


@pytest.mark.parametrize(
    ("segments", "rules", "code"),
    [
        (["seg_009"], "", "lab_unknown_segment"),
        (None, "保留seg_009", "lab_unknown_segment"),
        (["seg_001"], "去掉seg_001", "lab_retention_contradiction"),
        (None, "去掉seg_001、seg_002、seg_003", "lab_no_segments"),
        ([], "", "lab_no_segments"),
        (None, "x" * 20_001, "input_too_long"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(segments: list[str] | None, rules: str, code: str) -> None:
    with pytest.raises(UserError) as caught:
        select_segments(_report(), segments, rules)
    assert caught.value.code == code


# --- putting together


def test_segments_are_put_together_in_their_places() -> None:
    choice = select_segments(_report(), None, "")
    assert join_segments(choice, CONTENTS) == (
        "你是一个专业的Python开发者。\n\n必须检查参数类型。\n\n请遵循PEP8规范。\n"
    )


@given(st.sets(st.sampled_from(["seg_001", "seg_002", "seg_003"]), min_size=1), st.data())
def test_every_kept_segment_stands_in_what_is_put_together(chosen: set[str], data: st.DataObject) -> None:
    kept = data.draw(st.sets(st.sampled_from(sorted(chosen))))
    choice = select_segments(_report(), sorted(chosen), "; ".join(f"keep {name}" for name in sorted(kept)))
    content = join_segments(choice, CONTENTS)
    for row in SEGMENTS:
        assert (row.content in content) == (row.id in chosen)


def test_a_segment_that_stands_in_its_skill_no_more_cannot_be_used() -> None:
    with pytest.raises(UserError) as caught:
        join_segments(select_segments(_report(), None, ""), {"a": CODER, "b": "changed"})
    assert (caught.value.code, caught.value.params["segments"]) == ("lab_kept_segment_lost", "seg_003")


@given(
    st.text(max_size=60), st.dictionaries(st.sampled_from("abc"), st.text(min_size=1, max_size=5), max_size=3)
)
def test_no_content_passes_that_lost_a_kept_segment(content: str, kept: dict[str, str]) -> None:
    if all(text in content for text in kept.values()):
        assert checked_content(content, kept) == content
    else:
        with pytest.raises(UserError) as caught:
            checked_content(content, kept)
        assert caught.value.code == "lab_kept_segment_lost"


def test_white_space_is_a_part_of_what_is_kept() -> None:
    assert checked_content("x  a\n", {"seg_001": "  a\n"})
    with pytest.raises(UserError):
        checked_content("x a\n", {"seg_001": "  a\n"})


def test_no_content_passes_that_has_a_dropped_segment() -> None:
    long = _segment(4, "a", "请遵循PEP8规范。直接给出代码")
    choice = select_segments(_report((*SEGMENTS, long)), ["seg_004"], "去掉seg_002")
    with pytest.raises(UserError) as caught:
        join_segments(choice, CONTENTS)
    assert caught.value.code == "lab_dropped_segment_stays"


# --- a writer


def test_the_writer_is_told_what_must_stay_and_the_rules_as_they_are() -> None:
    rules = "语气温和，不要重复"
    choice = select_segments(_report(), None, rules, keep=["seg_001"], drop=["seg_002"])
    call = writer_call(choice, rules, "zh")
    assert call.system.splitlines()[0] == "=== 重组任务 ==="
    assert writer_call(choice, rules, "en").system.splitlines()[0] == "=== Recomposition task ==="
    heads = {line[:7]: line.rpartition("：")[2] for line in call.text.splitlines() if line.startswith("seg_")}
    assert heads == {"seg_001": "必须保留", "seg_003": "可以改写", "seg_002": "去掉"}
    assert rules in call.text


def test_a_writer_that_loses_a_kept_segment_is_told_once_and_then_refused() -> None:
    reader = WriterReader(select_segments(_report(), None, "保留seg_001"), 1_000)
    with pytest.raises(ValueError, match="seg_001"):
        reader({"content": "你是一个Python开发者。"})
    with pytest.raises(UserError) as caught:
        reader({"content": "还是没有"})
    assert caught.value.code == "lab_kept_segment_lost"
    assert reader({"content": f"{SEGMENTS[0].content}请。"}) == f"{SEGMENTS[0].content}请。"


@pytest.mark.parametrize("content", ["", " \n", None, 3, "x" * 1_001])
def test_what_is_no_prompt_is_refused(content: object) -> None:
    with pytest.raises(ValueError, match="content"):
        WriterReader(select_segments(_report(), None, ""), 1_000)({"content": content})


# --- what is told of it


def test_a_recomposed_skill_is_named_after_the_best_one() -> None:
    assert recomposed_name("助手", "zh") == "助手-重组"
    assert recomposed_name("Helper", "en") == "Helper-recomposed"
    assert recomposed_name("助手-重组", "zh") == "助手-重组"


def test_provenance_names_who_gave_which_segments() -> None:
    choice = select_segments(_report(), None, "保留seg_001")
    found = provenance_of(
        project_id=PROJECT,
        project_name="测试",
        strategy=strategy_text(choice, "zh"),
        rules="保留seg_001",
        skills={"a": ("甲", "v1"), "b": ("乙", "v2"), "c": ("丙", "v1")},
        segments=[(row.skill_id, row.id) for row in choice.segments],
        now=NOW,
    )
    assert found.fields()["type"] == "recomposed"
    assert [(row.skill_name, row.skill_version, row.contributed_segments) for row in found.source_skills] == [
        ("甲", "v1", ("seg_001", "seg_002")),
        ("乙", "v2", ("seg_003",)),
    ]
    assert "seg_001" in found.recomposition_strategy


def test_an_iterations_provenance_names_its_round_and_parent() -> None:
    """Resolution 27."""
    told = iteration_strategy(3, "GREEDY", "助手-v2", ["seg_001", "seg_004"], "zh")
    assert all(word in told for word in ("3", "GREEDY", "助手-v2", "seg_001, seg_004"))


# --- into the library


@pytest.fixture
def services(services: Services, root: Path) -> Services:
    """A workspace without the shipped samples."""
    shutil.rmtree(root / "workspace", ignore_errors=True)
    return services


async def _analysed(services: Services) -> ProjectPlace:
    place = await make_project(services)
    segments = (_segment(1, SKILLS[0], "alpha answers"), _segment(2, SKILLS[1], "answers briefly."))
    report = _report(segments).changed(project_id=place.config.id, best_skill_id=SKILLS[1])
    place.save_analysis(report, {})
    return place


def test_a_recomposed_skill_stands_in_the_library_with_its_provenance(services: Services) -> None:
    async def run() -> None:
        place = await _analysed(services)
        made = await recompose(services, place.config.name, rules="keep seg_002")
        assert made.content == "alpha answers\n\nanswers briefly.\n"
        assert (made.meta.name, made.meta.version, made.meta.purpose) == ("beta-recomposed", "v1", "talk")
        assert made.meta.id not in SKILLS
        found = (await get_skill(services, made.meta.id))["provenance"]
        assert found["source_project_id"] == place.config.id
        assert found["user_retention_rules"] == "keep seg_002"
        assert [row["skill_id"] for row in found["source_skills"]] == list(SKILLS)

    asyncio.run(run())


def test_lists_are_stored_as_a_sentence_that_reads_as_the_same(services: Services) -> None:
    async def run() -> None:
        place = await _analysed(services)
        made = await recompose(services, place.config.name, keep=["seg_002"], drop=["seg_001"])
        assert made.content == "answers briefly.\n"
        assert made.provenance is not None
        stored = made.provenance.user_retention_rules
        assert stored == "keep seg_002; drop seg_001"
        lists = {"kept": ["seg_002"], "dropped": ["seg_001"]}
        assert await retention_of_analysis(services, place.name, stored) == lists
        assert await retention_of_analysis(services, place.name, "", ["seg_002"], ["seg_001"]) == lists

    asyncio.run(run())


def test_a_written_skill_has_its_kept_segments_or_is_not_written(services: Services) -> None:
    async def run() -> None:
        place = await _analysed(services)
        before = len(services.assets.skills())
        lost, good = '{"content": "it answers."}', json.dumps({"content": "It answers briefly. Be kind."})
        services.models["scripted"] = ScriptedModel([lost, lost])
        with pytest.raises(UserError) as caught:
            await recompose(services, place.name, rules="keep seg_002, be kind", write=True, model="scripted")
        assert caught.value.code == "lab_kept_segment_lost"
        assert len(services.assets.skills()) == before
        services.models["scripted"] = ScriptedModel([lost, good])
        made = await recompose(
            services, place.name, rules="keep seg_002, be kind", name="Kind", write=True, model="scripted"
        )
        assert (made.meta.name, made.content) == ("Kind", "It answers briefly. Be kind.")
        assert made.provenance is not None
        assert "scripted" in made.provenance.recomposition_strategy

    asyncio.run(run())


def test_a_project_without_an_analysis_has_no_segments(services: Services) -> None:
    async def run() -> None:
        place = await make_project(services)
        await recompose(services, place.name)

    with pytest.raises(UserError) as caught:
        asyncio.run(run())
    assert caught.value.code == "lab_no_segments"
