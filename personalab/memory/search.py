"""Queries and hits of searches in memories, and the part of a memory that enters a prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from personalab.memory.records import CONTENT_TYPES, ContentType, Conversation, Memory, MemoryEntry

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


CONFIDENT = 0.25
"""From this confidence on, an event fits what was just said."""
_PROFILE_SHARE, _MIND_SHARE = 0.6, 0.8
"""Share of the budget that may be used after the profile, and after the mind entries."""
_ROW_SHARE = 0.25
"""Share of the budget that one entry may take; a longer one is cut."""
_MISSES = 20
"""After so many entries that found no room the list is done: there may be very many."""

Count = Callable[[str], int]


def player_text(
    memory: Memory, events: Sequence[MemoryEntry], templates: Mapping[str, str], count: Count, budget: int
) -> str:
    """Word what is known about the player: profile, mind, and the events that fit, the newest where room is short."""
    used, longest = 0, int(budget * _ROW_SHARE)
    rows: list[str] = []
    groups = ((memory.of("profile"), _PROFILE_SHARE), (memory.of("mind"), _MIND_SHARE))
    for entries, share in groups:
        chosen, used = _fitting(_rows(entries[::-1], count, longest), used, int(budget * share))
        rows += reversed(chosen)
    recalled, _ = _fitting(_rows(events, count, longest), used, budget)
    if recalled:
        rows += [templates["player_memory_events"].strip(), *recalled]
    return "\n".join(rows)


def _fitting(rows: Iterable[tuple[str, int]], used: int, limit: int) -> tuple[list[str], int]:
    chosen: list[str] = []
    misses = 0
    for row, cost in rows:
        if used + cost <= limit:
            chosen.append(row)
            used += cost
        elif (misses := misses + 1) >= _MISSES:
            break
    return chosen, used


def _rows(entries: Sequence[MemoryEntry], count: Count, longest: int) -> Iterator[tuple[str, int]]:
    """Word entries one by one, with what each costs."""
    for entry in entries:
        row = f"- {entry.text}"
        cost = count(row) + 1
        if cost > longest:
            row = _cut(entry.text, count, longest)
            cost = count(row) + 1
        yield row, cost


def _cut(text: str, count: Count, longest: int) -> str:
    """Keep as much of a text's beginning as there is room for."""
    low, high = 1, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if count(f"- {text[:middle]}…") < longest:
            low = middle
        else:
            high = middle - 1
    return f"- {text[:low]}…"
