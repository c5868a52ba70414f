"""The YAML and JSON of strangers is read as it looks, and nothing in it works magic."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from personalab.errors import BadRecord
from personalab.lab.formats.yaml_text import MAX_DEPTH, MAX_YAML_BYTES, dump_yaml, load_json, load_yaml

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
_SCALARS = st.none() | st.booleans() | st.integers(-(10**17), 10**17) | _TEXT
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=12,
)


def _refused(text: str) -> BadRecord:
    with pytest.raises(BadRecord) as raised:
        load_yaml(text, "x.yaml")
    return raised.value


@given(_VALUES)
def test_what_is_written_is_read_again_by_us_and_by_others(value: Any) -> None:
    written = dump_yaml(value)
    assert load_yaml(written, "x.yaml") == value
    assert yaml.safe_load(written) == value


def test_values_are_what_they_look_like() -> None:
    text = (
        "a: 1\nb: [yes, on, 1:30, 2024-01-01, 0x1f, 012]\nc: |\n  two\n  lines\nd:\ne: 1.5\nf: '7'\ng: true\n"
    )
    assert load_yaml(text, "x.yaml") == {
        "a": 1,
        "b": ["yes", "on", "1:30", "2024-01-01", "0x1f", "012"],
        "c": "two\nlines\n",
        "d": None,
        "e": 1.5,
        "f": "7",
        "g": True,
    }


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a: &x 1\nb: *x\n", "lab_yaml_anchor"),
        ("a: *x\n", "lab_yaml_anchor"),
        ("<<: {a: 1}\n", "lab_yaml_anchor"),
        ("a: !!python/object/apply:os.system [ls]\n", "lab_yaml_tag"),
        ("a: !!str 1\n", "lab_yaml_tag"),
        ("a: 1\na: 2\n", "lab_key_twice"),
        ("? [a]\n: b\n", "lab_yaml_key"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "lab_too_deep"),
        ("[" * 50_000, "lab_too_deep"),
        ("a: 1\n---\nb: 2\n", "lab_yaml_several"),
        ("a: 'open\n", "lab_bad_yaml"),
        ("a: \x07\n", "lab_bad_yaml"),
        ('a: "\\ud800"\n', "lab_half_character"),
        ("a: " + "x" * MAX_YAML_BYTES, "lab_file_large"),
    ],
)
def test_what_could_surprise_is_refused_with_the_file_and_a_remedy(text: str, code: str) -> None:
    error = _refused(text)
    assert error.code == code
    assert "x.yaml" in error.message("en")
    assert "x.yaml" in error.message("zh")


def test_nesting_is_taken_up_to_the_limit() -> None:
    value = load_yaml("[" * MAX_DEPTH + "]" * MAX_DEPTH, "x.yaml")
    assert json.dumps(value) == "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert load_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, "x.json") == value


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b'{"a": 1, "a": 2}', "lab_key_twice"),
        (b'{"a": NaN}', "lab_bad_json"),
        (b'{"a": 1e999}', "lab_bad_json"),
        (b"{", "lab_bad_json"),
        (b"[" * 100_000, "lab_too_deep"),
        (b"[" * 40 + b"]" * 40, "lab_too_deep"),
        (b'{"a": "\\uD800"}', "lab_half_character"),
        (b"\xff", "lab_not_utf8"),
    ],
)
def test_json_that_could_surprise_is_refused(raw: bytes, code: str) -> None:
    with pytest.raises(BadRecord) as raised:
        load_json(raw, "x.json")
    assert raised.value.code == code
