"""Conformance tests of event libraries: one suite for the real one and the fake."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from personalab.ports import EventLibrary
from personalab.story.recall import RecallQuery
from personalab.testing.in_memory import InMemoryLibrary
from tests.support.retrieval.events import event, looking, open_library

pytestmark = pytest.mark.anyio

KEY = "我把灯塔的钥匙藏在旧船底下"
MAP = "老船长的地图画在羊皮上"
WALK = "傍晚我们沿着沙滩散步"


@pytest.fixture(params=["in_memory", "chroma"])
def library(request: pytest.FixtureRequest, tmp_path: Path) -> EventLibrary:
    """Each library in turn."""
    made: dict[str, Callable[[], EventLibrary]] = {
        "in_memory": InMemoryLibrary,
        "chroma": lambda: open_library(tmp_path / "event_library"),
    }
    return made[request.param]()


async def found(library: EventLibrary, search: RecallQuery) -> list[str]:
    return [hit.event.event_id for hit in await library.search(search)]


async def test_an_empty_library_finds_nothing_and_says_so(library: EventLibrary) -> None:
    assert await library.search(looking("灯塔")) == []
    assert await library.missing("inst_001", ["a", "b"]) == ["a", "b"]
    assert (await library.state()).status == "empty"
    await library.remove("inst_001")


async def test_what_was_written_is_found_unchanged_with_the_best_first(library: EventLibrary) -> None:
    written = [event(1, KEY), event(2, WALK), event(3, MAP)]
    await library.write(written)
    hits = await library.search(looking("灯塔的钥匙"))
    assert hits[0].event == written[0]
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(0 <= hit.confidence <= 1 for hit in hits)
    assert hits[0].lexical_rank == 1
    assert hits[0].matched


async def test_writing_nothing_is_harmless(library: EventLibrary) -> None:
    await library.write([])
    assert (await library.state()).status == "empty"


async def test_the_same_id_replaces_an_event(library: EventLibrary) -> None:
    await library.write([event(1, KEY), event(2, WALK)])
    await library.write([event(1, MAP)])
    hits = await library.search(looking("羊皮地图"))
    assert hits[0].event.text == MAP
    assert (await library.state()).counts["turn"] == 2


async def test_an_event_given_twice_in_one_write_is_kept_once(library: EventLibrary) -> None:
    await library.write([event(1, KEY), event(1, MAP)])
    assert (await library.state()).counts["turn"] == 1
    assert (await library.search(looking("羊皮地图")))[0].event.text == MAP


async def test_a_search_sees_only_the_kinds_it_asks_for(library: EventLibrary) -> None:
    await library.write([event(1, KEY), event(1, KEY, kind="summary"), event(1, KEY, kind="plot")])
    assert await found(library, looking("灯塔", "summary")) == ["summary_inst_001_sess_001_1"]
    assert await found(library, looking("灯塔", "plot")) == ["plot_inst_001_sess_001_1"]
    assert set(await found(library, looking("灯塔", "summary", "turn"))) == {
        "summary_inst_001_sess_001_1",
        "turn_inst_001_sess_001_1",
    }


async def test_a_search_keeps_to_its_limit(library: EventLibrary) -> None:
    await library.write([event(n, f"灯塔 {n}") for n in range(1, 9)])
    assert len(await library.search(looking("灯塔", limit=3))) == 3


async def test_instances_do_not_see_each_other(library: EventLibrary) -> None:
    await library.write([event(1, KEY), event(1, KEY, instance="inst_002")])
    assert await found(library, looking("灯塔")) == ["turn_inst_001_sess_001_1"]


async def test_others_are_all_instances_but_ones_own(library: EventLibrary) -> None:
    names = ["inst_001", "inst_002", "inst_003"]
    await library.write([event(1, KEY, kind="summary", instance=name) for name in names])
    search = replace(looking("灯塔", "summary"), others=True)
    assert {hit.event.instance_id for hit in await library.search(search)} == {"inst_002", "inst_003"}


async def test_others_can_be_narrowed_to_a_character_and_a_background(library: EventLibrary) -> None:
    await library.write(
        [
            event(1, KEY, kind="summary", instance="inst_002"),
            event(1, KEY, kind="summary", instance="inst_003", character="char_b"),
            event(1, KEY, kind="summary", instance="inst_004", background=""),
            event(2, KEY, kind="summary", instance="inst_004"),
        ]
    )
    search = replace(looking("灯塔", "summary"), others=True, character_id="char_a", background_id="bg_a")
    assert set(await found(library, search)) == {"summary_inst_002_sess_001_1", "summary_inst_004_sess_001_2"}
    bare = replace(search, background_id="")
    assert await found(library, bare) == ["summary_inst_004_sess_001_1"]


async def test_the_background_narrows_ones_own_events_too(library: EventLibrary) -> None:
    await library.write([event(1, KEY, kind="summary"), event(2, KEY, kind="summary", background="bg_b")])
    search = replace(looking("灯塔", "summary"), character_id="char_a", background_id="bg_b")
    assert await found(library, search) == ["summary_inst_001_sess_001_2"]


async def test_turns_that_stand_in_the_prompt_are_left_out(library: EventLibrary) -> None:
    await library.write([event(n, f"灯塔 {n}") for n in range(1, 5)] + [event(9, KEY, session="sess_000")])
    search = replace(looking("灯塔"), skip_session="sess_001", skip_from=3)
    assert set(await found(library, search)) == {
        "turn_inst_001_sess_000_9",
        "turn_inst_001_sess_001_1",
        "turn_inst_001_sess_001_2",
    }
    everything = replace(search, skip_from=0)
    assert await found(library, everything) == ["turn_inst_001_sess_000_9"]


async def test_texts_in_the_prompt_are_left_out_of_every_session(library: EventLibrary) -> None:
    broken = "灯塔 \ud800"
    await library.write(
        [event(n, "灯塔 1", session=session) for n, session in enumerate(("sess_001", "sess_002"), 1)]
        + [event(3, "灯塔 3"), event(4, broken), event(5, "灯塔 1", kind="summary")]
    )
    search = replace(looking("灯塔", "turn", "summary"), in_prompt=frozenset({"灯塔 1", broken, "elsewhere"}))
    assert await found(library, search) == ["turn_inst_001_sess_001_3"]


async def test_a_summary_of_the_current_session_is_not_left_out(library: EventLibrary) -> None:
    await library.write([event(5, KEY, kind="summary")])
    search = replace(looking("灯塔", "summary"), skip_session="sess_001", skip_from=0)
    assert await found(library, search) == ["summary_inst_001_sess_001_5"]


async def test_missing_names_what_was_never_written_in_the_order_asked(library: EventLibrary) -> None:
    await library.write([event(1, KEY), event(1, KEY, kind="plot")])
    asked = ["z", "turn_inst_001_sess_001_1", "plot_inst_001_sess_001_1", "a"]
    assert await library.missing("inst_001", asked) == ["z", "a"]


async def test_a_session_can_be_forgotten(library: EventLibrary) -> None:
    await library.write([event(1, KEY), event(1, KEY, kind="summary"), event(1, KEY, session="sess_002")])
    await library.remove("inst_001", session_id="sess_001")
    assert await found(library, looking("灯塔", "turn", "summary")) == ["turn_inst_001_sess_002_1"]


async def test_some_kinds_of_a_session_can_be_forgotten(library: EventLibrary) -> None:
    await library.write([event(1, KEY), event(1, KEY, kind="summary"), event(1, KEY, kind="plot")])
    await library.remove("inst_001", session_id="sess_001", kinds=("summary", "plot"))
    assert await found(library, looking("灯塔", "turn", "summary", "plot")) == ["turn_inst_001_sess_001_1"]


async def test_an_instance_can_be_forgotten_and_written_again(library: EventLibrary) -> None:
    await library.write([event(1, KEY), event(1, KEY, instance="inst_002")])
    await library.remove("inst_001")
    assert await library.search(looking("灯塔")) == []
    assert await found(library, looking("灯塔", instance="inst_002")) == ["turn_inst_002_sess_001_1"]
    await library.write([event(1, KEY)])
    assert await found(library, looking("灯塔")) == ["turn_inst_001_sess_001_1"]


async def test_the_state_counts_each_kind(library: EventLibrary) -> None:
    told = [event(1, KEY, kind="summary"), event(1, KEY, kind="plot")]
    await library.write([event(1, KEY), event(2, WALK), *told])
    state = await library.state()
    assert (state.status, state.counts) == ("ready", {"summary": 1, "plot": 1, "turn": 2})


async def test_after_a_reset_the_library_is_empty_and_can_be_written(library: EventLibrary) -> None:
    await library.write([event(1, KEY)])
    await library.reset()
    assert await library.search(looking("灯塔")) == []
    assert (await library.state()).status == "empty"
    await library.write([event(1, MAP)])
    assert await found(library, looking("地图")) == ["turn_inst_001_sess_001_1"]
