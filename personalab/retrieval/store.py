"""How are events and their vectors kept in Chroma?

Only this module talks to Chroma. Every vector is ours: Chroma's own embedding function downloads a model.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from personalab.errors import PersonaLabError, StorageError
from personalab.story.recall import Kind, StoryEvent

if TYPE_CHECKING:
    from chromadb.api.client import Client
    from chromadb.api.models.Collection import Collection

Filter = Mapping[str, Any]
"""A condition on metadata, as Chroma words it."""
PAGE = 2_000
_ENDINGS: dict[Kind, str] = {"summary": "summaries", "plot": "plots", "turn": "turns"}
_KINDS: dict[str, Kind] = {ending: kind for kind, ending in _ENDINGS.items()}
_SPACE: dict[str, Any] = {"hnsw:space": "cosine"}


def collection_name(instance_id: str, kind: Kind) -> str:
    """Name the collection of an instance's events of one kind."""
    return f"{instance_id}.{_ENDINGS[kind]}"


def named(name: str) -> tuple[str, Kind]:
    """Tell whose collection it is, and of which kind."""
    instance_id, _, ending = name.rpartition(".")
    return instance_id, _KINDS[ending]


class Store:
    """An open Chroma folder; a closed one opens itself when it is used again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._client: Client | None = None
        self._collections: dict[str, Collection] = {}
        self._release: weakref.finalize[..., Store] | None = None

    def close(self) -> None:
        """Let go of the files; what is read next is what stands on the disk then."""
        self._client = None
        self._collections.clear()
        if self._release is not None:
            self._release()

    def counts(self) -> dict[str, int]:
        """Count the events of every collection."""
        with self._translated():
            found = self._opened().list_collections()
            return {collection.name: collection.count() for collection in found}

    def read(self, name: str) -> Iterator[StoryEvent]:
        """Read all events of a collection, page by page."""
        kind = named(name)[1]
        offset = 0
        while True:
            with self._translated():
                page = self._collection(name).get(
                    limit=PAGE, offset=offset, include=["documents", "metadatas"]
                )
            rows = zip(page["ids"], page["documents"] or [], page["metadatas"] or [], strict=True)
            yield from (_event(event_id, kind, text, fields) for event_id, text, fields in rows)
            if len(page["ids"]) < PAGE:
                return
            offset += PAGE

    def texts(self, name: str, event_ids: Sequence[str]) -> dict[str, str]:
        """Read the texts of some events, as far as they are there."""
        with self._translated():
            found = self._collection(name).get(ids=list(event_ids), include=["documents"])
        return dict(zip(found["ids"], found["documents"] or [], strict=True))

    def nearest(
        self, name: str, vector: Sequence[float], count: int, where: Filter | None
    ) -> list[tuple[str, float]]:
        """Find the events nearest to a vector, with their cosine similarity."""
        with self._translated():
            found = self._collection(name).query(
                query_embeddings=[vector],
                n_results=count,
                where=cast("Any", where),
                include=["distances"],
            )
        distances = (found["distances"] or [[]])[0]
        return [(event_id, 1 - float(far)) for event_id, far in zip(found["ids"][0], distances, strict=True)]

    def put(self, name: str, events: Sequence[StoryEvent], vectors: NDArray[np.float32]) -> None:
        """Add events with their vectors, or replace those with the same ids."""
        from langchain_chroma import Chroma

        from personalab.retrieval.prepared import Prepared

        with self._translated():
            client = self._opened()
            shelf = Chroma(name, Prepared(vectors), client=client, collection_metadata=_SPACE)
            add = cast("Callable[..., list[str]]", shelf.add_texts)  # pyright: ignore[reportUnknownMemberType]
            add(
                [event.text for event in events],
                metadatas=[_fields(event) for event in events],
                ids=[event.event_id for event in events],
            )

    def forget(self, name: str, session_id: str) -> None:
        """Remove a session's events."""
        with self._translated():
            self._collection(name).delete(where={"session_id": session_id})

    def drop(self, name: str) -> None:
        """Remove a collection, if it is there."""
        from chromadb.errors import NotFoundError

        self._collections.pop(name, None)
        with self._translated():
            try:
                self._opened().delete_collection(name)
            except NotFoundError:
                return

    def _opened(self) -> Client:
        if self._client is None:
            import chromadb
            from chromadb.config import Settings

            self._path.mkdir(parents=True, exist_ok=True)
            settings = Settings(anonymized_telemetry=False)
            try:
                self._client = cast("Client", chromadb.PersistentClient(str(self._path), settings=settings))
            except BaseException:
                _forget_failed(self._path)
                raise
            self._release = weakref.finalize(self, self._client.close)
        return self._client

    def _collection(self, name: str) -> Collection:
        if name not in self._collections:
            self._collections[name] = self._opened().get_collection(name, embedding_function=None)
        return self._collections[name]

    @contextmanager
    def _translated(self) -> Generator[None]:
        """Say in our words what Chroma could not do; its state is not trusted afterwards."""
        try:
            yield
        except PersonaLabError:
            raise
        except BaseException as error:
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            self.close()
            raise _explained(error) from error


def _forget_failed(path: Path) -> None:
    """Take a system that could not start out of Chroma's cache, or the next try would get the same one."""
    from chromadb.api.shared_system_client import SharedSystemClient

    systems = SharedSystemClient._identifier_to_system  # pyright: ignore[reportPrivateUsage]
    systems.pop(str(path), None)


def _explained(error: BaseException) -> StorageError:
    words = " ".join(str(error).split())[:300] or type(error).__name__
    lowered = words.lower()
    if "disk is full" in lowered or "no space left" in lowered:
        return StorageError("disk_full", file="event_library")
    if "readonly database" in lowered or isinstance(error, PermissionError):
        return StorageError("not_writable", file="event_library", reason=words)
    return StorageError("library_unreadable", reason=words)


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
