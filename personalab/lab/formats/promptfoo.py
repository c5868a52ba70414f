"""Conversion between promptfoo configurations, and skills with a baseline."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, cast

from personalab.dialogue import language_among
from personalab.errors import BadRecord
from personalab.lab.assets import Case, SkillMeta, checked_case
from personalab.lab.formats.evals import title_of
from personalab.lab.formats.promptfoo_tests import Beside, Read, in_words, read_tests, unread
from personalab.lab.formats.skill_md import LONGEST_NAME, name_of
from personalab.lab.formats.yaml_text import decode_utf8, dump_yaml, load_json, load_yaml, object_in, text_in
from personalab.lab.records import DIMENSIONS, MAXIMA, Category, asset_folder
from personalab.texts import PROMPT_LANGUAGES, PromptLanguage, say

_TEMPLATE = re.compile(r"\{\{|\{%|\{#")
_RAW = re.compile(r"\{%-?\s*(?:end)?raw\s*-?%\}")
_END = re.compile(r"\{%-?\s*endraw\s*-?%\}")
_PART = re.compile(
    r"(?P<raw>\{%-?\s*raw\s*-?%\})"
    r"|\{\{-?\s*(?:'(?P<one>[^'\\]*)'|\"(?P<two>[^\"\\]*)\"|(?P<name>[^\W\d][\w.]*))\s*-?\}\}"
)


def escape_template(text: str) -> str:
    """Keep promptfoo from reading a text as a template; what would begin or end that is written as a quoted text."""
    if not _TEMPLATE.search(text):
        return text
    apart = _RAW.sub(lambda found: f"{{% endraw %}}{{{{ '{found[0]}' }}}}{{% raw %}}", text)
    return f"{{% raw %}}{apart}{{% endraw %}}"


def render_template(text: str, given: Mapping[str, Any]) -> str:
    """Fill in a text; a name that is not given stays as it is written."""
    parts: list[str] = []
    at = 0
    while (found := _PART.search(text, at)) is not None:
        parts.append(text[at : found.start()])
        at = found.end()
        if found["raw"] is None:
            parts.append(_said(found, given))
            continue
        end = _END.search(text, at)
        if end is None:
            at = found.start()
            break
        parts.append(text[at : end.start()])
        at = end.end()
    return "".join(parts) + text[at:]


def all_filled(value: object, given: Mapping[str, Any]) -> object:
    """Fill in every text of a value."""
    if isinstance(value, str):
        return render_template(value, given)
    if isinstance(value, dict):
        named = cast("dict[str, object]", value)
        return {key: all_filled(found, given) for key, found in named.items()}
    if isinstance(value, list):
        return [all_filled(found, given) for found in cast("list[object]", value)]
    return value


def filled_vars(given: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in variables that name one another, one step deep."""
    plain = {name: all_filled(value, {}) for name, value in given.items()}
    return {
        name: all_filled(value, {key: found for key, found in plain.items() if key != name})
        for name, value in given.items()
    }


def as_text(value: object) -> str:
    """Return a variable's value as text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _said(found: re.Match[str], given: Mapping[str, Any]) -> str:
    quoted = found["one"] if found["one"] is not None else found["two"]
    if quoted is not None:
        return quoted
    value: object = given
    for step in found["name"].split("."):
        if not isinstance(value, Mapping) or step not in value:
            return found[0]
        value = cast("Mapping[str, object]", value)[step]
    return as_text(value)


CONFIG = "promptfooconfig.yaml"
_PROMPT_FILE = re.compile(r"prompts/skill_([0-9a-f]{8})_(v\d{1,9})\.json", re.ASCII)


def promptfoo_config(
    name: str,
    skills: Sequence[tuple[SkillMeta, str]],
    cases: Sequence[Case],
    *,
    model: str,
    language: PromptLanguage,
) -> dict[str, bytes]:
    """Write a configuration and its prompts, by their relative names; ``model`` is promptfoo's id of a provider."""
    files: dict[str, bytes] = {}
    prompts: list[dict[str, str]] = []
    providers: list[dict[str, object]] = []
    for meta, content in skills:
        label = f"{meta.name} {meta.version} ({meta.id[:8]})"
        path = f"prompts/{asset_folder('skill', meta.id, meta.version)}.json"
        chat = [
            {"role": "system", "content": escape_template(content)},
            {"role": "user", "content": "{{input}}"},
        ]
        files[path] = (json.dumps(chat, ensure_ascii=False, indent=2) + "\n").encode("utf-8")
        prompts.append({"id": f"file://{path}", "label": label})
        providers.append({"id": model, "label": label, "prompts": [label]})
    config = {
        "description": name,
        "prompts": prompts,
        "providers": providers,
        "tests": [_test(case, language) for case in cases],
    }
    return {CONFIG: dump_yaml(config).encode("utf-8"), **files}


def _test(case: Case, language: PromptLanguage) -> dict[str, object]:
    rubrics = [
        {
            "type": "llm-rubric",
            "metric": dimension,
            "weight": MAXIMA[dimension],
            "value": rubric(dimension, case.expected_output, language),
        }
        for dimension in DIMENSIONS
    ]
    return {
        "description": case.name,
        "metadata": {
            "case_id": case.id,
            "category": case.category,
            "expected_output": case.expected_output,
            "description": case.description,
        },
        "vars": {"input": escape_template(case.input)},
        "assert": rubrics,
    }


def rubric(dimension: str, expected: str, language: PromptLanguage) -> str:
    """Word what one dimension asks of an answer."""
    return escape_template(say(f"lab_rubric_{dimension}", language, expected=expected))


def is_own_rubric(row: Mapping[str, Any], expected: str) -> bool:
    """Return whether an assertion was written here for an expectation, and is unchanged."""
    if row.get("type") != "llm-rubric":
        return False
    named = [dimension for dimension in DIMENSIONS if dimension == row.get("metric")]
    own = [rubric(dimension, expected, language) for dimension in named for language in PROMPT_LANGUAGES]
    return row.get("value") in own


def own_name(label: str, path: str) -> str:
    """Take from a label what tells prompts apart in promptfoo, if it was put there here."""
    found = _PROMPT_FILE.fullmatch(path)
    return label.removesuffix(f" {found[2]} ({found[1]})") if found else label


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
        value = load_yaml(decode_utf8(raw, file, MAX_BYTES), file)
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
        content = render_template(_system_part(text), {})
        if content.strip():
            yield PromptfooPrompt(label or name_of(content, "") or title_of(content), content)
        return
    name, content = beside.text(text, where)
    pieces = _pieces(content) if name.lower().endswith(".txt") else [content]
    for piece in pieces:
        said = render_template(_system_part(piece), {})
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
