"""Tests that text becomes well-formed Unicode, whatever pieces it arrives in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from personalab.dialogue import PairJoiner, well_formed

ANY_TEXT = st.text(
    st.characters(exclude_categories=()) | st.sampled_from("\ud83d\ude00\udfff\ud800"), max_size=12
)


@given(ANY_TEXT)
def test_well_formed_text_can_be_encoded_and_stays_as_it_is(text: str) -> None:
    mended = well_formed(text)
    mended.encode("utf-8")
    assert well_formed(mended) == mended


@given(st.lists(ANY_TEXT, max_size=8))
def test_pieces_give_what_the_whole_text_gives(pieces: list[str]) -> None:
    joiner = PairJoiner()
    shown = [joiner.feed(piece) for piece in pieces]
    shown.append(joiner.flush())
    assert "".join(shown) == well_formed("".join(pieces))
    for piece in shown:
        piece.encode("utf-8")
