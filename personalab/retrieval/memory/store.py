"""The ``MemoryStore`` over any database backend."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from personalab.memory.changes import Change, MemoryRevision
from personalab.memory.records import CONTENT_TYPES, ContentType, Conversation, Memory
from personalab.memory.search import MAX_QUERY, ConversationHit, MemoryHit, MemorySearch
from personalab.ports import Embedder, MemoryName
from personalab.retrieval.memory.backend import Backend, MemoryVersion, TextKind

if TYPE_CHECKING:
    from personalab.retrieval.memory.search import LexicalTexts, RankedText, SemanticIndex

KEPT_TEXTS = 32
"""The words of how many memories stay in this process's memory."""

_T = TypeVar("_T")
_log = logging.getLogger("personalab.memory")


class DatabaseMemoryStore:
    """Memories in a database, found by words and by meaning."""

    def __init__(self, backend: Backend, open_embedder: Callable[[], Embedder]) -> None:
        self._backend = backend
        self._open_embedder = open_embedder
        self._texts: OrderedDict[tuple[str, TextKind], LexicalTexts] = OrderedDict()
        self._lock = threading.Lock()
        self._opened: SemanticIndex | None = None

    # --- records

    async def _stored(self, nothing: _T, read: Callable[..., _T], *values: object) -> _T:
        """Read in a thread; ``nothing`` where nothing was ever stored."""
        return await asyncio.to_thread(read, *values) if self._backend.exists() else nothing

    async def memories(self, *, limit: int = 100, after: str = "") -> list[MemoryName]:
        """List the memories by ``memory_id``, from the one after ``after`` on."""
        return await self._stored([], self._backend.memories, limit, after)

    async def memory(self, agent_id: str, user_id: str, *, newest: int | None = None) -> Memory | None:
        """Read what an agent knows about a user, all of it or so many of each list, the newest."""
        return await self._stored(None, self._backend.memory, agent_id, user_id, newest)

    async def begin(self, agent_id: str, user_id: str, now: str) -> None:
        """Create a pair's memory, if there is none yet."""
        await asyncio.to_thread(self._backend.begin, agent_id, user_id, now)

    async def save_conversation(self, conversation: Conversation) -> Conversation:
        """Save a conversation and give what is kept: one that was saved before stays as it was."""
        return await asyncio.to_thread(self._backend.save_conversation, conversation)

    async def conversation(self, conversation_id: str) -> Conversation | None:
        """Read a conversation."""
        return await self._stored(None, self._backend.conversation, conversation_id)

    async def conversations(
        self, agent_id: str, user_id: str, *, limit: int = 20, before: str | None = None
    ) -> list[Conversation]:
        """List conversations, the newest first, from the one saved before ``before`` on."""
        return await self._stored([], self._backend.conversations, agent_id, user_id, limit, before)

    async def waiting(self, agent_id: str, user_id: str, instance_id: str) -> list[Conversation]:
        """List a story's conversations that were saved and not learned from, the oldest first."""
        return await self._stored([], self._backend.waiting, agent_id, user_id, instance_id)

    async def commit(
        self,
        revised: MemoryRevision,
        *,
        conversation_id: str | None = None,
        result: Mapping[str, Any] | None = None,
        again: bool = False,
    ) -> bool:
        """Keep a change and a conversation's ``pipeline_result`` together; ``False`` if the memory is another."""
        return await asyncio.to_thread(self._backend.commit, revised, conversation_id, result, again)

    async def changes(self, agent_id: str, user_id: str, *, limit: int = 50) -> list[Change]:
        """List what changed, the newest first."""
        return await self._stored([], self._backend.changes, agent_id, user_id, limit)

    async def learned(self, agent_id: str, user_id: str, session_id: str) -> int:
        """Return the turn up to which a story's session was saved; 0 for not at all."""
        return await self._stored(0, self._backend.learned, agent_id, user_id, session_id)

    async def forget(self, agent_id: str, user_id: str) -> bool:
        """Delete a memory with its history and its conversations; ``False`` where there was none."""
        return await self._stored(False, self._backend.forget, agent_id, user_id)

    async def close(self) -> None:
        """Close files and connections."""
        with self._lock:
            self._texts.clear()
        await asyncio.to_thread(self._backend.close)

    # --- finding

    async def search(self, search: MemorySearch) -> list[MemoryHit]:
        """Find entries by meaning and by words, best first."""
        if not self._can_search(search.query, search.limit):
            return []
        return await asyncio.to_thread(self._search, search)

    def _search(self, search: MemorySearch) -> list[MemoryHit]:
        types = None if set(CONTENT_TYPES) <= set(search.types) else tuple(search.types)
        place = (search.agent_id, search.user_id)
        version, ranked = self._find("entries", search.query, *place, search.limit, types)
        if version is None or not ranked:
            return []
        read = self._backend.entries(version.memory_id, [hit.id for hit in ranked])
        entries = {entry.content_id: entry for entry in read}
        return [MemoryHit(entries[hit.id], hit.score, hit.confidence) for hit in ranked if hit.id in entries]

    async def search_conversations(
        self, query: str, agent_id: str, user_id: str, *, limit: int = 10
    ) -> list[ConversationHit]:
        """Find conversations by meaning and by words, best first."""
        if not self._can_search(query, limit):
            return []
        return await asyncio.to_thread(self._search_conversations, query, agent_id, user_id, limit)

    def _search_conversations(
        self, query: str, agent_id: str, user_id: str, limit: int
    ) -> list[ConversationHit]:
        _, ranked = self._find("conversations", query, agent_id, user_id, limit, None)
        read = [(self._backend.conversation(hit.id), hit.score) for hit in ranked]
        return [ConversationHit(found, score) for found, score in read if found is not None]

    def _can_search(self, query: str, limit: int) -> bool:
        return limit > 0 and bool(query.strip()) and self._backend.exists()

    def _find(
        self,
        kind: TextKind,
        query: str,
        agent_id: str,
        user_id: str,
        limit: int,
        types: Sequence[ContentType] | None,
    ) -> tuple[MemoryVersion | None, list[RankedText]]:
        """Rank a memory's texts, in one thread: two would wait for each other's turn at the interpreter."""
        query = query[:MAX_QUERY]
        version, texts = self._current_texts(kind, agent_id, user_id)
        if version is None or texts is None or not len(texts):
            return None, []
        from personalab.retrieval.memory.search import POOL, rank

        most = max(POOL, limit)
        words = texts.words(query, most, types)
        near = self._near(kind, version, texts, query, most, types)
        return version, rank(texts, types, words, near, limit)

    def _current_texts(
        self, kind: TextKind, agent_id: str, user_id: str
    ) -> tuple[MemoryVersion | None, LexicalTexts | None]:
        version = self._backend.version(agent_id, user_id)
        if version is None:
            return None, None
        texts = self._lexical_texts(version.memory_id, kind)
        texts.refresh(version.stamp(kind), lambda: self._backend.texts(kind, version.memory_id))
        return version, texts

    def _lexical_texts(self, memory_id: str, kind: TextKind) -> LexicalTexts:
        from personalab.retrieval.memory.search import LexicalTexts

        with self._lock:
            found = self._texts.pop((memory_id, kind), None) or LexicalTexts()
            self._texts[memory_id, kind] = found
            while len(self._texts) > KEPT_TEXTS:
                self._texts.popitem(last=False)
            return found

    def _near(
        self,
        kind: TextKind,
        version: MemoryVersion,
        texts: LexicalTexts,
        query: str,
        limit: int,
        types: Sequence[ContentType] | None,
    ) -> list[tuple[str, float]]:
        """Find by meaning; where that cannot be, words alone answer."""
        try:
            return self._vectors().nearest(kind, version.memory_id, texts, query, limit, types)
        except Exception as error:  # noqa: BLE001 (whatever an embedder or an index does, words still answer)
            _log.warning("searched by words alone: %s", " ".join(str(error).split())[:300])
            return []

    def _vectors(self) -> SemanticIndex:
        from personalab.retrieval.memory.search import SemanticIndex

        with self._lock:
            if self._opened is None:
                self._opened = SemanticIndex(self._backend, self._open_embedder())
            return self._opened

    async def reindex(self, progress: Callable[[int, int], None] = lambda done, total: None) -> int:
        """Rebuild the index with the configured embedder; return the number of texts."""
        if not self._backend.exists():
            return 0
        return await asyncio.to_thread(lambda: self._vectors().embed_all(progress))
