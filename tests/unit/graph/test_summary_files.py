"""Files of a summary: what an undo keeps, and what the library is rebuilt from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from graph.summarize import stream_summary
from personalab.operations.instances import new_instance
from personalab.operations.reindex import reindex
from personalab.operations.summaries import undo_summary
from personalab.services import Services
from personalab.story.recall import RecallQuery
from personalab.testing.scripted import ScriptedModel
from tests.support.graph.turns import say
from tests.support.graph.worked_example import lay_out

pytestmark = pytest.mark.anyio
Answer = Callable[..., ScriptedModel]


def _answer() -> str:
    told = [
        {"summary": f"{text}。", "plot": f"{text}的详细经过。", "turns": [first, last]}
        for text, first, last in (("他们立下约定", 1, 12), ("他们潜入了据点", 13, 38))
    ]
    return json.dumps({"points": told}, ensure_ascii=False)


async def _summarize(services: Services) -> str:
    status = ""
    async for part in stream_summary(services, {"instance_id": "inst_001"}):
        status = str(part.get("status", status))
    return status


async def test_rebuilt_library_has_the_points_of_the_summary(
    services: Services, root: Path, answer_with: Answer
) -> None:
    lay_out(root)
    answer_with(_answer())
    assert await _summarize(services) == "done"
    query = RecallQuery("潜入据点", ("summary", "plot"), 5, "inst_001")
    before = {hit.event.event_id: hit.event for hit in await services.library.search(query)}
    assert "plot_inst_001_sess_003_2" in before
    await reindex(services)
    assert {hit.event.event_id: hit.event for hit in await services.library.search(query)} == before


async def test_undone_session_is_kept_beside_the_others(
    services: Services, root: Path, answer_with: Answer
) -> None:
    lay_out(root)
    answer_with(_answer(), "后来的话。", _answer())
    await _summarize(services)
    await say(services, "接着说")
    undone = await undo_summary(services, "inst_001")
    kept = root / "instances" / "inst_001" / "sessions" / "sess_004.jsonl.aside1"
    assert undone.aside == kept.relative_to(root).as_posix()
    assert "后来的话。" in kept.read_text(encoding="utf-8")
    await _summarize(services)
    assert kept.exists()


async def test_rehearsal_summarizes_in_the_language_of_the_character(services: Services) -> None:
    await new_instance(services, "char_maren", "bg_lighthouse", "inst_001")
    for number in range(7):
        await say(services, f"hello {number}")
    assert await _summarize(services) == "done"
