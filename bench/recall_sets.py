"""Readers for two public question sets about past conversations, which are given by path."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, cast

CHINESE, ENGLISH = "memorybank*.json", "locomo*.json"
"""How the files are named."""


@dataclass(frozen=True, slots=True)
class SpokenTurn:
    """One thing to be found."""

    key: str
    day: str
    session_id: str
    index: int
    text: str
    said: str
    """What was said, without the speaker's name."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question, the turns that answer it, and whether one of them is enough."""

    text: str
    gold: frozenset[str]
    any_will_do: bool


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation and the questions about it."""

    name: str
    turns: list[SpokenTurn]
    questions: list[Question]


def found_in(folder: Path) -> bool:
    """Tell whether a folder holds both sets."""
    return any(folder.glob(CHINESE)) and any(folder.glob(ENGLISH))


def _read(folder: Path, pattern: str) -> Any:
    return json.loads(sorted(folder.glob(pattern))[0].read_text(encoding="utf-8"))


def chinese_talks(folder: Path) -> Iterator[Talk]:
    """Read the MemoryBank half."""
    data = _read(folder, CHINESE)
    for number, (user, days) in enumerate(data["users"].items()):
        turns = [
            SpokenTurn(
                key=f"{day}#{at}",
                day=day,
                session_id=f"sess_{session:03}",
                index=at + 1,
                text=f"{user}：{one['query']}\nAI：{one['response']}",
                said=one["query"],
            )
            for session, (day, exchanges) in enumerate(days.items(), start=1)
            for at, one in enumerate(exchanges)
        ]
        probes = [probe for probe in data["probes"] if probe["user"] == user]
        asked = [Question(p["question"], frozenset(p["gold"]), p["mode"] == "any") for p in probes]
        yield Talk(f"zh-{number}", turns, asked)


def english_talks(folder: Path) -> Iterator[Talk]:
    """Read the LoCoMo half."""
    for sample in _read(folder, ENGLISH):
        talk = cast("dict[str, Any]", sample["conversation"])
        sessions = [name for name in talk if re.fullmatch(r"session_\d+", name)]
        turns = [
            SpokenTurn(
                key=line["dia_id"],
                day=_day(talk[f"{name}_date_time"]),
                session_id=f"sess_{int(name[8:]):03}",
                index=at,
                text=_spoken(line),
                said=line["text"],
            )
            for name in sessions
            for at, line in enumerate(talk[name], start=1)
        ]
        known = {turn.key for turn in turns}
        asked = [(qa["question"], _gold(qa.get("evidence", []), known)) for qa in sample["qa"]]
        questions = [Question(text, gold, any_will_do=False) for text, gold in asked if gold]
        yield Talk(sample["sample_id"], turns, questions)


def _day(when: str) -> str:
    """Read ``1:56 pm on 8 May, 2023``."""
    return datetime.strptime(when.rpartition(" on ")[2], "%d %B, %Y").strftime("%Y-%m-%d")


def _spoken(line: dict[str, str]) -> str:
    caption = f" [{line['blip_caption']}]" if line.get("blip_caption") else ""
    return f"{line['speaker']}: {line['text']}{caption}"


def _gold(evidence: list[str], known: set[str]) -> frozenset[str]:
    found = (f"D{int(a)}:{int(b)}" for text in evidence for a, b in re.findall(r"D:?(\d+):(\d+)", text))
    return frozenset(key for key in found if key in known)
