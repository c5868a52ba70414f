"""Tests that the lexical index of a memory follows its changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from personalab.retrieval.memory.search import LexicalTexts
from personalab.retrieval.memory.store import SearchableText

_WORDS = st.sampled_from(["猫", "灯塔", "lighthouse", "tea", "sea", "song", "tea sea", "猫 tea"])
_TYPES = st.sampled_from(["profile", "event"])
_STATES = st.lists(
    st.dictionaries(st.integers(0, 12), st.tuples(_TYPES, _WORDS), max_size=10), min_size=1, max_size=4
)


def texts(state: dict[int, tuple[str, str]]) -> list[SearchableText]:
    return [SearchableText(str(number), kind, words) for number, (kind, words) in sorted(state.items())]


@given(_STATES, _WORDS)
def test_an_index_brought_up_to_date_finds_what_a_new_one_finds(
    states: list[dict[int, tuple[str, str]]], query: str
) -> None:
    followed = LexicalTexts()
    for stamp, state in enumerate(states):
        followed.refresh(stamp, lambda state=state: texts(state))
    fresh = LexicalTexts()
    fresh.refresh(0, lambda: texts(states[-1]))
    for types in (None, ("profile",), ("event", "mind")):
        assert followed.words(query, 100, types) == fresh.words(query, 100, types)
        assert followed.others(types) == fresh.others(types)
    for number in range(13):
        name = [str(number)]
        assert followed.places(name, None) == fresh.places(name, None)


def test_what_has_not_changed_is_not_read_again() -> None:
    lexicon = LexicalTexts()
    lexicon.refresh(1, lambda: [SearchableText("a", "profile", "tea")])
    lexicon.refresh(1, list)
    assert list(lexicon.words("tea", 10, None).scores) == ["a"]


def test_of_many_texts_a_few_are_hidden_and_many_make_it_anew() -> None:
    many = [SearchableText(str(number), "event", f"tea {number}") for number in range(1_500)]
    lexicon = LexicalTexts()
    lexicon.refresh(1, lambda: many)
    changed = [SearchableText("0", "event", "a song"), *many[2:]]
    lexicon.refresh(2, lambda: changed)
    assert "1" not in lexicon.words("tea 1", 2_000, None).scores
    assert next(iter(lexicon.words("song", 10, None).scores)) == "0"
    assert lexicon.places(["0", "1", "2"], None) == {"0": 0, "2": 1}
    assert len(lexicon) == 1_499
    lexicon.refresh(3, lambda: many[:10])
    assert len(lexicon) == 10
    assert len(lexicon.words("tea", 100, None).scores) == 10


def test_few_of_a_type_are_found_among_very_many_of_another() -> None:
    many = [
        SearchableText(str(number), "event", f"tea and milk and sugar {number}") for number in range(60_000)
    ]
    lexicon = LexicalTexts()
    lexicon.refresh(
        1, lambda: [*many, SearchableText("wanted", "profile", "tea and milk and honey and much more")]
    )
    assert list(lexicon.words("tea milk sugar honey", 10, ("profile",)).scores) == ["wanted"]
    assert list(lexicon.words("tea milk sugar", 10, ("profile",)).scores) == ["wanted"]
