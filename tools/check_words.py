"""Lists wording that this project has left behind: ``python -m tools.check_words`` prints nothing when all is well.

- module docstrings that are questions
- identifiers that have a plainer name
- classes that share a name
- texts for users with words that only insiders know
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

Check = Callable[[], Iterator[str]]
PROJECT = Path(__file__).resolve().parents[1]
PRODUCT = ("graph", "nodes", "personalab", "mcp_server", "web", "cli")
CODE = (*PRODUCT, "bench", "tools", "tests", "examples")
# fmt: off
OLD_NAMES = {
    "Acquaintance", "Arriving", "Asked", "AtDesk", "CameIn", "Desk", "Door", "Found", "ImportWishes", "Ours",
    "Paced", "Places", "PumpedGraph", "Seats", "Shelf", "Supposed", "Told", "Tongue", "Unlearned", "Wanted",
    "Watched", "Which", "Whole", "_Ward", "_hush", "_strangers", "again", "asking", "began_as", "bring_in",
    "fields", "keep_no_more", "leased", "lent", "let_go", "nothing_to_note", "pumped", "send_out", "settle",
    "speak_up", "unbroken", "watching",
}
# fmt: on
"""Names of modules, classes and functions."""
# fmt: off
STILL_USED = {
    "Acquaintance", "Arriving", "Story", "_hush", "_strangers", "again", "asking", "bring_in",
    "fields", "nothing_to_note", "send_out", "settle", "speak_up", "watching",
}
# fmt: on
"""Names that are still to be replaced; a name that is gone from the code goes from here, too."""
OLD_WORDS = {
    "en": (
        r"\b(comes?|came|brought|bring) (in|back) again\b|\bnothing came in\b|\bwas given up\b|\boutlives\b"
        r"|\bit stays\b|\bin all\)|\b[Gg]oe?s? on\b|\bgone on\b|\b[Ss]um(med|ming)? up\b|\bunder way\b"
        r"|\bby itself\b|\bwith whom\b|\bstands? (in|beside|above|below|there)\b|\b(is|are|was|were) told\b"
        r"|\bmade as\b|\bcalled up\b|\bmend(s|ed)?\b|\b[Bb]egin (anew|a (new )?story)\b"
        r"|\bMost (calls|rounds|money)\b|\bnone of \{|\bby hand\b"
    ),
    "zh": r"看一看|把握 |待批|手工修改|学到 .*处|唤起|去看看",
}
"""Patterns of words in texts that have a plainer one."""
CATALOGUE = "personalab/i18n/{language}.json"


def question_docstrings() -> Iterator[str]:
    """List modules whose docstring asks something."""
    for path, tree in _modules(CODE):
        said = ast.get_docstring(tree) or ""
        if said.split("\n\n")[0].rstrip().endswith("?"):
            yield f"{path}: module docstring is a question"


def old_names() -> Iterator[str]:
    """List modules, classes and functions with a name that has a plainer one."""
    for path, tree in _modules(PRODUCT):
        if path.stem in OLD_NAMES - STILL_USED:
            yield f"{path}: module name"
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                and node.name in OLD_NAMES - STILL_USED
            ):
                yield f"{path}:{node.lineno}: {node.name}"


def shared_class_names() -> Iterator[str]:
    """List classes of the product that share a name, private ones aside."""
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in _modules(PRODUCT):
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path))
    for name, found in sorted(places.items()):
        if len(found) > 1 and name not in STILL_USED:
            yield f"class {name}: {', '.join(found)}"


def old_words() -> Iterator[str]:
    """List texts for people with words that are explained nowhere."""
    for language, words in OLD_WORDS.items():
        path = CATALOGUE.format(language=language)
        for key, text in _texts(json.loads((PROJECT / path).read_text(encoding="utf-8"))):
            if found := re.search(words, text):
                yield f"{path}: {key}: {found[0]!r}"


def _texts(node: object, key: str = "") -> Iterator[tuple[str, str]]:
    match node:
        case str():
            yield key, node
        case dict():
            for name, inner in node.items():  # pyright: ignore[reportUnknownVariableType]
                yield from _texts(inner, f"{key}.{name}".lstrip("."))  # pyright: ignore[reportUnknownArgumentType]
        case list():
            for inner in node:  # pyright: ignore[reportUnknownVariableType]
                yield from _texts(inner, key)  # pyright: ignore[reportUnknownArgumentType]
        case _:
            pass


def _modules(folders: tuple[str, ...]) -> Iterator[tuple[Path, ast.Module]]:
    for folder in folders:
        for path in sorted((PROJECT / folder).rglob("*.py")):
            if "node_modules" not in path.parts:
                yield path.relative_to(PROJECT), ast.parse(path.read_text(encoding="utf-8"))


def main() -> int:
    """Print every finding; the exit code says whether there are any."""
    checks: tuple[Check, ...] = (question_docstrings, old_names, shared_class_names, old_words)
    found = [line for check in checks for line in check()]
    for line in found:
        print(line)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
