"""A program that uses the event library from another process. The tests start it.

… FOLDER mix INSTANCE OTHER COUNT   write, search and count
… FOLDER write INSTANCE FIRST       write turns without end
… FOLDER put INSTANCE FIRST LAST    write some turns
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from itertools import count
from pathlib import Path

from personalab.retrieval.library import ChromaLibrary
from personalab.story.recall import StoryEvent
from tests.support.retrieval.events import event, looking, open_library


def turn(instance: str, number: int) -> StoryEvent:
    """Make the turn that a process writes under a number."""
    return event(number, f"第{number}轮 灯塔 {number * 7919 % 1000} lighthouse {number}", instance=instance)


async def mix(library: ChromaLibrary, instance: str, other: str, rounds: int) -> None:
    """Write to one's own instance and a shared one, search both and another's, in between."""
    for number in range(1, rounds + 1):
        await library.write([turn(instance, number)])
        await library.write([turn("shared", number * 10 + int(instance[-1]))])
        await library.search(looking(f"lighthouse {number}", instance=other))
        hits = await library.search(looking(f"第{number}轮 lighthouse {number}", instance=instance, limit=3))
        assert hits[0].event.index == number, [hit.event.index for hit in hits]
        await library.search(looking("灯塔", instance="shared"))
        if random.random() < 0.2:
            assert (await library.state()).status == "ready"
    print(json.dumps(rounds), flush=True)


async def write_on(library: ChromaLibrary, instance: str, first: int) -> None:
    """Write turns in batches of several sizes; each line printed is the last turn that is surely kept."""
    number = first
    for size in (size for _ in count() for size in (1, 20, 200)):
        await library.write([turn(instance, n) for n in range(number, number + size)])
        number += size
        print(number - 1, flush=True)


async def main() -> None:
    """Do what the arguments ask for."""
    folder, task, instance, *rest = sys.argv[1:]
    library = open_library(Path(folder))
    match task:
        case "mix":
            await mix(library, instance, rest[0], int(rest[1]))
        case "write":
            await write_on(library, instance, int(rest[0]))
        case _:
            await library.write([turn(instance, n) for n in range(int(rest[0]), int(rest[1]) + 1)])


if __name__ == "__main__":
    asyncio.run(main())
