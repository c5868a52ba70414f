"""Tests of JUnit, CSV and diff output of reports."""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from personalab.lab.records import DIMENSIONS
from personalab.lab.reports.data import CaseRow, Cell, Excerpt, ReportData, ReportSkill
from personalab.lab.reports.tables import BOM, COLUMNS, csv_report, guarded, junit_report, not_passed
from personalab.lab.reports.texts import difference, one_line, visible
from tests.support.lab.report_samples import AFTER, BEFORE, HOSTILE, whole

ANY = st.text(alphabet=st.characters(codec=None), max_size=60)
LINES = st.lists(st.sampled_from(["a", "b", "a b", "", "一二", "a c d"]), max_size=12).map("\n".join)


def small(text: str) -> ReportData:
    """One skill on every kind of result, with one text everywhere."""
    cells = (
        Cell("completed", 88.0, None, reasoning=Excerpt(text), duration_ms=1500),
        Cell("completed", 12.0, None, reasoning=Excerpt(text)),
        Cell("failed", error=text),
        Cell("skipped", error=text),
        Cell("broken", error=text),
        None,
    )
    rows = (ReportSkill(text, text, text),)
    return ReportData(
        text, rows=rows, cases=tuple(CaseRow(text, text, text, text, text) for _ in cells), cells=(cells,)
    )


# --- JUnit


def test_a_suite_stands_for_a_skill_and_a_test_for_a_case() -> None:
    data = whole()
    root = ET.fromstring(junit_report(data))
    assert root.tag == "testsuites"
    suites = root.findall("testsuite")
    assert [suite.get("name") for suite in suites] == [f"{row.name} v1" for row in data.rows[:5]]
    assert all(len(suite.findall("testcase")) == 12 for suite in suites)
    first = suites[0].findall("testcase")[0]
    cell = data.cells[0][0]
    assert cell is not None
    assert first.get("classname") == f"{data.rows[0].name} v1"
    assert first.get("name") == f"case_001 {data.cases[0].name}"
    assert first.get("time") == f"{cell.duration_ms / 1000:.3f}"


def test_every_form_names_who_made_the_results() -> None:
    made = Cell("completed", 88.0, cli_version="0.0.0-rehearsal", model_version="=m")
    data = replace(small("x"), cells=((made,) * 5 + (None,),))
    found = ET.fromstring(junit_report(data)).findall(".//property")
    properties = {each.get("name"): each.get("value") for each in found}
    assert (properties["cli_version"], properties["model_version"]) == ("0.0.0-rehearsal", "=m")
    rows = list(csv.DictReader(io.StringIO(csv_report(data).removeprefix(BOM))))
    assert [(row["cli_version"], row["model_version"]) for row in rows] == [
        ("0.0.0-rehearsal", "'=m")
    ] * 5 + [("", "")]


def test_the_arm_without_a_skill_fails_no_build() -> None:
    data = replace(whole(), pass_score=70.0)
    lines = dict(zip([row.is_no_skill for row in data.rows], data.cells, strict=True))
    assert any(cell and cell.total and cell.total < 70 for cell in lines[True])
    root = ET.fromstring(junit_report(data))
    assert len(root.findall("testsuite")) == 5
    told = int(root.get("failures") or 0) + int(root.get("errors") or 0)
    assert told == not_passed(data) == len(root.findall(".//failure")) + len(root.findall(".//error"))


def test_cases_of_several_baselines_are_told_apart() -> None:
    data = whole()
    other = replace(data.cases[0], baseline_id="ffffffff-0000-4000-8000-000000000001")
    root = ET.fromstring(junit_report(replace(data, cases=(other, *data.cases[1:]))))
    names = [test.get("name") or "" for test in root.findall("testsuite")[0].findall("testcase")]
    assert [name[:17] for name in names[:2]] == ["ffffffff case_001", "b2c3d4e5 case_002"]


def test_outcomes_are_told_apart_and_counted() -> None:
    data = small("why")
    root = ET.fromstring(junit_report(data))
    tests = root.findall("testsuite/testcase")
    assert [[child.tag for child in test] for test in tests] == [
        *([], ["failure"], ["error"], ["skipped"], ["error"], ["skipped"])
    ]
    assert tests[1][0].get("message") == "score 12 is below 60"
    assert tests[1][0].text == "why"
    for element in (root, root.find("testsuite")):
        assert element is not None
        told = {name: element.get(name) for name in ("tests", "failures", "errors", "skipped", "time")}
        assert told == {"tests": "6", "failures": "1", "errors": "2", "skipped": "2", "time": "1.500"}


def test_the_pass_score_decides_what_fails() -> None:
    data = replace(small("why"), pass_score=12.0)
    assert "<failure" not in junit_report(data)


@given(ANY)
@example(HOSTILE)
@example("]]>\r\n\t\ud800\x0b￿")
def test_junit_is_well_formed_for_any_text(text: str) -> None:
    root = ET.fromstring(junit_report(small(text)).encode("utf-8"))
    assert root.get("name") == one_line(text)
    reason = root.findall("testsuite/testcase")[1][0].text or ""
    assert reason == visible(text)


# --- CSV


def rows_of(table: str) -> list[dict[str, str]]:
    assert table.startswith(BOM)
    return list(csv.DictReader(io.StringIO(table.removeprefix(BOM), newline="")))


def test_a_row_stands_for_each_skill_and_case() -> None:
    data = whole()
    rows = rows_of(csv_report(data))
    assert len(rows) == 6 * 12
    assert tuple(rows[0]) == COLUMNS
    cell = data.cells[0][0]
    assert cell is not None
    assert cell.scores is not None
    assert [float(rows[0][name]) for name in DIMENSIONS] == [cell.scores[name] for name in DIMENSIONS]
    assert float(rows[0]["total"]) == pytest.approx(cell.total)
    states = {row["status"] for row in rows}
    assert states == {"completed", "failed", "skipped", "broken", "pending"}
    assert all((row["total"] == "") == (row["status"] != "completed") for row in rows)


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =1", "＝1", "\n", "\x00=1"]
)
def test_nothing_begins_like_a_formula(text: str) -> None:
    assert guarded(text)[0] in "'⟦"


@given(ANY)
@example(HOSTILE)
def test_a_table_is_read_back_whole_for_any_text(text: str) -> None:
    table = csv_report(small(text))
    table.encode("utf-8")
    rows = rows_of(table)
    assert len(rows) == 6
    assert {row["project"] for row in rows} == {guarded(text)}
    assert all(value[:1] not in ("=", "+", "-", "@", "\t", "\r") for row in rows for value in row.values())


# --- differences


def test_a_difference_marks_the_words_that_changed() -> None:
    lines = difference(BEFORE, AFTER).lines
    marked = [(line.kind, piece.text) for line in lines for piece in line.pieces if piece.marked]
    assert ("new", " with type hints") in marked
    assert ("new", "only") in marked
    assert "Check every argument" in "".join(line.text for line in lines if line.kind == "new")


@given(LINES, LINES)
def test_a_difference_holds_both_texts(before: str, after: str) -> None:
    lines = difference(before, after).lines
    if before == after:
        assert lines == ()
        return
    skipped = sum(line.count for line in lines)
    old = [line.text for line in lines if line.kind in ("same", "gone")]
    new = [line.text for line in lines if line.kind in ("same", "new")]
    assert len(old) + skipped == len(before.split("\n"))
    assert len(new) + skipped == len(after.split("\n"))
    if not skipped:
        assert "\n".join(old) == before
        assert "\n".join(new) == after


def test_equal_stretches_are_left_out() -> None:
    same = "\n".join(f"line {n}" for n in range(100))
    lines = difference(f"{same}\nold\n{same}", f"{same}\nnew\n{same}").lines
    assert [(line.kind, line.count) for line in lines if line.kind == "skipped"] == [("skipped", 97)] * 2
    assert len(lines) == 2 + 6 + 2


def test_texts_that_are_too_long_are_cut_and_said_to_be() -> None:
    found = difference("a\n" * 5_000, "b\n" * 5_000)
    assert found.cut
    assert len(found.lines) <= 4_000
    assert difference("x" * 100_000, "y").cut
    assert not difference(BEFORE, AFTER).cut
