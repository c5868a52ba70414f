"""An open archive in memory, kept up to date with its files, and its writer.

The whole archive is in memory; every access reads what other processes have written since, from the journal
alone. The file is read again only if another program wrote it, or if more than one fold was missed.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from personalab.archive.veloca import Record
from personalab.archive.veloca_archive import Archive, encode_records
from personalab.data_files import writing
from personalab.errors import BadRecord, Busy, StorageError, UserError, as_reason
from personalab.storage.veloca_backups import (
    BACKUP_SECONDS,
    broken,
    is_gone,
    join_backup,
    make_backup,
    make_room,
)
from personalab.storage.veloca_files import ArchiveLocation, HeldFile, clear_drafts, replay
from personalab.storage.veloca_journal import Head, Journal, Stamp, discard, draft, settle, stamp_of


class OpenArchive:
    """An archive in memory and its files; safe to share between threads."""

    def __init__(
        self,
        place: ArchiveLocation,
        *,
        keep_backups: int,
        sync: bool,
        fold_bytes: int,
        backup_seconds: float = BACKUP_SECONDS,
    ) -> None:
        self._place = place
        self._keep = max(1, keep_backups)
        self._backup_seconds = backup_seconds
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
        """Whether the memory holds all up to where the journal was read; never while it is being changed."""
        self._closed = False
        self._has_written = False

    @contextmanager
    def reading(self) -> Generator[Archive]:
        """Yield the current archive for reading."""
        with self._mutex:
            self._check_open()
            self._look_ahead()
            with self._place.locked(shared=True):
                self._catch_up()
            yield self._archive

    @contextmanager
    def writing(self) -> Generator[Archive]:
        """Yield the current archive, locked while the block runs."""
        with self._mutex:
            self._check_open()
            self._look_ahead()
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

    def _look_ahead(self) -> None:
        """Read what has to be read anew while others may write: the lock is held to open the files alone.

        Whatever is wrong with them is told by the look that follows, under the lock.
        """
        with contextlib.suppress(StorageError, OSError):
            if self._loaded and stamp_of(self._place.path) == self._base:
                return
            with self._place.locked(shared=True):
                if self._keeps_up():
                    return
                held = self._held()
            self._load(held)

    def _catch_up(self) -> None:
        """Take in what others wrote since the last look."""
        try:
            if not self._keeps_up():
                self._load(self._held())
        except OSError as error:
            reason = as_reason(error)
            raise StorageError("archive_unreadable", file=self._place.shown, reason=reason) from error

    def _keeps_up(self) -> bool:
        """Apply what follows from the state in memory; an interrupted call starts again the next time."""
        if not self._loaded:
            return False
        self._loaded = False
        base = stamp_of(self._place.path)
        if self._journal.is_current() and base == self._base:
            replay(self._archive, self._journal.news())
            self._loaded = True
        else:
            self._loaded = self._follows(base)
        return self._loaded

    def _follows(self, base: Stamp | None) -> bool:
        """Go on with what is in memory, if another began our journal, or folded it into the file we know."""
        fresh = Journal(self._place.journal, self._place.path, self._place.limit)
        try:
            found = fresh.reopen()
            begun = base == self._base and not self._journal.inode and found.head == Head(base)
            folded = base is not None and found.head == Head(base, self._base, self._journal.inode)
            if not (begun or folded):
                fresh.close()
                return False
            replay(self._archive, self._journal.news())
            replay(self._archive, found)
        except BaseException:
            fresh.close()
            raise
        self._journal.close()
        self._journal, self._base = fresh, base
        return True

    def _held(self) -> HeldFile:
        """Open the journal, then the file: whatever is folded in between is in the file."""
        self._journal.open()
        return HeldFile(self._place.path, self._place.limit)

    def _load(self, file: HeldFile) -> None:
        """Read the files that were opened."""
        with file:
            found = self._journal.first()
            base: Stamp | None = file.stamp
            try:
                archive = file.archive()
            except FileNotFoundError:
                if is_gone(self._place, found.head):
                    raise StorageError("archive_gone", file=self._place.shown) from None
                archive, base = Archive(), None
            except BadRecord as error:
                raise broken(self._place, error) from error
        replay(archive, found)
        self._archive, self._base = archive, base
        self._loaded = True

    def write(self, records: Sequence[Record]) -> list[Record]:
        """Write records to the journal and apply them; the caller holds the lock and has caught up.

        Who is interrupted in here may have written them or not; the next look finds out.
        """
        put = encode_records(records)
        with writing(self._place.shown):
            self._check_room(len(put))
            self._has_written = True
            self._loaded = False
            if not self._journal.end:
                self._journal.begin(Head(self._base))
            self._journal.append(put, sync=self._sync)
            self._archive.put_records(records)
            self._loaded = True
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
        except StorageError:
            self._fold_later = self._journal.end + self._journal.end // 2

    def fold(self) -> bool:
        """Replace the file with one that holds everything; the caller holds the lock and has caught up.

        Dying anywhere in here leaves a file and a journal that together hold all: what the journal puts may be
        in the file already.
        """
        if not self._journal.has_puts:
            return False
        with writing(self._place.shown):
            clear_drafts(self._place)
            content = self._archive.dump()
            if len(content) > self._place.limit:
                raise StorageError("archive_full", file=self._place.shown, limit=self._place.limit)
            fresh = draft(self._place.path, content, self._place.path)
            try:
                self._keep_old(len(content))
                if not self._is_untouched():
                    return False
                self._loaded = False
                settle(fresh, self._place.path)
            finally:
                discard(fresh)
            folded = Head(stamp_of(self._place.path), self._base, self._journal.inode)
            self._journal.begin(folded)
            self._base = folded.base
            self._loaded = True
        return True

    def _keep_old(self, size: int) -> None:
        """Keep the old file as a backup, or add to the newest one what makes the new file of it."""
        head = self._journal.head
        made_by_fold = head is not None and head.base and head.folded_journal
        if made_by_fold and self._is_untouched(head) and join_backup(self._place, self._backup_seconds, size):
            return
        make_room(self._place, self._keep)
        make_backup(self._place)

    def _is_untouched(self, since: Head | None = None) -> bool:
        """Return whether the file is still the one that was read; a program without locking may have written it.

        Then its content is taken in at the next call. The time of the last change is not looked at: a backup is
        a second name of the same file, and that counts as a change.
        """
        base = stamp_of(self._place.path)
        known = since.base if since else self._base
        return (base and base[:4]) == (known and known[:4])
