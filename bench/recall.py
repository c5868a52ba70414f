"""Quality and speed of event recall in small and large libraries.

The question sets are given by path (``--data PATH`` or ``PERSONALAB_BENCH_DATA``) and never copied. The
library of 100,000 events takes minutes to write and is kept in ``bench/results`` for the next run.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.recall_sets import Question, Talk, chinese_talks, english_talks, found_in
from bench.table import Figure, median
from personalab.retrieval.embedders import VECTORS, open_embedder
from personalab.retrieval.library import ChromaLibrary
from personalab.story.recall import CONFIDENT, Hit, RecallQuery, StoryEvent, extract_query

HERE = Path(__file__).resolve().parent
FEW, MANY = 1_000, 100_000
SESSION = 200
CUTS = (1, 3, 5, 10)
SMALL_TALK = (
    "你好", "继续", "好的", "嗯嗯，然后呢？", "谢谢你", "哈哈哈", "我们走吧",
    "Go on.", "Hello!", "That's great!", "Okay, thanks", "Let's go.",
)  # fmt: skip


def figures() -> list[Figure]:
    """Measure speed, then recall where the sets are."""
    return [*asyncio.run(_speed()), *asyncio.run(_recall(_data()))]


def _data() -> Path | None:
    given = os.environ.get("PERSONALAB_BENCH_DATA")
    if "--data" in sys.argv:
        given = sys.argv[sys.argv.index("--data") + 1]
    folder = Path(given) if given else HERE.parent.parent / "shared" / "bench-data"
    return folder if found_in(folder) else None


def _library(folder: Path) -> ChromaLibrary:
    return ChromaLibrary(folder, lambda: open_embedder("offline", api_key=None, base_url=None))


# --- how fast


class _Writer:
    """Writes talk of words as common as they are in life (Zipf), two Chinese turns to an English one."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._chinese = (VECTORS / "zh.words.txt").read_text(encoding="utf-8").split("\n")
        pieces = (VECTORS / "en.words.txt").read_text(encoding="utf-8").split("\n")
        self._english = [word for word in pieces if word.isalpha()]

    def _words(self, known: Sequence[str], count: int) -> list[str]:
        ranks = np.exp(self._random.random(count) * np.log(len(known)))
        return [known[int(rank) - 1] for rank in ranks]

    def turn(self, number: int) -> str:
        if number % 3 == 2:
            return " ".join(self._words(self._english, 40))
        words = self._words(self._chinese, 45)
        return "，".join("".join(words[at : at + 8]) for at in range(0, len(words), 8))

    def question(self, text: str) -> str:
        """Ask with a piece of a turn."""
        words = text.split()
        if len(words) > 1:
            return " ".join(words[5:12])
        start = int(self._random.integers(0, len(text) - 16))
        return text[start : start + 16]


def _made_events(count: int, writer: _Writer) -> list[StoryEvent]:
    events: list[StoryEvent] = []
    for at in range(count):
        day = f"2025-{at // 9_000 % 12 + 1:02}-{at // 300 % 28 + 1:02}"
        events.append(_turn("big", f"sess_{at // SESSION + 1:03}", at % SESSION + 1, writer.turn(at), day))
    return events


def _turn(instance_id: str, session_id: str, index: int, text: str, day: str) -> StoryEvent:
    return StoryEvent(
        event_id=f"turn_{instance_id}_{session_id}_{index}",
        kind="turn",
        text=text,
        instance_id=instance_id,
        session_id=session_id,
        index=index,
        character_id="char",
        first_turn=index,
        last_turn=index,
        timestamp=f"{day}T12:00:00Z",
    )


async def _written(folder: Path, events: Sequence[StoryEvent]) -> float:
    """Write a library, unless an earlier run left it; return the events a second."""
    done = folder / "complete"
    if done.is_file() and (await _library(folder).state()).status == "ready":
        return float(done.read_text(encoding="utf-8"))
    shutil.rmtree(folder, ignore_errors=True)
    library = _library(folder)
    await library.write(events[:1])
    start = time.perf_counter()
    for at in range(0, len(events), 2_000):
        await library.write(events[at : at + 2_000])
    rate = len(events) / (time.perf_counter() - start)
    done.write_text(str(rate), encoding="utf-8")
    return rate


async def _queried(folder: Path, events: Sequence[StoryEvent], writer: _Writer) -> float:
    """Return the median time of a whole search, in milliseconds."""
    library = _library(folder)
    dice = random.Random(7)
    times: list[float] = []
    for round_ in range(120):
        search = RecallQuery(writer.question(dice.choice(events).text), ("turn",), 20, "big")
        start = time.perf_counter()
        hits = await library.search(search)
        if round_ >= 20:
            times.append(time.perf_counter() - start)
        assert hits
    return median(times) * 1e3


async def _speed() -> list[Figure]:
    writer = _Writer(1)
    many = _made_events(MANY, writer)
    with tempfile.TemporaryDirectory() as folder:
        few_rate = await _written(Path(folder) / "few", many[:FEW])
        empty = _library(Path(folder) / "none")
        few = await _queried(Path(folder) / "few", many[:FEW], writer)
        start = time.perf_counter()
        for _ in range(1_000):
            await empty.search(RecallQuery("灯塔", ("turn",), 5, "big"))
        nothing = (time.perf_counter() - start) * 1e3
    kept = HERE / "results" / "library-100000"
    rate = await _written(kept, many)
    opened = time.perf_counter()
    await _library(kept).search(RecallQuery("灯塔", ("turn",), 20, "big"))
    opened = time.perf_counter() - opened
    lots = await _queried(kept, many, writer)
    return [
        Figure("search of an empty library", nothing, "µs", at_most=50),
        Figure("search p50, 100,000 events / 1,000", lots / few, at_most=3, note=f"{few:.2f} ms at 1,000"),
        Figure(
            "search p50, 100,000 events", lots, "ms", at_most=15, note=f"reading the index: {opened:.0f} s"
        ),
        Figure("write, 1,000 events", few_rate, "events/s"),
        Figure("write, 100,000 events of an instance", rate, "events/s", note="when it was made"),
    ]


# --- how well


async def _recall(folder: Path | None) -> list[Figure]:
    if folder is None:
        return [Figure("recall: left out, no sets", 0, "", note="give --data PATH or PERSONALAB_BENCH_DATA")]
    chinese = await _measured(list(chinese_talks(folder)))
    english = await _measured(list(english_talks(folder)))
    goals = {("zh", 3): 0.95, ("zh", 5): 0.97, ("en", 5): 0.64, ("en", 10): 0.75}
    shown: list[Figure] = []
    for language, measured in (("zh", chinese), ("en", english)):
        for ranking in ("words", "meaning", "fused"):
            for cut in CUTS:
                goal = goals.get((language, cut)) if ranking == "fused" else None
                value = measured[f"{ranking}@{cut}"]
                shown.append(Figure(f"{language} R@{cut}, {ranking}", value, "", at_least=goal))
        shown += [
            Figure(f"{language} search p50", measured["ms"], "ms", note=f"{measured['count']:.0f} questions"),
            Figure(f"{language} questions with a confident right hit", measured["sure"], ""),
            Figure(f"{language} questions with any confident hit", measured["any"], ""),
            Figure(f"{language} ordinary lines with a confident hit", measured["chat"], ""),
            Figure(f"{language} small talk with a confident hit", measured["small"], "", at_most=0),
        ]
    return shown


async def _measured(talks: list[Talk]) -> dict[str, float]:
    rows: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        library = _library(Path(folder))
        for talk in talks:
            await library.write(_events(talk))
        for talk in talks:
            await _ask(library, talk, rows)
            await _chat(library, talk, rows)
    times = rows.pop("ms")
    means = {name: float(np.mean(values)) for name, values in rows.items()}
    return {**means, "ms": median(times), "count": len(times)}


def _events(talk: Talk) -> list[StoryEvent]:
    return [_turn(talk.name, turn.session_id, turn.index, turn.text, turn.day) for turn in talk.turns]


async def _ask(library: ChromaLibrary, talk: Talk, rows: dict[str, list[float]]) -> None:
    keys = {turn.key: f"turn_{talk.name}_{turn.session_id}_{turn.index}" for turn in talk.turns}
    for question in talk.questions:
        gold = {keys[key] for key in question.gold}
        start = time.perf_counter()
        await library.search(RecallQuery(question.text, ("turn",), 20, talk.name))
        rows.setdefault("ms", []).append((time.perf_counter() - start) * 1e3)
        hits = await library.search(RecallQuery(question.text, ("turn",), 200, talk.name))
        found = [hit for hit in hits if hit.event.event_id in gold]
        ranks = {
            "words": [hit.lexical_rank for hit in found],
            "meaning": [hit.dense_rank for hit in found],
            "fused": _worst_places(hits, found),
        }
        for ranking, places in ranks.items():
            for cut in CUTS:
                rows.setdefault(f"{ranking}@{cut}", []).append(_recalled(question, places, cut))
        sure = _sure(await library.search(RecallQuery(extract_query(question.text), ("turn",), 5, talk.name)))
        rows.setdefault("any", []).append(float(bool(sure)))
        rows.setdefault("sure", []).append(float(any(hit.event.event_id in gold for hit in sure)))


def _worst_places(hits: Sequence[Hit], found: Sequence[Hit]) -> list[int | None]:
    """Return the places of what was sought, the worst possible among equals."""
    others = [hit.score for hit in hits if hit not in found]
    return [sum(score >= hit.score for score in others) + at for at, hit in enumerate(found, start=1)]


def _recalled(question: Question, places: Sequence[int | None], cut: int) -> float:
    hits = sum(place is not None and place <= cut for place in places)
    return float(hits > 0) if question.any_will_do else hits / len(question.gold)


def _sure(hits: Sequence[Hit]) -> list[Hit]:
    return [hit for hit in hits if hit.confidence >= CONFIDENT]


async def _chat(library: ChromaLibrary, talk: Talk, rows: dict[str, list[float]]) -> None:
    """Say lines of the later half again, each against a library that holds only the sessions before it."""
    ordered = sorted(talk.turns, key=lambda turn: (turn.session_id, turn.index))
    half = range(len(ordered) // 2, len(ordered))
    picked = sorted(random.Random(1).sample(half, min(40, len(half))))
    written = 0
    with tempfile.TemporaryDirectory() as folder:
        before = _library(Path(folder))
        for line in (ordered[at] for at in picked):
            earlier = [turn for turn in ordered if turn.session_id < line.session_id]
            await before.write(_events(Talk(talk.name, earlier[written:], [])))
            written = len(earlier)
            hits = await before.search(RecallQuery(extract_query(line.said), ("turn",), 5, talk.name))
            rows.setdefault("chat", []).append(float(bool(_sure(hits))))
    for line in SMALL_TALK:
        hits = await library.search(RecallQuery(extract_query(line), ("turn",), 5, talk.name))
        rows.setdefault("small", []).append(float(bool(_sure(hits))))
