"""A program that uses the memory store from another process. The tests start it.

… PLACE save COUNT      save so many conversations of one pair
… PLACE learn FACT      learn a fact
… PLACE find QUERY      print the texts that are found, one per line
… PLACE mix NAME COUNT  learn and search in turn
"""

from __future__ import annotations

import asyncio
import os
import sys

from personalab.memory.changes import Operation, revise
from personalab.retrieval.memory.store import DatabaseMemoryStore
from tests.support.retrieval.memories import AGENT, NOW, USER, learn, looking, open_at, said


async def mix(store: DatabaseMemoryStore, name: str, count: int) -> None:
    """Learn facts beside others who do the same, and find each at once."""
    await store.save_conversation(said(f"{name} begins"))
    for number in range(count):
        fact = f"{name} owns kitten number {number}"
        while True:
            memory = await store.memory(AGENT, USER)
            assert memory is not None
            revised = revise(memory, [Operation("add", "event", fact)], NOW, origin="edit")
            if await store.commit(revised):
                break
        found = [hit.entry.text for hit in await store.search(looking(fact))]
        assert fact in found, (fact, found)


async def main() -> None:
    """Do what the arguments ask for."""
    place, task, *rest = sys.argv[1:]
    store = open_at(place)
    match task:
        case "save":
            for number in range(int(rest[0])):
                await store.save_conversation(said(f"{os.getpid()} says {number}"))
        case "learn":
            await learn(store, rest[0])
        case "find":
            for hit in await store.search(looking(rest[0])):
                print(hit.entry.text, flush=True)
        case _:
            await mix(store, rest[0], int(rest[1]))
    await store.close()


if __name__ == "__main__":
    asyncio.run(main())
