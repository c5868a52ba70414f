"""What a person wants kept or dropped is read out of free text, and nothing is guessed about unknown names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.errors import UserError
from personalab.lab.retention import Retention, kept_segments, read_retention

KNOWN = tuple(f"seg_{number:03d}" for number in range(1, 10))


@pytest.mark.parametrize(
    ("rules", "kept", "dropped"),
    [
        ("必须保留seg_001（角色设定）和seg_002（约束条件）", "1 2", ""),
        ("保留seg_001，不要保留seg_003", "1", "3"),
        ("不要seg_003、seg_004", "", "3 4"),
        ("不要删除seg_001", "1", ""),
        ("不得改动seg_001", "1", ""),
        ("seg_001必不可少", "1", ""),
        ("至少保留seg_001，特别是seg_002", "1 2", ""),
        ("把seg_003删掉，seg_001必须有", "1", "3"),
        ("seg_001、seg_002都不要", "", "1 2"),
        ("去掉seg_003，其余随意", "", "3"),
        ("无需 seg_003；别用 seg_004", "", "3 4"),
        ("keep seg_001, seg_002 and drop seg_003", "1 2", "3"),
        ("Keep seg_001 but not seg_002.", "1", "2"),
        ("do not remove seg_001", "1", ""),
        ("without losing seg_001; without seg_002", "1", "2"),
        ("seg_001 should be dropped and seg_002 kept", "2", "1"),
        ("SEG_1 and seg-2 stay", "1 2", ""),
        ("rewrite seg_005 in English, keep seg_001", "1", ""),
        ("make it shorter, please", "", ""),
        ("", "", ""),
    ],
)
def test_rules_say_what_is_kept_and_what_is_dropped(rules: str, kept: str, dropped: str) -> None:
    found = read_retention(rules, KNOWN)
    assert found == Retention(_names(kept), _names(dropped))
    assert kept_segments(rules, KNOWN) == _names(kept)


def _names(numbers: str) -> tuple[str, ...]:
    return tuple(f"seg_{int(number):03d}" for number in numbers.split())


def test_a_name_nobody_knows_is_refused_by_name() -> None:
    with pytest.raises(UserError) as caught:
        read_retention("保留seg_001和seg_042", KNOWN)
    assert caught.value.code == "lab_unknown_segment"
    assert "seg_042" in caught.value.message("zh")
    assert "seg_001" in caught.value.message("en")


def test_a_segment_both_kept_and_dropped_is_refused() -> None:
    with pytest.raises(UserError) as caught:
        read_retention("保留seg_001。删除seg_001。", KNOWN)
    assert caught.value.code == "lab_retention_contradiction"


@given(st.text(max_size=80), st.lists(st.sampled_from(KNOWN), max_size=4))
def test_any_text_is_read_and_only_known_names_come_out(text: str, names: list[str]) -> None:
    rules = text.join([*names, ""]) if names else text.replace("seg", "")
    try:
        found = read_retention(rules, KNOWN)
    except UserError as error:
        assert error.code in {"lab_unknown_segment", "lab_retention_contradiction"}  # noqa: PT017 (both may happen)
    else:
        assert set(found.kept) <= set(KNOWN)
        assert not set(found.kept) & set(found.dropped)


@given(
    st.lists(st.sampled_from(KNOWN), min_size=1, unique=True), st.sampled_from(["、", ", ", " 和 ", " and "])
)
def test_names_alone_are_kept(names: list[str], between: str) -> None:
    assert set(kept_segments(between.join(names), KNOWN)) == set(names)
