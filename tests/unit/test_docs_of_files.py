"""What the documentation shows of prompts and files is what the program writes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from graph.summarize import stream_summary
from personalab.config import FIELDS
from personalab.services import Services
from personalab.testing.scripted import ScriptedModel, ScriptedReply
from tests.support.graph.turns import lines, say

DOCS = Path(__file__).resolve().parents[2] / "docs"
HEADING = re.compile(r"=== [^=\n]+ ===")
pytestmark = pytest.mark.anyio


def test_memory_shows_the_headings_of_the_prompt_in_their_order(services: Services) -> None:
    templates, _ = services.preferences.templates("zh")
    order = (
        *("base_persona", "evolved_persona", "player_memory", "background", "story_outline"),
        *("progress_instruction", "director_reminder", "recalled_events", "conversation"),
    )
    shown = HEADING.findall((DOCS / "memory.md").read_text(encoding="utf-8"))
    real = [found[0] for name in order if (found := HEADING.search(templates[name]))]
    assert [heading for heading in shown if re.search("[\u4e00-\u9fff]", heading)] == real


async def test_files_names_every_field_that_a_summary_and_a_character_have(
    services: Services, instance: str, answer_with: Callable[..., ScriptedModel]
) -> None:
    point = {"summary": "他们见面了。", "plot": "他们见面了。", "turns": [1, 1]}
    answer_with("好。", json.dumps({"points": [point]}, ensure_ascii=False))
    await say(services, "你好")
    assert [dict(part) async for part in stream_summary(services, {"instance_id": instance})][-1][
        "status"
    ] == "done"
    told = (DOCS / "files.md").read_text(encoding="utf-8")
    summary = next(row for row in lines(services, session_id="sess_002") if row.get("type") == "summary")
    example = next(json.loads(row) for row in told.splitlines() if row.startswith('{"type":"summary"'))
    assert summary.keys() == example.keys()
    state = json.loads((services.stories.instances / instance / "character_state.json").read_bytes())
    (row,) = (row for row in told.splitlines() if "character_state.json`" in row and row.startswith("|"))
    assert [name for name in state if f"`{name}`" not in row] == []


async def test_files_shows_every_field_of_a_reply_and_every_setting(
    services: Services, instance: str, answer_with: Callable[..., ScriptedModel]
) -> None:
    answer_with(ScriptedReply(("好。",), reasoning=("嗯",), truncated=True))
    await say(services, "走吧")
    told = (DOCS / "files.md").read_text(encoding="utf-8")
    examples = [json.loads(row) for row in told.splitlines() if row.startswith('{"role":"assistant"')]
    assert lines(services)[-1].keys() == examples[-1].keys()
    rows = re.findall(r"^\| `(\w+\.\w+)` \| *`?([^`|]*?)`? *\|", told, re.MULTILINE)
    assert rows == [(name, str(rule.default).lower()) for name, rule in FIELDS.items()]


@pytest.mark.parametrize("name", ["glossary.md", "glossary.zh-CN.md"])
def test_glossary_names_existing_files(name: str) -> None:
    rows = [row for row in (DOCS / name).read_text(encoding="utf-8").splitlines() if row.startswith("|")]
    named = {path for row in rows for path in re.findall(r"`([\w/]+/(?:\w+\.\w+)?)`", row)}
    assert named
    assert [path for path in sorted(named) if not (DOCS.parent / path).exists()] == []


def test_glossaries_have_the_same_words() -> None:
    def files(name: str) -> list[list[str]]:
        rows = (DOCS / name).read_text(encoding="utf-8").splitlines()
        return [re.findall(r"`([\w/]+/[\w.]*)`", row) for row in rows if row.startswith("|")]

    assert files("glossary.md") == files("glossary.zh-CN.md")
