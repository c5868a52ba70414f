"""The interface of a database of memories, and the choice of one.

``DatabaseMemoryStore`` makes a ``MemoryStore`` of it. Everything here is synchronous, thread-safe and atomic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from personalab.errors import Reason, UserError
from personalab.memory.changes import Change, MemoryRevision
from personalab.memory.records import ContentType, Conversation, Memory, MemoryEntry
from personalab.ports import MemoryName

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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
