"""Promptfoo assertions as requirements in words that a judge can read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from personalab.errors import BadRecord, Reason
from personalab.lab.formats.yaml_text import list_in, object_in
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
_CODE = ("javascript", "python", "ruby", "webhook")
OF_THE_RUN = ("cost", "latency", "finish-reason", "perplexity", "perplexity-score")
"""They speak of the run, not of what the answer says."""


def is_known(kind: str) -> bool:
    """Return whether a word is a kind of assertion that has a wording here."""
    return kind in _WORDED or kind in _AS_IT_IS or kind in _CODE or kind in OF_THE_RUN


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
    if plain in _CODE:
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
