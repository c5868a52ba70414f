"""Import speed of character cards compared with reading and writing the same number of bytes."""

from __future__ import annotations

import asyncio
import base64
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.table import Figure
from personalab.archive.png import write_card_png
from personalab.operations.importing import import_files
from personalab.services import Services, open_services
from personalab.settings import read_settings

CARDS = 1_000
_ROUNDS = 3
"""The fastest is taken: what else the machine did only adds."""
_PICTURE_BYTES = 200_000
"""What a small picture takes; most are larger."""


def figures() -> list[Figure]:
    """Measure an import of pictures with cards, and of the same cards again."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "cards").mkdir()
        for number in range(CARDS):
            (place / "cards" / f"{number}.png").write_bytes(_picture(number))
        bare = min(_copied(place / "cards", place / f"copies {number}") for number in range(_ROUNDS))
        first, again = [0.0] * _ROUNDS, [0.0] * _ROUNDS
        for number in range(_ROUNDS):
            services = open_services(read_settings({"PERSONALAB_DATA": f"{folder}/data {number}"}))
            first[number] = asyncio.run(_imported(services, place / "cards", "new"))
            again[number] = asyncio.run(_imported(services, place / "cards", "same"))
    note = f"{min(first):.1f} s; copying the files alone {bare:.2f} s"
    return [
        Figure(
            f"importing {CARDS:,} cards with pictures", CARDS / min(first), "cards/s", at_least=100, note=note
        ),
        Figure("the same cards again", CARDS / min(again), "cards/s", at_least=100),
    ]


def _picture(number: int) -> bytes:
    entries: list[dict[str, Any]] = [
        {
            "keys": [f"key {at}"],
            "content": "x" * 300,
            "extensions": {},
            "enabled": True,
            "insertion_order": at,
        }
        for at in range(20)
    ]
    data: dict[str, Any] = {
        "name": f"Someone {number}",
        "description": f"{number} " + "A traveller with a past. " * 80,
        "first_mes": "Hello, {{user}}.",
        "alternate_greetings": ["You again?"],
        "creator_notes": "",
        "extensions": {"ours": base64.b64encode(bytes(300)).decode("ascii")},
        "character_book": {"name": "Their world", "extensions": {}, "entries": entries},
    }
    card = {"spec": "chara_card_v2", "spec_version": "2.0", "data": data}
    # What follows a picture's end is no part of it: so it weighs what pictures weigh.
    return write_card_png(None, {"chara": card}) + bytes(_PICTURE_BYTES)


def _copied(source: Path, target: Path) -> float:
    start = time.perf_counter()
    target.mkdir()
    for path in source.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    return time.perf_counter() - start


async def _imported(services: Services, folder: Path, outcome: str) -> float:
    start = time.perf_counter()
    report = await import_files(services, [folder])
    took = time.perf_counter() - start
    if report.skipped or {entry.outcome for entry in report.imported} != {outcome}:
        raise RuntimeError(f"not all cards came in: {report.skipped[:3]}")
    return took
