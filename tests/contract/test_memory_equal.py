"""Stateful test that both memory databases answer alike after the same operations."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from personalab.errors import UserError
from personalab.memory.changes import Operation, Verb, revise, undo
from personalab.memory.records import (
    CONTENT_TYPES,
    ContentType,
    Conversation,
    Memory,
    StoryPlace,
    new_id,
    read_request,
)
from personalab.memory.search import MemorySearch
from personalab.retrieval.memory.postgres import PostgresBackend
from personalab.retrieval.memory.sqlite import SqliteBackend
from personalab.retrieval.memory.store import DatabaseMemoryStore

_T = TypeVar("_T")
DIMENSION = 16
PAIRS = (("agent", "user"), ("Агент 2", "玩家"), ("agent ", "user"))
WORDS = ("猫", "tea", "大海", "guitar", "Berlin", "雨", "lamp", "map", "灯塔", "%_'\"\\")
SESSIONS = ("3f0f7a52-6f0b-4a53-9a0f-5f5a4f6f7b01", "9d1c1d3e-0a0b-4c0d-8e0f-102030405060")

# Most is done to one pair, so that there is something to find.
pairs = st.sampled_from((PAIRS[0],) * 6 + PAIRS[1:])
phrases = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
types = st.sampled_from(CONTENT_TYPES)
times = st.integers(0, 3).map(lambda second: f"2025-10-16T10:30:0{second}Z")


class HashedWords:
    """An embedder of words: each points somewhere, and a text to all its words."""

    identity = "test:hashed-words"

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed texts to be found."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Embed a text that asks."""
        total = np.zeros(DIMENSION)
        for word in text.split():
            seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4])
            total += np.random.default_rng(seed).normal(size=DIMENSION)
        return (total / max(float(np.linalg.norm(total)), 1e-9)).tolist()


class TwoBooks(RuleBasedStateMachine):
    """The same done to both; ``url`` and ``folder`` are given by the test."""

    url = ""
    folder = Path()
    steps = 0
    """How much was asked of both, and how much was found, in all runs together."""
    hits = 0

    def __init__(self) -> None:
        super().__init__()
        self._here = Path(tempfile.mkdtemp(dir=self.folder))
        self._loop = asyncio.new_event_loop()
        self._books = [
            DatabaseMemoryStore(backend, HashedWords)
            for backend in (SqliteBackend(self._here), PostgresBackend(self.url))
        ]
        self._saved: list[Conversation] = []

    @initialize(texts=st.lists(phrases, min_size=6, max_size=12))
    def begin(self, texts: list[str]) -> None:
        """Forget what the last run left, for making a database takes longer than emptying one; then learn a little."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            if connection.execute("select to_regclass('memories')").fetchone() != (None,):
                connection.execute("truncate memories cascade")
                connection.execute("truncate story_marks")
        assert self._alike(lambda book: book.memories()) == []
        self.save(PAIRS[0], texts, None, 3, "2025-10-16T10:30:00Z")
        memory = self._memory(PAIRS[0])
        assert memory is not None
        operations = [Operation("add", CONTENT_TYPES[place % 3], text) for place, text in enumerate(texts)]
        revised = revise(memory, operations, "2025-10-16T10:30:00Z", origin="edit")
        assert self._alike(lambda book: book.commit(revised)) is True

    def teardown(self) -> None:
        """Close both."""
        for book in self._books:
            self._loop.run_until_complete(book.close())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
        shutil.rmtree(self._here)

    def _both(self, ask: Callable[[DatabaseMemoryStore], Awaitable[_T]]) -> list[_T | str]:
        """Ask both; an error is an answer, too."""

        async def asked(book: DatabaseMemoryStore) -> _T | str:
            try:
                return await ask(book)
            except UserError as error:
                return error.code

        TwoBooks.steps += 1
        return [self._loop.run_until_complete(asked(book)) for book in self._books]

    def _alike(self, ask: Callable[[DatabaseMemoryStore], Awaitable[_T]]) -> _T | str:
        """Ask both, and give what both answer."""
        one, other = self._both(ask)
        assert one == other
        return one

    def _memory(self, pair: tuple[str, str]) -> Memory | None:
        found = self._alike(lambda book: book.memory(*pair))
        assert not isinstance(found, str)
        return found

    # --- writing

    @rule(
        pair=pairs,
        texts=st.lists(phrases, max_size=3),
        session=st.sampled_from((None, *SESSIONS)),
        turn=st.none() | st.integers(1, 30),
        at=times,
    )
    def save(
        self, pair: tuple[str, str], texts: list[str], session: str | None, turn: int | None, at: str
    ) -> None:
        messages = [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]
        request = {"agent_id": pair[0], "user_id": pair[1], "messages": messages, "session_id": session}
        made = read_request(request, at)
        known = self._memory(pair)
        # Each database would make up an id of its own.
        made = replace(made, memory_id=known.memory_id if known else new_id())
        if turn is not None:
            made = replace(made, story=StoryPlace("inst_001", "sess_001", turn, turn))
        self._keep(made)

    @precondition(lambda self: bool(self._saved))
    @rule(data=st.data(), pair=pairs, is_new=st.booleans())
    def save_again(self, data: st.DataObject, pair: tuple[str, str], is_new: bool) -> None:
        """The same once more, under its id or a new one, or as someone else's."""
        known = data.draw(st.sampled_from(self._saved))
        changed = data.draw(st.sampled_from(("nothing", "pair", "memory")))
        if is_new:
            known = replace(known, conversation_id=new_id())
        if changed == "pair":
            theirs = self._memory(pair)
            memory_id = theirs.memory_id if theirs else new_id()
            known = replace(known, agent_id=pair[0], user_id=pair[1], memory_id=memory_id)
        elif changed == "memory":
            known = replace(known, agent_id=pair[0], user_id=pair[1])
        self._keep(known)

    def _keep(self, conversation: Conversation) -> None:
        kept = self._alike(lambda book: book.save_conversation(conversation))
        if isinstance(kept, Conversation):
            self._saved.append(kept)

    @rule(
        pair=pairs,
        wishes=st.lists(
            st.tuples(
                st.sampled_from(("add", "add", "replace", "remove")), types, phrases, st.integers(0, 9)
            ),
            max_size=5,
        ),
        data=st.data(),
        is_late=st.booleans(),
        at=times,
    )
    def change(
        self,
        pair: tuple[str, str],
        wishes: list[tuple[Verb, ContentType, str, int]],
        data: st.DataObject,
        is_late: bool,
        at: str,
    ) -> None:
        memory = self._memory(pair)
        if memory is None:
            return
        ids = [entry.content_id for entry in memory.entries] or [""]
        operations = [
            Operation(verb, kind, text, "" if verb == "add" else ids[place % len(ids)], "why", (0,))
            for verb, kind, text, place in wishes
        ]
        source = data.draw(st.sampled_from([None, *self._saved]))
        told: dict[str, Any] = {"origin": "edit"}
        if source is not None:
            told = {"origin": "memorize", "conversation_id": source.conversation_id}
        revised = revise(memory, operations, at, **told)
        kept: dict[str, Any] = {}
        if source is not None:
            kept = {
                "conversation_id": source.conversation_id,
                "result": {"a": [1, 2.5, None], "b": {"c": "猫"}},
            }
        assert self._alike(lambda book: book.commit(revised, **kept)) is True
        if is_late and revised.change is not None:
            late = revise(memory, [Operation("add", "mind", "too late")], at, origin="edit")
            assert self._alike(lambda book: book.commit(late)) is False

    @rule(pair=pairs, place=st.integers(0, 5), at=times)
    def take_back(self, pair: tuple[str, str], place: int, at: str) -> None:
        memory = self._memory(pair)
        changes = self._alike(lambda book: book.changes(*pair))
        if memory is None or not changes or isinstance(changes, str):
            return
        revised = undo(memory, changes[place % len(changes)], at)
        assert self._alike(lambda book: book.commit(revised)) is True

    @rule(pair=pairs, doubt=st.integers(0, 3))
    def forget(self, pair: tuple[str, str], doubt: int) -> None:
        if doubt == 3:
            self._alike(lambda book: book.forget(*pair))

    # --- reading

    @rule(pair=pairs, limit=st.integers(0, 4), session=st.sampled_from(SESSIONS), data=st.data())
    def read(self, pair: tuple[str, str], limit: int, session: str, data: st.DataObject) -> None:
        memory = self._memory(pair)
        self._alike(lambda book: book.memories())
        after = memory.memory_id if memory else ""
        self._alike(lambda book: book.memories(limit=limit, after=after))
        self._alike(lambda book: book.changes(*pair, limit=limit))
        self._alike(lambda book: book.learned(*pair, session))
        before = data.draw(st.sampled_from([None, *(saved.conversation_id for saved in self._saved)]))
        self._alike(lambda book: book.conversations(*pair, limit=limit, before=before))
        self._alike(lambda book: book.conversations(*pair, limit=100))
        if before is not None:
            self._alike(lambda book: book.conversation(before))

    @rule(
        pair=pairs,
        query=phrases,
        limit=st.integers(1, 10),
        of=st.sampled_from((CONTENT_TYPES, *((kind,) for kind in CONTENT_TYPES))),
    )
    def search(self, pair: tuple[str, str], query: str, limit: int, of: tuple[ContentType, ...]) -> None:
        asked = MemorySearch(query, *pair, limit, of)
        self._same_hits(
            [
                [(hit.entry.content_id, hit.score, hit.confidence, hit.entry.text) for hit in found]
                for found in self._both(lambda book: book.search(asked))
                if not isinstance(found, str)
            ]
        )

    @rule(pair=pairs, query=phrases, limit=st.integers(1, 10))
    def search_conversations(self, pair: tuple[str, str], query: str, limit: int) -> None:
        self._same_hits(
            [
                [
                    (hit.conversation.conversation_id, hit.score, 0.0, hit.conversation.summary)
                    for hit in found
                ]
                for found in self._both(lambda book: book.search_conversations(query, *pair, limit=limit))
                if not isinstance(found, str)
            ]
        )

    def _same_hits(self, answers: list[list[tuple[str, float, float, str]]]) -> None:
        """Compare what was found; what fits equally well may stand in any order, and fall out at the end."""
        one, other = answers
        TwoBooks.hits += len(one)
        assert [hit[1] for hit in one] == pytest.approx([hit[1] for hit in other], abs=1e-4)
        last = one[-1][1] if one else 0.0
        surely = [{hit[0]: hit for hit in found if hit[1] > last + 1e-4} for found in answers]
        assert surely[0].keys() == surely[1].keys()
        for key, hit in surely[0].items():
            assert hit[1:3] == pytest.approx(surely[1][key][1:3], abs=1e-4)
            assert hit[3] == surely[1][key][3]


@pytest.fixture
def machine(postgres_url: str, tmp_path: Path) -> type[TwoBooks]:
    """Give the machine its places."""
    from tests.support.postgres import fresh_database

    class Machine(TwoBooks):
        url = fresh_database(postgres_url)
        folder = tmp_path

    return Machine


def test_both_databases_answer_alike(machine: type[TwoBooks], caplog: pytest.LogCaptureFixture) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=50,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
    # Neither was content with words, nor set anything aside.
    assert [record.getMessage() for record in caplog.records if record.name == "personalab.memory"] == []
    assert TwoBooks.steps >= 1_000
    assert TwoBooks.hits >= 100
