"""Promptfoo tests in a table, with one variable per column and one assertion per cell."""

from __future__ import annotations

import csv
import io
import re

from personalab.errors import BadRecord, Reason
from personalab.lab.formats.promptfoo_asserts import is_known

_EXPECTED = re.compile(r"__expected\d*")
_ASSERTION = re.compile(r"(not-)?([a-z][a-z-]*)(?:\([\d.]+\))?\s*:\s*(.*)", re.DOTALL)
_SHORT = {"grade": "llm-rubric", "fn": "javascript", "eval": "javascript"}
_LONGEST_CELL = 200_000


def tests_of_table(text: str, file: str, limit: int) -> list[dict[str, object]]:
    """Read a table as tests, as the configuration would have them."""
    try:
        rows = list(_rows(text, limit))
    except csv.Error as error:
        reason = Reason("python_csv", text=str(error), limit=csv.field_size_limit())
        raise BadRecord("lab_bad_record", file=file, field="-", reason=reason) from error
    if len(rows) > limit:
        raise BadRecord("lab_too_many_tests", file=file, limit=limit)
    return [_test(row) for row in rows]


def _rows(text: str, limit: int) -> list[dict[str, str]]:
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""))
    names: list[str] = next(reader, list[str]())
    found: list[dict[str, str]] = []
    for cells in reader:
        if any(len(cell) > _LONGEST_CELL for cell in cells):
            raise csv.Error("a cell is too long")
        if any(cell.strip() for cell in cells):
            found.append(dict(zip(names, cells, strict=False)))
        if len(found) > limit:
            break
    return found


def _test(row: dict[str, str]) -> dict[str, object]:
    checks = [_check(cell) for name, cell in row.items() if _EXPECTED.fullmatch(name) and cell.strip()]
    given = {name: cell for name, cell in row.items() if name and not name.startswith("__")}
    category = row.get("__metadata:category", "")
    return {
        "description": row.get("__description", ""),
        "vars": given,
        "assert": checks,
        "metadata": {"category": category},
        "options": {name: row.get(f"__{name}", "") for name in ("prefix", "suffix")},
        "threshold": row.get("__threshold", ""),
    }


def _check(cell: str) -> dict[str, str]:
    """Read an assertion in a cell; words without a kind are the answer itself."""
    found = _ASSERTION.fullmatch(cell.strip())
    kind = _SHORT.get(found[2], found[2]) if found else ""
    if found is None or not is_known(kind):
        return {"type": "equals", "value": cell}
    return {"type": f"{found[1] or ''}{kind}", "value": found[3]}
