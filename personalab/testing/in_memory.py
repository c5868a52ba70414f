"""The event library and the database of memories without a disk."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from personalab.errors import UserError
from personalab.memory.changes import Change, MemoryRevision
from personalab.memory.records import (
    CONTENT_TYPES,
    ContentType,
    Conversation,
    Memory,
    MemoryEntry,
    has_succeeded,
    new_id,
)
from personalab.ports import IndexState, LearnedBefore, MemoryName
from personalab.retrieval.memory.store import MemoryVersion, PendingText, SearchableText, TextKind, Vectors
from personalab.story.recall import Hit, Kind, RecallQuery, StoryEvent


class InMemoryLibrary:
    """A fake that follows the port's rules; its ranking is plain: the share of the query's bigrams."""

    def __init__(self) -> None:
        self.events: dict[str, StoryEvent] = {}
        self.searches: list[RecallQuery] = []

    async def write(self, events: Sequence[StoryEvent]) -> None:
        """Keep events by their id."""
        self.events.update({event.event_id: event for event in events})

    async def remove(
        self, instance_id: str, *, session_id: str | None = None, kinds: Sequence[Kind] | None = None
    ) -> None:
        """Forget an instance's events."""
        self.events = {
            key: event
            for key, event in self.events.items()
            if event.instance_id != instance_id
            or session_id not in (None, event.session_id)
            or (kinds is not None and event.kind not in kinds)
        }

    async def search(self, search: RecallQuery) -> list[Hit]:
        """Rank the events the search may see."""
        self.searches.append(search)
        wanted = _grams(search.query)
        scored = [
            (len(wanted & _grams(event.text)) / max(len(wanted), 1), event) for event in self._seen(search)
        ]
        found = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])[: search.limit]
        return [
            Hit(
                event,
                score,
                score,
                lexical_rank=rank,
                dense_rank=None,
                matched=tuple(sorted(wanted & _grams(event.text))),
            )
            for rank, (score, event) in enumerate(found, start=1)
        ]

    def _seen(self, search: RecallQuery) -> list[StoryEvent]:
        return [
            event
            for event in self.events.values()
            if event.kind in search.kinds
            and (event.instance_id == search.instance_id) != search.others
            and search.character_id in (None, event.character_id)
            and search.background_id in (None, event.background_id)
            and event.text not in search.in_prompt
            and not (
                event.kind == "turn"
                and event.session_id == search.skip_session
                and event.index >= search.skip_from
            )
        ]

    async def missing(self, instance_id: str, event_ids: Sequence[str]) -> list[str]:
        """Return the events that were never written."""
        return [event_id for event_id in event_ids if event_id not in self.events]

    async def state(self) -> IndexState:
        """Count what is kept."""
        counts = {"summary": 0, "plot": 0, "turn": 0}
        for event in self.events.values():
            counts[event.kind] += 1
        return IndexState("ready" if self.events else "empty", "in_memory", counts)

    async def reset(self) -> None:
        """Forget everything."""
        self.events.clear()


def _grams(text: str) -> set[str]:
    plain = [character for character in text.lower() if character.isalnum()]
    return {first + second for first, second in pairwise(plain)} or set(plain)


_Pair = tuple[str, str]


class InMemoryBackend:
    """Implements ``Backend``; every method is one step for all threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._stamp = 0
        self._memories: dict[_Pair, Memory] = {}
        self._stamps: dict[str, dict[TextKind, int]] = {}
        self._changes: dict[str, list[Change]] = {}
        self._conversations: dict[str, Conversation] = {}
        self._digests: dict[str, str] = {}
        self._marks: dict[tuple[str, str, str], int] = {}
        self._space: tuple[str, int] = ("", 0)
        self._vectors: dict[tuple[TextKind, str], tuple[str, Vectors]] = {}
        """Vectors with the texts they were made of."""

    def exists(self) -> bool:
        """Return whether anything was ever stored."""
        return bool(self._marks or self._stamp)

    def close(self) -> None:
        """Close nothing: others may go on."""

    # --- memories

    def memories(self, limit: int, after: str) -> list[MemoryName]:
        """List memories by id."""
        with self._lock:
            found = [memory for memory in self._memories.values() if memory.memory_id > after]
            found.sort(key=lambda memory: memory.memory_id)
            return [
                MemoryName(
                    memory.memory_id,
                    memory.agent_id,
                    memory.user_id,
                    memory.updated_at,
                    len(memory.entries),
                    len(self._said((memory.agent_id, memory.user_id))),
                )
                for memory in found[: max(limit, 0)]
            ]

    def memory(self, agent_id: str, user_id: str, newest: int | None = None) -> Memory | None:
        """Read a memory with its entries: all, or so many of each list, the newest."""
        with self._lock:
            memory = self._memories.get((agent_id, user_id))
        if memory is None or newest is None:
            return memory
        lists = [memory.of(kind) for kind in sorted(CONTENT_TYPES)]
        return replace(
            memory, entries=tuple(entry for found in lists for entry in found[max(len(found) - newest, 0) :])
        )

    def begin(self, agent_id: str, user_id: str, now: str) -> None:
        """Create a pair's memory, if there is none yet."""
        with self._lock:
            if (agent_id, user_id) not in self._memories:
                self._keep(self._begun((agent_id, user_id), now, None))

    def _begun(self, pair: _Pair, now: str, named: str | None) -> Memory:
        """Find the pair's memory, or make one that is not kept yet."""
        found = self._memories.get(pair)
        if named is not None and any(
            memory.memory_id == named for other, memory in self._memories.items() if other != pair
        ):
            raise UserError("memory_id_taken", memory_id=named)
        if found is not None and named not in (None, found.memory_id):
            raise UserError("memory_id_other", memory_id=found.memory_id, agent_id=pair[0], user_id=pair[1])
        return found or Memory(named or new_id(), *pair, now, now)

    def _keep(self, memory: Memory, *kinds: TextKind) -> None:
        self._memories[memory.agent_id, memory.user_id] = memory
        stamps = self._stamps.setdefault(memory.memory_id, {})
        self._stamp += 1
        for kind in kinds or ("entries", "conversations"):
            stamps[kind] = self._stamp

    # --- conversations

    def save_conversation(self, conversation: Conversation) -> Conversation:
        """Save a conversation, begin its memory, and note how far a story has been saved."""
        pair = (conversation.agent_id, conversation.user_id)
        with self._lock:
            memory = self._begun(pair, conversation.created_at, conversation.memory_id)
            known = self._known(conversation, memory.memory_id)
            if known is not None and known.memory_id != memory.memory_id:
                raise UserError("conversation_taken", conversation_id=conversation.conversation_id)
            if pair not in self._memories:
                self._keep(memory)
            if conversation.story is not None:
                mark = (*pair, conversation.session_id)
                self._marks[mark] = max(self._marks.get(mark, 0), conversation.story.last_turn)
            if known is not None:
                return known
            saved = replace(conversation, memory_id=memory.memory_id)
            self._conversations[saved.conversation_id] = saved
            self._digests[saved.conversation_id] = conversation.same_as()
            self._keep(memory, "conversations")
            return saved

    def _known(self, conversation: Conversation, memory_id: str) -> Conversation | None:
        digest = conversation.same_as()
        for found_id, known in self._digests.items():
            if known == digest and self._conversations[found_id].memory_id == memory_id:
                return self._conversations[found_id]
        return self._conversations.get(conversation.conversation_id)

    def conversation(self, conversation_id: str) -> Conversation | None:
        """Read a conversation."""
        return self._conversations.get(conversation_id)

    def _said(self, pair: _Pair) -> list[Conversation]:
        """List a pair's conversations as they were saved."""
        return [found for found in self._conversations.values() if (found.agent_id, found.user_id) == pair]

    def conversations(
        self, agent_id: str, user_id: str, limit: int, before: str | None
    ) -> list[Conversation]:
        """List conversations, the newest first: all, or those before the one of this id."""
        with self._lock:
            found = sorted(self._said((agent_id, user_id)), key=lambda one: one.created_at)[::-1]
        if before is not None:
            ids = [one.conversation_id for one in found]
            found = found[ids.index(before) + 1 :] if before in ids else []
        return found[: max(limit, 0)]

    def waiting(self, agent_id: str, user_id: str, instance_id: str) -> list[Conversation]:
        """List a story's conversations that were not learned from, the oldest first."""
        with self._lock:
            found = [one for one in self._said((agent_id, user_id)) if one.waits_for == instance_id]
        return sorted(found, key=lambda one: one.created_at)

    def learned(self, agent_id: str, user_id: str, session_id: str) -> int:
        """Return the turn up to which a story's session was saved."""
        return self._marks.get((agent_id, user_id, session_id), 0)

    # --- changes

    def commit(
        self,
        revised: MemoryRevision,
        conversation_id: str | None,
        result: Mapping[str, Any] | None,
        again: bool = False,
    ) -> bool:
        """Store a change and a result in one step, if the memory is still at the change's base version."""
        with self._lock:
            conversation = self._conversations.get(conversation_id or "")
            if (
                conversation is not None
                and has_succeeded(conversation.pipeline_result)
                and not (again and has_succeeded(result))
            ):
                raise LearnedBefore(conversation.conversation_id)
            if revised.change is not None and not self._change(revised.memory, revised.change):
                return False
            if conversation is not None and result is not None:
                told = replace(conversation, pipeline_result=copy.deepcopy(dict(result)))
                self._conversations[conversation.conversation_id] = told
        return True

    def _change(self, memory: Memory, change: Change) -> bool:
        before = self._memories.get((memory.agent_id, memory.user_id))
        if before is None or before.memory_id != memory.memory_id or before.version != change.version - 1:
            made = self._changes.get(memory.memory_id, [])
            return any(known.change_id == change.change_id for known in made)
        entries = {entry.content_id: entry for entry in before.entries}
        for step in change.steps:
            if step.after is not None:
                entries[step.after.content_id] = step.after
            elif step.before is not None:
                entries.pop(step.before.content_id, None)
        ordered = sorted(entries.values(), key=_order)
        self._keep(
            replace(before, entries=tuple(ordered), version=change.version, updated_at=memory.updated_at),
            "entries",
        )
        self._changes.setdefault(memory.memory_id, []).append(change)
        return True

    def changes(self, agent_id: str, user_id: str, limit: int) -> list[Change]:
        """List changes, the newest first."""
        with self._lock:
            memory = self._memories.get((agent_id, user_id))
            return self._changes.get(memory.memory_id, [])[::-1][: max(limit, 0)] if memory else []

    def forget(self, agent_id: str, user_id: str) -> bool:
        """Delete a memory and all that belongs to it but how far its stories were saved."""
        with self._lock:
            memory = self._memories.pop((agent_id, user_id), None)
            if memory is None:
                return False
            self._stamps.pop(memory.memory_id, None)
            self._changes.pop(memory.memory_id, None)
            for gone in self._said((agent_id, user_id)):
                del self._conversations[gone.conversation_id], self._digests[gone.conversation_id]
                self._vectors.pop(("conversations", gone.conversation_id), None)
            for entry in memory.entries:
                self._vectors.pop(("entries", entry.content_id), None)
            return True

    # --- finding

    def version(self, agent_id: str, user_id: str) -> MemoryVersion | None:
        """Find a memory without reading it."""
        with self._lock:
            memory = self._memories.get((agent_id, user_id))
            if memory is None:
                return None
            stamps = self._stamps[memory.memory_id]
            return MemoryVersion(memory.memory_id, stamps["entries"], stamps["conversations"])

    def texts(self, kind: TextKind, memory_id: str) -> list[SearchableText]:
        """Read what a memory's entries or conversations are found by, always in the same order."""
        with self._lock:
            if kind == "entries":
                return [
                    SearchableText(entry.content_id, entry.content_type, entry.text)
                    for entry in self._entries(memory_id)
                ]
            return [
                SearchableText(found.conversation_id, "", found.text())
                for found in self._conversations.values()
                if found.memory_id == memory_id
            ]

    def _entries(self, memory_id: str) -> tuple[MemoryEntry, ...]:
        found = (memory for memory in self._memories.values() if memory.memory_id == memory_id)
        return next((memory.entries for memory in found), ())

    def entries(self, memory_id: str, content_ids: Sequence[str]) -> list[MemoryEntry]:
        """Read some entries, as far as they are there."""
        with self._lock:
            return [entry for entry in self._entries(memory_id) if entry.content_id in content_ids]

    def prepare(self, embedder: str, dimension: int) -> None:
        """Make room for vectors of this embedder; those of another one, or of another dimension, are dropped."""
        with self._lock:
            if self._space != (embedder, dimension):
                self._space = (embedder, dimension)
                self._vectors.clear()

    def pending(self, kind: TextKind, memory_id: str | None, limit: int) -> list[PendingText]:
        """List what has no vector yet, of one memory or of all."""
        with self._lock:
            wanted = [memory_id] if memory_id is not None else sorted(self._stamps)
            found = [
                PendingText(one, row.id, row.text)
                for one in wanted
                for row in self.texts(kind, one)
                if self._vector(kind, row) is None
            ]
        return found[:limit]

    def _vector(self, kind: TextKind, row: SearchableText) -> Vectors | None:
        """Find the vector of a text as it is now."""
        text, vector = self._vectors.get((kind, row.id), ("", None))
        return vector if text == row.text else None

    def put_vectors(self, kind: TextKind, waiting: Sequence[PendingText], vectors: Vectors) -> None:
        """Keep vectors, a row a text; one whose text is another by now is not used."""
        with self._lock:
            for row, vector in zip(waiting, vectors, strict=True):
                self._vectors[kind, row.id] = (row.text, vector)

    def nearest(
        self,
        kind: TextKind,
        memory_id: str,
        vector: Sequence[float],
        limit: int,
        types: Sequence[ContentType] | None = None,
    ) -> list[tuple[str, float]]:
        """Find ids by their vectors, nearest first, with their cosine similarity."""
        asked = np.asarray(vector, dtype=np.float32)
        with self._lock:
            rows = [
                (row.id, self._vector(kind, row))
                for row in self.texts(kind, memory_id)
                if types is None or row.content_type in types
            ]
        scored = [
            (found, _cosine(asked, known))
            for found, known in rows
            if known is not None and len(known) == len(asked)
        ]
        return sorted(scored, key=lambda hit: -hit[1])[: max(limit, 0)]

    def drop_vectors(self) -> int:
        """Forget all vectors, so that they are rebuilt; return how many texts then await one."""
        with self._lock:
            self._vectors.clear()
            return len(self._conversations) + sum(len(memory.entries) for memory in self._memories.values())


def _order(entry: MemoryEntry) -> tuple[str, int, str]:
    return (entry.content_type, entry.position, entry.content_id)


def _cosine(one: Vectors, other: Vectors) -> float:
    length = float(np.linalg.norm(one)) * float(np.linalg.norm(other))
    return float(np.dot(one, other)) / length if length else 0.0
