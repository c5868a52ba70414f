"""The tests of a promptfoo configuration: lists, tables, references and assertions."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import PurePosixPath
from typing import Any, cast

from personalab.errors import BadRecord, Reason
from personalab.lab.formats.yaml_text import decode_utf8, list_in, load_json, load_yaml, object_in
from personalab.texts import PromptLanguage, say

MAX_ASSERTS = 200
_LONGEST_VALUE = 20_000
_WORDED: Mapping[str, str] = {
    "equals": "lab_assert_equals",
    "contains": "lab_assert_contains",
    "icontains": "lab_assert_icontains",
    "contains-all": "lab_assert_all",
    "icontains-all": "lab_assert_all",
    "contains-any": "lab_assert_any",
    "icontains-any": "lab_assert_any",
    "starts-with": "lab_assert_starts",
    "regex": "lab_assert_regex",
    "is-json": "lab_assert_json",
    "contains-json": "lab_assert_has_json",
    "is-refusal": "lab_assert_refusal",
    "similar": "lab_assert_similar",
    "factuality": "lab_assert_facts",
    "model-graded-factuality": "lab_assert_facts",
}
_AS_IT_IS = ("llm-rubric", "g-eval", "model-graded-closedqa", "agent-rubric", "search-rubric")
"""Their value is a sentence already."""
_CODE_ASSERTS = ("javascript", "python", "ruby", "webhook")
OF_THE_RUN = ("cost", "latency", "finish-reason", "perplexity", "perplexity-score")
"""They speak of the run, not of what the answer says."""


def is_known(kind: str) -> bool:
    """Return whether a word is a kind of assertion that has a wording here."""
    return kind in _WORDED or kind in _AS_IT_IS or kind in _CODE_ASSERTS or kind in OF_THE_RUN


def in_words(asserts: Sequence[object], file: str, where: str, language: PromptLanguage) -> str:
    """List the requirements, one per line; without any, the request itself is the measure."""
    lines = [f"- {line}" for line in _lines(asserts, file, where, language, 0)]
    return "\n".join(lines) if lines else say("lab_assert_none", language)


def _lines(
    asserts: Sequence[object], file: str, where: str, language: PromptLanguage, depth: int
) -> list[str]:
    if len(asserts) > MAX_ASSERTS or depth > 2:
        raise BadRecord("lab_too_many_asserts", file=file, field=where, limit=MAX_ASSERTS)
    found: list[str] = []
    for place, given in enumerate(asserts):
        row = object_in(given, file, f"{where}[{place}]")
        if row.get("type") == "assert-set":
            inner = list_in(row.get("assert"), file, f"{where}[{place}].assert")
            found += _lines(inner, file, f"{where}[{place}].assert", language, depth + 1)
        elif line := _line(row, file, f"{where}[{place}]", language):
            found.append(line)
    return found


def _line(row: Mapping[str, Any], file: str, where: str, language: PromptLanguage) -> str:
    kind = row.get("type")
    if not isinstance(kind, str) or not kind:
        raise BadRecord("lab_bad_record", file=file, field=f"{where}.type", reason=Reason("not_text"))
    plain = kind.removeprefix("not-")
    if plain in OF_THE_RUN:
        return ""
    value = _value(row.get("value"))
    if plain in _CODE_ASSERTS:
        line = say("lab_assert_code", language, kind=plain, value=value)
    elif plain in _AS_IT_IS:
        line = value
    elif plain in _WORDED:
        line = say(_WORDED[plain], language, value=value)
    else:
        line = say("lab_assert_other", language, kind=plain, value=value)
    return say("lab_assert_not", language, line=line) if plain != kind else line


def _value(value: object) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.strip()[:_LONGEST_VALUE]


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


MAX_BYTES = 1024 * 1024
MAX_TESTS = 1_000
_FILE = "file://"
_CODE = (".js", ".cjs", ".mjs", ".ts", ".cts", ".mts", ".py", ".rb", ".sh")
_DATA = (".json", ".yaml", ".yml")
_UNREAD: Mapping[str, tuple[str, ...]] = {
    "": ("extensions", "nunjucksFilters", "derivedMetrics"),
    "tests": (
        "threshold",
        "provider",
        "providers",
        "prompts",
        "providerOutput",
        "assertScoringFunction",
    ),
    "options": ("prefix", "suffix", "transform", "postprocess", "transformVars", "rubricPrompt", "provider"),
    "assert": ("threshold", "weight", "transform", "contextTransform", "rubricPrompt", "provider", "config"),
}
"""What changes the measure there and has no place here."""
_TOLD = 20

Read = Callable[[str], bytes]
"""Reads a file beside the configuration by its relative name; nothing else can be reached."""


@dataclass(frozen=True, slots=True)
class Beside:
    """The files beside a configuration."""

    file: str
    read: Read

    def text(self, reference: str, where: str) -> tuple[str, str]:
        """Read a text that the configuration names, and tell its plain name."""
        name = reference.removeprefix(_FILE).removeprefix("./")
        path = PurePosixPath(name.partition(":")[0] if ".py:" in name or ".js:" in name else name)
        if path.suffix.lower() in _CODE:
            raise BadRecord("lab_is_code", file=self.file, field=where, value=reference[:80])
        if path.is_absolute() or ".." in path.parts or "\\" in name or "*" in name or not name:
            raise BadRecord("lab_bad_reference", file=self.file, field=where, value=reference[:80])
        return name, decode_utf8(self.read(name), name, MAX_BYTES)

    def value(self, reference: str, where: str) -> tuple[str, object]:
        """Read a file of data, a table as its tests, and tell its plain name."""
        if not reference.lower().endswith((*_DATA, ".csv")) or "://" in reference.removeprefix(_FILE):
            raise BadRecord("lab_bad_tests", file=self.file, field=where, value=reference[:80])
        name, text = self.text(_FILE + reference.removeprefix(_FILE), where)
        if name.lower().endswith(".csv"):
            return name, list(tests_of_table(text, name, MAX_TESTS))
        is_json = name.lower().endswith(".json")
        return name, load_json(text.encode("utf-8"), name) if is_json else load_yaml(text, name)


def read_tests(data: Mapping[str, Any], beside: Beside) -> list[dict[str, Any]]:
    """Read the tests and scenarios with what all of them share; one with lists of values is several."""
    source = _Tests(data, beside)
    common = source.shared()
    found: list[dict[str, Any]] = []
    for where, test in source.all(common):
        found += source.expanded(test, common, where, MAX_TESTS - len(found))
    return found


@dataclass(frozen=True, slots=True)
class _Tests:
    """The tests of a configuration that is being read."""

    data: Mapping[str, Any]
    beside: Beside

    def shared(self) -> dict[str, Any]:
        """Read what all tests share."""
        given: object = self.data.get("defaultTest")
        if isinstance(given, str):
            given = self.beside.value(given, "defaultTest")[1]
        return self._row(given, "defaultTest") if given is not None else {}

    def all(self, common: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the tests one by one; where only shared ones are given, they make one test."""
        tests, scenarios = self.data.get("tests"), self.data.get("scenarios")
        yield from self._rows(tests, "tests")
        for where, scenario in self._rows(scenarios, "scenarios"):
            inner = scenario.get("tests")
            for place, shared in self._rows(scenario.get("config"), f"{where}.config"):
                rows = [(place, dict[str, Any]())]
                for named, test in rows if inner is None else self._rows(inner, f"{where}.tests"):
                    yield named, self._merged(shared, test, named)
        if not tests and not scenarios and (common.get("vars") or common.get("assert")):
            yield "defaultTest", {}

    def _rows(self, given: object, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
        if given is None:
            return
        listed = self._listed(given, where) if isinstance(given, str) else given
        for place, row in enumerate(list_in(listed, self.beside.file, where)):
            named = f"{where}[{place}]"
            for one in self._listed(row, named) if isinstance(row, str) else [row]:
                yield named, self._row(one, named)

    def _listed(self, reference: str, where: str) -> list[Any]:
        name, value = self.beside.value(reference, where)
        return list_in(value, name, "tests")

    def _row(self, given: object, where: str) -> dict[str, Any]:
        """Take an object, or the one of the configuration that ``$ref`` leads to."""
        row = object_in(given, self.beside.file, where)
        if "$ref" not in row:
            return row
        reference = row["$ref"]
        value: object = self.data if isinstance(reference, str) and reference.startswith("#/") else None
        for step in str(reference)[2:].split("/"):
            value = cast("Mapping[str, object]", value).get(step) if isinstance(value, Mapping) else None
        if not isinstance(value, dict) or "$ref" in value:
            shown = str(reference)[:80]
            raise BadRecord("lab_bad_reference", file=self.beside.file, field=where, value=shown)
        return cast("dict[str, Any]", value)

    def _merged(self, shared: Mapping[str, Any], test: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Join a scenario's values with one of its tests, whose own count first."""
        both = {"vars": {**self._vars(shared, where), **self._vars(test, where)}}
        for name in ("options", "metadata"):
            both[name] = {**_named(shared, name), **_named(test, name)}
        return {**shared, **test, **both}

    def expanded(
        self, test: Mapping[str, Any], common: Mapping[str, Any], where: str, room: int
    ) -> list[dict[str, Any]]:
        """Write a test out: with what is shared, and once for each choice of its values."""
        own = {**self._vars(common, "defaultTest"), **self._vars(test, where)}
        merged = {name: {**_named(common, name), **_named(test, name)} for name in ("options", "metadata")}
        is_whole = merged["options"].get("disableVarExpansion") is True
        lists = {name: [value] if is_whole else _choices(value) for name, value in own.items()}
        if math.prod(len(values) for values in lists.values()) > room:
            raise BadRecord("lab_too_many_tests", file=self.beside.file, limit=MAX_TESTS)
        checks = self._checks(test, f"{where}.assert")
        if merged["options"].get("disableDefaultAsserts") is not True:
            checks += self._checks(common, "defaultTest.assert")
        told = {name: common[name] for name in _UNREAD["tests"] if name in common}
        return [
            {**told, **test, **merged, "vars": dict(zip(lists, chosen, strict=True)), "assert": checks}
            for chosen in product(*lists.values())
        ]

    def _checks(self, test: Mapping[str, Any], where: str) -> list[Any]:
        given = test.get("assert")
        rows = list_in(given if given is not None else [], self.beside.file, where)
        return [self._row(row, f"{where}[{place}]") for place, row in enumerate(rows)]

    def _vars(self, test: Mapping[str, Any], where: str) -> dict[str, Any]:
        given = test.get("vars")
        if isinstance(given, str):
            raise BadRecord("lab_bad_tests", file=self.beside.file, field=f"{where}.vars", value=given[:80])
        named = object_in(given, self.beside.file, f"{where}.vars") if given is not None else {}
        return {
            name: self.beside.text(value, f"{where}.vars.{name}")[1].strip()
            if isinstance(value, str) and value.startswith(_FILE)
            else value
            for name, value in named.items()
        }


def _choices(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else [value]


def _named(test: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = test.get(name)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


# --- what is not taken over


def unread(
    data: Mapping[str, Any],
    tests: Sequence[Mapping[str, Any]],
    is_own: Callable[[Mapping[str, Any], object], bool],
) -> list[str]:
    """Name what changes the measure in promptfoo and is not taken over; ``is_own`` tells our own assertions."""
    found = dict.fromkeys(_present(data, ""))
    for test in tests:
        found |= dict.fromkeys(_present(test, "tests"))
        found |= dict.fromkeys(_present(_named(test, "options"), "options"))
        rows = [row for row in test["assert"] if not is_own(test, row)]
        found |= dict.fromkeys(_of_asserts(rows))
    return list(found)[:_TOLD]


def _present(row: Mapping[str, Any], part: str) -> Iterator[str]:
    for name in _UNREAD[part]:
        is_default = name == "weight" and row.get(name) == 1
        if not is_default and row.get(name) not in (None, "", [], {}):
            yield f"{part}.{name}" if part else name


def _of_asserts(rows: Sequence[object]) -> Iterator[str]:
    for given in rows:
        row = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
        kind = row.get("type")
        if isinstance(kind, str) and kind.removeprefix("not-") in OF_THE_RUN:
            yield f"assert.{kind}"
            continue
        yield from _present(row, "assert")
        inner = row.get("assert")
        if isinstance(inner, list):
            yield from _of_asserts(cast("list[object]", inner))
