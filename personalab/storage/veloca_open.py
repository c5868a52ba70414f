"""How does a process that has an archive open keep up with it, and write to it?

The whole archive is in memory; every look takes in what other processes wrote since, which is read from the journal
alone. The file is read again only if another program wrote it, or if more than one fold was missed.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from personalab.archive.veloca import Record
from personalab.archive.veloca_rules import Archive, encode_records
from personalab.errors import BadRecord, Busy, StorageError, UserError
from personalab.storage.veloca_backups import broken, is_gone, make_backup, make_room
from personalab.storage.veloca_drafts import draft, settle
from personalab.storage.veloca_files import Place, clear_drafts, read_archive, replay
from personalab.storage.veloca_journal import Head, Journal, Stamp, stamp_of


class OpenArchive:
    """An archive in memory and its files; safe to share between threads."""

    def __init__(self, place: Place, *, keep_backups: int, sync: bool, fold_bytes: int) -> None:
        self._place = place
        self._keep = max(1, keep_backups)
        self._sync = sync
        self._fold_bytes = fold_bytes
        self._fold_later = 0
        """Up to this size of the journal no fold is tried, because one has just failed."""
        self._mutex = threading.RLock()
        self._archive = Archive()
        self._base: Stamp | None = None
        """The file that was read, or that a fold made of it."""
        self._journal = Journal(place.journal, place.path, place.limit)
        self._loaded = False
        self._closed = False
        self._has_written = False

    @contextmanager
    def reading(self) -> Generator[Archive]:
        """Give the archive as it is now, to look at."""
        with self._mutex:
            self._check_open()
            with self._place.locked(shared=True):
                self._catch_up()
            yield self._archive

    @contextmanager
    def writing(self) -> Generator[Archive]:
        """Give the archive as it is now, with nobody else at it while the block runs."""
        with self._mutex:
            self._check_open()
            with self._place.locked():
                self._catch_up()
                yield self._archive

    def close(self) -> None:
        """Fold what was written here, and forget the archive."""
        with self._mutex:
            if self._closed:
                return
            # What cannot be folded now is safe in the journal, and the next writer folds it.
            if self._has_written:
                with contextlib.suppress(Busy, StorageError), self.writing():
                    self.fold()
            self._journal.close()
            self._archive = Archive()
            self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise UserError("archive_closed", file=self._place.shown)

    def _catch_up(self) -> None:
        """Take in what others wrote since the last look."""
        try:
            base = stamp_of(self._place.path)
            if self._loaded and self._journal.is_current() and base == self._base:
                replay(self._archive, self._journal.news())
            elif not (self._loaded and self._follow(base)):
                self._load()
        except OSError as error:
            reason = error.strerror or str(error)
            raise StorageError("archive_unreadable", file=self._place.shown, reason=reason) from error

    def _follow(self, base: Stamp | None) -> bool:
        """Go on with what is in memory, if another began our journal, or folded it into the file we know."""
        fresh = Journal(self._place.journal, self._place.path, self._place.limit)
        found = fresh.reopen()
        begun = base == self._base and not self._journal.inode and found.head == Head(base)
        folded = base is not None and found.head == Head(base, self._base, self._journal.inode)
        if not (begun or folded):
            fresh.close()
            return False
        replay(self._archive, self._journal.news())
        replay(self._archive, found)
        self._journal.close()
        self._journal, self._base = fresh, base
        return True

    def _load(self) -> None:
        """Read the journal, then the file: whatever is folded in between is in the file."""
        self._loaded = False
        found = self._journal.reopen()
        try:
            self._archive, self._base = read_archive(self._place.path, self._place.limit)
        except FileNotFoundError:
            if is_gone(self._place, found.head):
                raise StorageError("archive_gone", file=self._place.shown) from None
            self._archive, self._base = Archive(), None
        except BadRecord as error:
            raise broken(self._place, error) from error
        replay(self._archive, found)
        self._loaded = True

    def write(self, records: Sequence[Record]) -> list[Record]:
        """Journal records and take them in; whoever calls holds the lock and has caught up."""
        put = encode_records(records)
        self._check_room(len(put))
        if not self._journal.end:
            self._journal.begin(Head(self._base))
        self._journal.append(put, sync=self._sync)
        self._archive.put_records(records)
        self._has_written = True
        if self._journal.end > max(self._fold_bytes, self._file_size() // 2, self._fold_later):
            self._fold_if_possible()
        return list(records)

    def _file_size(self) -> int:
        return self._base[2] if self._base else 0

    def _check_room(self, size: int) -> None:
        if self._file_size() + self._journal.end + size > self._place.limit:
            self.fold()
            if self._file_size() + self._journal.end + size > self._place.limit:
                raise StorageError("archive_full", file=self._place.shown, limit=self._place.limit)

    def _fold_if_possible(self) -> None:
        """Fold, or try again when the journal has grown by half: the change itself is safe in it."""
        try:
            self.fold()
        except (StorageError, OSError):
            self._fold_later = self._journal.end + self._journal.end // 2

    def fold(self) -> bool:
        """Put a file with everything in the place of the old one; whoever calls holds the lock and has caught up.

        Dying anywhere in here leaves a file and a journal that together hold all: what the journal puts may be
        in the file already.
        """
        if not self._journal.has_puts:
            return False
        clear_drafts(self._place)
        content = self._archive.dump()
        if len(content) > self._place.limit:
            raise StorageError("archive_full", file=self._place.shown, limit=self._place.limit)
        fresh = draft(self._place.path, content, self._place.path)
        try:
            make_room(self._place, self._keep)
            make_backup(self._place)
            if not self._is_untouched():
                return False
            settle(fresh, self._place.path)
        finally:
            fresh.unlink(missing_ok=True)
        folded = Head(stamp_of(self._place.path), self._base, self._journal.inode)
        self._journal.begin(folded)
        self._base = folded.base
        return True

    def _is_untouched(self) -> bool:
        """Tell whether the file is still the one that was read; a program that knows no lock may have written it.

        Then its content is taken in at the next call. The time of the last change is not looked at: a backup is
        a second name of the same file, and that counts as a change.
        """
        base = stamp_of(self._place.path)
        return (base and base[:4]) == (self._base and self._base[:4])
