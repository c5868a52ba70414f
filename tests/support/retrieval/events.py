"""Sample events and searches for tests of the event library."""

from __future__ import annotations

from pathlib import Path

from personalab.retrieval.embedders import open_embedder
from personalab.retrieval.library import ChromaLibrary
from personalab.story.recall import Kind, RecallQuery, StoryEvent


def event(
    index: int,
    text: str,
    *,
    kind: Kind = "turn",
    instance: str = "inst_001",
    session: str = "sess_001",
    character: str = "char_a",
    background: str = "bg_a",
    timestamp: str = "2025-10-16T10:30:00Z",
) -> StoryEvent:
    """Make an event; a turn has a time, a summary is linked to its plot."""
    others = {"summary": "plot", "plot": "summary"}
    tail = f"{instance}_{session}_{index}"
    return StoryEvent(
        event_id=f"{kind}_{tail}",
        kind=kind,
        text=text,
        instance_id=instance,
        session_id=session,
        index=index,
        character_id=character,
        background_id=background,
        first_turn=index,
        last_turn=index,
        related_id=f"{others[kind]}_{tail}" if kind in others else "",
        timestamp=timestamp if kind == "turn" else "",
    )


def looking(query: str, *kinds: Kind, instance: str = "inst_001", limit: int = 10) -> RecallQuery:
    """Make a search in one instance."""
    return RecallQuery(query, kinds or ("turn",), limit, instance)


def open_library(folder: Path) -> ChromaLibrary:
    """Open a library with the offline embedder."""
    return ChromaLibrary(folder, lambda: open_embedder("offline", api_key=None, base_url=None))
