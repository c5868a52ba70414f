"""The event library on Chroma, which stores and finds what happened in the stories."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from personalab.data_files import open_regular
from personalab.dialogue import well_formed
from personalab.errors import Reason, StorageError, as_reason
from personalab.ports import Embedder, IndexState
from personalab.story.recall import Hit, Kind, RecallQuery, StoryEvent

if TYPE_CHECKING:
    from personalab.retrieval.event_store import EventCollection, OpenLibrary


NAME = "catalogue.json"
Place = tuple[str, str]
"""A character and a background."""


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """A collection: when it was last written, and whose events it holds."""

    stamp: int
    places: frozenset[Place] = frozenset()


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The library's table of contents."""

    embedder: str
    epoch: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Another one means that Chroma's folder was replaced."""
    collections: Mapping[str, CollectionInfo] = field(default_factory=dict[str, CollectionInfo])

    def written(self, name: str, places: Iterable[Place]) -> Catalogue:
        """Note that a collection is being written."""
        old = self.collections.get(name, CollectionInfo(0))
        entry = CollectionInfo(max(time.time_ns(), old.stamp + 1), old.places | frozenset(places))
        return replace(self, collections={**self.collections, name: entry})

    def without(self, name: str) -> Catalogue:
        """Note that a collection is no more."""
        return replace(
            self, collections={key: entry for key, entry in self.collections.items() if key != name}
        )


_ENDINGS: dict[Kind, str] = {"summary": "summaries", "plot": "plots", "turn": "turns"}
_KINDS: dict[str, Kind] = {ending: kind for kind, ending in _ENDINGS.items()}


def collection_name(instance_id: str, kind: Kind) -> str:
    """Name the collection of an instance's events of one kind."""
    return f"{instance_id}.{_ENDINGS[kind]}"


def split_collection_name(name: str) -> tuple[str, Kind]:
    """Return the owner and the kind of a collection."""
    instance_id, _, ending = name.rpartition(".")
    return instance_id, _KINDS[ending]


def fits(place: Place, search: RecallQuery) -> bool:
    """Return whether a search asks for events of this character and background."""
    return search.character_id in (None, place[0]) and search.background_id in (None, place[1])


class CatalogueFile:
    """The catalogue on disk; read again only when the file has changed."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._known: tuple[object, Catalogue] | None = None

    def peek(self) -> Catalogue | bool | None:
        """Check without reading: ``None`` for no catalogue, the known one, or ``True`` for an unread one."""
        key = self._key()
        if key is None:
            return None
        known = self._known
        return known[1] if known is not None and known[0] == key else True

    def read(self) -> Catalogue | None:
        """Read what the library holds; ``None`` where there is no library."""
        match self.peek():
            case Catalogue() as known:
                return known
            case None:
                return None
            case _:
                pass
        key = self._key()
        try:
            with os.fdopen(open_regular(self._path), "rb") as file:
                catalogue = _from_json(file.read())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise StorageError(
                "library_unreadable", reason=Reason("at_field", field=NAME, reason=as_reason(error))
            ) from error
        self._known = (key, catalogue)
        return catalogue

    def write(self, catalogue: Catalogue) -> None:
        """Replace the file in one step."""
        draft = self._path.with_suffix(".new")
        with os.fdopen(open_regular(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
            file.write(_to_json(catalogue).encode("utf-8"))
        os.replace(draft, self._path)
        self._known = (self._key(), catalogue)

    def remove(self) -> None:
        """Forget what the library held."""
        self._known = None
        self._path.unlink(missing_ok=True)

    def _key(self) -> object:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _to_json(catalogue: Catalogue) -> str:
    collections = {
        name: {"stamp": entry.stamp, "places": sorted(map(list, entry.places))}
        for name, entry in catalogue.collections.items()
    }
    whole = {"embedder": catalogue.embedder, "epoch": catalogue.epoch, "collections": collections}
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":"))


def _from_json(raw: bytes) -> Catalogue:
    whole = cast("dict[str, Any]", json.loads(raw))
    collections = {
        str(name): CollectionInfo(
            int(entry["stamp"]), frozenset((str(who), str(where)) for who, where in entry["places"])
        )
        for name, entry in cast("dict[str, Any]", whole["collections"]).items()
    }
    return Catalogue(str(whole["embedder"]), str(whole["epoch"]), collections)


BATCH, BATCH_CHARACTERS = 500, 1_000_000
"""How many events, and how many characters of them, are written before others get their turn."""
MOST_OTHERS = 20
"""How many other instances are searched, those written last."""


class ChromaLibrary:
    """The event library in a folder of the data root; several processes may use it at once.

    Vectors are in Chroma, one collection per instance and kind; words are indexed in memory from there.
    """

    def __init__(self, folder: Path, open_embedder: Callable[[], Embedder]) -> None:
        self._folder = folder
        self._open_embedder = open_embedder
        self._catalogue_file = CatalogueFile(folder)
        self._opening = threading.Lock()
        self._opened: Embedder | None = None

    @cached_property
    def _view(self) -> OpenLibrary:
        from personalab.retrieval.event_store import open_library_view

        view = open_library_view(self._folder)
        self._catalogue_file = view.catalogue_file
        return view

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
        from personalab.retrieval.event_store import event_vectors
        from personalab.retrieval.lexical import batched_by_size

        embedder = self._embedder()
        by_name: dict[str, list[StoryEvent]] = {}
        for event in {event.event_id: event for event in map(_clean, events)}.values():
            by_name.setdefault(collection_name(event.instance_id, event.kind), []).append(event)
        for name, group in by_name.items():
            for batch in batched_by_size(
                group, _characters, items_at_most=BATCH, characters_at_most=BATCH_CHARACTERS
            ):
                vectors = event_vectors(batch, embedder, lambda ids, name=name: self._texts(name, ids))
                with self._view.writing() as catalogue:
                    catalogue = catalogue or self._view.begin(embedder.identity)
                    _check(catalogue, embedder)
                    self._view.put(catalogue, name, batch, vectors)

    def _texts(self, name: str, event_ids: Sequence[str]) -> dict[str, str]:
        with self._view.reading() as catalogue:
            if catalogue is None or name not in catalogue.collections:
                return {}
            return self._view.texts(catalogue, name, event_ids)

    def _remove(self, instance_id: str, session_id: str | None, kinds: Sequence[Kind] | None) -> None:
        with self._view.writing() as catalogue:
            if catalogue is None:
                return
            for name in _own_names(catalogue, instance_id):
                if kinds is not None and split_collection_name(name)[1] not in kinds:
                    continue
                catalogue = self._view.forget(catalogue, name, session_id)

    def _search(self, search: RecallQuery) -> list[Hit]:
        from personalab.retrieval.embedders import query_vector
        from personalab.retrieval.ranking import CollectionMatches, rank

        embedder = self._embedder()
        search = replace(search, in_prompt=frozenset(map(well_formed, search.in_prompt)))
        collections = {name: collection for _, name, collection in self._open_collections(search, embedder)}
        vectors = {
            name: query_vector(embedder, search.query, collection.lexical.rarity)
            for name, collection in collections.items()
        }
        sections: list[CollectionMatches] = []
        for catalogue, name, collection in self._open_collections(search, embedder):
            vector = vectors.get(name, ())
            nearest = partial(self._view.nearest, catalogue, name, vector) if any(vector) else None
            sections.append(CollectionMatches.of(collection, search, nearest))
        return rank(sections, search)

    def _open_collections(
        self, search: RecallQuery, embedder: Embedder
    ) -> Iterator[tuple[Catalogue, str, EventCollection]]:
        """Go through the collections a search looks into, under the lock that keeps writers out."""
        with self._view.reading() as catalogue:
            if catalogue is None:
                return
            for name in _names(catalogue, search):
                _check(catalogue, embedder)
                if collection := self._view.collection(catalogue, name):
                    yield catalogue, name, collection

    def _missing(self, instance_id: str, event_ids: Sequence[str]) -> list[str]:
        with self._view.reading() as catalogue:
            if catalogue is None:
                return list(event_ids)
            held: set[str] = set()
            for name in _own_names(catalogue, instance_id):
                held |= self._view.collection(catalogue, name).numbers.keys() & set(event_ids)
        return [event_id for event_id in event_ids if event_id not in held]

    def _state(self) -> IndexState:
        counts: dict[str, int] = {"summary": 0, "plot": 0, "turn": 0}
        configured = self._embedder().identity
        try:
            with self._view.reading() as catalogue:
                for name, count in self._view.counts().items() if catalogue else ():
                    counts[split_collection_name(name)[1]] += count
        except StorageError as error:
            if error.code == "clock_too_early":
                raise
            return IndexState("unreadable", configured)
        if catalogue is None or not any(counts.values()):
            return IndexState("empty", configured, counts)
        status = "ready" if catalogue.embedder == configured else "other_embedder"
        return IndexState(status, catalogue.embedder, counts)

    def _reset(self) -> None:
        with self._view.replacing():
            self._view.begin(self._embedder().identity)


def _characters(event: StoryEvent) -> int:
    return len(event.text)


def _own_names(catalogue: Catalogue, instance_id: str) -> list[str]:
    return [name for name in catalogue.collections if name.rpartition(".")[0] == instance_id]


def _names(catalogue: Catalogue, search: RecallQuery) -> list[str]:
    """Choose the collections a search looks into."""
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
    return replace(event, text=well_formed(event.text), timestamp=well_formed(event.timestamp))
