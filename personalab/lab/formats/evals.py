"""Conversion between ``evals/evals.json`` and baselines.

An eval is a prompt, an expected output, and statements that must hold (``assertions`` or ``expectations``); a
case has the statements as a list after its expected output. What an eval has no field for is stored in
``x_personalab``, which other programs ignore.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from personalab.errors import UserError
from personalab.lab.assets import MAX_CASES, BaselineMeta, Case
from personalab.lab.formats.yaml_text import list_in, load_json, object_in, text_in
from personalab.lab.records import CATEGORIES, Category, is_uuid4, parse_time

OURS = "x_personalab"
_STATEMENTS = ("assertions", "expectations")
_WORDS = ("text", "assertion", "expectation", "description", "name", "value")
"""Under which names a statement that is an object has its words."""
_CASE_ID = re.compile(r"case_[0-9]{3,6}", re.ASCII)
_MOST = 999_999
_LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class EvalCase:
    """One eval as a case; it has no times of its own unless it left from here."""

    case_id: str
    name: str
    category: Category
    input: str
    expected_output: str
    description: str
    created_at: str | None
    updated_at: str | None

    def case(self, now: str) -> Case:
        """Make it a case of a baseline."""
        return Case(
            id=self.case_id,
            name=self.name,
            category=self.category,
            input=self.input,
            expected_output=self.expected_output,
            description=self.description,
            created_at=self.created_at or now,
            updated_at=self.updated_at or now,
        )


@dataclass(frozen=True, slots=True)
class Evals:
    """A file of evals that was read."""

    data: Mapping[str, Any]
    rows: tuple[Mapping[str, Any], ...]
    cases: tuple[EvalCase, ...]
    stated: Mapping[str, str]
    """What it says of its baseline: ``id``, ``name``, ``purpose`` and so on, or nothing."""


# --- reading


def read_evals(raw: bytes, file: str) -> Evals:
    """Read a file of evals; both spellings of the statements are taken."""
    value = load_json(raw, file)
    data: dict[str, Any] = {"evals": value} if isinstance(value, list) else object_in(value, file, "-")
    given = list_in(data.get("evals"), file, "evals")
    if len(given) > MAX_CASES:
        raise UserError("lab_too_many_cases", count=len(given), limit=MAX_CASES)
    rows = tuple(object_in(row, file, f"evals[{place}]") for place, row in enumerate(given))
    ids = _case_ids(rows)
    cases = tuple(_eval_case(row, ids[place], file, f"evals[{place}]") for place, row in enumerate(rows))
    return Evals(data, rows, cases, _texts(data.get(OURS)))


def _texts(value: object) -> dict[str, str]:
    given = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    return {key: found for key, found in given.items() if isinstance(found, str)}


def _case_ids(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Number the cases as the file does, if it does so at all well; else by their order."""
    ours = [_texts(row.get(OURS)).get("id", "") for row in rows]
    if all(_CASE_ID.fullmatch(found) for found in ours) and len(set(ours)) == len(ours):
        return ours
    numbers = [row.get("id") for row in rows]
    usable = [n for n in numbers if isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= _MOST]
    if len(usable) < len(rows) or len(set(usable)) < len(rows):
        usable = list(range(1, len(rows) + 1))
    return [f"case_{number:03d}" for number in usable]


def _eval_case(row: Mapping[str, Any], case_id: str, file: str, where: str) -> EvalCase:
    ours = _texts(row.get(OURS))
    prompt = text_in(row.get("prompt"), file, f"{where}.prompt")
    expected = text_in(row.get("expected_output") or "", file, f"{where}.expected_output")
    lines = [text_in(line, file, where) for line in _statements(row, file, where)]
    category = ours.get("category", "")
    name = ours.get("name") or _texts(row).get("name") or title_of(prompt) or case_id
    return EvalCase(
        case_id,
        text_in(name, file, f"{where}.name"),
        category if category in CATEGORIES else "standard",
        prompt,
        _joined(expected, lines),
        text_in(ours.get("description", ""), file, f"{where}.{OURS}.description"),
        _time(ours.get("created_at")),
        _time(ours.get("updated_at")),
    )


def _statements(row: Mapping[str, Any], file: str, where: str) -> list[str]:
    key = next((name for name in _STATEMENTS if row.get(name) is not None), None)
    if key is None:
        return []
    return [_words(found) for found in list_in(row[key], file, f"{where}.{key}")]


def _words(statement: object) -> str:
    if isinstance(statement, str):
        return statement
    given = _texts(statement)
    words = next((given[name] for name in _WORDS if given.get(name, "").strip()), None)
    return words if words is not None else json.dumps(statement, ensure_ascii=False)


def _joined(expected: str, lines: Sequence[str]) -> str:
    if not lines:
        return expected
    listed = "\n".join(f"- {line}" for line in lines)
    return f"{expected}\n\n{listed}" if expected.strip() else listed


def _time(value: str | None) -> str | None:
    if value is None:
        return None
    try:
        found = parse_time(value)
    except (ValueError, OverflowError):
        return None
    return found.strftime("%Y-%m-%dT%H:%M:%SZ") if found.year >= 1000 else None


def title_of(text: str) -> str:
    """Name a case by the beginning of its request, if it has no other name."""
    line = next((" ".join(line.split()) for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= _LONGEST_NAME else line[: _LONGEST_NAME - 1].rstrip() + "…"


def stated_id(evals: Evals) -> str | None:
    """Return the baseline that a file was exported from, if it was exported here."""
    found = evals.stated.get("id", "")
    return found if is_uuid4(found) else None


def has_same_extras(one: Evals, other: Evals) -> bool:
    """Return whether two files of evals are equal except for our own fields and the skill's name."""
    return _extras(one) == _extras(other)


def _extras(evals: Evals) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    top = {key: value for key, value in evals.data.items() if key not in ("evals", "skill_name", OURS)}
    return top, [{key: value for key, value in row.items() if key != OURS} for row in evals.rows]


# --- writing


def evals_json(skill_name: str, meta: BaselineMeta, cases: Sequence[Case], original: bytes | None) -> bytes:
    """Write a baseline as evals; of the file it came from, everything stays that did not change here."""
    before = read_evals(original, "evals.json") if original is not None else None
    if original is not None and before is not None and _is_untouched(meta, cases, before):
        return original
    known = (
        {case.case_id: (row, case) for row, case in zip(before.rows, before.cases, strict=True)}
        if before
        else {}
    )
    numbers = _numbers(cases)
    rows = [_row(case, numbers[place], known.get(case.id)) for place, case in enumerate(cases)]
    kept = {key: value for key, value in before.data.items() if key not in ("evals", OURS)} if before else {}
    ours = {name: getattr(meta, name) for name in _STATED}
    data = {**kept, "skill_name": skill_name, "evals": rows, OURS: ours}
    return (json.dumps(data, ensure_ascii=False, indent=2) + "\n").encode("utf-8")


_STATED = ("id", "name", "description", "author", "source", "purpose", "provider", "version")
_PLACED = ("id", "name", "description", "author", "source", "purpose", "provider")


def _is_untouched(meta: BaselineMeta, cases: Sequence[Case], before: Evals) -> bool:
    if [_said(case) for case in before.cases] != [_said(case) for case in cases]:
        return False
    if not before.stated:
        return meta.version == "v1"
    return all(before.stated.get(name, "") == getattr(meta, name) for name in _PLACED)


def _said(case: EvalCase | Case) -> tuple[str, ...]:
    case_id = case.case_id if isinstance(case, EvalCase) else case.id
    return (case_id, case.name, case.category, case.input, case.expected_output, case.description)


def _numbers(cases: Sequence[Case]) -> list[int]:
    found = [int(case.id.removeprefix("case_")) for case in cases if _CASE_ID.fullmatch(case.id)]
    return found if len(set(found)) == len(cases) else list(range(1, len(cases) + 1))


def _row(case: Case, number: int, known: tuple[Mapping[str, Any], EvalCase] | None) -> dict[str, Any]:
    ours = {
        "id": case.id,
        "name": case.name,
        "category": case.category,
        "description": case.description,
        "created_at": case.created_at,
        "updated_at": case.updated_at,
    }
    if known is None:
        told: dict[str, Any] = {"prompt": case.input, "expected_output": case.expected_output, "files": []}
        return {"id": number, **told, OURS: ours}
    row, before = known
    kept = {key: value for key, value in row.items() if key != OURS}
    if before.expected_output != case.expected_output:
        # The new text has them as lines, if it still has them; a separate list might contradict it.
        kept = {key: value for key, value in kept.items() if key not in _STATEMENTS}
        kept["expected_output"] = case.expected_output
    return {**kept, "id": row.get("id", number), "prompt": case.input, OURS: ours}
