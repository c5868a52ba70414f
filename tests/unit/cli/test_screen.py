"""Tests of row wrapping, truncation and visible control characters on the screen."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.utils import get_cwidth

from cli.output import bar, short, visible
from cli.screen import wrap

WORDS = st.text(st.sampled_from("ab c好，。é "), max_size=80)


@given(WORDS, st.integers(4, 30))
def test_rows_never_exceed_the_width_and_lose_only_spaces(text: str, width: int) -> None:
    rows = list(wrap(text, width))
    assert all(get_cwidth(row) <= width for row in rows)
    assert "".join(rows).replace(" ", "") == text.replace(" ", "")


def test_words_stay_whole() -> None:
    assert list(wrap("the keeper of the light", 10)) == ["the keeper", "of the", "light"]


def test_chinese_breaks_anywhere() -> None:
    assert list(wrap("灯塔看守人", 4)) == ["灯塔", "看守", "人"]


def test_control_characters_are_shown_as_marks() -> None:
    assert visible("a\x1b[2Jb\x07\n\t好\udcff") == "a\ufffd[2Jb\ufffd\n\t好\ufffd"
    assert visible("\x1b[1mours\x1b[0m") == "\x1b[1mours\x1b[0m"


def test_characters_that_turn_or_hide_others_are_shown_as_marks() -> None:
    hidden = "\u202e\u2066\u2069\u200e\u200f\u061c\u2028\u2029\u200b\u2060\ufeff\U000e0041"
    assert visible(f"a{hidden}b") == "a" + "\ufffd" * len(hidden) + "b"
    assert visible("👩\u200d🚀 a\u200cb") == "👩\u200d🚀 a\u200cb"


def test_a_list_entry_is_cut_by_its_columns() -> None:
    assert short("灯塔看守人", 6) == "灯塔看…"
    assert short("  one\ntwo ", 20) == "one two"


def test_a_bar_fills_with_its_share() -> None:
    assert (bar(0, 10, 4), bar(5, 10, 4), bar(99, 10, 4)) == ("····", "██··", "████")
    assert bar(1, 1000, 4) == "▏···"
