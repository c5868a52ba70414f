"""The lorebooks of a story, cached until their files change."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from personalab.archive.books import read_book
from personalab.archive.foreign_files import MAX_CARD_BYTES, load_json
from personalab.errors import BadRecord, Because, Reason, as_reason
from personalab.storage.stories import Kind, StoryFiles
from personalab.story.events import Notice
from personalab.story.lore import Lorebook

MAX_BOOKS = 32
"""Maximum number of cached books."""
_RACY_NS = 50_000_000
"""An edit this soon after the last change may carry the same times; such a file is compared by content."""
Stamp = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class _CachedBook:
    """A book as it was read, or why it could not be."""

    stamp: Stamp
    seen_ns: int
    digest: bytes
    book: Lorebook | None
    reason: Because = ""


class LorebookFiles:
    """The books beside characters and backgrounds; each is read once, until its file changes."""

    def __init__(self, stories: StoryFiles, keep: int = MAX_BOOKS) -> None:
        self._stories = stories
        self._most = keep
        self._kept: dict[Path, _CachedBook] = {}
        self._keeping = threading.Lock()

    def has_any(self, character_id: str, background_id: str | None) -> bool:
        """Return whether there is a book at all, fast enough to need no thread."""
        paths = self._paths(character_id, background_id)
        return any(os.path.lexists(path) for path, _ in paths)

    def is_warm(self, character_id: str, background_id: str | None) -> bool:
        """Return whether reading the books will be quick: none has changed since."""
        return all(self._is_known(path) for path, _ in self._paths(character_id, background_id))

    def _is_known(self, path: Path) -> bool:
        try:
            stamp = _stamp(os.stat(path))
        except OSError:
            return True
        return _is_unchanged(self._kept.get(path), stamp)

    def _paths(self, character_id: str, background_id: str | None) -> list[tuple[Path, str]]:
        """Name the places of the books, the character's first, with whose they are."""
        places: list[tuple[Kind, str]] = [("characters", character_id)]
        if background_id:
            places.append(("backgrounds", background_id))
        return [
            (self._stories.beside(kind, entry_id, "lorebook.json"), entry_id) for kind, entry_id in places
        ]

    def of(self, character_id: str, background_id: str | None) -> tuple[tuple[Lorebook, ...], list[Notice]]:
        """Return the character's book, then the background's, and what to tell of those that cannot be read.

        A book that both have, as after linking one to the character, counts once.
        """
        books: dict[bytes, Lorebook] = {}
        notices: list[Notice] = []
        for path, entry_id in self._paths(character_id, background_id):
            book, digest, reason = self._read(path, entry_id)
            if book is not None:
                books.setdefault(digest, book)
            if reason:
                notices.append(
                    Notice("lorebook_unreadable", {"file": self._stories.shown(path), "reason": reason})
                )
        return tuple(books.values()), notices

    def _read(self, path: Path, name: str) -> tuple[Lorebook | None, bytes, Because]:
        """Return a book and its digest, or why it cannot be read; one that is not there is neither."""
        try:
            kept = self._refreshed(self._kept.get(path), path, name)
        except (FileNotFoundError, NotADirectoryError):
            with self._keeping:
                self._kept.pop(path, None)
            return None, b"", ""
        except OSError as error:
            return None, b"", as_reason(error)
        with self._keeping:
            self._kept.pop(path, None)
            self._kept[path] = kept
            while len(self._kept) > self._most:
                self._kept.pop(next(iter(self._kept)))
        return kept.book, kept.digest, kept.reason

    def _refreshed(self, kept: _CachedBook | None, path: Path, name: str) -> _CachedBook:
        now = time.time_ns()
        stamp = _stamp(os.stat(path))
        if kept is not None and _is_unchanged(kept, stamp):
            return kept
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                return _CachedBook(stamp, now, b"", None, Reason("not_plain_file"))
            # Reading one byte more than the limit shows that the file is too large.
            raw = file.read(MAX_CARD_BYTES + 1)
        stamp, digest = _stamp(found), hashlib.blake2b(raw, digest_size=16).digest()
        if kept is not None and kept.digest == digest:
            return _CachedBook(stamp, now, digest, kept.book, kept.reason)
        try:
            return _CachedBook(stamp, now, digest, read_book(load_json(raw), name))
        except BadRecord as error:
            return _CachedBook(stamp, now, digest, None, error)


def _is_unchanged(kept: _CachedBook | None, stamp: Stamp) -> bool:
    return kept is not None and kept.stamp == stamp and kept.seen_ns - stamp[4] > _RACY_NS


def _stamp(found: os.stat_result) -> Stamp:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
