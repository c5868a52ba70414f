"""A process's open view of the event library, and when it must be reloaded.

Embedded Chroma does not see what another process wrote: it misses rows and fails on filtered queries. A
collection that has changed since its last use therefore makes the client reopen, and its events are read
again; unchanged collections are kept.
"""

from __future__ import annotations

import os
import shutil
import threading
import weakref
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from personalab.errors import StorageError, as_reason
from personalab.retrieval import lock
from personalab.retrieval.catalogue import Catalogue, CatalogueFile
from personalab.retrieval.shelf import EventCollection
from personalab.retrieval.store import Filter, Store
from personalab.story.recall import StoryEvent

LOCK, CHROMA = "lock", "chroma_db"
KEPT_SHELVES = 64
"""How many collections stay in memory."""

_open: weakref.WeakValueDictionary[Path, Shelves] = weakref.WeakValueDictionary()
_opening = threading.Lock()


def open_shelves(folder: Path) -> Shelves:
    """Return the process's one view of a library: Chroma shares its files per process too."""
    key = folder.absolute()
    with _opening:
        found = _open.get(key)
        if found is None:
            found = _open[key] = Shelves(key)
        return found


class Shelves:
    """A library as this process knows it; used only inside ``reading`` and ``writing``."""

    def __init__(self, folder: Path) -> None:
        self.catalogue_file = CatalogueFile(folder)
        self._folder = folder
        self._store = Store(folder / CHROMA)
        self._mutex = threading.Lock()
        self._epoch = ""
        self._touched: dict[str, int] = {}
        self._shelves: dict[str, tuple[int, EventCollection]] = {}

    @contextmanager
    def reading(self) -> Generator[Catalogue | None]:
        """Keep writers out; ``None`` where nothing is indexed."""
        with self._mutex, lock.reading(self._folder / LOCK) as there:
            catalogue = self.catalogue_file.read() if there else None
            self._notice(catalogue)
            yield catalogue

    @contextmanager
    def writing(self) -> Generator[Catalogue | None]:
        """Keep everyone out."""
        with self._mutex, _writable(), lock.writing(self._folder / LOCK):
            catalogue = self.catalogue_file.read()
            self._notice(catalogue)
            yield catalogue

    @contextmanager
    def replacing(self) -> Generator[None]:
        """Keep everyone out, whatever state the library is in."""
        with self._mutex, _writable(), lock.writing(self._folder / LOCK):
            yield

    def _notice(self, catalogue: Catalogue | None) -> None:
        epoch = catalogue.epoch if catalogue else ""
        if epoch != self._epoch:
            self._let_go()
            self._shelves.clear()
            self._epoch = epoch

    def _let_go(self) -> None:
        self._store.close()
        self._touched.clear()

    def _touch(self, catalogue: Catalogue, name: str) -> int:
        """Make sure that Chroma shows a collection as it is now."""
        stamp = catalogue.collections[name].stamp
        if self._touched.get(name, stamp) != stamp:
            self._let_go()
        self._touched[name] = stamp
        return stamp

    def shelf(self, catalogue: Catalogue, name: str) -> EventCollection:
        """Return a collection's shelf, reloaded if it has changed."""
        stamp = self._touch(catalogue, name)
        known = self._shelves.pop(name, None)
        if known is None or known[0] != stamp:
            known = (stamp, EventCollection(self._store.read(name)))
        self._shelves[name] = known
        while len(self._shelves) > KEPT_SHELVES:
            del self._shelves[next(iter(self._shelves))]
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
        self._let_go()
        return self._store.counts()

    def put(
        self, catalogue: Catalogue, name: str, events: Sequence[StoryEvent], vectors: NDArray[np.float32]
    ) -> Catalogue:
        """Write events of one collection; the catalogue tells of it first."""
        shelf = self._current_shelf(catalogue, name)
        changed = catalogue.written(name, ((event.character_id, event.background_id) for event in events))
        self._announce(changed, name)
        self._store.put(name, events, vectors)
        if shelf is not None:
            self._shelves[name] = (changed.collections[name].stamp, shelf.with_events(events))
        return changed

    def forget(self, catalogue: Catalogue, name: str, session_id: str | None) -> Catalogue:
        """Remove a session's events, or the whole collection."""
        self._shelves.pop(name, None)
        if name not in catalogue.collections:
            return catalogue
        self._touch(catalogue, name)
        if session_id is None:
            changed = catalogue.without(name)
            self._announce(changed, name)
            self._store.drop(name)
            self._touched.pop(name, None)
            return changed
        changed = catalogue.written(name, ())
        self._announce(changed, name)
        self._store.forget(name, session_id)
        return changed

    def _current_shelf(self, catalogue: Catalogue, name: str) -> EventCollection | None:
        if name not in catalogue.collections:
            return EventCollection()
        stamp = self._touch(catalogue, name)
        known = self._shelves.pop(name, None)
        return known[1] if known is not None and known[0] == stamp else None

    def _announce(self, catalogue: Catalogue, name: str) -> None:
        self.catalogue_file.write(catalogue)
        if name in catalogue.collections:
            self._touched[name] = catalogue.collections[name].stamp

    def begin(self, embedder: str) -> Catalogue:
        """Start an empty library in place of whatever is there."""
        self._let_go()
        self._shelves.clear()
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


@contextmanager
def _writable() -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError("not_writable", file="event_library", reason=as_reason(error)) from error
