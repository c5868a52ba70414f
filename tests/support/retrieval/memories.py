"""Sample conversations, searches and an embedder for tests of the memory store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from personalab.errors import ProviderError
from personalab.memory.changes import Operation, revise
from personalab.memory.records import ContentType, Conversation, Memory, StoryPlace, read_request
from personalab.memory.search import MemorySearch
from personalab.retrieval.memory.store import Backend, DatabaseMemoryStore, open_backend
from personalab.testing.in_memory import InMemoryBackend

NOW = "2025-10-16T10:30:00Z"
SESSION = "3f0f7a52-6f0b-4a53-9a0f-5f5a4f6f7b01"
AGENT, USER = "char_alserqi", "player"

_CONCEPTS = (
    ("猫", "kitten", "feline", "cat"),
    ("海", "ocean", "sea", "wave"),
    ("music", "吉他", "guitar", "song"),
    ("code", "python", "软件", "developer"),
)


class Concepts:
    """An embedder that knows four concepts; further dimensions stay empty."""

    def __init__(self, dimension: int = 4, *, wrong: int | None = None, fails: bool = False) -> None:
        self.identity = f"test:concepts-{dimension}"
        self.asked: list[str] = []
        self._dimension = dimension
        self._wrong = wrong
        self._fails = fails

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed texts to be found."""
        if self._fails:
            raise ProviderError("provider.connection", retryable=True)
        self.asked += texts
        return [self._vector(text, self._wrong or self._dimension) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Embed a text that asks."""
        return self._vector(text, self._dimension)

    def _vector(self, text: str, dimension: int) -> list[float]:
        found = [float(any(word in text.lower() for word in words)) for words in _CONCEPTS]
        return (found + [0.0] * dimension)[:dimension]


def open_at(place: str, embedder: Concepts | None = None) -> DatabaseMemoryStore:
    """Open the store in a folder or at a database's address."""
    made = embedder or Concepts()
    return DatabaseMemoryStore(backend_at(place), lambda: made)


IN_MEMORY = "in_memory:"
_in_memory: dict[str, InMemoryBackend] = {}


def backend_at(place: str) -> Backend:
    """Open the database in a folder, at an address, or in memory under a name."""
    if place.startswith(IN_MEMORY):
        return _in_memory.setdefault(place, InMemoryBackend())
    return open_backend(place, Path()) if "://" in place else open_backend(None, Path(place))


def said(
    *contents: str, agent: str = AGENT, user: str = USER, session: str | None = None, at: str = NOW
) -> Conversation:
    """Make a conversation; the user begins."""
    roles = ("user", "assistant")
    messages = [{"role": roles[at % 2], "content": text} for at, text in enumerate(contents)]
    request = {"agent_id": agent, "user_id": user, "messages": messages, "session_id": session}
    return read_request(request, at)


def said_in_story(last_turn: int, *contents: str) -> Conversation:
    """Make a conversation of a story's turns."""
    place = StoryPlace("inst_001", "sess_001", last_turn, last_turn)
    return replace(said(*contents, session=SESSION), story=place)


def looking(query: str, *types: ContentType, limit: int = 10, agent: str = AGENT) -> MemorySearch:
    """Ask for what is known."""
    wanted = {"types": types} if types else {}
    return MemorySearch(query, agent, USER, limit=limit, **wanted)


async def learn(
    store: DatabaseMemoryStore, *facts: str, kind: ContentType = "profile", agent: str = AGENT
) -> tuple[Memory, Conversation]:
    """Let a memory learn facts from a conversation."""
    conversation = await store.save_conversation(said(*facts, agent=agent))
    memory = await store.memory(agent, USER)
    assert memory is not None
    operations = [Operation("add", kind, fact, messages=(at,)) for at, fact in enumerate(facts)]
    told = {"origin": "memorize", "conversation_id": conversation.conversation_id}
    revised = revise(memory, operations, NOW, **told)  # pyright: ignore[reportArgumentType] (fields by name)
    assert await store.commit(revised)
    return revised.memory, conversation
