"""Exports of a project's matrix for programs: CSV and JUnit XML."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator

from personalab.lab.records import DIMENSIONS, SHORT
from personalab.lab.reports.data import CaseRow, Cell, ReportData, ReportSkill
from personalab.lab.reports.texts import markup, one_line, visible

COLUMNS = (
    *("project", "skill_id", "skill_name", "skill_version", "baseline", "case_id", "case_name", "category"),
    *("status", *DIMENSIONS, "total", "duration_ms", "error", "cli_version", "model_version"),
)
BOM = "\ufeff"
"""Without it Excel reads Chinese as another encoding."""
_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r\n]")
"""A spreadsheet runs what begins so, the wide forms too."""


def csv_report(data: ReportData) -> str:
    """Write a project as CSV in UTF-8 with a byte order mark."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for at, row in enumerate(data.rows):
        for number, case in enumerate(data.cases):
            writer.writerow(_row(data.name, row, case, data.cell(at, number)))
    return BOM + table.getvalue()


def _row(project: str, row: ReportSkill, case: CaseRow, cell: Cell | None) -> list[str]:
    texts = (
        project,
        row.skill_id,
        row.name,
        row.version,
        case.baseline,
        case.case_id,
        case.name,
        case.category,
    )
    known = [guarded(text) for text in texts]
    if cell is None:
        return [*known, "pending", *[""] * (len(DIMENSIONS) + 5)]
    scores = cell.scores or {}
    figures = [_number(scores.get(name)) for name in DIMENSIONS]
    versions = (guarded(cell.cli_version), guarded(cell.model_version))
    rest = (_number(cell.total), str(cell.duration_ms), guarded(cell.error))
    return [*known, cell.status, *figures, *rest, *versions]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def guarded(text: str) -> str:
    """Write a text so that no spreadsheet takes it for a formula."""
    text = visible(text)
    return f"'{text}" if _FORMULA.match(text) else text


_MAX_MESSAGE = 300
_MAX_BODY = 2_000
_MAX_BODIES = 10_000_000
"""Maximum characters of reasons in one file: a runner reads it whole."""
_MAX_NAME = 200


def junit_report(data: ReportData) -> str:
    """Write a project as JUnit XML."""
    suites = [_suite(data, at, row) for at, row in _tested(data)]
    totals = _counts(_all_cells(data), data.pass_score)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites{_named(data.name)}{totals}>"]
    return "\n".join([*lines, *suites, "</testsuites>", ""])


def not_passed(data: ReportData) -> int:
    """Count the failures and errors: what makes a build fail."""
    found = [outcome(cell, data.pass_score) for cell in _all_cells(data)]
    return found.count("failure") + found.count("error")


def _tested(data: ReportData) -> list[tuple[int, ReportSkill]]:
    return [(at, row) for at, row in enumerate(data.rows) if not row.is_no_skill]


def _all_cells(data: ReportData) -> list[Cell | None]:
    return [cell for at, _ in _tested(data) for cell in _cells(data, at)]


def _suite(data: ReportData, at: int, row: ReportSkill) -> str:
    cells = _cells(data, at)
    when = _attribute("timestamp", data.scored_at) if data.scored_at else ""
    head = f"{_named(_skill(row))}{_counts(cells, data.pass_score)}{when}"
    body = min(_MAX_BODY, _MAX_BODIES // max(len(data.rows) * len(data.cases), 1))
    several = len({case.baseline_id for case in data.cases}) > 1
    tests = list[str]()
    for case, cell in zip(data.cases, cells, strict=True):
        parts = (case.baseline_id[:SHORT] if several else "", case.case_id, case.name)
        name = " ".join(part for part in parts if part)
        tests.append(_test(_skill(row), name, cell, _outcome(cell, data.pass_score, body)))
    return "\n".join([f"  <testsuite{head}>", *_properties(row, cells), *tests, "  </testsuite>"])


def _cells(data: ReportData, at: int) -> list[Cell | None]:
    return [data.cell(at, case) for case in range(len(data.cases))]


def _skill(row: ReportSkill) -> str:
    return f"{row.name} {row.version}".strip() or row.skill_id


def _properties(row: ReportSkill, cells: list[Cell | None]) -> Iterator[str]:
    known = {"skill_id": row.skill_id, "skill_version": row.version}
    for name in ("cli_version", "model_version"):
        found = {getattr(cell, name): None for cell in cells if cell and getattr(cell, name)}
        known |= {name: ", ".join(found)} if found else {}
    if row.mean is not None:
        known["avg_score"] = f"{row.mean:.1f}"
    yield "    <properties>"
    for name, value in known.items():
        yield f'      <property name="{name}"{_attribute("value", value)}/>'
    yield "    </properties>"


def _test(skill: str, name: str, cell: Cell | None, inside: str) -> str:
    seconds = f"{(cell.duration_ms if cell else 0) / 1000:.3f}"
    head = f'    <testcase{_attribute("classname", skill)}{_named(name)} time="{seconds}"'
    return f"{head}>\n{inside}\n    </testcase>" if inside else f"{head}/>"


def _outcome(cell: Cell | None, pass_score: float, body: int) -> str:
    kind = outcome(cell, pass_score)
    if cell is None:
        return '      <skipped message="not run"/>'
    if kind == "skipped":
        return f"      <skipped{_attribute('message', cell.error or 'skipped')}/>"
    if kind == "error":
        message = cell.error or cell.status
        return f'      <error{_attribute("message", message)} type="{cell.status}">{markup(message[:body])}</error>'
    if kind == "failure":
        message = f"score {cell.total:g} is below {pass_score:g}"
        return (
            f'      <failure message="{message}" type="score">{markup(cell.reasoning.text[:body])}</failure>'
        )
    return ""


def outcome(cell: Cell | None, pass_score: float) -> str:
    """Return a test runner's name for a result: passed, failure, error or skipped."""
    if cell is None or cell.status == "skipped":
        return "skipped"
    if cell.status != "completed" or cell.total is None:
        return "error"
    return "failure" if cell.total < pass_score else "passed"


def _counts(cells: list[Cell | None], pass_score: float) -> str:
    found = [outcome(cell, pass_score) for cell in cells]
    seconds = sum(cell.duration_ms for cell in cells if cell) / 1000
    return (
        f' tests="{len(found)}" failures="{found.count("failure")}" errors="{found.count("error")}"'
        f' skipped="{found.count("skipped")}" time="{seconds:.3f}"'
    )


def _named(name: str) -> str:
    return _attribute("name", name, _MAX_NAME)


def _attribute(name: str, value: str, limit: int = _MAX_MESSAGE) -> str:
    return f' {name}="{markup(one_line(value[: limit * 2])[:limit])}"'
