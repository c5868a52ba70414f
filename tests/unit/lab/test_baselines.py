"""Baselines change case by case, and a model's cases are drafts until a person takes them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.dialogue import Message
from personalab.errors import NotFound, ProviderError, StorageError, UserError
from personalab.lab.generating import (
    MAX_GENERATED,
    Drafts,
    cases_schema,
    drafted,
    generation_prompt,
    read_cases,
)
from personalab.lab.records import CATEGORIES
from personalab.operations.lab.baselines import (
    accept_drafts,
    add_case,
    archive_baseline,
    create_baseline,
    drafts,
    edit_baseline,
    edit_case,
    generate_cases,
    get_baseline,
    list_baselines,
    reject_drafts,
    remove_case,
)
from personalab.operations.lab.tags import add_tag
from personalab.ports import AnswerNeeded, ReplyChunk
from personalab.services import Services
from personalab.storage.lab.assets import StoredBaseline
from personalab.testing.scripted import ScriptedModel
from tests.conftest import NOW

pytestmark = pytest.mark.anyio
MODEL = "scripted"
CASE = {"name": "斐波那契", "input": "写一个函数", "expected_output": "正确"}
Answer = Callable[..., ScriptedModel]


@pytest.fixture
def services(services: Services, root: Path) -> Services:
    """A workspace without the shipped samples."""
    shutil.rmtree(root / "workspace", ignore_errors=True)
    return services


@pytest.fixture
def answer(services: Services) -> Answer:
    def use(*replies: str) -> ScriptedModel:
        model = ScriptedModel(list(replies))
        services.models[MODEL] = model
        return model

    return use


def generated(*categories: str, start: int = 1) -> str:
    lists: dict[str, list[dict[str, str]]] = {}
    for at, category in enumerate(categories, start):
        row = {"name": f"n{at}", "input": f"i{at}", "expected_output": "o", "description": "d"}
        lists.setdefault(category, []).append(row)
    return json.dumps(lists)


THREE = generated(*CATEGORIES)


async def a_baseline(services: Services, count: int = 1) -> StoredBaseline:
    return await create_baseline(services, name="标准集", purpose="code_test", cases=[CASE] * count)


# --- by people


async def test_a_baseline_begins_with_its_cases_numbered(services: Services) -> None:
    made = await a_baseline(services, 2)
    assert (made.meta.version, made.meta.case_count, made.meta.version_count) == ("v1", 2, 1)
    assert [case.id for case in made.cases.cases] == ["case_001", "case_002"]
    assert services.assets.baseline(made.meta.id) == made


async def test_cases_are_added_changed_and_removed_each_as_a_version(services: Services) -> None:
    """Resolution 11."""
    made = (await a_baseline(services, 2)).meta.id
    await add_case(services, made, name="空", input="空列表", expected_output="[]", category="boundary")
    await edit_case(services, made, "case_001", input="别的")
    last = await remove_case(services, made, "case_003")
    assert (last.meta.version, last.meta.case_count, last.cases.version) == ("v4", 2, "v4")
    assert [record.changed_fields for record in services.assets.history(last)] == [
        ("cases.+case_003",),
        ("cases.case_001.input",),
        ("cases.-case_003",),
    ]
    again = await add_case(services, made, name="新", input="新", expected_output="o")
    assert [case.id for case in again.cases.cases] == ["case_001", "case_002", "case_004"]


async def test_an_edit_that_changes_nothing_makes_no_version(services: Services) -> None:
    made = await a_baseline(services)
    assert await edit_case(services, made.meta.id, "case_001", input="写一个函数") == made
    assert await edit_baseline(services, made.meta.id, name="标准集") == made


async def test_an_edit_that_expects_another_version_is_refused(services: Services) -> None:
    made = await a_baseline(services)
    await edit_baseline(services, made.meta.id, name="新名")
    with pytest.raises(UserError) as refused:
        await edit_baseline(services, made.meta.id, name="别的", expected_version="v1")
    assert refused.value.code == "lab_asset_changed"


async def test_what_is_not_there_cannot_be_changed(services: Services) -> None:
    made = await a_baseline(services)
    with pytest.raises(NotFound):
        await edit_case(services, made.meta.id, "case_009", input="x")
    with pytest.raises(NotFound):
        await remove_case(services, "00000000", "case_001")
    with pytest.raises(UserError):
        await add_case(services, made.meta.id, name="x", input=" ", expected_output="o")
    assert services.assets.baseline(made.meta.id) == made


async def test_a_list_is_chosen_by_purpose_tag_and_words(services: Services) -> None:
    first = await a_baseline(services)
    await create_baseline(services, name="Other", purpose="art", description="Sea poems")
    await add_tag(services, "baseline", first.meta.id, "Python")
    assert [row["name"] for row in await list_baselines(services)] == ["Other", "标准集"]
    assert [row["name"] for row in await list_baselines(services, purpose="art")] == ["Other"]
    assert [row["tags"] for row in await list_baselines(services, tag="python")] == [["Python"]]
    assert [row["name"] for row in await list_baselines(services, query="POEMS sea")] == ["Other"]
    assert [row["name"] for row in await list_baselines(services, query="斐波那契")] == ["标准集"]
    put_away = await archive_baseline(services, first.meta.id)
    assert put_away.meta.version == "v2"
    assert len(await list_baselines(services)) == 1
    assert len(await list_baselines(services, archived=True)) == 2
    assert (await archive_baseline(services, first.meta.id, archived=False)).meta.status == "active"


# --- by a model


async def test_a_models_cases_wait_until_they_are_taken_as_one_change(
    services: Services, answer: Answer
) -> None:
    model = answer(THREE)
    made = await a_baseline(services, 2)
    done = await generate_cases(services, made.meta.id, "测试列表函数", 3, model=MODEL)
    assert [draft["id"] for draft in done["drafts"]] == ["draft_001", "draft_002", "draft_003"]
    assert services.assets.baseline(made.meta.id) == made
    session = services.lab_sessions.session(done["session_id"])
    assert (session.purpose, session.status, session.related_target_type) == (
        "baseline_gen",
        "closed",
        "baseline",
    )
    assert model.calls[0][0]["content"].startswith("=== 用例生成任务 ===\n")
    assert re.search(r"=== 内容 ===\n<<<(\w+)\n测试列表函数\n\1>>>$", model.calls[0][-1]["content"])
    taken = await accept_drafts(services, made.meta.id, ["draft_003", "draft_001"])
    assert (taken.meta.version, taken.meta.case_count) == ("v2", 4)
    assert services.assets.history(taken)[0].changed_fields == ("cases.+case_003", "cases.+case_004")
    assert [case.category for case in taken.cases.cases[2:]] == ["exception", "standard"]
    shown = await get_baseline(services, made.meta.id)
    assert [draft["id"] for draft in shown["drafts"]] == ["draft_002"]
    kept = Drafts.read(
        json.loads(services.assets.beside(taken, "x_drafts.json") or b""), "x_drafts.json"
    ).drafts
    assert [(draft.status, draft.case_id) for draft in kept] == [
        ("accepted", "case_004"),
        ("pending", None),
        ("accepted", "case_003"),
    ]


async def test_what_is_refused_becomes_no_case_and_may_be_drafted_again(
    services: Services, answer: Answer
) -> None:
    answer(THREE, THREE)
    made = await a_baseline(services)
    await generate_cases(services, made.meta.id, "测试列表函数", 3, model=MODEL)
    left = await reject_drafts(services, made.meta.id, ["draft_002"])
    assert [draft["id"] for draft in left] == ["draft_001", "draft_003"]
    with pytest.raises(NotFound):
        await accept_drafts(services, made.meta.id, ["draft_002"])
    again = await generate_cases(services, made.meta.id, "测试列表函数", 3, model=MODEL)
    assert ([draft["id"] for draft in again["drafts"]], again["repeated"]) == (["draft_004"], 2)
    assert await reject_drafts(services, made.meta.id) == []
    assert await drafts(services, made.meta.id) == []
    assert (await accept_drafts(services, made.meta.id)).meta.version == "v1"


async def test_an_answer_without_all_categories_is_asked_for_again(
    services: Services, answer: Answer
) -> None:
    model = answer(generated("standard", "standard", "boundary"), THREE)
    made = await a_baseline(services)
    done = await generate_cases(services, made.meta.id, "x", 3, model=MODEL)
    assert {draft["category"] for draft in done["drafts"]} == set(CATEGORIES)
    assert "exception" in model.calls[1][-1]["content"].partition("Why ===")[2]


async def test_a_failure_leaves_no_drafts_and_no_open_session(services: Services, answer: Answer) -> None:
    answer(generated("standard"), generated("standard"))
    made = await a_baseline(services)
    with pytest.raises(ProviderError):
        await generate_cases(services, made.meta.id, "x", 3, model=MODEL)
    assert [session.status for session in services.lab_sessions.sessions()] == ["closed"]
    assert await drafts(services, made.meta.id) == []


async def test_a_question_to_someone_else_passes_and_leaves_no_session(services: Services) -> None:
    class Elsewhere(ScriptedModel):
        def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
            raise AnswerNeeded

    services.models[MODEL] = Elsewhere([])
    made = await a_baseline(services)
    with pytest.raises(AnswerNeeded):
        await generate_cases(services, made.meta.id, "x", 3, model=MODEL)
    assert services.lab_sessions.sessions() == []


@pytest.mark.parametrize(("description", "count"), [("x", 0), ("x", 51), (" ", 3)])
async def test_what_cannot_be_generated_is_refused_before_anyone_is_asked(
    services: Services, description: str, count: int
) -> None:
    made = await a_baseline(services)
    with pytest.raises(UserError):
        await generate_cases(services, made.meta.id, description, count, model=MODEL)
    assert services.lab_sessions.sessions() == []


async def test_drafts_that_cannot_be_read_are_told_and_not_lost(services: Services, answer: Answer) -> None:
    answer(THREE)
    made = await a_baseline(services)
    (made.folder / "x_drafts.json").write_bytes(b"{")
    with pytest.raises(StorageError):
        await generate_cases(services, made.meta.id, "x", 3, model=MODEL)
    assert (made.folder / "x_drafts.json").read_bytes() == b"{"


# --- reading an answer

FIELDS = ("name", "input", "expected_output", "description")
texts = st.text(max_size=6)
values = st.one_of(st.none(), st.integers(), texts)
whole_rows = st.fixed_dictionaries(dict.fromkeys(FIELDS, texts.map(lambda text: f"t{text}")))
rows = st.one_of(whole_rows, st.dictionaries(st.sampled_from([*FIELDS, "id"]), values, max_size=6), values)


@given(st.dictionaries(st.sampled_from(CATEGORIES), st.lists(rows, max_size=4)), st.integers(1, 4))
def test_cases_that_are_read_are_whole_and_no_more_than_were_asked_for(
    found: dict[str, Any], count: int
) -> None:
    try:
        read = read_cases(found, count)
    except ValueError:
        return
    assert 0 < len(read) <= count
    assert all(case.name.strip() and case.input.strip() and case.category in CATEGORIES for case in read)


@given(st.tuples(*[st.lists(whole_rows, min_size=1, max_size=5)] * 3), st.integers(3, 9))
def test_read_cases_take_every_category_in_turn(lists: tuple[list[Any], ...], count: int) -> None:
    read = read_cases(dict(zip(CATEGORIES, lists, strict=True)), count)
    assert len(read) == min(count, sum(map(len, lists)))
    assert [case.category for case in read[:3]] == list(CATEGORIES)
    for name, given_rows in zip(CATEGORIES, lists, strict=True):
        inputs = [case.input for case in read if case.category == name]
        assert inputs == [row["input"] for row in given_rows][: len(inputs)]


@given(st.integers(1, MAX_GENERATED))
def test_schema_and_prompt_ask_for_the_same_number_of_cases(count: int) -> None:
    lists = cases_schema(count)["properties"]
    shares = [part["minItems"] for part in lists.values()]
    assert [part["maxItems"] for part in lists.values()] == shares
    assert sum(shares) == count
    assert max(shares) - min(shares) <= 1
    assert list(lists) == list(CATEGORIES[: min(3, count)])
    system, _ = generation_prompt("Set", "Sort lists", count, (), "en")
    assert re.findall(r"^- (\w+): (\d+), ", system, re.MULTILINE) == [
        (name, str(share)) for name, share in zip(lists, shares, strict=True)
    ]


def test_missing_category_is_named() -> None:
    with pytest.raises(ValueError, match='no list "exception"'):
        read_cases(json.loads(generated("standard", "boundary", "standard")), 3)


def test_a_case_that_is_there_is_not_drafted_again() -> None:
    read = read_cases(json.loads(generated("standard", "boundary", "exception", "standard")), 4)
    first = drafted(Drafts(), read[:2], (), NOW, "s")
    both = drafted(first, read, (), NOW, "s")
    assert [draft.id for draft in both.drafts] == ["draft_001", "draft_002", "draft_003", "draft_004"]
    assert len(drafted(both, read, (), NOW, "s").drafts) == 4


def test_the_prompt_names_what_is_there_and_how_many_are_wanted() -> None:
    system, text = generation_prompt("Set", "Sort lists", 5, (), "en")
    assert system.startswith("=== Case generation task ===\n")
    assert "exactly 5 cases" in system
    assert re.search(r"=== Content ===\n<<<(\w+)\nSort lists\n\1>>>$", text)
