"""Evals become cases and come back; what an eval cannot say stands beside it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.errors import BadRecord
from personalab.lab.assets import BaselineMeta, Case
from personalab.lab.formats.evals import Evals, evals_json, read_evals, stated_id
from personalab.lab.records import CATEGORIES

ID = "92e110b0-a506-40ee-a0c7-23f42a98bda8"
NOW = "2025-10-16T10:30:00Z"
OLD = "2024-01-01T00:00:00Z"
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
_FILLED = _TEXT.filter(str.strip)


def _meta(**changes: object) -> BaselineMeta:
    fields = {"id": ID, "name": "B", "purpose": "p", "provider": "q", "version": "v1", "status": "active"}
    return BaselineMeta.read({**fields, "created_at": NOW, "updated_at": NOW, **changes}, "meta.json")


def _cases(evals: Evals) -> list[Case]:
    return [case.case(NOW) for case in evals.cases]


def _raw(*rows: dict[str, Any], **fields: object) -> bytes:
    return json.dumps({"skill_name": "pdf", "evals": rows, **fields}).encode()


cases_of_ours = st.lists(
    st.builds(
        Case,
        id=st.integers(0, 2000).map("case_{:03d}".format),
        name=_FILLED,
        category=st.sampled_from(CATEGORIES),
        input=_FILLED,
        expected_output=_TEXT,
        description=_TEXT,
        created_at=st.just(OLD),
        updated_at=st.just(NOW),
    ),
    max_size=5,
    unique_by=lambda case: case.id,
)


@given(cases_of_ours, _FILLED, _TEXT)
def test_a_baseline_that_leaves_comes_back_as_it_was(cases: list[Case], name: str, author: str) -> None:
    meta = _meta(name=name, author=author, version="v3")
    raw = evals_json("pdf", meta, cases, None)
    found = read_evals(raw, "evals.json")
    assert _cases(found) == cases
    assert stated_id(found) == ID
    assert [found.stated[field] for field in ("name", "author", "purpose")] == [name, author, "p"]
    assert evals_json("pdf", meta, cases, raw) == raw
    assert all(isinstance(row["id"], int) for row in json.loads(raw)["evals"])


_NEEDED: dict[str, st.SearchStrategy[Any]] = {"prompt": _FILLED}
_OPTIONAL: dict[str, st.SearchStrategy[Any]] = {
    "id": st.integers(-5, 10**7) | _TEXT,
    "expected_output": _TEXT,
    "files": st.lists(_TEXT, max_size=2),
    "assertions": st.lists(_TEXT, max_size=3),
    "expectations": st.lists(_TEXT | _FILLED.map(lambda text: {"text": text}), max_size=3),
    "name": _TEXT,
    "other": st.booleans(),
}
rows_of_others = st.lists(st.fixed_dictionaries(_NEEDED, optional=_OPTIONAL), max_size=5)


@given(rows_of_others, st.sampled_from([None, 1, 4]))
def test_a_file_of_others_leaves_byte_for_byte(rows: list[dict[str, Any]], indent: int | None) -> None:
    raw = json.dumps({"skill_name": "x", "evals": rows, "more": [1]}, indent=indent).encode()
    found = read_evals(raw, "evals.json")
    assert evals_json("renamed", _meta(), _cases(found), raw) == raw
    assert len({case.case_id for case in found.cases}) == len(rows)


@pytest.mark.parametrize("spelling", ["assertions", "expectations"])
def test_statements_are_told_in_either_spelling(spelling: str) -> None:
    row = {
        "id": 3,
        "prompt": "Make a PDF",
        "expected_output": "A file",
        spelling: ["It opens", {"text": "One page"}],
    }
    (case,) = read_evals(_raw(row), "evals.json").cases
    assert case.expected_output == "A file\n\n- It opens\n- One page"
    assert (case.case_id, case.name, case.category) == ("case_003", "Make a PDF", "standard")


def test_an_edited_case_leaves_the_others_and_unknown_fields_alone() -> None:
    rows = [
        {
            "id": 1,
            "prompt": "a",
            "expected_output": "b",
            "assertions": ["c"],
            "files": ["evals/f.pdf"],
            "k": 1,
        },
        {"id": 2, "prompt": "d", "expectations": ["e"]},
    ]
    raw = _raw(*rows, notes="keep")
    first, second = _cases(read_evals(raw, "evals.json"))
    written = json.loads(
        evals_json("pdf", _meta(version="v2"), [first.changed(expected_output="new"), second], raw)
    )
    assert written["notes"] == "keep"
    changed, same = written["evals"]
    assert (changed["expected_output"], changed["files"], changed["k"]) == ("new", ["evals/f.pdf"], 1)
    assert "assertions" not in changed
    assert same["expectations"] == ["e"]
    again = read_evals(json.dumps(written).encode(), "evals.json")
    assert [case.expected_output for case in again.cases] == ["new", "- e"]


@pytest.mark.parametrize("ids", [[1, 1], [None, 2], ["a", "b"], [-1, 2], [True, 2], [10**7, 1]])
def test_ids_that_do_not_number_are_replaced_by_the_order(ids: list[object]) -> None:
    raw = _raw(*({"id": found, "prompt": "x"} for found in ids))
    assert [case.case_id for case in read_evals(raw, "evals.json").cases] == ["case_001", "case_002"]


def test_what_is_said_of_a_case_is_not_trusted() -> None:
    ours = {"id": "../x", "name": 7, "category": "royal", "created_at": "yesterday", "description": "d"}
    (case,) = read_evals(_raw({"id": 5, "prompt": "Ask", "x_personalab": ours}), "evals.json").cases
    assert (case.case_id, case.name, case.category) == ("case_005", "Ask", "standard")
    assert (case.created_at, case.description) == (None, "d")


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (b'{"evals": 3}', "evals"),
        (b'{"skills": []}', "evals"),
        (b'{"evals": ["x"]}', "evals[0]"),
        (b'{"evals": [{"prompt": "x"}, {"id": 1}]}', "evals[1].prompt"),
        (b'{"evals": [{"prompt": "x", "expected_output": {}, "assertions": "all"}]}', "evals[0].assertions"),
        (b'[{"query": "x", "should_trigger": true}]', "evals[0].prompt"),
    ],
)
def test_a_file_that_is_no_evals_names_the_field(raw: bytes, field: str) -> None:
    with pytest.raises(BadRecord) as raised:
        read_evals(raw, "evals/evals.json")
    assert raised.value.params["field"] == field
    assert "evals/evals.json" in raised.value.message("zh")
