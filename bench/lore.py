"""The time that lorebooks add to a turn."""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from bench.table import Figure, median
from bench.turns import SENTENCE
from graph.preview import preview_prompt
from personalab.archive.books import read_book
from personalab.config import LoreModule
from personalab.operations.instances import new_instance
from personalab.providers.tokens import OfflineCounter
from personalab.retrieval.embedders import VECTORS
from personalab.services import Services, open_services
from personalab.settings import read_settings
from personalab.story.lore import Lorebook, activate
from personalab.story.macros import Names
from personalab.story.transcript import AssistantLine, UserLine, dump_line

NOW = "2025-10-16T10:30:00Z"
_TURNS = 60
_KEYS = 3


class _World:
    """A book of many entries, and messages that name a few of them."""

    def __init__(self, entries: int) -> None:
        self._chance = random.Random(entries)
        rows = (VECTORS / "zh.words.txt").read_text(encoding="utf-8").split("\n")
        self._words = [word for word in rows if len(word) >= 2][:40_000]
        self._keys = ["".join(self._chance.sample(self._words, 2)) for _ in range(entries * _KEYS)]
        self.data: dict[str, Any] = {
            "name": "world",
            "entries": [
                {
                    "id": number,
                    "keys": self._keys[number * _KEYS : (number + 1) * _KEYS],
                    "content": self._told(30),
                    "enabled": True,
                    "insertion_order": number % 100,
                    "constant": number % 500 == 0,
                    "extensions": {},
                }
                for number in range(entries)
            ],
        }

    def _told(self, words: int) -> str:
        return "".join(self._chance.choices(self._words, k=words))

    def message(self) -> str:
        """Say something that names three entries."""
        return "，".join(f"{self._told(20)}{key}" for key in self._chance.sample(self._keys, 3))


def figures() -> list[Figure]:
    """Measure it all."""
    rows = [row for entries in (1_000, 10_000) for row in _activated(entries)]
    return [*rows, _named(1_000), *asyncio.run(_previews())]


def _activated(entries: int) -> list[Figure]:
    world = _World(entries)
    start = time.perf_counter()
    book = read_book(world.data, "world")
    read = time.perf_counter() - start
    count = OfflineCounter().count
    count("warm")
    said = [world.message() for _ in range(40)]
    ours: list[float] = []
    naive: list[float] = []
    hits = 0
    for turn in range(_TURNS):
        said += [world.message(), world.message()]
        start = time.perf_counter()
        lore = activate(
            [book], said, module=LoreModule(enabled=True), count=count, turn=turn, fill=lambda text: text
        )
        ours.append(time.perf_counter() - start)
        hits += len(lore.hits)
        start = time.perf_counter()
        _searched(book, said[-4:])
        naive.append(time.perf_counter() - start)
    slowest = f"slowest {1e3 * max(ours):.1f} ms; {hits / _TURNS:.0f} entries called up"
    size = f"{entries:,} entries of {_KEYS} keys"
    return [
        Figure(
            f"lorebook of {size}, each turn, p50",
            1e3 * median(ours),
            "ms",
            5.0 if entries == 1_000 else None,
            note=slowest,
        ),
        Figure(f"the same / looking for each key by itself, {size}", median(ours) / median(naive), "×", 1.0),
        Figure(f"reading a lorebook of {size}, once", 1e3 * read, "ms"),
    ]


def _named(entries: int) -> Figure:
    """Measure a book whose every entry has a key with a placeholder, where what enters calls up others."""
    world = _World(entries)
    for row in world.data["entries"]:
        row["keys"].append(f"{{{{user}}}}的{row['keys'][0]}")
    book = read_book({**world.data, "recursive_scanning": True}, "world")
    count = OfflineCounter().count
    said = [world.message() for _ in range(40)]
    times: list[float] = []
    for turn in range(_TURNS):
        said += [world.message(), world.message()]
        start = time.perf_counter()
        activate(
            [book],
            said,
            module=LoreModule(enabled=True),
            count=count,
            turn=turn,
            fill=Names("艾莉", "小明").fill,
        )
        times.append(time.perf_counter() - start)
    return Figure(
        f"the same with a placeholder in a key of each of {entries:,} entries, p50",
        1e3 * median(times),
        "ms",
        5.0,
    )


def _searched(book: Lorebook, said: Sequence[str]) -> int:
    """Look for one key after the other, as a short program would."""
    folded = [text.casefold() for text in said]
    return sum(any(key.casefold() in text for text in folded for key in entry.keys) for entry in book.entries)


async def _previews() -> list[Figure]:
    """Look at the same turns of two stories by turns, one with a lorebook and one without."""
    world = _World(1_000)
    answers = [world.message() for _ in range(100)]
    times: dict[bool, list[float]] = {True: [], False: []}
    called = 0
    with tempfile.TemporaryDirectory() as folder:
        tales = {has_book: await _tale(f"{folder}/{has_book}", answers) for has_book in times}
        book = tales[True].stories.beside("characters", "char_alserqi", "lorebook.json")
        book.write_text(json.dumps(world.data, ensure_ascii=False), encoding="utf-8")
        await asyncio.sleep(0.1)
        for services in tales.values():
            await preview_prompt(services, "tale")
        for _ in range(_TURNS):
            text = world.message()
            for has_book, services in tales.items():
                start = time.perf_counter()
                found = await preview_prompt(services, "tale", text)
                times[has_book].append(time.perf_counter() - start)
                called += len(found.lore)
    added = 1e3 * (median(times[True]) - median(times[False]))
    note = f"{1e3 * median(times[False]):.1f} ms without; {called / _TURNS:.0f} entries called up"
    return [
        Figure("a lorebook of 1,000 entries adds to a preview of a turn, p50", added, "ms", 5.0, note=note)
    ]


async def _tale(root: str, answers: Sequence[str]) -> Services:
    services = open_services(read_settings({"PERSONALAB_DATA": root}))
    await new_instance(services, "char_alserqi", "bg_wasteland", "tale")
    with services.stories.session_path("tale", "sess_001").open("ab") as file:
        for number, answer in enumerate(answers, start=1):
            file.write(dump_line(UserLine(f"{number} {SENTENCE}", number, NOW)))
            file.write(dump_line(AssistantLine(answer, number, NOW)))
    switch = services.stories.root / "modules" / "lorebook.json"
    switch.write_text(json.dumps({"enabled": True}), encoding="utf-8")
    return services
