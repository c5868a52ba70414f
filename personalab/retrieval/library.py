"""The event library on Chroma, which stores and finds what happened in the stories."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from personalab.errors import StorageError
from personalab.ports import Embedder, IndexState
from personalab.retrieval.batches import batches_of
from personalab.retrieval.catalogue import Catalogue, CatalogueFile, fits
from personalab.story.recall import Hit, Kind, RecallQuery, StoryEvent

if TYPE_CHECKING:
    from personalab.retrieval.shelf import EventCollection
    from personalab.retrieval.shelves import Shelves

BATCH, BATCH_CHARACTERS = 500, 1_000_000
"""How many events, and how many characters of them, are written before others get their turn."""
MOST_OTHERS = 20
"""How many other instances are searched, those written last."""


class ChromaLibrary:
    """The event library in a folder of the data root; several processes may use it at once.

    Vectors stand in Chroma, a collection an instance and kind; words are indexed in memory from there.
    """

    def __init__(self, folder: Path, open_embedder: Callable[[], Embedder]) -> None:
        self._folder = folder
        self._open_embedder = open_embedder
        self._catalogue_file = CatalogueFile(folder)
        self._opening = threading.Lock()
        self._opened: Embedder | None = None

    @cached_property
    def _shelves(self) -> Shelves:
        from personalab.retrieval.shelves import open_shelves

        shelves = open_shelves(self._folder)
        self._catalogue_file = shelves.catalogue_file
        return shelves

    def _embedder(self) -> Embedder:
        with self._opening:
            if self._opened is None:
                self._opened = self._open_embedder()
            return self._opened

    async def write(self, events: Sequence[StoryEvent]) -> None:
        """Add events, or replace those with the same ``event_id``."""
        if events:
            await asyncio.to_thread(self._write, events)

    async def remove(
        self, instance_id: str, *, session_id: str | None = None, kinds: Sequence[Kind] | None = None
    ) -> None:
        """Forget an instance's events (of one session, or all; of some kinds, or all)."""
        if self._catalogue_file.peek() is not None:
            await asyncio.to_thread(self._remove, instance_id, session_id, kinds)

    async def search(self, search: RecallQuery) -> list[Hit]:
        """Find the best events, best first; ``[]`` where nothing is indexed."""
        known = self._catalogue_file.peek() if search.query.strip() else None
        if known is None or (isinstance(known, Catalogue) and not _names(known, search)):
            return []
        return await asyncio.to_thread(self._search, search)

    async def missing(self, instance_id: str, event_ids: Sequence[str]) -> list[str]:
        """Return the events of an instance that are not in the library yet."""
        if self._catalogue_file.peek() is None or not event_ids:
            return list(event_ids)
        return await asyncio.to_thread(self._missing, instance_id, event_ids)

    async def state(self) -> IndexState:
        """Return the indexed counts and whether the configured embedder made the index."""
        return await asyncio.to_thread(self._state)

    async def reset(self) -> None:
        """Drop the whole index, so that it can be rebuilt with the configured embedder."""
        await asyncio.to_thread(self._reset)

    def _write(self, events: Sequence[StoryEvent]) -> None:
        from personalab.retrieval.event_vectors import vectors_of
        from personalab.retrieval.store import collection_name

        embedder = self._embedder()
        by_name: dict[str, list[StoryEvent]] = {}
        for event in {event.event_id: event for event in map(_clean, events)}.values():
            by_name.setdefault(collection_name(event.instance_id, event.kind), []).append(event)
        for name, group in by_name.items():
            for batch in batches_of(
                group, _characters, items_at_most=BATCH, characters_at_most=BATCH_CHARACTERS
            ):
                vectors = vectors_of(batch, embedder, lambda ids, name=name: self._texts(name, ids))
                with self._shelves.writing() as catalogue:
                    catalogue = catalogue or self._shelves.begin(embedder.identity)
                    _check(catalogue, embedder)
                    self._shelves.put(catalogue, name, batch, vectors)

    def _texts(self, name: str, event_ids: Sequence[str]) -> dict[str, str]:
        with self._shelves.reading() as catalogue:
            if catalogue is None or name not in catalogue.collections:
                return {}
            return self._shelves.texts(catalogue, name, event_ids)

    def _remove(self, instance_id: str, session_id: str | None, kinds: Sequence[Kind] | None) -> None:
        from personalab.retrieval.store import named

        with self._shelves.writing() as catalogue:
            if catalogue is None:
                return
            for name in _own_names(catalogue, instance_id):
                if kinds is not None and named(name)[1] not in kinds:
                    continue
                catalogue = self._shelves.forget(catalogue, name, session_id)

    def _search(self, search: RecallQuery) -> list[Hit]:
        from personalab.retrieval.offline_embedder import query_vector
        from personalab.retrieval.ranking import ShelfMatches, rank

        embedder = self._embedder()
        search = replace(search, in_prompt=frozenset(map(_whole, search.in_prompt)))
        shelves = {name: shelf for _, name, shelf in self._open_shelves(search, embedder)}
        vectors = {
            name: query_vector(embedder, search.query, shelf.lexical.rarity)
            for name, shelf in shelves.items()
        }
        sections: list[ShelfMatches] = []
        for catalogue, name, shelf in self._open_shelves(search, embedder):
            vector = vectors.get(name, ())
            nearest = partial(self._shelves.nearest, catalogue, name, vector) if any(vector) else None
            sections.append(ShelfMatches.of(shelf, search, nearest))
        return rank(sections, search)

    def _open_shelves(
        self, search: RecallQuery, embedder: Embedder
    ) -> Iterator[tuple[Catalogue, str, EventCollection]]:
        """Go through the shelves a search looks into, under the lock that keeps writers out."""
        with self._shelves.reading() as catalogue:
            if catalogue is None:
                return
            for name in _names(catalogue, search):
                _check(catalogue, embedder)
                if shelf := self._shelves.shelf(catalogue, name):
                    yield catalogue, name, shelf

    def _missing(self, instance_id: str, event_ids: Sequence[str]) -> list[str]:
        with self._shelves.reading() as catalogue:
            if catalogue is None:
                return list(event_ids)
            held: set[str] = set()
            for name in _own_names(catalogue, instance_id):
                held |= self._shelves.shelf(catalogue, name).numbers.keys() & set(event_ids)
        return [event_id for event_id in event_ids if event_id not in held]

    def _state(self) -> IndexState:
        from personalab.retrieval.store import named

        counts: dict[str, int] = {"summary": 0, "plot": 0, "turn": 0}
        configured = self._embedder().identity
        try:
            with self._shelves.reading() as catalogue:
                for name, count in self._shelves.counts().items() if catalogue else ():
                    counts[named(name)[1]] += count
        except StorageError as error:
            if error.code == "clock_too_early":
                raise
            return IndexState("unreadable", configured)
        if catalogue is None or not any(counts.values()):
            return IndexState("empty", configured, counts)
        status = "ready" if catalogue.embedder == configured else "other_embedder"
        return IndexState(status, catalogue.embedder, counts)

    def _reset(self) -> None:
        with self._shelves.replacing():
            self._shelves.begin(self._embedder().identity)


def _characters(event: StoryEvent) -> int:
    return len(event.text)


def _own_names(catalogue: Catalogue, instance_id: str) -> list[str]:
    return [name for name in catalogue.collections if name.rpartition(".")[0] == instance_id]


def _names(catalogue: Catalogue, search: RecallQuery) -> list[str]:
    """Choose the collections a search looks into."""
    from personalab.retrieval.store import collection_name

    if not search.others:
        wanted = [collection_name(search.instance_id, kind) for kind in search.kinds]
        return [name for name in wanted if name in catalogue.collections]
    endings = tuple(collection_name("", kind) for kind in search.kinds)
    found = [
        (entry.stamp, name)
        for name, entry in catalogue.collections.items()
        if name.endswith(endings)
        and name.rpartition(".")[0] != search.instance_id
        and any(fits(place, search) for place in entry.places)
    ]
    return [name for _, name in sorted(found, reverse=True)[: MOST_OTHERS * len(search.kinds)]]


def _check(catalogue: Catalogue, embedder: Embedder) -> None:
    if catalogue.embedder != embedder.identity:
        raise StorageError("other_embedder", indexed=catalogue.embedder, configured=embedder.identity)


def _clean(event: StoryEvent) -> StoryEvent:
    """Make texts storable: half a surrogate pair cannot be written as UTF-8."""
    return replace(event, text=_whole(event.text), timestamp=_whole(event.timestamp))


def _whole(text: str) -> str:
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
