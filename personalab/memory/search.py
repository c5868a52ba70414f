"""Queries and hits of searches in memories and conversations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from personalab.memory.records import CONTENT_TYPES, ContentType, Conversation, MemoryEntry

MAX_QUERY = 10_000


@dataclass(frozen=True, slots=True)
class MemorySearch:
    """What to look for in what an agent knows about a user."""

    query: str
    agent_id: str
    user_id: str
    limit: int = 10
    types: tuple[ContentType, ...] = CONTENT_TYPES


@dataclass(frozen=True, slots=True)
class MemoryHit:
    """An entry that was found; ``confidence`` can be compared between searches, ``score`` only within one."""

    entry: MemoryEntry
    score: float
    confidence: float

    def fields(self) -> dict[str, Any]:
        """Return its JSON object: text, score, type and the conversation it came from."""
        sources = self.entry.sources
        return {
            "content_id": self.entry.content_id,
            "content_type": self.entry.content_type,
            "text": self.entry.text,
            "score": round(self.score, 4),
            "confidence": round(self.confidence, 3),
            "conversation_id": sources[-1].conversation_id if sources else None,
            "messages": list(sources[-1].messages) if sources else [],
        }


@dataclass(frozen=True, slots=True)
class ConversationHit:
    """A conversation that was found."""

    conversation: Conversation
    score: float

    def fields(self) -> dict[str, Any]:
        """Return its JSON object."""
        found = self.conversation
        return {
            "conversation_id": found.conversation_id,
            "session_id": found.session_id,
            "created_at": found.created_at,
            "turn_count": found.turn_count,
            "summary": found.summary,
            "score": round(self.score, 4),
        }
