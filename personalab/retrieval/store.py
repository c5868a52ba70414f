"""Events and their vectors in Chroma collections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from personalab.retrieval.chroma import COSINE, ChromaFolder, nearest
from personalab.story.recall import Kind, StoryEvent

Filter = Mapping[str, Any]
"""A condition on metadata, as Chroma words it."""
PAGE = 2_000
_ENDINGS: dict[Kind, str] = {"summary": "summaries", "plot": "plots", "turn": "turns"}
_KINDS: dict[str, Kind] = {ending: kind for kind, ending in _ENDINGS.items()}


def collection_name(instance_id: str, kind: Kind) -> str:
    """Name the collection of an instance's events of one kind."""
    return f"{instance_id}.{_ENDINGS[kind]}"


def named(name: str) -> tuple[str, Kind]:
    """Return the owner and the kind of a collection."""
    instance_id, _, ending = name.rpartition(".")
    return instance_id, _KINDS[ending]


class Store:
    """An open Chroma folder; a closed one opens itself when it is used again."""

    def __init__(self, path: Path) -> None:
        self._chroma = ChromaFolder(path, shown="event_library", unreadable="library_unreadable")

    def close(self) -> None:
        """Close the files; the next read sees the current state on disk."""
        self._chroma.close()

    def counts(self) -> dict[str, int]:
        """Count the events of every collection."""
        with self._chroma.translated():
            found = self._chroma.client().list_collections()
            return {collection.name: collection.count() for collection in found}

    def read(self, name: str) -> Iterator[StoryEvent]:
        """Read all events of a collection, page by page."""
        kind = named(name)[1]
        offset = 0
        while True:
            with self._chroma.translated():
                if (collection := self._chroma.collection(name)) is None:
                    return
                page = collection.get(limit=PAGE, offset=offset, include=["documents", "metadatas"])
            rows = zip(page["ids"], page["documents"] or [], page["metadatas"] or [], strict=True)
            yield from (_event(event_id, kind, text, fields) for event_id, text, fields in rows)
            if len(page["ids"]) < PAGE:
                return
            offset += PAGE

    def texts(self, name: str, event_ids: Sequence[str]) -> dict[str, str]:
        """Read the texts of some events, as far as they are there."""
        with self._chroma.translated():
            if (collection := self._chroma.collection(name)) is None:
                return {}
            found = collection.get(ids=list(event_ids), include=["documents"])
        return dict(zip(found["ids"], found["documents"] or [], strict=True))

    def nearest(
        self, name: str, vector: Sequence[float], count: int, where: Filter | None
    ) -> list[tuple[str, float]]:
        """Find the events nearest to a vector, with their cosine similarity."""
        with self._chroma.translated():
            return nearest(self._chroma.collection(name), vector, count, where)

    def put(self, name: str, events: Sequence[StoryEvent], vectors: NDArray[np.float32]) -> None:
        """Add events with their vectors, or replace those with the same ids."""
        from langchain_chroma import Chroma

        from personalab.retrieval.prepared import PreparedEmbeddings

        with self._chroma.writing():
            client = self._chroma.client()
            shelf = Chroma(name, PreparedEmbeddings(vectors), client=client, collection_metadata=COSINE)
            add = cast("Callable[..., list[str]]", shelf.add_texts)  # pyright: ignore[reportUnknownMemberType]
            add(
                [event.text for event in events],
                metadatas=[_fields(event) for event in events],
                ids=[event.event_id for event in events],
            )

    def forget(self, name: str, session_id: str) -> None:
        """Remove a session's events."""
        with self._chroma.translated():
            if (collection := self._chroma.collection(name)) is not None:
                collection.delete(where={"session_id": session_id})

    def drop(self, name: str) -> None:
        """Remove a collection, if it is there."""
        self._chroma.drop(name)


def _fields(event: StoryEvent) -> dict[str, str | int]:
    related: dict[Kind, str] = {"summary": "related_plot_id", "plot": "related_summary_id"}
    fields: dict[str, str | int] = {
        "session_id": event.session_id,
        "instance_id": event.instance_id,
        "character_id": event.character_id,
        "background_id": event.background_id,
        "index": event.index,
        "first_turn": event.first_turn,
        "last_turn": event.last_turn,
        "timestamp": event.timestamp,
    }
    if event.kind in related:
        fields[related[event.kind]] = event.related_id
    return fields


def _event(event_id: str, kind: Kind, text: str, fields: Mapping[str, Any]) -> StoryEvent:
    return StoryEvent(
        event_id=event_id,
        kind=kind,
        text=text,
        instance_id=str(fields["instance_id"]),
        session_id=str(fields["session_id"]),
        index=int(fields["index"]),
        character_id=str(fields["character_id"]),
        background_id=str(fields["background_id"]),
        first_turn=int(fields["first_turn"]),
        last_turn=int(fields["last_turn"]),
        related_id=str(fields.get("related_plot_id") or fields.get("related_summary_id") or ""),
        timestamp=str(fields["timestamp"]),
    )
