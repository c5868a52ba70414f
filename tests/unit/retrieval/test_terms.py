"""Tests of the terms of a text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from personalab.retrieval.lexical import Terms, normalise, shared_words, stem

ANY_TEXT = st.text(st.characters(), max_size=60)


@pytest.mark.parametrize(
    ("written", "day"),
    [
        ("2023-05-02", "m5d2"),
        ("2023年5月2日", "m5d2"),
        ("五月二号", "m5d2"),
        ("十二月三十一日", "m12d31"),
        ("8 May 2023", "m5d8"),
        ("May 8th, 2023", "m5d8"),
        ("the 3rd of june", "m6d3"),
    ],
)
def test_a_day_gives_the_same_term_however_it_is_written(written: str, day: str) -> None:
    assert day in normalise(written).split()


@pytest.mark.parametrize("text", ["2023-13-40", "may I go", "march on", "version 1.2.3.4"])
def test_what_only_looks_like_a_date_is_left_alone(text: str) -> None:
    assert normalise(text) == text.lower()


@pytest.mark.parametrize(
    ("words", "one"),
    [
        (("painting", "painted", "paints"), "paint"),
        (("stories", "story"), "stori"),
        (("running", "runs"), "run"),
    ],
)
def test_forms_of_a_word_share_a_stem(words: tuple[str, ...], one: str) -> None:
    assert {stem(word) for word in words} == {one}


def test_wide_letters_and_capitals_count_as_plain_ones() -> None:
    terms = Terms()
    assert set(terms.of_one("ＡＢＣ１")) == set(terms.of_one("abc1"))


def test_chinese_gives_characters_and_pairs_but_no_pairs_across_a_gap() -> None:
    assert len(Terms().of_one("灯塔")) == 3
    assert len(Terms().of_one("灯，塔")) == 2


@settings(deadline=None)
@given(st.lists(ANY_TEXT, max_size=5))
def test_texts_together_give_the_terms_they_give_alone(texts: list[str]) -> None:
    terms = Terms()
    together, owners = terms.of(texts)
    for at, text in enumerate(texts):
        assert sorted(together[owners == at].tolist()) == sorted(terms.of_one(text).tolist())


def test_shared_words_are_the_longest_runs_and_the_words_by_their_stem() -> None:
    assert shared_words("灯塔的钥匙 paintings", "旧灯塔里有钥匙，she painted it") == [
        "灯塔",
        "钥匙",
        "paintings",
    ]
    assert shared_words("好", "好的") == ["好"]
    assert shared_words("the of", "the end of it") == []
