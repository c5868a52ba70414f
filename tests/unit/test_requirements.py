"""Every promise has a test, and every test it names exists."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.requirements import REQUIREMENTS

TESTS = Path(__file__).parents[1]


@cache
def _functions(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


@pytest.mark.parametrize("promise", sorted(REQUIREMENTS))
def test_every_promise_is_shown_by_tests_that_exist(promise: str) -> None:
    text, tests = REQUIREMENTS[promise]
    assert text
    assert tests
    for named in tests:
        file, function = named.split("::")
        assert (TESTS / file).is_file(), named
        assert function in _functions(TESTS / file), named
