"""Tests of the lexical index: ranking, appending, neighbours and filters."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from personalab.retrieval import lexical
from personalab.retrieval.lexical import LexicalIndex

WORDS = [
    "灯塔",
    "钥匙",
    "船长",
    "地图",
    "海",
    "风",
    "lighthouse",
    "captain",
    "map",
    "sea",
    "wind",
    "storm",
    "五月二号",
]
DOCUMENTS = st.lists(
    st.tuples(st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join), st.sampled_from("ab")), max_size=25
)


def filled(documents: list[tuple[str, str]], cuts: list[int]) -> LexicalIndex:
    index = LexicalIndex()
    edges = [0, *sorted(cut % (len(documents) + 1) for cut in cuts), len(documents)]
    for start, end in pairwise(edges):
        part = documents[start:end]
        index.add([text for text, _ in part], [group for _, group in part])
    return index


@settings(deadline=None)
@given(DOCUMENTS, st.lists(st.integers(0, 25), max_size=4), st.sampled_from(WORDS))
def test_appending_gives_the_same_index_as_building_at_once(
    documents: list[tuple[str, str]], cuts: list[int], query: str
) -> None:
    whole, grown = filled(documents, []), filled(documents, cuts)
    assert len(whole) == len(grown)
    assert whole.rarity(query) == pytest.approx(grown.rarity(query))
    first, second = whole.search(query, 10), grown.search(query, 10)
    assert [one.document for one in first.matches] == [one.document for one in second.matches]
    assert [one.score for one in first.matches] == pytest.approx([one.score for one in second.matches])


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_choosing_candidates_finds_nearly_what_scoring_everything_finds(seed: int) -> None:
    dice = random.Random(seed)
    common = [f"w{n}" for n in range(300)]
    weights = [1 / (n + 1) for n in range(300)]
    index = LexicalIndex()
    texts = [" ".join(dice.choices(common, weights, k=12)) for _ in range(3_000)]
    index.add(texts, [str(n // 50) for n in range(3_000)])
    query = " ".join(dice.choices(common, weights, k=6))
    exact_limit = lexical._EXACT_CELLS  # pyright: ignore[reportPrivateUsage]
    try:
        lexical._EXACT_CELLS = 10**9  # pyright: ignore[reportPrivateUsage]
        exact = index.search(query, 10).matches
        lexical._EXACT_CELLS = 0  # pyright: ignore[reportPrivateUsage]
        pruned = index.search(query, 10).matches
    finally:
        lexical._EXACT_CELLS = exact_limit  # pyright: ignore[reportPrivateUsage]
    assert sum(one.score for one in pruned) >= 0.9 * sum(one.score for one in exact)


def test_a_neighbour_of_the_same_session_lends_its_words_but_not_over_its_border() -> None:
    index = LexicalIndex()
    index.add(["哪一件乐器？", "大提琴。", "下雨了。"], ["a", "a", "b"])
    assert [match.document for match in index.search("乐器", 5).matches] == [0, 1]


def test_only_allowed_documents_are_found() -> None:
    index = LexicalIndex()
    index.add(["灯塔"] * 4, list("abcd"))
    allowed = np.array([False, True, False, True])
    assert [match.document for match in index.search("灯塔", 5, allowed).matches] == [1, 3]


def test_a_word_of_few_documents_is_rarer() -> None:
    index = LexicalIndex()
    index.add(["灯塔 海"] * 30 + ["船长 海"], ["a"] * 31)
    assert index.rarity("船长") > index.rarity("灯塔") > index.rarity("海")


def test_an_empty_index_finds_nothing() -> None:
    assert LexicalIndex().search("灯塔", 5).matches == []
