"""Tests of session lines that are refused, with the field named in the error."""

from __future__ import annotations

import pytest

from personalab.story.transcript import MAX_TURN, UserLine, parse_line


def test_the_greatest_turn_is_read_and_one_more_is_refused_by_its_name() -> None:
    row = b'{"role":"user","content":"a","turn":%d}'
    assert parse_line(row % MAX_TURN) == UserLine("a", MAX_TURN, "")
    for turn in (MAX_TURN + 1, 10**30):
        with pytest.raises(ValueError, match=r"^turn is greater than 1000000000$"):
            parse_line(row % turn)
