"""Rotation of an archive's backups, bounded in number and spaced in time.

A backup and its journal give the next newer backup, and the newest gives the archive's file.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

from personalab.archive.veloca_archive import Archive
from personalab.errors import BadRecord
from personalab.storage.files import writing
from personalab.storage.veloca_drafts import draft, keep_as, settle
from personalab.storage.veloca_files import ArchiveLocation, read_raw
from personalab.storage.veloca_journal import scan

BACKUP_SECONDS = 3_600.0
"""A fold makes another backup if the newest is older than this."""
_JOINED_BYTES = 1024 * 1024
"""The journal of a backup may grow to this, or to the size of the file if that is more."""


def backup_numbers(place: ArchiveLocation) -> list[int]:
    """Find the backups there are, the newest first, also those of which only the journal is left."""
    named = re.compile(rf"{re.escape(place.path.name)}\.bak([1-9]\d{{0,3}})(?:\.journal)?")
    found: set[int] = set()
    with contextlib.suppress(OSError):
        found = {
            int(match[1]) for path in place.path.parent.iterdir() if (match := named.fullmatch(path.name))
        }
    return sorted(found)


def join_backup(place: ArchiveLocation, seconds: float, size: int) -> bool:
    """Add the journal to the newest backup's, if that is young and does not grow too long; tell whether it was done.

    Whoever calls knows that the backup and its journal make the file of this size. Dying right after this leaves
    lines in both journals; putting the same records again changes nothing.
    """
    backup = place.backup(1)
    with writing(place.shown):
        if not _is_young(backup, seconds) or _is_same(backup, place.path):
            return False
        try:
            older = read_raw(place.backup_journal(1), place.limit)
            newer = read_raw(place.journal, place.limit)
        except (FileNotFoundError, BadRecord):
            return False
        lines = newer[newer.find(b"\n") + 1 : newer.rfind(b"\n") + 1]
        if len(older) + len(lines) > max(size, _JOINED_BYTES) or scan(older, whole=True).damaged:
            return False
        joined = older[: older.rfind(b"\n") + 1] + lines
        settle(draft(place.backup_journal(1), joined, place.journal), place.backup_journal(1))
        return True


def _is_young(backup: Path, seconds: float) -> bool:
    """Return whether a backup was made a short time ago; its modification time is that of the file it had been."""
    try:
        return 0 <= time.time() - backup.stat().st_ctime < seconds
    except FileNotFoundError:
        return False


def make_room(place: ArchiveLocation, keep: int) -> None:
    """Move each backup one place on, so that the first place is free; the last ones go.

    A backup moves before its journal. So wherever this dies, the journals numbered no higher than a backup are
    still those that were written since.
    """
    with writing(place.shown):
        if _is_same(place.backup(1), place.path):  # a fold died right after it had made this
            _remove(place, 1)
        numbers = backup_numbers(place)
        free = next((number for number in range(1, keep + 1) if number not in numbers), keep + 1)
        for number in reversed(numbers):
            if number > keep or number == keep < free:
                _remove(place, number)
        for number in range(min(free, keep) - 1, 0, -1):
            _move(place.backup(number), place.backup(number + 1))
            _move(place.backup_journal(number), place.backup_journal(number + 1))


def _remove(place: ArchiveLocation, number: int) -> None:
    place.backup(number).unlink(missing_ok=True)
    place.backup_journal(number).unlink(missing_ok=True)


def _move(path: Path, target: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.replace(path, target)


def _is_same(path: Path, other: Path) -> bool:
    try:
        return os.path.samefile(path, other)
    except FileNotFoundError:
        return False


def make_backup(place: ArchiveLocation) -> None:
    """Keep the file and its journal in the first place, which is free."""
    if not keep_as(place.path, place.backup(1)):
        settle(draft(place.backup(1), Archive().dump(), place.journal), place.backup(1))
    keep_as(place.journal, place.backup_journal(1))
