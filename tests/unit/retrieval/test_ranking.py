"""Tests of the fusion of lexical and semantic matches."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from personalab.retrieval.event_store import EventCollection
from personalab.retrieval.ranking import DENSE_WEIGHT, fuse
from tests.support.retrieval.events import event

SCORES = st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 1.3))


@settings(deadline=None)
@given(SCORES, SCORES)
def test_every_event_of_either_ranking_comes_once_and_in_order(
    words: dict[str, float], near: dict[str, float]
) -> None:
    fused = fuse(words, near)
    assert sorted(key for key, _ in fused) == sorted(words.keys() | near.keys())
    scores = [score for _, score in fused]
    assert scores == sorted(scores, reverse=True)


def test_words_lead_where_they_are_there_and_meaning_where_they_are_not() -> None:
    assert [key for key, _ in fuse({"said": 0.9, "meant": 0.1}, {"meant": 0.8, "said": 0.2})] == [
        "said",
        "meant",
    ]
    assert [key for key, _ in fuse({}, {"far": 0.1, "near": 0.3})] == ["near", "far"]
    assert fuse({}, {"only": 0.2})[0][1] <= DENSE_WEIGHT


@settings(deadline=None)
@given(st.lists(st.integers(1, 30), unique=True, max_size=12), st.integers(0, 12))
def test_a_shelf_is_the_same_whether_filled_at_once_or_in_two_steps(numbers: list[int], cut: int) -> None:
    events = [event(number, f"灯塔 {number}") for number in numbers]
    whole, grown = EventCollection(events), EventCollection(events[:cut]).with_events(events[cut:])
    assert whole.events == grown.events
    assert whole.numbers == grown.numbers
    assert whole.lexical.search("灯塔 7", 9) == grown.lexical.search("灯塔 7", 9)


def test_a_replaced_event_is_found_by_its_new_words_only() -> None:
    shelf = EventCollection([event(1, "灯塔"), event(2, "海")]).with_events([event(1, "地图")])
    assert [one.text for one in shelf.events] == ["地图", "海"]
    assert not shelf.lexical.search("灯塔", 5).matches
