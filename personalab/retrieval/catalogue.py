"""The catalogue of the event library: its collections, their embedder, and when each was last written.

It is one small file next to Chroma's folder. Every writer updates it before it writes to Chroma, so that even
a writer that dies halfway has already invalidated what the others have read.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from personalab.data_files import open_regular
from personalab.errors import Reason, StorageError, as_reason
from personalab.story.recall import RecallQuery

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
                catalogue = _parsed(file.read())
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
            file.write(_worded(catalogue).encode("utf-8"))
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


def _worded(catalogue: Catalogue) -> str:
    collections = {
        name: {"stamp": entry.stamp, "places": sorted(map(list, entry.places))}
        for name, entry in catalogue.collections.items()
    }
    whole = {"embedder": catalogue.embedder, "epoch": catalogue.epoch, "collections": collections}
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":"))


def _parsed(raw: bytes) -> Catalogue:
    whole = cast("dict[str, Any]", json.loads(raw))
    collections = {
        str(name): CollectionInfo(
            int(entry["stamp"]), frozenset((str(who), str(where)) for who, where in entry["places"])
        )
        for name, entry in cast("dict[str, Any]", whole["collections"]).items()
    }
    return Catalogue(str(whole["embedder"]), str(whole["epoch"]), collections)
