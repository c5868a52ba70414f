"""The ``MemoryStore`` over any database, the interface of such a database, and the choice of one.

A ``Backend`` is synchronous, thread-safe and atomic.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from personalab.errors import Reason, UserError
from personalab.memory.changes import Change, MemoryRevision
from personalab.memory.records import CONTENT_TYPES, ContentType, Conversation, Memory, MemoryEntry
from personalab.memory.search import MAX_QUERY, ConversationHit, MemoryHit, MemorySearch
from personalab.ports import Embedder, MemoryName

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from personalab.retrieval.memory.search import LexicalTexts, RankedText, SemanticIndex


TextKind = Literal["entries", "conversations"]
# Named only, not imported: a chat without a memory must not wait for numpy.
Vectors: TypeAlias = "NDArray[np.float32]"


@dataclass(frozen=True, slots=True)
class MemoryVersion:
    """A memory's place, and two numbers that change whenever its entries or its conversations do.

    No number ever comes again for one ``memory_id``, not even when a memory is forgotten and begun anew under it.
    """

    memory_id: str
    entries_stamp: int
    conversations_stamp: int

    def stamp(self, kind: TextKind) -> int:
        """Return the number that tells whether a kind has changed."""
        return self.entries_stamp if kind == "entries" else self.conversations_stamp


class SearchableText(NamedTuple):
    """What an entry or a conversation is found by."""

    id: str
    content_type: str
    """Empty for a conversation."""
    text: str


class PendingText(NamedTuple):
    """A text that has no vector yet."""

    memory_id: str
    id: str
    text: str


class Backend(Protocol):
    """A database of memories."""

    # --- records

    def exists(self) -> bool:
        """Tell, at next to no cost and without making anything, whether there may be a memory at all."""
        ...

    def memories(self, limit: int, after: str) -> list[MemoryName]:
        """List memories by id."""
        ...

    def memory(self, agent_id: str, user_id: str, newest: int | None = None) -> Memory | None:
        """Read a memory with its entries: all, or so many of each list, the newest."""
        ...

    def begin(self, agent_id: str, user_id: str, now: str) -> None:
        """Create a pair's memory, if there is none yet."""
        ...

    def save_conversation(self, conversation: Conversation) -> Conversation:
        """Save a conversation, begin its memory, and note how far a story has been saved; in one transaction."""
        ...

    def conversation(self, conversation_id: str) -> Conversation | None:
        """Read a conversation."""
        ...

    def conversations(
        self, agent_id: str, user_id: str, limit: int, before: str | None
    ) -> list[Conversation]:
        """List conversations, the newest first: all, or those before the one of this id (``[]`` if there is none)."""
        ...

    def waiting(self, agent_id: str, user_id: str, instance_id: str) -> list[Conversation]:
        """List a story's conversations that were not learned from, the oldest first."""
        ...

    def commit(
        self,
        revised: MemoryRevision,
        conversation_id: str | None,
        result: Mapping[str, Any] | None,
        again: bool = False,
    ) -> bool:
        """Store a change and a result in one transaction, if the memory is still at the change's base version.

        ``LearnedBefore`` where the conversation was learned from, unless ``again`` brings another success.
        """
        ...

    def changes(self, agent_id: str, user_id: str, limit: int) -> list[Change]:
        """List changes, the newest first."""
        ...

    def learned(self, agent_id: str, user_id: str, session_id: str) -> int:
        """Return the turn up to which a story's session was saved."""
        ...

    def forget(self, agent_id: str, user_id: str) -> bool:
        """Delete a memory and all that belongs to it but how far its stories were saved."""
        ...

    # --- finding

    def version(self, agent_id: str, user_id: str) -> MemoryVersion | None:
        """Find a memory without reading it."""
        ...

    def texts(self, kind: TextKind, memory_id: str) -> list[SearchableText]:
        """Read what a memory's entries or conversations are found by, always in the same order.

        Entries by type, position and id, conversations in the order they were saved; ids and types by code point.
        Of hits that fit equally well the earlier comes first.
        """
        ...

    def entries(self, memory_id: str, content_ids: Sequence[str]) -> list[MemoryEntry]:
        """Read some entries, as far as they are there, in any order."""
        ...

    def prepare(self, embedder: str, dimension: int) -> None:
        """Make room for vectors of this embedder; those of another one, or of another dimension, are dropped."""
        ...

    def pending(self, kind: TextKind, memory_id: str | None, limit: int) -> list[PendingText]:
        """List what has no vector yet, of one memory or of all; at little cost where there is none."""
        ...

    def put_vectors(self, kind: TextKind, waiting: Sequence[PendingText], vectors: Vectors) -> None:
        """Keep vectors, a row a text; a text that is gone or another by now is passed over."""
        ...

    def nearest(
        self,
        kind: TextKind,
        memory_id: str,
        vector: Sequence[float],
        limit: int,
        types: Sequence[ContentType] | None = None,
    ) -> list[tuple[str, float]]:
        """Find ids by their vectors, nearest first, with their cosine similarity; none that was removed.

        Entries of all types, unless ``types`` names some.
        """
        ...

    def drop_vectors(self) -> int:
        """Forget all vectors, so that they are rebuilt; return how many texts then await one."""
        ...

    def close(self) -> None:
        """Close files and connections."""
        ...


POSTGRES = ("postgresql://", "postgres://")


def open_backend(database: str | None, folder: Path) -> Backend:
    """Open a database; nothing is made or connected to before it is used."""
    if database is None:
        from personalab.retrieval.memory.sqlite import SqliteBackend

        return SqliteBackend(folder)
    if not database.startswith(POSTGRES):
        reason = Reason("not_postgresql")
        raise UserError("unreadable_env", name="PERSONALAB_DATABASE", value="…", reason=reason)
    from personalab.retrieval.memory.postgres import PostgresBackend

    return PostgresBackend(database)


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
