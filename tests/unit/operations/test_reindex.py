"""Tests that an index rebuilt from the files answers like the original one."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from personalab.operations.reindex import reindex, session_events
from personalab.services import Services, open_services
from personalab.story.recall import RecallQuery

pytestmark = pytest.mark.anyio

SAID = [
    ("我把灯塔的钥匙藏在旧船底下。", "我记住了，旧船底下。"),
    ("明天去哪里？", "去北边的码头，找老船长。"),
    ("The storm broke the old mast.", "We will need a new one."),
    ("你最喜欢的乐器是什么？", "大提琴，像海的声音。"),
]
QUESTIONS = [
    "钥匙藏在哪里",
    "老船长在哪个码头",
    "what broke the mast",
    "喜欢的乐器",
    "2025年10月16日",
    "雨夜的背叛",
]


def lines(*, first_day: int = 16) -> list[dict[str, object]]:
    told: list[dict[str, object]] = []
    for turn, (asked, answered) in enumerate(SAID, start=1):
        stamp = f"2025-10-{first_day:02}T10:3{turn}:00Z"
        told.append({"role": "user", "content": asked, "turn": turn, "timestamp": stamp})
        told.append({"role": "assistant", "content": answered, "turn": turn, "timestamp": stamp})
    return told


def write_session(path: Path, rows: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def story(services: Services, instance: str) -> str:
    """A story of two sessions, the second begun with a summary of the first."""
    folder = services.settings.data_root / "instances" / instance / "sessions"
    write_session(folder / "sess_001.jsonl", lines())
    metadata: dict[str, object] = {
        "type": "metadata",
        "instance_id": instance,
        "session_id": "sess_002",
        "created_at": "2025-10-20T10:00:00Z",
        "continued_from": "sess_001",
    }
    summary: dict[str, object] = {
        "type": "summary",
        "content": "雨夜里，同伴背叛了主角。",
        "plot": "那个雨夜，同伴带走了地图。",
        "turns": [1, 3],
    }
    write_session(folder / "sess_002.jsonl", [metadata, summary, *lines(first_day=20)])
    state = services.stories.instance(instance)
    services.stories.save_instance(replace(state, current_session_id="sess_002"))
    return instance


async def answers(services: Services, instance: str) -> list[list[tuple[str, float, str]]]:
    found: list[list[tuple[str, float, str]]] = []
    for question in QUESTIONS:
        hits = await services.library.search(RecallQuery(question, ("summary", "plot", "turn"), 20, instance))
        found.append([(hit.event.event_id, round(hit.score, 4), hit.event.text) for hit in hits])
    return found


async def test_an_index_from_files_alone_answers_as_the_one_written_at_first(
    services: Services, story: str
) -> None:
    state = services.stories.instance(story)
    for session_id in services.stories.session_ids(story):
        for event in session_events(services, state, session_id):
            await services.library.write([event])
    at_first = await answers(services, story)
    assert all(at_first)
    rebuilt = await reindex(services)
    assert rebuilt.counts == {"summary": 1, "plot": 1, "turn": 8, "memory": 0}
    assert rebuilt.skipped == []
    assert await answers(services, story) == at_first
    elsewhere = open_services(services.settings)
    assert await answers(elsewhere, story) == at_first


async def test_a_summary_belongs_to_the_session_it_tells_of(services: Services, story: str) -> None:
    await reindex(services)
    hits = await services.library.search(RecallQuery("雨夜的背叛", ("summary",), 5, story))
    event = hits[0].event
    assert (event.event_id, event.related_id) == (f"summary_{story}_sess_001_1", f"plot_{story}_sess_001_1")
    assert (event.first_turn, event.last_turn) == (1, 3)


async def test_progress_is_told_for_each_story_and_at_the_end(services: Services, story: str) -> None:
    told: list[tuple[int, int, str]] = []
    await reindex(services, lambda done, total, name: told.append((done, total, name)))
    assert told == [(0, 1, story), (1, 1, "")]


async def test_a_file_that_cannot_be_read_is_listed_and_the_rest_is_indexed(
    services: Services, story: str
) -> None:
    folder = services.settings.data_root / "instances" / story / "sessions"
    (folder / "sess_001.jsonl").write_bytes(b"\xff\xfe no text\n{}\n")
    rebuilt = await reindex(services)
    assert [error.code for error in rebuilt.skipped]
    assert rebuilt.counts["turn"] == 4


async def test_turns_that_no_index_can_hold_cost_no_more_than_their_line(
    services: Services, story: str
) -> None:
    folder = services.settings.data_root / "instances" / story / "sessions"
    points = [{"summary": "雨夜", "plot": "地图", "turns": [1, 10**30]}]
    (folder / "sess_002.plots.json").write_text(json.dumps({"points": points}), encoding="utf-8")
    rebuilt = await reindex(services)
    assert rebuilt.skipped == []
    hits = await services.library.search(RecallQuery("雨夜", ("summary",), 5, story))
    assert (hits[0].event.first_turn, hits[0].event.last_turn) == (0, 0)
    write_session(folder / "sess_001.jsonl", [{**row, "turn": 10**30} for row in lines()])
    rebuilt = await reindex(services)
    assert [error.code for error in rebuilt.skipped] == ["line_broken"]
    assert "turn is greater than" in str(rebuilt.skipped[0])
    assert rebuilt.counts["turn"] == 4


async def test_a_time_that_is_no_text_is_indexed_as_far_as_it_is(services: Services, story: str) -> None:
    folder = services.settings.data_root / "instances" / story / "sessions"
    write_session(folder / "sess_001.jsonl", [{**row, "timestamp": "\ud800"} for row in lines()])
    rebuilt = await reindex(services)
    assert (rebuilt.skipped, rebuilt.counts["turn"]) == ([], 8)


async def test_a_story_that_no_index_can_hold_is_listed_and_the_others_are_indexed(
    services: Services, story: str
) -> None:
    folder = services.settings.data_root / "instances" / story
    other = folder.with_name("inst_000")
    shutil.copytree(folder, other)
    state = json.loads((other / "instance_state.json").read_text(encoding="utf-8"))
    (other / "instance_state.json").write_text(
        json.dumps({**state, "instance_id": "inst_000", "background_id": "\ud800"}), encoding="utf-8"
    )
    rebuilt = await reindex(services)
    assert [(error.code, error.params["instance_id"]) for error in rebuilt.skipped] == [
        ("story_not_indexed", "inst_000")
    ]
    assert all(await answers(services, story))


async def test_a_broken_or_foreign_index_is_replaced(services: Services, story: str) -> None:
    await reindex(services)
    folder = services.settings.data_root / "event_library"
    (folder / "chroma_db" / "chroma.sqlite3").write_bytes(b"no database")
    catalogue = json.loads((folder / "catalogue.json").read_text(encoding="utf-8"))
    (folder / "catalogue.json").write_text(json.dumps({**catalogue, "embedder": "x"}), encoding="utf-8")
    again = open_services(replace(services.settings))
    assert (await again.library.state()).status in ("other_embedder", "unreadable")
    await reindex(again)
    assert (await again.library.state()).status == "ready"
    assert (await answers(again, story))[0]
