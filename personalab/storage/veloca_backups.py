"""Is an archive whole, and how is one that is broken brought back?

A fold keeps the old file as a backup, together with the journal that was folded into it. So a backup and its journal
make the next newer backup, and the newest makes the archive's file: whatever of these is still good, all that was
ever acknowledged follows from it and the journals since.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from personalab.archive.veloca import Array, Problem, check_archive
from personalab.archive.veloca_rules import Archive
from personalab.errors import BadRecord, StorageError
from personalab.storage.files import writing
from personalab.storage.veloca_drafts import draft, keep_as, settle
from personalab.storage.veloca_files import (
    MAX_ARCHIVE_BYTES,
    WAIT_SECONDS,
    Place,
    clear_drafts,
    place_of,
    read_archive,
    read_journal,
    read_raw,
    replay,
)
from personalab.storage.veloca_journal import Head, Scan, scan, stamp_of


@dataclass(frozen=True, slots=True)
class Backup:
    """One backup, and whether it can be used."""

    number: int
    path: str
    size: int
    modified: str
    problem: Problem | None

    def fields(self) -> dict[str, Any]:
        """Give its JSON object."""
        problem = self.problem.fields() if self.problem else None
        return {
            "number": self.number,
            "path": self.path,
            "size": self.size,
            "modified": self.modified,
            "problem": problem,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """What was found when an archive was looked over."""

    path: str
    problems: tuple[Problem, ...]
    counts: Mapping[Array, int]
    journalled: int
    """So many changes are kept in the journal and not folded into the file yet."""
    backups: tuple[Backup, ...]

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong with the file and its journal."""
        return not self.problems

    def fields(self) -> dict[str, Any]:
        """Give its JSON object."""
        return {
            "path": self.path,
            "healthy": self.healthy,
            "problems": [problem.fields() for problem in self.problems],
            "counts": dict(self.counts),
            "journalled": self.journalled,
            "backups": [backup.fields() for backup in self.backups],
        }


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did."""

    path: str
    backup: str | None
    """The backup that the file was made from; ``None``: the file was good."""
    set_aside: tuple[str, ...]
    """Where what was broken is kept."""
    replayed: int
    """So many records came from journals."""
    lost_lines: int
    """So many lines of journals were damaged and could not be used."""

    @property
    def changed(self) -> bool:
        """Whether there was anything to do."""
        return self.backup is not None or bool(self.set_aside)

    def fields(self) -> dict[str, Any]:
        """Give its JSON object."""
        return {
            "path": self.path,
            "changed": self.changed,
            "backup": self.backup,
            "set_aside": list(self.set_aside),
            "replayed": self.replayed,
            "lost_lines": self.lost_lines,
        }


# --- keeping


def backup_numbers(place: Place) -> list[int]:
    """Find the backups there are, the newest first."""
    named = re.compile(rf"{re.escape(place.path.name)}\.bak([1-9]\d{{0,3}})(?:\.journal)?")
    found: set[int] = set()
    with contextlib.suppress(OSError):
        found = {
            int(match[1]) for path in place.path.parent.iterdir() if (match := named.fullmatch(path.name))
        }
    return sorted(found)


def make_room(place: Place, keep: int) -> None:
    """Move each backup one place on, so that the first place is free; the last ones go.

    A backup moves before its journal. So wherever this dies, the journals numbered no higher than a backup are
    still those that were written since.
    """
    with writing(place.shown):
        if _is_same(place.backup(1), place.path):  # a fold died right after it had made this
            _remove(place, 1)
        numbers = backup_numbers(place)
        free = next(number for number in range(1, keep + 2) if number not in numbers)
        for number in numbers:
            if number > keep or number == keep < free:
                _remove(place, number)
        for number in range(min(free, keep) - 1, 0, -1):
            _move(place.backup(number), place.backup(number + 1))
            _move(place.backup_journal(number), place.backup_journal(number + 1))


def _remove(place: Place, number: int) -> None:
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


def make_backup(place: Place) -> None:
    """Keep the file and its journal in the first place, which is free."""
    if not keep_as(place.path, place.backup(1)):
        settle(draft(place.backup(1), Archive().dump(), place.journal), place.backup(1))
    keep_as(place.journal, place.backup_journal(1))


# --- finding what is wrong


def broken(place: Place, error: BadRecord) -> StorageError:
    """Say that an archive cannot be read, and what can be done."""
    number = _newest_good(place)
    if number is None:
        return StorageError("archive_broken_alone", file=place.shown, reason=str(error))
    return StorageError(
        "archive_broken", file=place.shown, reason=str(error), backup=place.backup(number).name
    )


def is_gone(place: Place, journal: Head | None) -> bool:
    """Tell whether an archive that is missing had been there."""
    return bool(backup_numbers(place)) if journal is None else journal.base is not None


def _newest_good(place: Place) -> int | None:
    """Find the newest backup that can be read; damage in its journal would be missed by every older one, too."""
    for number in backup_numbers(place):
        with contextlib.suppress(FileNotFoundError, BadRecord):
            read_archive(place.backup(number), place.limit)
            return number
    return None


def _problem_of(place: Place, number: int) -> Problem | None:
    """Tell what is wrong with a backup or the journal that belongs to it."""
    try:
        read_archive(place.backup(number), place.limit)
        found = read_journal(place.backup_journal(number), place.limit)
    except FileNotFoundError:
        return Problem("archive_backup_missing", {"number": number})
    except BadRecord as error:
        return Problem(error.code, error.params)
    return _damage(place.backup_journal(number), found)


def _damage(path: Path, found: Scan) -> Problem | None:
    if not found.damaged:
        return None
    return Problem("archive_line_damaged", {"file": path.name, "line": found.damaged[0]})


def verify_archive(path: str | Path, *, limit: int = MAX_ARCHIVE_BYTES, wait: float = WAIT_SECONDS) -> Report:
    """Look an archive over: its file, its journal, its backups. What is broken is reported, not raised."""
    try:
        place = place_of(path, limit, wait)
    except StorageError as error:
        return Report(str(path), (Problem(error.code, error.params),), {}, 0, ())
    with place.locked(shared=True):
        problems, archive, journal = _examined(place)
        if archive is not None:
            replay(archive, journal)
            problems += check_archive(archive.document())
        backups = tuple(_described(place, number) for number in backup_numbers(place))
    counts = archive.counts() if archive else {}
    return Report(place.shown, tuple(problems), counts, len(journal.puts), backups)


def _examined(place: Place) -> tuple[list[Problem], Archive | None, Scan]:
    """Read the file and the journal as far as they can be read."""
    problems: list[Problem] = []
    archive: Archive | None = None
    journal = Scan((), 0)
    try:
        journal = read_journal(place.journal, place.limit)
        if damage := _damage(place.journal, journal):
            problems.append(damage)
    except BadRecord as error:
        problems.append(Problem(error.code, error.params))
    try:
        archive = read_archive(place.path, place.limit)[0]
    except FileNotFoundError:
        if is_gone(place, journal.head):
            problems.append(Problem("archive_gone", {"file": place.shown}))
        else:
            archive = Archive()
    except BadRecord as error:
        problems.append(Problem(error.code, error.params))
    return problems, archive, journal


def _described(place: Place, number: int) -> Backup:
    path = place.backup(number)
    size, modified = 0, ""
    with contextlib.suppress(OSError):
        found = path.stat()
        size = found.st_size
        modified = datetime.fromtimestamp(found.st_mtime, UTC).isoformat(timespec="seconds")
    return Backup(number, str(path), size, modified, _problem_of(place, number))


# --- bringing back


def restore_archive(
    path: str | Path,
    backup: int | None = None,
    *,
    limit: int = MAX_ARCHIVE_BYTES,
    wait: float = WAIT_SECONDS,
) -> Restored:
    """Make a broken archive's file again from a backup (the newest good one) and the journals since.

    What is broken is kept beside it. An archive that is whole is left alone, unless a backup is named.
    """
    place = place_of(path, limit, wait)
    with place.locked():
        clear_drafts(place)
        number = _free_number(place)
        aside: list[str] = []
        used, replayed, lost = None, 0, 0
        if backup is not None or _file_is_bad(place):
            used = backup if backup is not None else _newest_good(place)
            if used is None:
                raise StorageError("archive_no_backup", file=place.shown)
            archive, replayed, lost = _rebuilt(place, used)
            _replace(place.path, archive.dump(), place.beside(f"broken{number}"), aside)
        lost += _mend_journal(place, place.beside(f"broken{number}.journal"), aside)
        name = None if used is None else str(place.backup(used))
        return Restored(place.shown, name, tuple(aside), replayed, lost)


def _file_is_bad(place: Place) -> bool:
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


def _free_number(place: Place) -> int:
    """Find the first number under which nothing was set aside yet."""
    number = 1
    while any(place.beside(f"broken{number}{end}").exists() for end in ("", ".journal")):
        number += 1
    return number


def _rebuilt(place: Place, number: int) -> tuple[Archive, int, int]:
    """Make the file again as it was before the journal that is in use."""
    try:
        archive, _ = read_archive(place.backup(number), place.limit)
        journals = [read_journal(place.backup_journal(older), place.limit) for older in range(number, 0, -1)]
    except FileNotFoundError as error:
        raise StorageError("archive_backup_missing", number=number) from error
    except BadRecord as error:
        raise StorageError(
            "archive_backup_broken", file=place.backup(number).name, reason=str(error)
        ) from error
    replayed = sum(replay(archive, found) for found in journals)
    return archive, replayed, sum(len(found.damaged) for found in journals)


def _replace(path: Path, content: bytes, kept: Path, aside: list[str]) -> None:
    """Put new content in a file's place and keep the old one under another name."""
    fresh = draft(path, content, path)
    try:
        if keep_as(path, kept):
            aside.append(str(kept))
        settle(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)


def _mend_journal(place: Place, kept: Path, aside: list[str]) -> int:
    """Leave only good lines in the journal; return how many were lost."""
    try:
        raw, _ = read_raw(place.journal, place.limit)
    except FileNotFoundError:
        return 0
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError("archive_unreadable", file=str(place.journal), reason=reason) from error
    except BadRecord as error:
        raise StorageError("archive_unreadable", file=str(place.journal), reason=str(error)) from error
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
