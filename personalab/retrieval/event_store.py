"""Events and their vectors in Chroma, as this process has them open."""

from __future__ import annotations

import os
import shutil
import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from personalab.ports import Embedder
from personalab.retrieval.chroma import ChromaFolder, Filter, exclusive_lock, shared_lock
from personalab.retrieval.lexical import LexicalIndex, Mask
from personalab.retrieval.library import Catalogue, CatalogueFile, Place, fits, split_collection_name
from personalab.story.recall import Kind, RecallQuery, StoryEvent

Int32s = NDArray[np.int32]
_Key = TypeVar("_Key")


def _order(event: StoryEvent) -> tuple[int, str, int, str]:
    """Sessions are counted, so that a longer id is a later one."""
    return len(event.session_id), event.session_id, event.index, event.event_id


def _words(event: StoryEvent) -> str:
    """Return what an event is found by: questions name dates, so the day counts among its words."""
    return f"{event.timestamp[:10]} {event.text}" if event.timestamp else event.text


def _group(event: StoryEvent) -> str:
    """Return an event's group: turns of one session share their words, a summary is its own group."""
    return event.session_id if event.kind == "turn" else event.event_id


class EventCollection:
    """Events of one instance and kind; those that come later are appended."""

    def __init__(self, events: Iterable[StoryEvent] = ()) -> None:
        self.events: list[StoryEvent] = []
        self.numbers: dict[str, int] = {}
        self.lexical = LexicalIndex()
        self._by_text: dict[str, list[int]] = {}
        self._session_codes: dict[str, int] = {}
        self._place_codes: dict[Place, int] = {}
        self._sessions: Int32s = np.zeros(0, dtype=np.int32)
        self._places: Int32s = np.zeros(0, dtype=np.int32)
        self._indexes: Int32s = np.zeros(0, dtype=np.int32)
        self._append(sorted(events, key=_order))

    def __len__(self) -> int:
        return len(self.events)

    def with_events(self, events: Sequence[StoryEvent]) -> EventCollection:
        """Return the collection with events added or replaced: itself where they only follow."""
        fresh = {event.event_id: event for event in sorted(events, key=_order)}
        follows = not self.events or not fresh or _order(self.events[-1]) < _order(next(iter(fresh.values())))
        if follows and fresh.keys().isdisjoint(self.numbers):
            self._append(list(fresh.values()))
            return self
        return EventCollection({**{event.event_id: event for event in self.events}, **fresh}.values())

    def _append(self, events: Sequence[StoryEvent]) -> None:
        for number, event in enumerate(events, start=len(self.events)):
            self.numbers[event.event_id] = number
            self._by_text.setdefault(event.text, []).append(number)
        self.events += events
        self.lexical.add([_words(event) for event in events], [_group(event) for event in events])
        sessions = [_code(self._session_codes, event.session_id) for event in events]
        places = [_code(self._place_codes, (event.character_id, event.background_id)) for event in events]
        self._sessions = np.append(self._sessions, np.array(sessions, dtype=np.int32))
        self._places = np.append(self._places, np.array(places, dtype=np.int32))
        self._indexes = np.append(self._indexes, np.array([event.index for event in events], dtype=np.int32))

    def count(self, texts: Iterable[str]) -> int:
        """Count the events that have one of these texts."""
        return len(self._with_texts(texts))

    def _with_texts(self, texts: Iterable[str]) -> list[int]:
        return [number for text in texts for number in self._by_text.get(text, ())]

    def allowed(self, search: RecallQuery) -> Mask | None:
        """Mark the events a search may see; ``None`` for all."""
        masks: list[Mask] = []
        session = self._session_codes.get(search.skip_session)
        if session is not None and self.events[0].kind == "turn":
            masks.append((self._sessions != session) | (self._indexes < search.skip_from))
        if search.character_id is not None or search.background_id is not None:
            wanted = [code for place, code in self._place_codes.items() if fits(place, search)]
            masks.append(np.isin(self._places, wanted))
        if hidden := self._with_texts(search.in_prompt):
            mask = np.ones(len(self.events), dtype=np.bool_)
            mask[hidden] = False
            masks.append(mask)
        seen = np.logical_and.reduce(masks) if masks else None
        return None if seen is None or seen.all() else seen


def _code(codes: dict[_Key, int], key: _Key) -> int:
    """Number values as they are first met."""
    return codes.setdefault(key, len(codes))


PREVIOUS = 0.5
"""How much of the previous turn's vector is stored with a turn's own."""

Texts = Callable[[Sequence[str]], Mapping[str, str]]
"""Looks up the texts of events that were written earlier."""


def event_vectors(events: Sequence[StoryEvent], embedder: Embedder, earlier: Texts) -> NDArray[np.float32]:
    """Embed events; a turn takes a share of the one before it, so that an answer is found by its question."""
    texts = {event.event_id: event.text for event in events}
    before = [_previous(event) for event in events]
    unknown = [event_id for event_id in before if event_id and event_id not in texts]
    known: Mapping[str, str] = earlier(unknown) if unknown else {}
    rows = [*texts.values(), *known.values()]
    vectors = np.array(embedder.embed_documents(rows), dtype=np.float32)
    places = {event_id: at for at, event_id in enumerate([*texts, *known])}
    own = vectors[: len(events)].copy()
    for at, event_id in enumerate(before):
        if event_id in places:
            own[at] += PREVIOUS * vectors[places[event_id]]
    return own / np.maximum(np.linalg.norm(own, axis=1, keepdims=True), 1e-9)


def _previous(event: StoryEvent) -> str:
    """Return the id of the turn before a turn; a summary has none."""
    if event.kind != "turn" or event.index < 2:
        return ""
    return f"{event.event_id.removesuffix(str(event.index))}{event.index - 1}"


PAGE = 2_000


class EventStore(ChromaFolder):
    """The events in a Chroma folder."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, shown="event_library", unreadable="library_unreadable")

    def counts(self) -> dict[str, int]:
        """Count the events of every collection."""
        with self.translated():
            found = self.client().list_collections()
            return {collection.name: collection.count() for collection in found}

    def read(self, name: str) -> Iterator[StoryEvent]:
        """Read all events of a collection, page by page."""
        kind = split_collection_name(name)[1]
        offset = 0
        while True:
            with self.translated():
                if (collection := self.collection(name)) is None:
                    return
                page = collection.get(limit=PAGE, offset=offset, include=["documents", "metadatas"])
            rows = zip(page["ids"], page["documents"] or [], page["metadatas"] or [], strict=True)
            yield from (_event(event_id, kind, text, fields) for event_id, text, fields in rows)
            if len(page["ids"]) < PAGE:
                return
            offset += PAGE

    def texts(self, name: str, event_ids: Sequence[str]) -> dict[str, str]:
        """Read the texts of some events, as far as they are there."""
        with self.translated():
            if (collection := self.collection(name)) is None:
                return {}
            found = collection.get(ids=list(event_ids), include=["documents"])
        return dict(zip(found["ids"], found["documents"] or [], strict=True))

    def put(self, name: str, events: Sequence[StoryEvent], vectors: NDArray[np.float32]) -> None:
        """Add events with their vectors, or replace those with the same ids."""
        metadatas = [_fields(event) for event in events]
        texts = [event.text for event in events]
        self.upsert(name, [event.event_id for event in events], vectors, metadatas, texts)

    def forget(self, name: str, session_id: str) -> None:
        """Remove a session's events."""
        with self.translated():
            if (collection := self.collection(name)) is not None:
                collection.delete(where={"session_id": session_id})


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


LOCK, CHROMA = "lock", "chroma_db"
KEPT_COLLECTIONS = 64
"""How many collections stay in memory."""

_open: weakref.WeakValueDictionary[Path, OpenLibrary] = weakref.WeakValueDictionary()
_opening = threading.Lock()


def open_library_view(folder: Path) -> OpenLibrary:
    """Return the process's one view of a library: Chroma shares its files per process too."""
    key = folder.absolute()
    with _opening:
        found = _open.get(key)
        if found is None:
            found = _open[key] = OpenLibrary(key)
        return found


class OpenLibrary:
    """A library as this process knows it; used only inside ``reading`` and ``writing``."""

    def __init__(self, folder: Path) -> None:
        self.catalogue_file = CatalogueFile(folder)
        self._folder = folder
        self._store = EventStore(folder / CHROMA)
        self._mutex = threading.Lock()
        self._epoch = ""
        self._collections: dict[str, tuple[int, EventCollection]] = {}

    @contextmanager
    def reading(self) -> Generator[Catalogue | None]:
        """Keep writers out; ``None`` where nothing is indexed."""
        with self._mutex, shared_lock(self._folder / LOCK) as there:
            catalogue = self.catalogue_file.read() if there else None
            self._notice(catalogue)
            yield catalogue

    @contextmanager
    def writing(self) -> Generator[Catalogue | None]:
        """Keep everyone out."""
        with self._mutex, exclusive_lock(self._folder / LOCK, shown="event_library"):
            catalogue = self.catalogue_file.read()
            self._notice(catalogue)
            yield catalogue

    @contextmanager
    def replacing(self) -> Generator[None]:
        """Keep everyone out, whatever state the library is in."""
        with self._mutex, exclusive_lock(self._folder / LOCK, shown="event_library"):
            yield

    def _notice(self, catalogue: Catalogue | None) -> None:
        epoch = catalogue.epoch if catalogue else ""
        if epoch != self._epoch:
            self._store.close()
            self._collections.clear()
            self._epoch = epoch

    def _touch(self, catalogue: Catalogue, name: str) -> int:
        """Make sure that Chroma shows a collection as it is now."""
        stamp = catalogue.collections[name].stamp
        self._store.show_current(name, stamp)
        return stamp

    def collection(self, catalogue: Catalogue, name: str) -> EventCollection:
        """Return a collection, reloaded if it has changed."""
        stamp = self._touch(catalogue, name)
        known = self._collections.pop(name, None)
        if known is None or known[0] != stamp:
            known = (stamp, EventCollection(self._store.read(name)))
        self._collections[name] = known
        while len(self._collections) > KEPT_COLLECTIONS:
            del self._collections[next(iter(self._collections))]
        return known[1]

    def nearest(
        self, catalogue: Catalogue, name: str, vector: Sequence[float], count: int, where: Filter | None
    ) -> list[tuple[str, float]]:
        """Find the events nearest to a vector."""
        self._touch(catalogue, name)
        return self._store.nearest(name, vector, count, where)

    def texts(self, catalogue: Catalogue, name: str, event_ids: Sequence[str]) -> dict[str, str]:
        """Read the texts of some events."""
        self._touch(catalogue, name)
        return self._store.texts(name, event_ids)

    def counts(self) -> dict[str, int]:
        """Count the events of every collection on disk."""
        self._store.close()
        return self._store.counts()

    def put(
        self, catalogue: Catalogue, name: str, events: Sequence[StoryEvent], vectors: NDArray[np.float32]
    ) -> Catalogue:
        """Write events of one collection; the catalogue tells of it first."""
        collection = self._current_collection(catalogue, name)
        changed = catalogue.written(name, ((event.character_id, event.background_id) for event in events))
        self._announce(changed, name)
        self._store.put(name, events, vectors)
        if collection is not None:
            self._collections[name] = (changed.collections[name].stamp, collection.with_events(events))
        return changed

    def forget(self, catalogue: Catalogue, name: str, session_id: str | None) -> Catalogue:
        """Remove a session's events, or the whole collection."""
        self._collections.pop(name, None)
        if name not in catalogue.collections:
            return catalogue
        self._touch(catalogue, name)
        if session_id is None:
            changed = catalogue.without(name)
            self._announce(changed, name)
            self._store.drop(name)
            return changed
        changed = catalogue.written(name, ())
        self._announce(changed, name)
        self._store.forget(name, session_id)
        return changed

    def _current_collection(self, catalogue: Catalogue, name: str) -> EventCollection | None:
        if name not in catalogue.collections:
            return EventCollection()
        stamp = self._touch(catalogue, name)
        known = self._collections.pop(name, None)
        return known[1] if known is not None and known[0] == stamp else None

    def _announce(self, catalogue: Catalogue, name: str) -> None:
        self.catalogue_file.write(catalogue)
        if name in catalogue.collections:
            self._store.mark_written(name, catalogue.collections[name].stamp)

    def begin(self, embedder: str) -> Catalogue:
        """Start an empty library in place of whatever is there."""
        self._store.close()
        self._collections.clear()
        self.catalogue_file.remove()
        _discard(self._folder / CHROMA)
        catalogue = Catalogue(embedder)
        self.catalogue_file.write(catalogue)
        self._epoch = catalogue.epoch
        return catalogue


def _discard(folder: Path) -> None:
    """Move a folder out of the way in one step, then delete it; leftovers of an earlier try go too."""
    if folder.exists():
        os.replace(folder, folder.with_name(f"{folder.name}.old-{os.urandom(4).hex()}"))
    for old in folder.parent.glob(f"{folder.name}.old-*"):
        if old.is_dir():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.unlink(missing_ok=True)
