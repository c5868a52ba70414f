"""Recall leaves out what the prompt already says, and whatever has no evidence."""

from __future__ import annotations

import asyncio
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from graph.preview import Preview, preview_prompt
from graph.summarize import stream_summary
from personalab.operations.instances import new_instance
from personalab.services import Services, open_services
from personalab.settings import read_settings
from personalab.testing.in_memory import InMemoryLibrary
from personalab.testing.scripted import ScriptedModel
from tests.support.graph.turns import lines, say

STORY = "inst_001"
WORDS = ("灯塔", "怀表", "旧码头", "Victor", "地图", "雨夜")


@dataclass(frozen=True)
class Chapter:
    """Turns of one session, and how many of them the summary at its end carries over."""

    said: tuple[tuple[str, str], ...]
    kept: int


def _points(last: int, text: str) -> str:
    point = {"summary": f"他们谈到{text}。", "plot": f"他们谈到{text}的经过。", "turns": [last, last]}
    return json.dumps({"points": [point]}, ensure_ascii=False)


def _services(root: Path) -> Services:
    made = open_services(read_settings({"PERSONALAB_DATA": str(root)}))
    ticks = iter(range(10_000))
    made.now = lambda: f"2025-10-16T10:{(tick := next(ticks)) // 60 % 60:02}:{tick % 60:02}Z"
    return made


async def _play(services: Services, chapters: tuple[Chapter, ...]) -> None:
    """Play every chapter; each but the last ends with a summary."""
    await new_instance(services, "char_alserqi", None, STORY)
    for place, chapter in enumerate(chapters, start=1):
        if chapter.kept:
            services.preferences.change({"summary_last_n_turns": chapter.kept})
        replies = [answer for _, answer in chapter.said]
        services.models["rehearsal"] = ScriptedModel(replies)
        for said, _ in chapter.said:
            await say(services, said)
        if place == len(chapters):
            return
        state = services.stories.instance(STORY)
        last = services.stories.session(STORY, state.current_session_id).transcript.next_turn - 1
        services.models["rehearsal"] = ScriptedModel([_points(last, chapter.said[-1][0])])
        results = [part async for part in stream_summary(services, {"instance_id": STORY})]
        assert dict(results[-1])["status"] == "done"


async def _asked(services: Services, about: str) -> Preview:
    return await preview_prompt(services, STORY, f"你还记得{about}吗？")


def _check(services: Services, found: Preview) -> None:
    """Compare what was recalled with what the conversation in the prompt says."""
    session_id = services.stories.instance(STORY).current_session_id
    told: dict[int, list[str]] = {}
    for line in lines(services, STORY, session_id)[1:]:
        told.setdefault(line.get("turn", 0), []).append(line["content"])
    in_prompt = [said for turn, said in told.items() if not turn or turn >= found.prompt.first_turn]
    texts = {text for said in in_prompt for text in (*said, "\n".join(said))}
    for item in found.recalled:
        assert item["confidence"] > 0, item
        assert item["reason"], item
        recalled = item["text"].partition("）：")[2] if item["kind"] == "turn" else item["text"]
        assert recalled not in texts, item


_LINES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map("和".join)
_CHAPTERS = st.lists(
    st.builds(
        Chapter,
        st.lists(st.tuples(_LINES, _LINES), min_size=1, max_size=6).map(tuple),
        st.integers(1, 4),
    ),
    min_size=1,
    max_size=3,
).map(tuple)


@settings(max_examples=25)
@given(_CHAPTERS, st.sampled_from(WORDS), st.booleans())
@example((Chapter((("灯塔", "怀表"), ("旧码头", "地图")), 2), Chapter((("雨夜", "灯塔"),), 1)), "灯塔", False)
def test_recall_never_repeats_the_prompt(chapters: tuple[Chapter, ...], about: str, windowed: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        services = _services(Path(folder) / "data")
        services.__dict__["library"] = InMemoryLibrary()
        if windowed:
            services.preferences.change({"conversation_load_all": False, "conversation_max_tokens": 1_000})

        async def run() -> Preview:
            await _play(services, chapters)
            return await _asked(services, about)

        _check(services, asyncio.run(run()))


def test_kept_turns_are_not_recalled_from_the_real_library(tmp_path: Path) -> None:
    chapters = (
        Chapter(tuple((f"{word}在哪里？", f"{word}在山上。") for word in WORDS), 3),
        Chapter((("我们走吧。", "好。"),), 2),
        Chapter((("到了。", "嗯。"),), 0),
    )
    services = _services(tmp_path / "story")

    async def run() -> dict[str, Preview]:
        await _play(services, chapters)
        return {word: await _asked(services, word) for word in WORDS}

    for word, found in asyncio.run(run()).items():
        _check(services, found)
        turns = [item["text"] for item in found.recalled if item["kind"] == "turn"]
        in_prompt = f"User: {word}在哪里？" in found.prompt.text()
        assert any(f"{word}在哪里？" in text for text in turns) != in_prompt


def test_a_question_about_nothing_in_the_story_recalls_no_filler(tmp_path: Path) -> None:
    said = [("今天的雨真大。", "雨声能盖住脚步声。"), ("小心台阶。", "我看见了。"), ("你饿吗？", "还好。")]
    services = _services(tmp_path / "story")

    async def run() -> Preview:
        await _play(services, (Chapter(tuple(said * 4), 1), Chapter((("走吧。", "好。"),), 0)))
        return await _asked(services, "妹妹喜欢的颜色")

    assert asyncio.run(run()).recalled == []
