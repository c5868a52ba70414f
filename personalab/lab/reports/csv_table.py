"""CSV export of a project's matrix, one row per skill and case."""

from __future__ import annotations

import csv
import io
import re

from personalab.lab.dimensions import DIMENSIONS
from personalab.lab.reports.data import CaseRow, Cell, ReportData, ReportSkill
from personalab.lab.reports.visible import visible

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
