"""Cost of summaries and of saving and searching memories, compared with the bare engines in the same run."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from bench.table import Figure, median
from bench.turns import SENTENCE
from graph.summarize import stream_summary
from personalab.dialogue import Message
from personalab.memory.changes import Change, MemoryRevision, Step
from personalab.memory.records import EntrySource, Memory, MemoryEntry, new_id, read_request
from personalab.memory.search import MemorySearch
from personalab.operations.instances import new_instance
from personalab.operations.reindex import reindex
from personalab.ports import ReplyChunk
from personalab.retrieval.chroma import COSINE
from personalab.retrieval.embedders import VECTORS, open_embedder
from personalab.retrieval.memory.sqlite import SqliteBackend
from personalab.retrieval.memory.store import Backend, DatabaseMemoryStore
from personalab.services import Services, open_services
from personalab.settings import read_settings
from personalab.story.transcript import AssistantLine, UserLine, dump_line

NOW = "2025-10-16T10:30:00Z"
RESULTS = Path(__file__).parent / "results"
ENTRIES = 100_000
MEMORIES = 100
_SEARCHES = 60
_RANGE = re.compile(r"（第 (\d+)–(\d+) 轮）")


Engine = Callable[[str, Sequence[float]], None]
"""Asks the bare engine for the nearest hundred of a memory."""


def figures() -> list[Figure]:
    """Measure it all."""
    return [*asyncio.run(_summaries()), *asyncio.run(_stores()), *asyncio.run(_rebuilt())]


# --- summaries


class _Teller:
    """Tells whatever piece it is shown in one point, after some seconds."""

    name = "teller"

    def __init__(self) -> None:
        self.calls = 0
        self.seconds = 0.0

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        """Answer in one piece."""
        self.calls += 1
        await asyncio.sleep(self.seconds)
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
        teller = _Teller()
        services.models["rehearsal"] = teller  # pyright: ignore[reportArgumentType] (it is one)
        await _story(services, 2_000)
        await _summed(services, dry_run=True)
        sizes = [_resident()]
        for _ in range(4):
            await _summed(services, dry_run=True)
            sizes.append(_resident())
        await services.library.state()  # a story that was played has its library open
        teller.calls, teller.seconds = 0, 1.0
        start = time.perf_counter()
        await _summed(services)
        own = time.perf_counter() - start - teller.calls
    note = f"{teller.calls} calls; {own:.2f} s beside them, the library of 2,000 turns included"
    return [
        Figure(
            "summary of 2,000 turns: our own time / a model of 1 s a call",
            own / teller.calls,
            "×",
            0.05,
            note=note,
        ),
        Figure("memory after 5 drafts of 2,000 turns / after one", sizes[-1] / sizes[0], "×", 1.05),
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
        sources = (EntrySource(begun.conversation_id, (0,)),)
        for first in range(0, each, 5_000):
            fresh = [
                MemoryEntry(new_id(), "event", words.text(rng), number, NOW, NOW, sources)
                for number in range(first, min(first + 5_000, each))
            ]
            memory = _added(backend, memory, fresh)
    return pairs


def _added(backend: Backend, memory: Memory, fresh: list[MemoryEntry]) -> Memory:
    version = memory.version + 1
    whole = Memory(
        memory.memory_id, memory.agent_id, memory.user_id, NOW, NOW, (*memory.entries, *fresh), version
    )
    steps = tuple(Step(None, entry) for entry in fresh)
    change = Change(new_id(), memory.memory_id, version, NOW, "memorize", steps)
    if not backend.commit(MemoryRevision(whole, change), None, None):
        raise RuntimeError("the memory was changed by someone else")
    return whole


async def _stores() -> list[Figure]:
    folder = RESULTS / "memory"
    backend = SqliteBackend(folder)
    own, shared = _own_collection(folder), _shared_collection(backend)
    engines = {
        "Chroma's, one collection filtered by memory": shared,
        "Chroma's, of the memory's own collection": own,
    }
    rows = await _searched(backend, engines, "embedded", 20.0)
    return [*rows, *await _saved(), *await _postgres()]


async def _searched(backend: Backend, engines: Mapping[str, Engine], name: str, limit: float) -> list[Figure]:
    """Time searches, and bare engines' nearest neighbours for the same vectors; the first engine has the goal."""
    embedder = open_embedder("offline", api_key=None, base_url=None)
    book = DatabaseMemoryStore(backend, lambda: embedder)
    try:
        start = time.perf_counter()
        pairs = await asyncio.to_thread(_fill, backend, MEMORIES)
        for pair in pairs:
            await book.search(MemorySearch("灯塔", *pair))
        made = time.perf_counter() - start
        chosen = [pairs[number * 7 % 20] for number in range(_SEARCHES)]
        queries = _Words().queries()
        for pair in dict.fromkeys(chosen):
            await book.search(MemorySearch("灯塔", *pair))
        ours: list[float] = []
        bare: dict[str, list[float]] = {engine: [] for engine in engines}
        for query, pair in zip(queries, chosen, strict=True):
            start = time.perf_counter()
            await book.search(MemorySearch(query, *pair))
            ours.append(time.perf_counter() - start)
            place = backend.version(*pair)
            if place is None:
                raise RuntimeError("the memory is gone")
            vector = embedder.embed_query(query)
            for engine, ask in engines.items():
                start = time.perf_counter()
                ask(place.memory_id, vector)
                bare[engine].append(time.perf_counter() - start)
    finally:
        await book.close()
    size = f"{ENTRIES:,} entries of {MEMORIES} memories"
    rows = [
        Figure(
            f"memory search, {name}, {size}, p50",
            1e3 * median(ours),
            "ms",
            limit,
            note=f"written, embedded and read in {made:.0f} s",
        )
    ]
    for at, (engine, times) in enumerate(bare.items()):
        ratio, note = median(ours) / median(times), f"its query {1e3 * median(times):.2f} ms"
        title = f"memory search, {name} / a bare query: {engine}"
        rows.append(Figure(title, ratio, "×", 1.5 if at == 0 else None, note=note))
    return rows


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
    from pgvector import Vector
    from pgvector.psycopg import register_vector

    from personalab.retrieval.memory.postgres import PostgresBackend
    from tests.support.postgres import fresh_database, running_server

    with running_server() as server:
        url = fresh_database(server.url)
        backend = PostgresBackend(url)
        backend.memories(1, "")
        with psycopg.connect(url, autocommit=True) as connection:
            register_vector(connection)

            def engine(memory_id: str, vector: Sequence[float]) -> None:
                asked = Vector(list(vector))
                connection.execute(_NEAREST, (asked, memory_id, asked)).fetchall()

            return await _searched(backend, {"pgvector's, filtered by memory": engine}, "PostgreSQL", 10.0)


_NEAREST = (
    "select content_id, 1 - (content_vector <=> %s) from memory_contents where memory_id = %s"
    " order by content_vector <=> %s limit 100"
)


def _own_collection(folder: Path) -> Engine:
    """Ask Chroma itself for the nearest hundred of the collection that holds a memory."""
    known: dict[str, Any] = {}

    def engine(memory_id: str, vector: Sequence[float]) -> None:
        if not known:
            client = _client(next(found.parent for found in folder.glob("vectors/*/chroma.sqlite3")))
            known.update({found.name: found for found in client.list_collections()})
        found = known[f"{memory_id}.entries"]
        found.query(query_embeddings=[vector], n_results=100, include=["distances"])

    return engine


def _shared_collection(backend: Backend) -> Engine:
    """Ask Chroma for the nearest hundred of a memory, where one collection holds the entries of all."""
    known: list[Any] = []

    def engine(memory_id: str, vector: Sequence[float]) -> None:
        if not known:
            known.append(_filled(_client(RESULTS / "memory-bare"), backend))
        known[0].query(
            query_embeddings=[vector], n_results=100, where={"memory": memory_id}, include=["distances"]
        )

    return engine


def _client(path: Path) -> Any:
    import chromadb
    from chromadb.config import Settings

    return chromadb.PersistentClient(str(path), settings=Settings(anonymized_telemetry=False))


def _filled(client: Any, backend: Backend) -> Any:
    embedder = open_embedder("offline", api_key=None, base_url=None)
    found = client.get_or_create_collection("entries", embedding_function=None, metadata=COSINE)
    if found.count() < ENTRIES:
        for name in backend.memories(MEMORIES, ""):
            texts = backend.texts("entries", name.memory_id)
            found.upsert(
                ids=[text.id for text in texts],
                embeddings=embedder.embed_documents([text.text for text in texts]),
                metadatas=[{"memory": name.memory_id}] * len(texts),
            )
    return found


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
