"""Patterns of strangers: what they mean, and how large they may grow."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from personalab.story.lore_matching import (
    MAX_SIZE,
    MAX_STRIKES,
    SHORT_TEXT,
    Allowance,
    PatternKey,
    SearchText,
    ready,
    translated,
)

_COMPILED = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
from personalab.story.lore_matching import Allowance, SearchText, PatternKey
from personalab.story.lore_matching import ready
ready("a", "").search("a")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for pattern in json.load(sys.stdin):
    PatternKey(pattern, pattern, "i").found_in(SearchText("abc" * 50), Allowance())
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def compiled_elsewhere(patterns: list[str]) -> int:
    """Compile and try patterns in a process of its own, which may break; give the megabytes they took."""
    done = subprocess.run(
        [sys.executable, "-c", _COMPILED],
        input=json.dumps(patterns),
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return int(done.stdout)


BOMBS = [
    "(?:ab|c){300000}",
    "(?:(?:ab|c){1000}){300}",
    "a{3000000}",
    "(?:a|b|c|d|e|f|g){9999999}",
    "(?:ab|c)(?#x){300000}",
    "(?x)(?:ab|c) { 3 0 0 0 0 0 }",
    "(?:" * 20 + "ab|c" + ")+" * 20,
    "(?:" * 12 + "ab|c" + "){2}" * 12,
    "[" + "ab" * 900 + "]{3000}",
    "(?:[[:alpha:])]x[[:alpha:](]){60}" * 3 + "(?:(?:(?:ab|c){60}){60}){60}",
    "(?:" * 150 + "a" + ")" * 150,
]


@pytest.mark.parametrize("pattern", BOMBS)
def test_a_pattern_that_would_grow_too_large_is_wrong(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"too large|too deep|nothing precedes"):
        translated(pattern)
    assert ready(pattern, "").search is None


def test_no_pattern_breaks_the_process_or_fills_its_memory() -> None:
    assert compiled_elsewhere(BOMBS) < 100


@pytest.mark.parametrize(
    "pattern",
    [
        "(?:" + "|".join(f"word{at}" for at in range(200)) + ")+",
        "a{1000}",
        r"(?:\w+\s){20,40}end",
        "x{0,60000}",
    ],
)
def test_a_pattern_of_ordinary_size_is_used(pattern: str) -> None:
    assert translated(pattern)[1] <= MAX_SIZE
    assert ready(pattern, "").search is not None


# --- whatever a stranger makes up

COUNTS = st.sampled_from(
    (
        *(
            "",
            "*",
            "+",
            "?",
            "+?",
            "++",
            "{2}",
            "{2}+",
            "{9,}",
            "{9,}?",
            "{40}",
            "{,9}",
            "{200,300}",
            "{70000}",
        ),
        *("{9999999}", "{e<=9}", "{ 900 }", "{", "{9"),
    )
)
ATOMS = st.sampled_from(
    (
        *("a", "bc", "灯", ".", r"\w", r"\p{L}", r"\u{61}", r"\X", r"\1", r"\k<n>", "]", "}", "^", "$"),
        *("[ab]", "[^a-z]", "[[:alpha:])]", "[[:alpha:](]", "[]", "[^]", r"[\](]"),
        *("(?#x)", "(?x)", "(?V1)", "(?i)", "(?R)", "(?1)", "(?&n)"),
    )
)
OPENED = st.sampled_from(("(", "(?:", "(?=", "(?!", "(?<=", "(?<n>", "(?P<n>", "(?>", "(?|", "(?i:", "(?x:"))


def _grouped(opened: str, part: str, count: str) -> str:
    return f"{opened}{part}){count}"


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    several = st.lists(inner, min_size=1, max_size=4)
    return (
        several.map("|".join)
        | several.map("".join)
        | st.tuples(inner, COUNTS).map("".join)
        | st.builds(_grouped, OPENED, inner, COUNTS)
        | st.builds(_grouped, OPENED, inner, COUNTS)
    )


PATTERNS = st.recursive(ATOMS, _larger, max_leaves=25)
_SLOW_TO_MAKE = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)


@settings(max_examples=12, deadline=None, suppress_health_check=_SLOW_TO_MAKE)
@given(st.lists(PATTERNS, min_size=40, max_size=80))
def test_whatever_a_stranger_nests_and_repeats_stays_small(patterns: list[str]) -> None:
    assert compiled_elsewhere(patterns) < 150


# --- what JavaScript writes in another way


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"(?<x>a|b)-\k<x>", "b-b", True),
        (r"(?<x>a|b)-\k<x>", "a-b", False),
        (r"^\u{4e2d}\u6587$", "中文", True),
        (r"^\ud83d\udd25+$", "🔥🔥", True),
        (r"^[\u{1F525}]$", "🔥", True),
        ("a[^]b", "a\nb", True),
        ("a[]b", "ab", False),
        (r"a\cJb", "a\nb", True),
        ("^[[:alpha:]]$", "a]", True),
        ("^{{x}}$", "{{x}}", True),
        ("^(?:abc){e<=3}$", "abc{e<=3}", True),
        (r"^[a&&b]{2}$", "&b", True),
        (r"\p{Script=Han}{2}", "中文", True),
        (r"^\/a\.b\-c$", "/a.b-c", True),
    ],
)
def test_a_pattern_means_what_it_means_to_javascript(pattern: str, text: str, found: bool) -> None:
    assert PatternKey(pattern, pattern, "").found_in(SearchText(text), Allowance()) is found


# --- slow ones

LONG = SearchText("a" * 5_000 + "!")


def test_a_pattern_that_is_slow_on_a_long_text_is_tried_on_the_next() -> None:
    key = PatternKey("(a+)+$", "(a+)+$", "")
    for _ in range(2 * MAX_STRIKES):
        assert key.found_in(LONG, Allowance()) == "pattern_slow"
    assert key.found_in(SearchText("aaa"), Allowance()) is True
    assert not ready(key.pattern, key.flags).is_slow


def test_a_pattern_that_was_often_slow_in_a_turn_waits_for_the_next() -> None:
    key = PatternKey("(a+)+$", "(a+)+$", "m")
    turn = Allowance(patterns=60)
    for _ in range(MAX_STRIKES):
        assert key.found_in(LONG, turn) == "pattern_slow"
    assert key.found_in(SearchText("aaa"), turn) == "pattern_slow"
    assert key.found_in(SearchText("aaa"), Allowance()) is True


def test_a_pattern_that_is_slow_on_short_texts_is_tried_no_more() -> None:
    key = PatternKey("(b+)+$", "(b+)+$", "s")
    short = SearchText("b" * (SHORT_TEXT - 1) + "!")
    for _ in range(20 * MAX_STRIKES):
        assert key.found_in(short, Allowance()) == "pattern_slow"
    assert ready(key.pattern, key.flags).is_slow
    assert key.found_in(SearchText("b"), Allowance()) == "pattern_slow"
