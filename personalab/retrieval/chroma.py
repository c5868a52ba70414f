"""Access to a Chroma folder, with its errors translated into ours, and the file lock around it.

Only this module opens Chroma. Every vector is ours: Chroma's own embedding function downloads a model.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from personalab.data_files import FILE_MODE, FOLDER_MODE, check_regular, lock_fd, make_folder, open_regular
from personalab.errors import PersonaLabError, StorageError, as_reason

if TYPE_CHECKING:
    import numpy as np
    from chromadb.api.client import Client
    from chromadb.api.models.Collection import Collection
    from numpy.typing import NDArray


Filter = Mapping[str, Any]
"""A condition on metadata, as Chroma words it."""
COSINE: dict[str, Any] = {"hnsw:space": "cosine"}


class ChromaFolder:
    """An open Chroma folder; a closed one opens itself when it is used again."""

    def __init__(
        self, path: Path, *, shown: str, unreadable: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._path = path
        self._clock = clock
        self._shown = shown
        self._unreadable = unreadable
        self._client: Client | None = None
        self._collections: dict[str, Collection] = {}
        self._stamps: dict[str, int] = {}
        self._release: weakref.finalize[..., ChromaFolder] | None = None

    def close(self) -> None:
        """Close the files; the next read sees the current state on disk."""
        self._client = None
        self._collections.clear()
        self._stamps.clear()
        if self._release is not None:
            self._release()

    def client(self) -> Client:
        """Open the folder; it is made where it is missing."""
        if self._client is None:
            import chromadb
            from chromadb.config import Settings

            self._prepare()
            settings = Settings(anonymized_telemetry=False)
            try:
                self._client = cast("Client", chromadb.PersistentClient(str(self._path), settings=settings))
            except BaseException:
                _forget_failed(self._path)
                raise
            self._release = weakref.finalize(self, self._client.close)
        return self._client

    def _prepare(self) -> None:
        """Check that Chroma will find regular files only, and make its database for the owner alone."""
        make_folder(self._path)
        for found in self._path.rglob("*"):
            if not found.is_dir():
                check_regular(found, shown=f"{self._shown}/{found.relative_to(self._path)}")
        database = self._path / "chroma.sqlite3"
        if not database.is_dir():
            os.close(open_regular(database, os.O_RDONLY | os.O_CREAT))

    def collection(self, name: str) -> Collection | None:
        """Open a collection; a writer that died may have listed one that it never made."""
        from chromadb.errors import NotFoundError

        if name not in self._collections:
            try:
                found = self.client().get_collection(name, embedding_function=None)
            except NotFoundError:
                return None
            self._collections[name] = found
        return self._collections[name]

    def show_current(self, name: str, stamp: int) -> None:
        """Make sure that a collection is seen as it was last written: other processes' writes are not."""
        if self._stamps.get(name, stamp) != stamp:
            self.close()
        self._stamps[name] = stamp

    def mark_written(self, name: str, stamp: int) -> None:
        """Note that this process is the one that writes a collection under this stamp."""
        self._stamps[name] = stamp

    def nearest(
        self, name: str, vector: Sequence[float], count: int, where: Filter | None
    ) -> list[tuple[str, float]]:
        """Find the ids nearest to a vector, with their cosine similarity."""
        with self.translated():
            if (collection := self.collection(name)) is None:
                return []
            found = collection.query(
                query_embeddings=cast("Any", [vector]),
                n_results=count,
                where=cast("Any", where),
                include=["distances"],
            )
        distances = (found["distances"] or [[]])[0]
        return [(row_id, 1 - float(far)) for row_id, far in zip(found["ids"][0], distances, strict=True)]

    def upsert(
        self,
        name: str,
        ids: Sequence[str],
        vectors: NDArray[np.float32],
        metadatas: Sequence[Mapping[str, Any]] | None,
        documents: Sequence[str] | None = None,
    ) -> None:
        """Add rows, or replace those with the same ids; a collection is made where it is missing."""
        with self.writing():
            if name not in self._collections:
                self._collections[name] = self.client().get_or_create_collection(
                    name, embedding_function=None, metadata=COSINE
                )
            self._collections[name].upsert(
                ids=list(ids),
                embeddings=vectors,
                metadatas=cast("Any", metadatas),
                documents=list(documents) if documents is not None else None,
            )

    def drop(self, name: str) -> None:
        """Remove a collection, if it is there."""
        from chromadb.errors import NotFoundError

        self._collections.pop(name, None)
        self._stamps.pop(name, None)
        with self.translated():
            try:
                self.client().delete_collection(name)
            except NotFoundError:
                return

    @contextmanager
    def writing(self) -> Generator[None]:
        """Change what Chroma holds; the files it makes are for the owner alone."""
        with self.translated():
            yield
            for folder in self._path.iterdir():
                if folder.is_dir() and folder.stat().st_mode & 0o077:
                    folder.chmod(FOLDER_MODE)
                    for file in folder.iterdir():
                        file.chmod(FILE_MODE)

    @contextmanager
    def translated(self) -> Generator[None]:
        """Translate Chroma's errors; its state is not trusted afterwards."""
        if (seconds := self._clock()) < 0:  # Chroma panics at such a time
            now = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
            raise StorageError("clock_too_early", now=now.strftime("%Y-%m-%dT%H:%M:%SZ"))
        try:
            yield
        except PersonaLabError:
            raise
        except BaseException as error:
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            self.close()
            raise self._explained(error) from error

    def _explained(self, error: BaseException) -> StorageError:
        words = " ".join(str(error).split())[:300] or type(error).__name__
        lowered = words.lower()
        if "disk is full" in lowered or "no space left" in lowered:
            return StorageError("disk_full", file=self._shown)
        if "readonly database" in lowered or isinstance(error, PermissionError):
            return StorageError("not_writable", file=self._shown, reason=words)
        return StorageError(self._unreadable, reason=words)


def _forget_failed(path: Path) -> None:
    """Take a system that could not start out of Chroma's cache, or the next try would get the same one."""
    from chromadb.api.shared_system_client import SharedSystemClient

    systems = SharedSystemClient._identifier_to_system  # pyright: ignore[reportPrivateUsage]
    systems.pop(str(path), None)


@contextmanager
def shared_lock(path: Path) -> Generator[bool]:
    """Hold off writers while the block runs; ``False`` where nothing was ever written."""
    try:
        fd = open_regular(path)
    except FileNotFoundError:
        yield False
        return
    try:
        lock_fd(fd, path, shared=True, wait=True)
        yield True
    finally:
        os.close(fd)


@contextmanager
def exclusive_lock(path: Path, *, shown: str) -> Generator[None]:
    """Hold off everyone else while the block runs; ``shown`` is what cannot be written if that fails."""
    try:
        make_folder(path.parent)
        fd = open_regular(path, os.O_RDWR | os.O_CREAT)
        try:
            lock_fd(fd, path, wait=True)
            yield
        finally:
            os.close(fd)
    except OSError as error:
        raise StorageError("not_writable", file=shown, reason=as_reason(error)) from error
