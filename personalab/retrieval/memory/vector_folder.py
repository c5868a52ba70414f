"""A process's open view of the memory vectors, and when it must be reloaded."""

from __future__ import annotations

import shutil
import threading
import weakref
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from personalab.errors import StorageError, as_reason
from personalab.retrieval import lock
from personalab.retrieval.chroma import ChromaFolder, nearest
from personalab.retrieval.memory.backend import Vectors

_SHOWN = "memory/vectors"
_PAGE = 2_000

_open: weakref.WeakValueDictionary[Path, VectorFolder] = weakref.WeakValueDictionary()
_opening = threading.Lock()


def open_vectors(path: Path, lock_path: Path) -> VectorFolder:
    """Return the process's one view of a folder: Chroma shares its files per process too."""
    key = path.absolute()
    with _opening:
        found = _open.get(key)
        if found is None:
            found = _open[key] = VectorFolder(key, lock_path)
        return found


class VectorFolder:
    """A folder of vectors, one below it for each epoch; used only inside ``shared`` and ``alone``."""

    def __init__(self, path: Path, lock_path: Path) -> None:
        self._path = path
        self._lock_path = lock_path
        self._mutex = threading.Lock()
        self._epoch = 0
        self._chroma = self._of(0)
        self._touched: dict[str, int] = {}

    @contextmanager
    def shared(self) -> Generator[VectorFolder]:
        """Keep writers out."""
        with self._mutex, lock.reading(self._lock_path):
            yield self

    @contextmanager
    def alone(self) -> Generator[VectorFolder]:
        """Keep everyone out."""
        with self._mutex, _writable(), lock.writing(self._lock_path):
            yield self

    def close(self) -> None:
        """Close the files."""
        with self._mutex:
            self._let_go()

    def holds(self, epoch: int) -> bool:
        """Return whether the vectors of an epoch exist."""
        return (self._path / str(epoch) / "chroma.sqlite3").exists()

    def begin(self, epoch: int) -> None:
        """Start an epoch without vectors; those of others go."""
        self._turn(epoch)
        shutil.rmtree(self._path, ignore_errors=True)
        with self._chroma.translated():
            self._chroma.client()

    def turn_to(self, epoch: int, name: str, stamp: int) -> None:
        """Make sure that Chroma shows a collection as it is now."""
        if epoch != self._epoch:
            self._turn(epoch)
        if self._touched.get(name, stamp) != stamp:
            self._let_go()
        self._touched[name] = stamp

    def put(
        self, name: str, stamp: int, ids: Sequence[str], vectors: Vectors, types: Sequence[str] | None
    ) -> None:
        """Add vectors, or replace those with the same ids."""
        self._touched[name] = stamp
        labels = None if types is None else [{"type": content_type} for content_type in types]
        with self._chroma.writing():
            self._chroma.made_collection(name).upsert(
                ids=list(ids), embeddings=vectors, metadatas=cast("Any", labels)
            )

    def nearest(
        self, name: str, vector: Sequence[float], count: int, where: Mapping[str, Any] | None
    ) -> list[tuple[str, float]]:
        """Find the ids nearest to a vector, with their cosine similarity."""
        with self._chroma.translated():
            return nearest(self._chroma.collection(name), vector, count, where)

    def compared(self, name: str, vector: Sequence[float], ids: Sequence[str]) -> list[tuple[str, float]]:
        """Compare a vector with those of some ids, one by one; nearest first."""
        import numpy as np

        with self._chroma.translated():
            if not ids or (collection := self._chroma.collection(name)) is None:
                return []
            found = collection.get(ids=list(ids), include=["embeddings"])
        held = np.array(found["embeddings"], dtype=np.float32).reshape(len(found["ids"]), -1)
        asked = np.array(vector, dtype=np.float32)
        lengths = np.maximum(np.linalg.norm(held, axis=1) * np.linalg.norm(asked), 1e-9)
        alike = held @ asked / lengths if held.size else np.zeros(0)
        order = np.argsort(-alike, kind="stable")
        return [(found["ids"][at], float(alike[at])) for at in order]

    def remove(self, name: str, stamp: int, ids: Sequence[str]) -> None:
        """Remove vectors."""
        self._touched[name] = stamp
        with self._chroma.translated():
            if (collection := self._chroma.collection(name)) is None:
                return
            for at in range(0, len(ids), _PAGE):
                collection.delete(ids=list(ids[at : at + _PAGE]))

    def drop(self, name: str) -> None:
        """Remove a collection."""
        self._touched.pop(name, None)
        self._chroma.drop(name)

    def _of(self, epoch: int) -> ChromaFolder:
        return ChromaFolder(self._path / str(epoch), shown=_SHOWN, unreadable="memory_index_unreadable")

    def _turn(self, epoch: int) -> None:
        self._let_go()
        self._epoch = epoch
        self._chroma = self._of(epoch)

    def _let_go(self) -> None:
        self._chroma.close()
        self._touched.clear()


@contextmanager
def _writable() -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError("not_writable", file=_SHOWN, reason=as_reason(error)) from error
