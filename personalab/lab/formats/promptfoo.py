"""How does a promptfoo configuration become skills and a baseline?

Each prompt is a skill and each test a case. Nothing in a configuration is run: a prompt, a variable or a list of tests
that is made by a program is refused, and an assertion that is code is quoted as text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import PurePosixPath
from typing import Any, cast

from personalab.dialogue import language_among
from personalab.errors import BadRecord
from personalab.lab.assets import Case
from personalab.lab.dimensions import Category
from personalab.lab.editing import checked_case
from personalab.lab.formats.evals import title_of
from personalab.lab.formats.plain import name_of
from personalab.lab.formats.promptfoo_asserts import in_words
from personalab.lab.formats.promptfoo_csv import tests_of_table
from personalab.lab.formats.yaml_text import decoded, list_in, load_json, load_yaml, object_in, text_in
from personalab.texts import Language, say

MAX_BYTES = 1024 * 1024
MAX_RESULTS_BYTES = 16 * 1024 * 1024
"""A file of results, which holds its configuration, is longer."""
MAX_PROMPTS = 50
MAX_TESTS = 1_000
_FILE = "file://"
_CODE = (".js", ".cjs", ".mjs", ".ts", ".cts", ".mts", ".py", ".rb", ".sh")
_DATA = (".json", ".yaml", ".yml")
_PATH = re.compile(r"[^\s{}]{1,200}\.(?:txt|md|j2|json|ya?ml|[cm]?[jt]s|py)", re.IGNORECASE)
"""A prompt of one such word is the name of a file, to promptfoo too."""
_CATEGORIES: tuple[tuple[re.Pattern[str], Category], ...] = (
    (re.compile(r"\bexception(?:al)?\b|\berror case\b|异常", re.IGNORECASE), "exception"),
    (re.compile(r"\bboundary\b|\bedge[ -]case\b|边界", re.IGNORECASE), "boundary"),
)

Read = Callable[[str], bytes]
"""Reads a file beside the configuration by its relative name; nothing else can be reached."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt that becomes a skill."""

    name: str
    content: str


@dataclass(frozen=True, slots=True)
class Suite:
    """What a configuration holds."""

    name: str
    prompts: tuple[Prompt, ...]
    cases: tuple[Case, ...]


def read_promptfoo(raw: bytes, file: str, read: Read, now: str) -> Suite:
    """Read a configuration, or the one that a file of results holds."""
    data = _loaded(raw, file)
    if isinstance(data.get("results"), dict) and isinstance(data.get("config"), dict):
        data = cast("dict[str, Any]", data["config"])
    if "prompts" not in data:
        raise BadRecord("lab_no_prompts", file=file)
    source = _Source(file, read)
    prompts = tuple(source.prompts(data["prompts"]))
    if not prompts:
        raise BadRecord("lab_no_prompts", file=file)
    if len(prompts) > MAX_PROMPTS:
        raise BadRecord("lab_too_many_prompts", file=file, actual=len(prompts), limit=MAX_PROMPTS)
    tests = source.tests(data)
    language = language_among([*(prompt.content for prompt in prompts), *_inputs(tests)]) or "en"
    cases = _cases(tests, file, language, now)
    description = data.get("description")
    name = description if isinstance(description, str) and description.strip() else PurePosixPath(file).stem
    return Suite(name, _named_apart(prompts), cases)


def _loaded(raw: bytes, file: str) -> dict[str, Any]:
    if file.lower().endswith(".json"):
        value = load_json(raw, file, MAX_RESULTS_BYTES)
    else:
        value = load_yaml(decoded(raw, file, MAX_BYTES), file)
    return object_in(value, file, "-")


def _named_apart(prompts: Sequence[Prompt]) -> tuple[Prompt, ...]:
    """Number prompts of one name, so that each can be told."""
    seen: dict[str, int] = {}
    found: list[Prompt] = []
    for prompt in prompts:
        seen[prompt.name] = number = seen.get(prompt.name, 0) + 1
        found.append(Prompt(f"{prompt.name} ({number})", prompt.content) if number > 1 else prompt)
    return tuple(found)


# --- prompts


@dataclass(frozen=True, slots=True)
class _Source:
    """A configuration that is being read, and the files beside it."""

    file: str
    read: Read

    def prompts(self, given: object) -> Iterator[Prompt]:
        """Read the prompts, however they are listed."""
        if isinstance(given, dict):
            paths = cast("dict[str, object]", given)
            for path, label in paths.items():
                yield from self._prompt(_FILE + path, label if isinstance(label, str) else "", "prompts")
            return
        listed = cast("list[object]", given) if isinstance(given, list) else [given]
        for place, found in enumerate(listed):
            where = f"prompts[{place}]"
            if isinstance(found, str):
                yield from self._prompt(found, "", where)
                continue
            row = object_in(found, self.file, where)
            text = row.get("raw", row.get("id"))
            label = row.get("label")
            yield from self._prompt(
                text_in(text, self.file, where), label if isinstance(label, str) else "", where
            )

    def _prompt(self, text: str, label: str, where: str) -> Iterator[Prompt]:
        if text.startswith("exec:"):
            raise BadRecord("lab_is_code", file=self.file, field=where, value=text[:80])
        if not text.startswith(_FILE) and not _PATH.fullmatch(text):
            content = _system_part(text)
            if content.strip():
                yield Prompt(label or name_of(content, "") or title_of(content), content)
            return
        name, content = self._beside(text, where)
        pieces = _pieces(content) if name.lower().endswith(".txt") else [content]
        for piece in pieces:
            said = _system_part(piece)
            if said.strip():
                yield Prompt(label or name_of(said, name), said)

    def _beside(self, reference: str, where: str) -> tuple[str, str]:
        name = reference.removeprefix(_FILE).removeprefix("./")
        path = PurePosixPath(name.partition(":")[0] if ".py:" in name or ".js:" in name else name)
        if path.suffix.lower() in _CODE:
            raise BadRecord("lab_is_code", file=self.file, field=where, value=reference[:80])
        if path.is_absolute() or ".." in path.parts or "\\" in name or "*" in name or not name:
            raise BadRecord("lab_bad_reference", file=self.file, field=where, value=reference[:80])
        return name, decoded(self.read(name), name, MAX_BYTES)

    # --- tests

    def tests(self, data: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Read the tests with what all of them share; one with lists of values is several."""
        shared = data.get("defaultTest")
        common = cast("dict[str, Any]", shared) if isinstance(shared, dict) else {}
        given = data.get("tests")
        if isinstance(given, str):
            given = self._listed(given, "tests")
        found: list[dict[str, Any]] = []
        for place, row in enumerate([] if given is None else list_in(given, self.file, "tests")):
            where = f"tests[{place}]"
            rows = self._listed(row, where) if isinstance(row, str) else [row]
            for one in rows:
                found += self._expanded(
                    object_in(one, self.file, where), common, where, MAX_TESTS - len(found)
                )
        return found

    def _listed(self, reference: str, where: str) -> list[Any]:
        if not reference.lower().endswith((*_DATA, ".csv")) or "://" in reference.removeprefix(_FILE):
            raise BadRecord("lab_bad_tests", file=self.file, field=where, value=reference[:80])
        name, text = self._beside(_FILE + reference.removeprefix(_FILE), where)
        if name.lower().endswith(".csv"):
            return list(tests_of_table(text, name, MAX_TESTS))
        value = load_json(text.encode("utf-8"), name) if name.endswith(".json") else load_yaml(text, name)
        return list_in(value, name, "tests")

    def _expanded(
        self, test: Mapping[str, Any], common: Mapping[str, Any], where: str, room: int
    ) -> list[dict[str, Any]]:
        own = {**self._vars(common, "defaultTest"), **self._vars(test, where)}
        lists = {name: _choices(value) for name, value in own.items()}
        if math.prod(len(values) for values in lists.values()) > room:
            raise BadRecord("lab_too_many_tests", file=self.file, limit=MAX_TESTS)
        shared, asserts = common.get("assert"), test.get("assert")
        checks = [
            *list_in(asserts if asserts is not None else [], self.file, f"{where}.assert"),
            *list_in(shared if shared is not None else [], self.file, "defaultTest.assert"),
        ]
        return [
            {**test, "vars": dict(zip(lists, chosen, strict=True)), "assert": checks}
            for chosen in product(*lists.values())
        ]

    def _vars(self, test: Mapping[str, Any], where: str) -> dict[str, Any]:
        given = test.get("vars")
        if isinstance(given, str):
            raise BadRecord("lab_bad_tests", file=self.file, field=f"{where}.vars", value=given[:80])
        named = object_in(given, self.file, f"{where}.vars") if given is not None else {}
        return {
            name: self._beside(value, f"{where}.vars.{name}")[1].strip()
            if isinstance(value, str) and value.startswith(_FILE)
            else value
            for name, value in named.items()
        }


def _choices(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else [value]


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
    """Say a test's variables: the one alone, or each with its name."""
    texts = {name: value if isinstance(value, str) else _json(value) for name, value in given.items()}
    if len(texts) == 1:
        return next(iter(texts.values()))
    return "\n".join(f"{name}: {value}" for name, value in texts.items())


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cases(tests: Sequence[Mapping[str, Any]], file: str, language: Language, now: str) -> tuple[Case, ...]:
    found: list[Case] = []
    for number, test in enumerate(tests, start=1):
        description = test.get("description")
        said = description if isinstance(description, str) else ""
        # A prompt without variables is the whole task: all that is left to say is to begin.
        asked = _input(test["vars"]) if test["vars"] else say("lab_case_begin", language)
        case = {
            "id": f"case_{number:03d}",
            "name": title_of(said) or title_of(asked) or f"case_{number:03d}",
            "category": _category(test, said),
            "input": asked,
            "expected_output": in_words(test["assert"], file, f"tests[{number - 1}].assert", language),
            "description": said,
            "created_at": now,
            "updated_at": now,
        }
        found.append(checked_case(Case.read(case, file)))
    return tuple(found)


def _category(test: Mapping[str, Any], description: str) -> Category:
    metadata = test.get("metadata")
    named = cast("dict[str, object]", metadata) if isinstance(metadata, dict) else {}
    words = f"{named.get('category', '')} {description}"
    for pattern, category in _CATEGORIES:
        if pattern.search(words):
            return category
    return "standard"
