"""Restoring an archive from its backups and journals.

Everything that was ever acknowledged follows from any intact backup and the journals since, so a damaged file
is rebuilt completely. Restoring a named backup returns to its state, without anything that came after it.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from personalab.archive.veloca_archive import Archive
from personalab.errors import BadRecord, StorageError, as_reason
from personalab.storage.files import writing
from personalab.storage.veloca_backups import is_gone, newest_good
from personalab.storage.veloca_drafts import discard, draft, keep_as, settle
from personalab.storage.veloca_files import (
    MAX_ARCHIVE_BYTES,
    WAIT_SECONDS,
    ArchiveLocation,
    clear_drafts,
    place_of,
    read_archive,
    read_journal,
    read_raw,
    replay,
)
from personalab.storage.veloca_journal import Head, scan, stamp_of
from personalab.storage.veloca_rotation import backup_numbers, make_room


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did."""

    path: str
    backup: str | None
    """The backup that the file was made from; ``None``: the file was good."""
    set_aside: tuple[str, ...]
    """Where what stood there before is kept."""
    replayed: int
    """Number of records from journals."""
    lost_lines: int
    """Number of damaged journal lines that could not be used."""

    @property
    def changed(self) -> bool:
        """Whether there was anything to do."""
        return self.backup is not None or bool(self.set_aside)

    def fields(self) -> dict[str, Any]:
        """Return its JSON object."""
        return {
            "path": self.path,
            "changed": self.changed,
            "backup": self.backup,
            "set_aside": list(self.set_aside),
            "replayed": self.replayed,
            "lost_lines": self.lost_lines,
        }


def restore_archive(
    path: str | Path,
    backup: int | None = None,
    *,
    limit: int = MAX_ARCHIVE_BYTES,
    wait: float = WAIT_SECONDS,
) -> Restored:
    """Make a broken archive's file again with all that was acknowledged, or go back to the backup that is named.

    What stood there is kept beside it. An archive that is whole is left alone, unless a backup is named.
    """
    place = place_of(path, limit, wait)
    if not backup_numbers(place) and not place.journal.exists():
        return _without_backups(place, backup)
    with place.locked(), writing(place.shown):
        clear_drafts(place)
        return _made_whole(place) if backup is None else _gone_back(place, backup)


def _without_backups(place: ArchiveLocation, backup: int | None) -> Restored:
    """Leave a file alone that has nothing beside it, not even a lock."""
    if backup is not None:
        raise StorageError("archive_backup_missing", number=backup)
    if _file_is_bad(place):
        raise StorageError("archive_no_backup", file=place.shown)
    return Restored(place.shown, None, (), 0, 0)


def _free_number(place: ArchiveLocation, name: str) -> int:
    """Find the first number under which nothing was set aside yet."""
    number = 1
    while any(place.beside(f"{name}{number}{end}").exists() for end in ("", ".journal")):
        number += 1
    return number


# --- all that was acknowledged


def _made_whole(place: ArchiveLocation) -> Restored:
    number = _free_number(place, "broken")
    aside: list[str] = []
    used, replayed, lost = None, 0, 0
    if _file_is_bad(place):
        used = newest_good(place)
        if used is None:
            raise StorageError("archive_no_backup", file=place.shown)
        archive, replayed, lost = _rebuilt(place, used)
        _replace(place.path, archive.dump(), place.beside(f"broken{number}"), aside)
    lost += _mend_journal(place, place.beside(f"broken{number}.journal"), aside)
    name = None if used is None else str(place.backup(used))
    return Restored(place.shown, name, tuple(aside), replayed, lost)


def _file_is_bad(place: ArchiveLocation) -> bool:
    try:
        read_archive(place.path, place.limit)
    except FileNotFoundError:
        try:
            return is_gone(place, read_journal(place.journal, place.limit).head)
        except BadRecord:
            return bool(backup_numbers(place))
    except BadRecord:
        return True
    return False


def _rebuilt(place: ArchiveLocation, number: int) -> tuple[Archive, int, int]:
    """Make the file again as it was before the journal that is in use."""
    try:
        archive = read_archive(place.backup(number), place.limit)
        journals = [read_journal(place.backup_journal(older), place.limit) for older in range(number, 0, -1)]
    except FileNotFoundError as error:
        raise StorageError("archive_backup_missing", number=number) from error
    except BadRecord as error:
        raise StorageError(
            "archive_backup_broken", file=place.backup(number).name, reason=as_reason(error)
        ) from error
    replayed = sum(replay(archive, found) for found in journals)
    return archive, replayed, sum(len(found.damaged) for found in journals)


def _replace(path: Path, content: bytes, kept: Path, aside: list[str]) -> None:
    """Replace a file's content and keep the old file under another name."""
    fresh = draft(path, content, path)
    try:
        if keep_as(path, kept):
            aside.append(str(kept))
        settle(fresh, path)
    finally:
        discard(fresh)


def _mend_journal(place: ArchiveLocation, kept: Path, aside: list[str]) -> int:
    """Leave only good lines in the journal; return how many were lost."""
    try:
        raw = read_raw(place.journal, place.limit)
    except FileNotFoundError:
        return 0
    except BadRecord as error:
        raise StorageError("archive_unreadable", file=str(place.journal), reason=as_reason(error)) from error
    lines = raw.split(b"\n")[:-1]
    damaged = scan(raw, whole=True).damaged
    good = [line + b"\n" for number, line in enumerate(lines, start=1) if number not in damaged]
    lost = len(lines) - len(good)
    if 1 in damaged:
        good.insert(0, Head(stamp_of(place.path)).line())
        lost = max(lost, 1)
    if lost:
        _replace(place.journal, b"".join(good), kept, aside)
    return lost


# --- the state of a backup


def _gone_back(place: ArchiveLocation, number: int) -> Restored:
    """Replace the file with a backup; a crash anywhere in here leaves the old state, or the backup's.

    The state is kept as the newest backup, too: whoever has to make the file again begins with that.
    """
    backup = place.backup(number)
    content = _content_of(place, number)
    aside = _set_aside(place, _free_number(place, "before"))
    fresh = draft(place.path, content, backup)
    try:
        place.journal.unlink(missing_ok=True)
        settle(fresh, place.path)
    finally:
        discard(fresh)
    make_room(place, max(backup_numbers(place)) + 1)
    settle(draft(place.backup(1), content, place.path), place.backup(1))
    return Restored(place.shown, str(backup), tuple(aside), 0, 0)


def _content_of(place: ArchiveLocation, number: int) -> bytes:
    backup = place.backup(number)
    try:
        read_archive(backup, place.limit)
        return read_raw(backup, place.limit)
    except FileNotFoundError as error:
        raise StorageError("archive_backup_missing", number=number) from error
    except BadRecord as error:
        raise StorageError("archive_backup_broken", file=backup.name, reason=as_reason(error)) from error


def _set_aside(place: ArchiveLocation, number: int) -> list[str]:
    """Keep the file with its journal applied under another name; where one is broken, keep both unchanged."""
    is_whole = False
    with contextlib.suppress(FileNotFoundError, BadRecord):
        archive = read_archive(place.path, place.limit)
        found = read_journal(place.journal, place.limit)
        if replay(archive, found):
            settle(draft(place.path, archive.dump(), place.path), place.path)
        is_whole = not found.damaged
    kept = [(place.path, place.beside(f"before{number}"))]
    if not is_whole:
        kept.append((place.journal, place.beside(f"before{number}.journal")))
    return [str(name) for path, name in kept if keep_as(path, name)]
