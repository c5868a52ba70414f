"""An edit makes the next version, and its record tells exactly what changed."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.errors import NotFound, UserError
from personalab.lab.assets import (
    BaselineMeta,
    Case,
    Cases,
    HistoryRecord,
    SkillMeta,
    case_ids,
    change_case,
    check_folder_name,
    compare_cases,
    edit_baseline,
    edit_skill,
    history_name,
    in_seconds,
    is_folder_name,
    new_case,
    project_slug,
    remove_case,
    unique_name,
    version_folder,
)
from personalab.lab.calling import estimated_tokens, shorten_text
from personalab.lab.records import CATEGORIES

ID = "a1b2c3d4-e5f6-4890-abcd-ef1234567890"
NOW, LATER = "2024-01-01T12:00:00Z", "2024-01-01T13:00:00Z"


def skill(**changes: object) -> SkillMeta:
    fields = {
        "id": ID,
        "name": "助手",
        "purpose": "code",
        "provider": "us",
        "version": "v1",
        "status": "active",
    }
    return SkillMeta.read({**fields, "created_at": NOW, "updated_at": NOW, **changes}, "meta.json")


def baseline(cases: list[Case], **changes: object) -> tuple[BaselineMeta, Cases]:
    fields = {
        "id": ID,
        "name": "集",
        "purpose": "test",
        "provider": "us",
        "version": "v1",
        "status": "active",
    }
    meta = {**fields, "case_count": len(cases), "created_at": NOW, "updated_at": NOW, **changes}
    return BaselineMeta.read(meta, "meta.json"), Cases(baseline_id=ID, version="v1", cases=tuple(cases))


def case(number: int, **changes: object) -> Case:
    fields = {"name": f"case {number}", "input": f"input {number}", "expected_output": "out"}
    return new_case(f"case_{number:03d}", {**fields, **changes}, NOW)


def record(*changed: str) -> HistoryRecord:
    return HistoryRecord(from_version="v1", to_version="v2", timestamp=NOW, changed_fields=changed, diff={})


def test_an_edit_shows_only_what_changed_and_counts_the_versions() -> None:
    made = edit_skill(
        skill(),
        "old",
        new_content="new",
        changes={"description": "d", "name": "助手", "author": None},
        now=LATER,
    )
    assert made is not None
    assert (made.meta.version, made.meta.version_count, made.content) == ("v2", 2, "new")
    assert (made.meta.created_at, made.meta.updated_at) == (NOW, LATER)
    assert made.history.fields() == {
        "from_version": "v1",
        "to_version": "v2",
        "timestamp": LATER,
        "changed_fields": ["content", "meta.description"],
        "diff": {
            "content": {"before": "old", "after": "new"},
            "meta": {"description": {"before": "", "after": "d"}},
        },
    }
    assert history_name(made.history) == "v1_to_v2_20240101130000.json"


def test_an_edit_that_changes_nothing_makes_no_version() -> None:
    assert edit_skill(skill(), "x", new_content="x", changes={"name": "助手"}, now=LATER) is None
    meta, cases = baseline([case(1)])
    assert edit_baseline(meta, cases, new_cases=[case(1)], changes={}, now=LATER) is None


def test_fields_that_are_derived_cannot_be_set() -> None:
    made = edit_skill(skill(), "x", new_content="y", changes={"id": "other", "version_count": 99}, now=LATER)
    assert made is not None
    assert (made.meta.id, made.meta.version_count) == (ID, 2)


def test_times_with_fractions_are_written_to_the_second_and_unknown_fields_are_kept() -> None:
    """Resolution 31."""
    made = edit_skill(
        skill(created_at="2024-01-01T14:00:00.250+02:00", colour="red"),
        "x",
        new_content="y",
        changes={},
        now=LATER,
    )
    assert made is not None
    assert made.meta.created_at == NOW
    assert made.meta.fields()["colour"] == "red"
    assert in_seconds("2024-02-27T10:30:00.000Z") == "2024-02-27T10:30:00Z"


def test_an_asset_with_an_id_that_is_not_ours_is_read_but_gets_no_version() -> None:
    """Resolution 1: strict when writing, any text when reading."""
    foreign = skill(id="a1b2c3d4-e5f6-7890-abcd-ef1234567890")
    with pytest.raises(UserError) as refused:
        edit_skill(foreign, "x", new_content="y", changes={}, now=LATER)
    assert refused.value.code == "lab_foreign_id"


@pytest.mark.parametrize(
    "change", [{"purpose": "../up"}, {"provider": "a/b"}, {"purpose": "编程"}, {"name": " "}]
)
def test_an_edit_that_leads_out_of_the_workspace_is_refused(change: dict[str, str]) -> None:
    with pytest.raises(UserError):
        edit_skill(skill(), "x", new_content=None, changes=change, now=LATER)


# --- cases


def test_the_record_names_added_removed_and_changed_cases() -> None:
    """Resolution 11."""
    meta, cases = baseline([case(1), case(2), case(3)])
    after = [case(1), case(3, input="other"), case(11)]
    made = edit_baseline(meta, cases, new_cases=after, changes={"name": "新"}, now=LATER)
    assert made is not None
    assert made.history.changed_fields == (
        "cases.case_003.input",
        "cases.+case_011",
        "cases.-case_002",
        "meta.name",
    )
    diff = made.history.diff["cases"]
    assert diff["case_003"] == {"before": {"input": "input 3"}, "after": {"input": "other"}}
    assert (diff["case_011"]["before"], diff["case_011"]["after"]["name"]) == (None, "case 11")
    assert (diff["case_002"]["before"]["name"], diff["case_002"]["after"]) == ("case 2", None)
    assert (made.meta.case_count, made.cases.version) == (3, "v2")


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(str.strip)
rows = st.fixed_dictionaries(
    {
        "name": texts,
        "category": st.sampled_from(CATEGORIES),
        "input": texts,
        "expected_output": texts,
        "description": st.text(max_size=4),
    }
)
case_sets = st.dictionaries(st.integers(1, 6), rows, max_size=6).map(
    lambda found: [new_case(f"case_{number:03d}", fields, NOW) for number, fields in found.items()]
)


@given(case_sets, case_sets)
def test_the_diff_of_cases_leads_from_the_one_set_to_the_other_and_back(
    before: list[Case], after: list[Case]
) -> None:
    names, diff = compare_cases(before, after)
    assert bool(names) == bool(diff)
    for start, end, side in ((before, after, "after"), (after, before, "before")):
        found: dict[str, dict[str, Any]] = {one.id: one.model_dump(mode="json") for one in start}
        for case_id, change in diff.items():
            if change[side] is None:
                del found[case_id]
            else:
                found[case_id] = {**found.get(case_id, {}), **change[side]}
        assert found == {one.id: one.model_dump(mode="json") for one in end}


def test_a_new_case_has_an_id_that_none_ever_had() -> None:
    assert case_ids([], [], 2) == ["case_001", "case_002"]
    assert case_ids([case(2)], [record("cases.+case_007"), record("cases.-case_007", "meta.name")], 1) == [
        "case_008"
    ]
    assert case_ids([case(999)], [], 1) == ["case_1000"]


def test_removing_a_case_keeps_the_ids_of_the_others() -> None:
    assert [one.id for one in remove_case([case(1), case(2), case(3)], "case_002")] == [
        "case_001",
        "case_003",
    ]
    with pytest.raises(NotFound):
        remove_case([case(1)], "case_009")


def test_a_case_that_stays_as_it_is_keeps_its_time() -> None:
    assert change_case([case(1)], "case_001", {"input": "input 1", "name": None}, LATER) == [case(1)]
    changed = change_case([case(1)], "case_001", {"category": "boundary"}, LATER)[0]
    assert (changed.category, changed.created_at, changed.updated_at) == ("boundary", NOW, LATER)


@pytest.mark.parametrize("change", [{"category": "odd"}, {"input": "  "}, {"name": "\n"}])
def test_a_case_that_asks_nothing_or_is_of_no_category_is_refused(change: dict[str, str]) -> None:
    with pytest.raises(UserError):
        change_case([case(1)], "case_001", change, LATER)


def test_more_cases_than_a_baseline_may_have_are_refused() -> None:
    meta, cases = baseline([])
    many = [case(1).model_copy(update={"id": f"case_{n:05d}"}) for n in range(10_001)]
    with pytest.raises(UserError) as refused:
        edit_baseline(meta, cases, new_cases=many, changes={}, now=LATER)
    assert refused.value.code == "lab_too_many_cases"


# --- names


@given(st.text(max_size=70))
def test_a_name_that_is_taken_for_a_folder_stays_one_step_of_a_path(name: str) -> None:
    if is_folder_name(name):
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name)
        assert check_folder_name(name, "purpose") == name
    else:
        with pytest.raises(UserError):
            check_folder_name(name, "purpose")


@pytest.mark.parametrize(
    "name", ["", "..", "a/b", "a\\b", "nul", "COM1", "-x", "x\n", "x" * 65, "代码", None]
)
def test_names_that_a_system_could_not_have_are_refused(name: object) -> None:
    assert not is_folder_name(name)


@given(st.text(max_size=80))
def test_every_project_has_a_slug_that_a_folder_can_have(name: str) -> None:
    """Resolution 30."""
    assert re.fullmatch(r"[a-z0-9_]{1,40}", project_slug(name, ID))


def test_a_slug_has_the_latin_letters_of_a_name_or_else_the_short_id() -> None:
    """Resolution 30."""
    assert project_slug("Code Gen: Été!", ID) == "code_gen_ete"
    assert project_slug("代码生成", ID) == "pa1b2c3d4"


def test_names_of_one_second_are_told_apart_by_numbers() -> None:
    """Resolution 14."""
    taken: set[str] = set()
    for wanted in ("session_1.json", "session_1_2.json", "session_1_3.json"):
        assert unique_name("session_1", taken, ".json") == wanted
        taken.add(wanted)


def test_a_version_folder_is_read_by_its_name() -> None:
    """Resolution 7."""
    found = version_folder("skill_a1b2c3d4_v12")
    assert found is not None
    assert (found.kind, found.short, found.version) == ("skill", "a1b2c3d4", "v12")
    for name in (
        "skill_a1b2c3d4",
        "skill_a1b2c3d4_v0",
        "skill__v1",
        "project_x_v1",
        ".skill_a_v1",
        "skill_a_v1 ",
    ):
        assert version_folder(name) is None


# --- context


def test_tokens_are_estimated_by_four_characters_or_one_chinese_character() -> None:
    """Resolution 33."""
    assert [estimated_tokens(text) for text in ("", "abcd", "abcde", "中文", "中文abcd")] == [0, 1, 2, 2, 3]


@given(st.text(alphabet="ab中 \n", max_size=300), st.integers(1, 80))
def test_what_is_shortened_keeps_its_beginning_and_end_and_no_more_than_is_allowed(
    text: str, tokens: int
) -> None:
    found = shorten_text(text, tokens, "en")
    if estimated_tokens(text) <= tokens:
        assert found == text
        return
    head, _, rest = found.partition("\n\n… (about")
    tail = rest.partition(") …\n\n")[2]
    assert text.startswith(head)
    assert text.endswith(tail)
    assert estimated_tokens(head) + estimated_tokens(tail) <= tokens + 1
    assert len(head) + len(tail) < len(text)
