"""Structured answers of the fake ``claude``, made to fit a schema.

Scores of the six dimensions come from a plain comparison of an answer with the expected output: enough to
tell a good answer from a bad one, and the same each time.
"""

from __future__ import annotations

import re
from typing import Any, cast

MARK = "(fake claude)"

_LONGEST_QUOTE = 160
_MAXIMA = {
    "functional_correctness": 30,
    "robustness": 20,
    "readability": 15,
    "conciseness": 15,
    "complexity_control": 10,
    "format_compliance": 10,
}
_HEADING = re.compile(r"^=== (.+?) ===[ \t]*$", re.MULTILINE)
_MARKED = re.compile(r"^=== ([^\n]+?) ===[ \t]*\n<<<(\w+)\n(.*?)\n?\2>>>", re.MULTILINE | re.DOTALL)
_MARK_LINE = re.compile(r"<<<\w+|\w+>>>")
_WORD = re.compile(r"[a-z0-9_]+|[^\x00-\x7f]")
_REFUSAL = re.compile(
    r"\b(?:i can(?:no|')t|i cannot|i'm sorry|as an ai|unable to)\b|无法|抱歉|不能帮", re.IGNORECASE
)
_NO_EXPECTATION = ("(none was given", "（没有给出")


def fitting(schema: object, text: str, path: tuple[str, ...] = ()) -> object:
    """Make a value that fits a schema, from the question."""
    form = cast("dict[str, Any]", schema if isinstance(schema, dict) else {})
    if "const" in form or form.get("enum"):
        return form["const"] if "const" in form else form["enum"][0]
    if kinds := cast("list[object]", form.get("anyOf", [])):
        return fitting(kinds[_index(path) % len(kinds)], text, path)
    match _kind(form):
        case "object":
            parts = cast("dict[str, object]", form.get("properties", {}))
            return {name: fitting(part, text, (*path, name)) for name, part in parts.items()}
        case "array":
            count = max(int(form.get("minItems", 0)), min(2, int(form.get("maxItems", 2))))
            return [fitting(form.get("items"), text, (*path, str(number))) for number in range(count)]
        case "integer" | "number":
            return _number(form, text, path)
        case "boolean":
            return False
        case "null":
            return None
        case _:
            return _words_for(form, text, path)


def _index(path: tuple[str, ...]) -> int:
    """Return the list index at the end of a path; 0 if there is none."""
    return int(path[-1]) if path and path[-1].isdecimal() else 0


def _kind(form: dict[str, Any]) -> str:
    kind: object = form.get("type") or ("object" if "properties" in form else "string")
    if isinstance(kind, list):
        return next((str(one) for one in cast("list[object]", kind) if one != "null"), "null")
    return str(kind)


def _words_for(form: dict[str, Any], text: str, path: tuple[str, ...]) -> str:
    """Return a line of the question, a different one for each place."""
    if path and path[-1].startswith("reason"):
        return f"{MARK} by the words that are also in what was expected"
    told = (line.strip() for line in text.splitlines())
    lines = [
        line for line in told if line and not _HEADING.match(line) and not _MARK_LINE.fullmatch(line)
    ] or [text]
    line = lines[sum(map(ord, "".join(path))) % len(lines)]
    said = line if len(path) > 1 else f"{MARK} {line}"
    return said[: min(int(str(form.get("maxLength", _LONGEST_QUOTE))), _LONGEST_QUOTE)]


def _number(form: dict[str, Any], text: str, path: tuple[str, ...]) -> float | int:
    low, high = form.get("minimum", 0), form.get("maximum")
    low = low if isinstance(low, int | float) else 0
    dimension = next((step for step in path if step in _MAXIMA), None)
    if dimension is None:
        return low
    most = high if isinstance(high, int | float) else _MAXIMA[dimension]
    score = low + (most - low) * _quality(text, dimension)
    return round(score) if form.get("type") == "integer" else round(score, 1)


def _quality(text: str, dimension: str) -> float:
    """Look how much of what was expected is in an answer, and whether it is about as long: 0 to 1."""
    sections = _sections(text)
    expected, answer = _named(sections, "expected", "期望"), _named(sections, "answer", "回答")
    if expected.startswith(_NO_EXPECTATION):
        expected = _named(sections, "input", "输入")
    wanted, given = set(_WORD.findall(expected.lower())), set(_WORD.findall(answer.lower()))
    if not given:
        return 0.0
    shared = len(wanted & given) / len(wanted) if wanted else 0.5
    if _REFUSAL.search(answer) and not _REFUSAL.search(expected):
        shared *= 0.2
    length = min(1.0, 2 * max(len(expected), 40) / len(answer))
    if dimension in ("conciseness", "complexity_control"):
        return (shared + length) / 2 if shared > 0.2 else shared
    return 0.1 + 0.9 * shared * (0.7 + 0.3 * length)


def _sections(text: str) -> list[tuple[str, str]]:
    """Find the parts of a judge's question; the text between two marks is one part, whatever it holds."""
    if marked := _MARKED.findall(text):
        return [(heading.lower(), body) for heading, _, body in marked]
    parts = _HEADING.split(text)
    return [(heading.lower(), body) for heading, body in zip(parts[1::2], parts[2::2], strict=False)]


def _named(sections: list[tuple[str, str]], *names: str) -> str:
    return next((body.strip() for heading, body in sections if any(name in heading for name in names)), "")
