"""Every text of the catalogues is used, and every code that is looked up has a text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from personalab.i18n import FALLBACK, Section

PROJECT = Path(__file__).resolve().parents[2]
PRODUCT = ("personalab", "graph", "nodes", "mcp_server", "web", "cli")
SECTIONS = {
    "messages": (Section("messages"), PRODUCT),
    "reasons": (Section("reasons"), PRODUCT),
    "findings": (Section("doctor", "findings"), ("personalab",)),
    "remedies": (Section("doctor", "remedies"), ("personalab",)),
    "terminal": (Section("terminal"), ("cli",)),
    "mcp": (Section("mcp", "texts"), ("mcp_server",)),
    "titles": (Section("mcp", "titles"), ("mcp_server",)),
    "instructions": (Section("mcp", "instructions"), ("mcp_server",)),
    "about": (Section("about"), PRODUCT),
    "reports": (Section("reports"), ("personalab", "web")),
}
LOOKUPS = ("say", "_say", "tell", "word", "Refusal")
CODE = re.compile(r"[a-z][\w.-]*")


@cache
def _trees() -> tuple[tuple[Path, ast.Module], ...]:
    paths = [path for folder in PRODUCT for path in sorted((PROJECT / folder).rglob("*.py"))]
    return tuple((path.relative_to(PROJECT), ast.parse(path.read_text(encoding="utf-8"))) for path in paths)


def _written(folders: tuple[str, ...]) -> Iterator[str]:
    """Return patterns of all codes that a part of the code writes, as text or as a text with gaps."""
    for path, tree in _trees():
        if path.parts[0] not in folders:
            continue
        for node in ast.walk(tree):
            match node:
                case ast.Constant(value=str(text)) if CODE.fullmatch(text):
                    yield re.escape(text)
                case ast.JoinedStr(values=values):
                    literal = "".join(str(part.value) for part in values if isinstance(part, ast.Constant))
                    if len(literal) > 2 and re.fullmatch(r"[\w.-]+", literal):
                        yield "".join(
                            re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".+"
                            for part in values
                        )
                case _:
                    pass


@pytest.mark.parametrize("name", SECTIONS)
def test_every_text_is_used(name: str) -> None:
    section, folders = SECTIONS[name]
    used = re.compile("|".join(sorted(set(_written(folders)))))
    assert [code for code in section if not used.fullmatch(code)] == []


def test_every_code_that_is_looked_up_has_a_text() -> None:
    known = {code for section, _ in SECTIONS.values() for code in section.templates(FALLBACK)}
    asked: dict[str, str] = {}
    for path, tree in _trees():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            is_lookup = isinstance(node.func, ast.Name) and node.func.id in LOOKUPS
            is_lookup |= isinstance(node.func, ast.Attribute) and node.func.attr in ("say", "_say")
            match node.args[0]:
                case ast.Constant(value=str(code)) if is_lookup and CODE.fullmatch(code):
                    asked[code] = f"{path}:{node.lineno}"
                case _:
                    pass
    assert {place: code for code, place in asked.items() if code not in known} == {}
    assert len(asked) > 300
