"""What do summaries, saving and searching memories cost, beside the bare engines in the same run?"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from bench.table import Figure, median
from bench.turns import SENTENCE
from graph.summarize import stream_summary
from personalab.dialogue import Message
from personalab.memory.changes import Change, Revised, Step
from personalab.memory.finding import MemorySearch
from personalab.memory.records import Entry, Memory, Source, new_id, read_request
from personalab.operations.instances import new_instance
from personalab.operations.reindex import reindex
from personalab.ports import ReplyChunk
from personalab.retrieval.embedders import VECTORS, open_embedder
from personalab.retrieval.memory.backend import Backend
from personalab.retrieval.memory.book import MemoryBook
from personalab.retrieval.memory.sqlite import SqliteBackend
from personalab.services import Services, open_services
from personalab.settings import read_settings
from personalab.story.lines import AssistantLine, UserLine, dump_line

NOW = "2025-10-16T10:30:00Z"
RESULTS = Path(__file__).parent / "results"
ENTRIES = 100_000
LAYOUTS = {"one memory": 1, "100 memories": 100}
_SEARCHES = 60
_RANGE = re.compile(r"（第 (\d+)–(\d+) 轮）")


Engine = Callable[[str, Sequence[float]], None]
"""Asks the bare engine for the nearest hundred of a memory."""


def figures() -> list[Figure]:
    """Measure it all."""
    return [*asyncio.run(_summaries()), *asyncio.run(_stores()), *asyncio.run(_rebuilt())]


# --- summaries


class _Teller:
    """Tells whatever piece it is shown in one point, at once."""

    name = "teller"

    def __init__(self) -> None:
        self.calls = 0

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        """Answer in one piece."""
        self.calls += 1
        found = _RANGE.findall(messages[-1]["content"])[0]
        turns = [int(number) for number in found]
        point = {"summary": "他们走了很远。", "plot": "他们沿着旧铁路走了很远。" * 20, "turns": turns}
        yield ReplyChunk(json.dumps({"points": [point]}, ensure_ascii=False))


async def _story(services: Services, turns: int) -> None:
    await new_instance(services, "char_alserqi", "bg_wasteland", "tale")
    path = services.stories.session_path("tale", "sess_001")
    with path.open("ab") as file:
        for number in range(1, turns + 1):
            file.write(dump_line(UserLine(f"{number} {SENTENCE * 2}", number, NOW)))
            file.write(dump_line(AssistantLine(f"{number} {SENTENCE * 5}", number, NOW)))


async def _summaries() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        services = open_services(read_settings({"PERSONALAB_DATA": f"{folder}/data"}))
        services.preferences.change({"max_total_tokens": 20_000})
        teller = _Teller()
        services.models["rehearsal"] = teller  # pyright: ignore[reportArgumentType] (it is one)
        await _story(services, 2_000)
        await _summed(services, dry_run=True)
        calls, sizes = teller.calls, [_resident()]
        for _ in range(4):
            await _summed(services, dry_run=True)
            sizes.append(_resident())
        start = time.perf_counter()
        await _summed(services, dry_run=True)
        drafted = time.perf_counter() - start
        start = time.perf_counter()
        await _summed(services)
        whole = time.perf_counter() - start
    note = f"{calls} calls; {drafted:.2f} s to draft, {whole:.2f} s with the library (2,000 turns indexed)"
    return [
        Figure(
            "summary of 2,000 turns: our own time / a model of 1 s a call",
            drafted / calls,
            "×",
            0.05,
            note=note,
        ),
        Figure("memory after 5 summaries of 2,000 turns / after one", sizes[-1] / sizes[0], "×", 1.05),
    ]


async def _summed(services: Services, *, dry_run: bool = False) -> None:
    async for part in stream_summary(services, {"instance_id": "tale", "dry_run": dry_run}):
        if "type" not in part and part.get("status") not in ("done", "preview"):
            raise RuntimeError(str(part.get("error")))


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


# --- stores


class _Words:
    """Makes entries of words that are as common and as rare as words are."""

    def __init__(self) -> None:
        rows = (VECTORS / "zh.words.txt").read_text(encoding="utf-8").split("\n")
        self._words = [word for word in rows if len(word) == 2][:20_000]
        self._shares = list(accumulate(1 / (rank + 10) for rank in range(len(self._words))))

    def text(self, rng: random.Random) -> str:
        """Make an entry."""
        return "用户" + "".join(rng.choices(self._words, cum_weights=self._shares, k=8))

    def queries(self) -> list[str]:
        """Make questions, each of two words that are neither very common nor very rare."""
        rng = random.Random(11)
        return [
            f"{rng.choice(self._words[200:4_000])}的{rng.choice(self._words[200:4_000])}"
            for _ in range(_SEARCHES)
        ]


def _fill(backend: Backend, memories: int) -> list[tuple[str, str]]:
    """Write entries straight into a database, and give the pairs they belong to."""
    rng, words = random.Random(7), _Words()
    pairs = [("agent", f"user {number}") for number in range(memories)]
    each = ENTRIES // memories
    for agent_id, user_id in pairs:
        request: dict[str, Any] = {"agent_id": agent_id, "user_id": user_id, "messages": []}
        begun = backend.save_conversation(read_request(request, NOW))
        memory = backend.memory(agent_id, user_id)
        if memory is None or memory.entries:
            continue
        sources = (Source(begun.conversation_id, (0,)),)
        for first in range(0, each, 5_000):
            fresh = [
                Entry(new_id(), "event", words.text(rng), number, NOW, NOW, sources)
                for number in range(first, min(first + 5_000, each))
            ]
            memory = _added(backend, memory, fresh)
    return pairs


def _added(backend: Backend, memory: Memory, fresh: list[Entry]) -> Memory:
    version = memory.version + 1
    whole = Memory(
        memory.memory_id, memory.agent_id, memory.user_id, NOW, NOW, (*memory.entries, *fresh), version
    )
    steps = tuple(Step(None, entry) for entry in fresh)
    change = Change(new_id(), memory.memory_id, version, NOW, "memorize", steps)
    if not backend.commit(Revised(whole, change), None, None):
        raise RuntimeError("the memory was changed by someone else")
    return whole


async def _stores() -> list[Figure]:
    rows: list[Figure] = []
    for layout, memories in LAYOUTS.items():
        folder = RESULTS / f"memory-{memories}"
        rows += await _searched(SqliteBackend(folder), _chroma(folder), f"embedded, {layout}", memories, 20.0)
    rows += await _saved()
    rows += await _postgres()
    return rows


async def _searched(backend: Backend, engine: Engine, name: str, memories: int, limit: float) -> list[Figure]:
    """Time searches, and the engine's own nearest neighbours for the same vectors."""
    embedder = open_embedder("offline", api_key=None, base_url=None)
    book = MemoryBook(backend, lambda: embedder)
    try:
        start = time.perf_counter()
        pairs = await asyncio.to_thread(_fill, backend, memories)
        for agent_id, user_id in pairs:
            await book.search(MemorySearch("灯塔", agent_id, user_id))
        made = time.perf_counter() - start
        chosen = [pairs[number * 7 % min(len(pairs), 20)] for number in range(_SEARCHES)]
        queries = _Words().queries()
        for pair in dict.fromkeys(chosen):
            await book.search(MemorySearch("铁盒", *pair))
        ours: list[float] = []
        bare: list[float] = []
        for query, pair in zip(queries, chosen, strict=True):
            start = time.perf_counter()
            found = await book.search(MemorySearch(query, *pair))
            ours.append(time.perf_counter() - start)
            place = backend.pair(*pair)
            if place is None or not found:
                raise RuntimeError("nothing was found")
            vector = embedder.embed_query(query)
            start = time.perf_counter()
            engine(place.memory_id, vector)
            bare.append(time.perf_counter() - start)
        return [
            Figure(
                f"memory search, {ENTRIES:,} entries in {name}, p50",
                1e3 * median(ours),
                "ms",
                limit,
                note=f"engine's own query {1e3 * median(bare):.2f} ms; written, embedded and read in {made:.0f} s",
            ),
            Figure(f"memory search, {name} / the engine's own query", median(ours) / median(bare), "×", 1.5),
        ]
    finally:
        await book.close()


async def _saved() -> list[Figure]:
    said = [{"role": "user" if at % 2 == 0 else "assistant", "content": SENTENCE * 3} for at in range(20)]
    with tempfile.TemporaryDirectory() as folder:
        services = open_services(read_settings({"PERSONALAB_DATA": f"{folder}/data"}))
        times: list[float] = []
        for number in range(60):
            messages = [{**said[0], "content": f"{number} {SENTENCE}"}, *said[1:]]
            request = {"agent_id": "agent", "user_id": "user", "messages": messages}
            start = time.perf_counter()
            await services.memories.save_conversation(read_request(request, NOW))
            times.append(time.perf_counter() - start)
        await services.memories.close()
    return [Figure("saving a conversation of 20 messages, embedded, p50", 1e3 * median(times), "ms", 10.0)]


async def _postgres() -> list[Figure]:
    """Measure the same on a real PostgreSQL."""
    import psycopg
    from pgvector.psycopg import register_vector

    from personalab.retrieval.memory.postgres import PostgresBackend
    from tests.postgres import fresh_database, running_server

    rows: list[Figure] = []
    with running_server() as server:
        for layout, memories in LAYOUTS.items():
            url = fresh_database(server.url)
            backend = PostgresBackend(url)
            backend.exists()
            with psycopg.connect(url, autocommit=True) as connection:

                def engine(memory_id: str, vector: Sequence[float], connection: Any = connection) -> None:
                    register_vector(connection)
                    connection.execute(_NEAREST, (str(list(vector)), memory_id, str(list(vector)))).fetchall()

                rows += await _searched(backend, engine, f"PostgreSQL, {layout}", memories, 10.0)
    return rows


_NEAREST = (
    "select content_id, 1 - (content_vector <=> %s::vector) from memory_contents where memory_id = %s"
    " order by content_vector <=> %s::vector limit 100"
)


def _chroma(folder: Path) -> Engine:
    """Ask Chroma itself for the nearest hundred."""
    known: dict[str, Any] = {}

    def engine(memory_id: str, vector: Sequence[float]) -> None:
        if not known:
            import chromadb
            from chromadb.config import Settings

            path = next(found.parent for found in folder.glob("vectors/*/chroma.sqlite3"))
            client = chromadb.PersistentClient(str(path), settings=Settings(anonymized_telemetry=False))
            known.update({found.name: found for found in client.list_collections()})
        name = next(name for name in known if memory_id in name and "entr" in name)
        known[name].query(query_embeddings=[vector], n_results=100, include=["distances"])

    return engine


# --- the event library


async def _rebuilt() -> list[Figure]:
    turns = 10_000
    with tempfile.TemporaryDirectory() as folder:
        services = open_services(read_settings({"PERSONALAB_DATA": f"{folder}/data"}))
        await _story(services, turns)
        start = time.perf_counter()
        await reindex(services)
        took = time.perf_counter() - start
    return [Figure("reindex of 10,000 turns", turns / took, "turns/s", at_least=500.0, note=f"{took:.1f} s")]
