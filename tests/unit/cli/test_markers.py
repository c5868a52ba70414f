"""Progress markers in replies that are shown as they come."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cli.markers import MarkerFilter, MarkerStyle, styled
from cli.screen import closed_rows, fragments
from personalab.story.director import without_markers

MARKER = "[PROGRESS:1:completed]"
TEXTS = st.lists(
    st.sampled_from([MARKER, "[PROGRESS:", "[", "]", "[PRO", " ", "\n", "\t", "好", "go on", "2:x"]),
    max_size=12,
).map("".join)


def stream(text: str, cuts: list[int], style: MarkerStyle) -> str:
    """Show a text that comes in pieces."""
    shown = MarkerFilter(style)
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [shown.feed(text[start:end]) for start, end in pairwise(places)]
    return "".join([*pieces, shown.flush()])


@given(TEXTS, st.lists(st.integers(0, 60), max_size=8))
@example(f"go\n{MARKER}\non", [4, 9, 20])
@example(f"go {MARKER}{MARKER}\n\n", [4, 30])
def test_hidden_markers_leave_the_same_text_wherever_the_stream_is_cut(text: str, cuts: list[int]) -> None:
    assert stream(text, cuts, "hide").rstrip() == without_markers(text).rstrip()


@given(TEXTS, st.lists(st.integers(0, 60), max_size=8))
def test_markers_in_a_pipe_stay_as_they_are(text: str, cuts: list[int]) -> None:
    assert stream(text, cuts, "plain") == stream(text, cuts, "dim") == text  # no terminal here


@given(TEXTS, st.lists(st.integers(0, 60), max_size=8))
def test_markers_are_dimmed_whole(text: str, cuts: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cli.output.is_terminal", bool)
        assert stream(text, cuts, "dim") == styled(text, "dim")
        assert styled(text, "dim").count("\x1b[2m[PROGRESS:") == styled(text, "dim").count("\x1b[0m")


def test_text_that_is_no_marker_is_not_held_back() -> None:
    shown = MarkerFilter("dim")
    assert shown.feed("走吧[PRO") == "走吧"
    assert shown.feed("MISE") == "[PROMISE"


def test_a_colour_ends_with_its_row_and_goes_on_in_the_next() -> None:
    assert closed_rows(["a \x1b[2m[PROG", "RESS]\x1b[0m b", "c"]) == [
        "a \x1b[2m[PROG\x1b[0m",
        "\x1b[2mRESS]\x1b[0m b",
        "c",
    ]


def test_dimmed_parts_of_a_growing_row_are_grey() -> None:
    grey = "fg:ansibrightblack"
    assert fragments("a \x1b[2mb\x1b[0m c") == [("", "a "), (grey, "b"), ("", " c")]
    assert fragments("") == []
