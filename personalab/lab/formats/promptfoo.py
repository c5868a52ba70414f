"""Import of a promptfoo configuration as skills and a baseline.

Each prompt becomes a skill and each test a case. Nothing in a configuration is executed: a prompt, a variable
or a list of tests that a program generates is refused, and an assertion that is code is quoted as text.
Anything that affects the measurement but has no equivalent here, such as a threshold, is named in the
baseline's description.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, cast

from personalab.dialogue import language_among
from personalab.errors import BadRecord
from personalab.lab.assets import Case
from personalab.lab.dimensions import Category
from personalab.lab.editing import checked_case
from personalab.lab.formats.evals import title_of
from personalab.lab.formats.plain import LONGEST_NAME, name_of
from personalab.lab.formats.promptfoo_asserts import in_words
from personalab.lab.formats.promptfoo_export import is_own_rubric, own_name
from personalab.lab.formats.promptfoo_templates import all_filled, as_text, filled, filled_vars
from personalab.lab.formats.promptfoo_tests import Beside, Read, read_tests, unread
from personalab.lab.formats.yaml_text import decoded, load_json, load_yaml, object_in, text_in
from personalab.texts import PromptLanguage, say

MAX_BYTES = 1024 * 1024
MAX_RESULTS_BYTES = 16 * 1024 * 1024
"""A file of results, which holds its configuration, is longer."""
MAX_PROMPTS = 50
_FILE = "file://"
_PATH = re.compile(r"[^\s{}]{1,200}\.(?:txt|md|j2|json|ya?ml|[cm]?[jt]s|py)", re.IGNORECASE)
"""A prompt of one such word is the name of a file, to promptfoo too."""
_CATEGORIES: tuple[tuple[re.Pattern[str], Category], ...] = (
    (re.compile(r"\bexception(?:al)?\b|\berror case\b|异常", re.IGNORECASE), "exception"),
    (re.compile(r"\bboundary\b|\bedge[ -]case\b|边界", re.IGNORECASE), "boundary"),
)

_CASE_ID = re.compile(r"case_[0-9]{3,6}", re.ASCII)


@dataclass(frozen=True, slots=True)
class PromptfooPrompt:
    """A prompt that becomes a skill."""

    name: str
    content: str


@dataclass(frozen=True, slots=True)
class Suite:
    """What a configuration holds."""

    name: str
    prompts: tuple[PromptfooPrompt, ...]
    cases: tuple[Case, ...]
    description: str = ""


def read_promptfoo(raw: bytes, file: str, read: Read, now: str) -> Suite:
    """Read a configuration, or the one that a file of results holds."""
    data = _loaded(raw, file)
    if isinstance(data.get("results"), dict) and isinstance(data.get("config"), dict):
        data = cast("dict[str, Any]", data["config"])
    if "prompts" not in data:
        raise BadRecord("lab_no_prompts", file=file)
    beside = Beside(file, read)
    prompts = tuple(_prompts(data["prompts"], beside))
    if not prompts:
        raise BadRecord("lab_no_prompts", file=file)
    if len(prompts) > MAX_PROMPTS:
        raise BadRecord("lab_too_many_prompts", file=file, actual=len(prompts), limit=MAX_PROMPTS)
    tests = read_tests(data, beside)
    language = language_among([*(prompt.content for prompt in prompts), *_inputs(tests)]) or "en"
    cases = _cases(tests, file, language, now)
    description = data.get("description")
    name = description if isinstance(description, str) and description.strip() else PurePosixPath(file).stem
    left = unread(data, tests, _is_own)
    told = say("lab_promptfoo_unread", language, file=file, found=", ".join(left)) if left else ""
    return Suite(name[:LONGEST_NAME], _named_apart(prompts), cases, told)


def _loaded(raw: bytes, file: str) -> dict[str, Any]:
    if file.lower().endswith(".json"):
        value = load_json(raw, file, MAX_RESULTS_BYTES)
    else:
        value = load_yaml(decoded(raw, file, MAX_BYTES), file)
    return object_in(value, file, "-")


def _named_apart(prompts: Sequence[PromptfooPrompt]) -> tuple[PromptfooPrompt, ...]:
    """Number prompts of the same name, so that they differ."""
    seen: dict[str, int] = {}
    found: list[PromptfooPrompt] = []
    for prompt in prompts:
        seen[prompt.name] = number = seen.get(prompt.name, 0) + 1
        found.append(PromptfooPrompt(f"{prompt.name} ({number})", prompt.content) if number > 1 else prompt)
    return tuple(found)


# --- prompts


def _prompts(given: object, beside: Beside) -> Iterator[PromptfooPrompt]:
    """Read the prompts, however they are listed."""
    if isinstance(given, dict):
        paths = cast("dict[str, object]", given)
        for path, label in paths.items():
            yield from _prompt(beside, _FILE + path, label, "prompts")
        return
    listed = cast("list[object]", given) if isinstance(given, list) else [given]
    for place, found in enumerate(listed):
        where = f"prompts[{place}]"
        if isinstance(found, str):
            yield from _prompt(beside, found, "", where)
            continue
        row = object_in(found, beside.file, where)
        text = text_in(row.get("raw", row.get("id")), beside.file, where)
        yield from _prompt(beside, text, row.get("label"), where)


def _prompt(beside: Beside, text: str, given: object, where: str) -> Iterator[PromptfooPrompt]:
    label = given[:LONGEST_NAME] if isinstance(given, str) else ""
    if text.startswith("exec:"):
        raise BadRecord("lab_is_code", file=beside.file, field=where, value=text[:80])
    if not text.startswith(_FILE) and not _PATH.fullmatch(text):
        content = filled(_system_part(text), {})
        if content.strip():
            yield PromptfooPrompt(label or name_of(content, "") or title_of(content), content)
        return
    name, content = beside.text(text, where)
    pieces = _pieces(content) if name.lower().endswith(".txt") else [content]
    for piece in pieces:
        said = filled(_system_part(piece), {})
        if said.strip():
            yield PromptfooPrompt(own_name(label, name) or name_of(said, name), said)


def _pieces(text: str) -> list[str]:
    """Cut a file of several prompts at its lines of ``---``."""
    return [piece.strip() for piece in re.split(r"^[ \t]*---[ \t]*\r?$", text, flags=re.MULTILINE)]


def _system_part(text: str) -> str:
    """Take what a chat's prompt says as the system, if it is a chat; a case brings what the user says."""
    if not text.lstrip().startswith(("[", "- role:")):
        return text
    try:
        value = load_json(text.encode("utf-8"), "") if text.lstrip()[0] == "[" else load_yaml(text, "")
    except BadRecord:
        return text
    rows = cast("list[object]", value) if isinstance(value, list) else []
    said = [cast("dict[str, object]", row) for row in rows if isinstance(row, dict)]
    parts = [row["content"] for row in said if row.get("role") in ("system", "developer")]
    system = "\n\n".join(part for part in parts if isinstance(part, str))
    return system or text


# --- cases


def _inputs(tests: Sequence[Mapping[str, Any]]) -> list[str]:
    return [_input(test["vars"]) for test in tests]


def _input(given: Mapping[str, Any]) -> str:
    """Return a test's variables as text: a single one alone, several with their names."""
    texts = {name: as_text(value) for name, value in filled_vars(given).items()}
    if len(texts) == 1:
        return next(iter(texts.values()))
    return "\n".join(f"{name}: {value}" for name, value in texts.items())


def _cases(
    tests: Sequence[Mapping[str, Any]], file: str, language: PromptLanguage, now: str
) -> tuple[Case, ...]:
    found: list[Case] = []
    ids = _case_ids(tests)
    for number, test in enumerate(tests):
        description, own = test.get("description"), _own(test)
        said = description if isinstance(description, str) else ""
        # A prompt without variables is the whole task: all that is left to say is to begin.
        asked = _input(test["vars"]) if test["vars"] else say("lab_case_begin", language)
        name = said[:LONGEST_NAME] if own is not None else title_of(said)
        case = {
            "id": ids[number],
            "name": (name if name.strip() else title_of(asked)) or ids[number],
            "category": _category(test, said),
            "input": asked,
            "expected_output": _expected(test, file, f"tests[{number}].assert", language),
            "description": said if own is None else as_text(own.get("description", "")),
            "created_at": now,
            "updated_at": now,
        }
        found.append(checked_case(Case.read(case, file)))
    return tuple(found)


def _expected(test: Mapping[str, Any], file: str, where: str, language: PromptLanguage) -> str:
    """Return a test's expectations: for an exported test the original ones, and what was added to it since."""
    given = filled_vars(test["vars"])
    own = _own(test)
    rows = [all_filled(row, given) for row in test["assert"] if not _is_own(test, row)]
    if own is None:
        return in_words(rows, file, where, language)
    expected = str(own["expected_output"])
    return f"{expected}\n\n{in_words(rows, file, where, language)}" if rows else expected


def _own(test: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return what a test that left from here says of its case."""
    metadata = test.get("metadata")
    given = cast("dict[str, Any]", metadata) if isinstance(metadata, dict) else {}
    is_own = isinstance(given.get("case_id"), str) and isinstance(given.get("expected_output"), str)
    return given if is_own else None


def _is_own(test: Mapping[str, Any], row: object) -> bool:
    own = _own(test)
    if own is None or not isinstance(row, dict):
        return False
    return is_own_rubric(cast("dict[str, Any]", row), str(own["expected_output"]))


def _case_ids(tests: Sequence[Mapping[str, Any]]) -> list[str]:
    """Keep the ids that cases left with, if all have one of their own; else number them."""
    ids = [str((_own(test) or {}).get("case_id", "")) for test in tests]
    if all(_CASE_ID.fullmatch(found) for found in ids) and len(set(ids)) == len(ids):
        return ids
    return [f"case_{number:03d}" for number in range(1, len(tests) + 1)]


def _category(test: Mapping[str, Any], description: str) -> Category:
    metadata = test.get("metadata")
    named = cast("dict[str, object]", metadata) if isinstance(metadata, dict) else {}
    words = f"{named.get('category', '')} {description}"
    for pattern, category in _CATEGORIES:
        if pattern.search(words):
            return category
    return "standard"
