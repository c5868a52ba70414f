"""When is the past looked up, with which words, and what of it enters the prompt?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["summary", "plot", "turn"]


@dataclass(frozen=True, slots=True)
class StoryEvent:
    """Something that happened: a summary's point, its detailed plot, or a turn word for word."""

    event_id: str
    kind: Kind
    text: str
    instance_id: str
    session_id: str
    index: int
    """Its place in the session, from 1; for a turn, the turn's number."""
    character_id: str
    background_id: str = ""
    first_turn: int = 0
    last_turn: int = 0
    """The turns it covers; 0 where that is not known."""
    related_id: str = ""
    """The plot of a summary, the summary of a plot."""
    timestamp: str = ""
    """When a turn was said, ISO 8601; questions name dates."""


@dataclass(frozen=True, slots=True)
class Search:
    """What to look for, and where."""

    query: str
    kinds: tuple[Kind, ...]
    limit: int
    instance_id: str
    """The instance whose story is asked about."""
    others: bool = False
    """Search all instances but this one, of the same character and background."""
    character_id: str | None = None
    background_id: str | None = None
    """Only events of this character and background; ``None`` does not ask."""


@dataclass(frozen=True, slots=True)
class Hit:
    """An event that was found, and why."""

    event: StoryEvent
    score: float
    """Fused; comparable within one search only."""
    confidence: float
    """0 to 1, comparable between searches: how surely this answers the query."""
    lexical_rank: int | None
    dense_rank: int | None
    """Places from 1 in the two rankings, or ``None`` where one did not find it."""
    matched: tuple[str, ...] = ()
    """The query's words that stand in the event, the rarest first."""
    similarity: float | None = None
