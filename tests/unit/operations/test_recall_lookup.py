"""Tests of the event search on request."""

from __future__ import annotations

import pytest

from personalab.errors import NotFound, UserError
from personalab.operations.recall import look_up
from personalab.services import Services
from personalab.story.recall import Kind, StoryEvent
from personalab.testing.in_memory import InMemoryLibrary

pytestmark = pytest.mark.anyio


@pytest.fixture
def library(services: Services) -> InMemoryLibrary:
    """A library that remembers what it was asked."""
    services.__dict__["library"] = made = InMemoryLibrary()
    return made


def event(kind: Kind, text: str) -> StoryEvent:
    return StoryEvent(f"{kind}_x", kind, text, "inst_001", "sess_001", 1, "char_alserqi", "", 2, 3)


async def test_each_depth_searches_its_own_kind(
    services: Services, instance: str, library: InMemoryLibrary
) -> None:
    await library.write(
        [event("summary", "雨夜背叛"), event("plot", "雨夜背叛的经过"), event("turn", "那个雨夜")]
    )
    for depth, kind in (("summaries", "summary"), ("plots", "plot"), ("turns", "turn")):
        found = await look_up(services, instance, "雨夜", depth)  # pyright: ignore[reportArgumentType] (a Depth)
        assert [item["kind"] for item in found] == [kind]
        assert (found[0]["turns"], found[0]["session_id"]) == ([2, 3], "sess_001")


async def test_auto_searches_the_plots_when_details_are_asked_for(
    services: Services, instance: str, library: InMemoryLibrary
) -> None:
    await look_up(services, instance, "雨夜")
    await look_up(services, instance, "雨夜的详细过程")
    assert [search.kinds for search in library.searches] == [("summary", "turn"), ("plot", "turn")]


async def test_nothing_is_looked_up_without_words_or_a_story(
    services: Services, instance: str, library: InMemoryLibrary
) -> None:
    with pytest.raises(UserError):
        await look_up(services, instance, "  ")
    with pytest.raises(NotFound):
        await look_up(services, "inst_404", "雨夜")
    assert library.searches == []
