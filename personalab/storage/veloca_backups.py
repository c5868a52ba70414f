"""Verification of an archive and its backups."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from personalab.archive.veloca import ArchiveProblem, Array, check_archive
from personalab.archive.veloca_archive import Archive
from personalab.errors import BadRecord, StorageError, as_reason
from personalab.storage.veloca_files import (
    MAX_ARCHIVE_BYTES,
    WAIT_SECONDS,
    ArchiveLocation,
    HeldFile,
    place_of,
    read_archive,
    replay,
)
from personalab.storage.veloca_journal import Head, JournalScan
from personalab.storage.veloca_rotation import backup_numbers


@dataclass(frozen=True, slots=True)
class Backup:
    """One backup, and whether it can be used."""

    number: int
    path: str
    size: int
    modified: str
    problem: ArchiveProblem | None

    def fields(self) -> dict[str, Any]:
        """Return its JSON object."""
        problem = self.problem.fields() if self.problem else None
        return {
            "number": self.number,
            "path": self.path,
            "size": self.size,
            "modified": self.modified,
            "problem": problem,
        }


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What was found when an archive was looked over."""

    path: str
    problems: tuple[ArchiveProblem, ...]
    counts: Mapping[Array, int]
    journalled: int
    """Number of changes in the journal that are not folded into the file yet."""
    backups: tuple[Backup, ...]

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong with the file and its journal."""
        return not self.problems

    def fields(self) -> dict[str, Any]:
        """Return its JSON object."""
        return {
            "path": self.path,
            "healthy": self.healthy,
            "problems": [problem.fields() for problem in self.problems],
            "counts": dict(self.counts),
            "journalled": self.journalled,
            "backups": [backup.fields() for backup in self.backups],
        }


# --- finding what is wrong


def broken(place: ArchiveLocation, error: BadRecord) -> StorageError:
    """Return the error that an archive cannot be read, with what can be done."""
    number = newest_good(place)
    if number is None:
        return StorageError("archive_broken_alone", file=place.shown, reason=as_reason(error))
    return StorageError(
        "archive_broken", file=place.shown, reason=as_reason(error), backup=place.backup(number).name
    )


def is_gone(place: ArchiveLocation, journal: Head | None) -> bool:
    """Return whether a missing archive had existed before."""
    return bool(backup_numbers(place)) if journal is None else journal.base is not None


def newest_good(place: ArchiveLocation) -> int | None:
    """Find the newest backup that can be read; damage in its journal would be missed by every older one, too."""
    for number in backup_numbers(place):
        with contextlib.suppress(FileNotFoundError, BadRecord):
            read_archive(place.backup(number), place.limit)
            return number
    return None


@dataclass(frozen=True, slots=True)
class _Pair:
    """A file and its journal; number 0 is the archive itself."""

    number: int
    path: Path
    journal_path: Path
    journal: HeldFile
    file: HeldFile


def verify_archive(
    path: str | Path, *, limit: int = MAX_ARCHIVE_BYTES, wait: float = WAIT_SECONDS
) -> VerifyReport:
    """Verify an archive: its file, its journal, its backups. Problems are reported, not raised.

    The files are only opened under the lock, and read when others may write again.
    """
    try:
        place = place_of(path, limit, wait)
    except StorageError as error:
        return VerifyReport(str(path), (ArchiveProblem(error.code, error.params),), {}, 0, ())
    with contextlib.ExitStack() as held:
        with place.locked(shared=True):
            pairs = _opened(place, held)
            gone = bool(backup_numbers(place))
        problems, archive, journal = _examined(place, pairs[0], gone)
        if archive is not None:
            replay(archive, journal)
            problems += check_archive(archive.document())
        backups = tuple(_described(pair) for pair in pairs[1:] if pair.file.is_there)
    counts = archive.counts() if archive else {}
    return VerifyReport(place.shown, tuple(problems), counts, len(journal.puts), backups)


def _opened(place: ArchiveLocation, held: contextlib.ExitStack) -> list[_Pair]:
    """Open the archive and its backups, each journal before its file: what is folded in between is in the file."""
    named = [(0, place.path, place.journal)]
    named += [
        (number, place.backup(number), place.backup_journal(number)) for number in backup_numbers(place)
    ]
    pairs: list[_Pair] = []
    for number, path, journal_path in named:
        journal = held.enter_context(HeldFile(journal_path, place.limit))
        file = held.enter_context(HeldFile(path, place.limit))
        pairs.append(_Pair(number, path, journal_path, journal, file))
    return pairs


def _examined(
    place: ArchiveLocation, pair: _Pair, has_backups: bool
) -> tuple[list[ArchiveProblem], Archive | None, JournalScan]:
    """Read the file and the journal as far as they can be read."""
    problems: list[ArchiveProblem] = []
    archive: Archive | None = None
    journal = JournalScan((), 0)
    try:
        journal = pair.journal.journal()
        if damage := _damage(pair.journal_path, journal):
            problems.append(damage)
    except BadRecord as error:
        problems.append(ArchiveProblem(error.code, error.params))
    try:
        archive = pair.file.archive()
    except FileNotFoundError:
        if has_backups if journal.head is None else journal.head.base is not None:
            problems.append(ArchiveProblem("archive_gone", {"file": place.shown}))
        else:
            archive = Archive()
    except BadRecord as error:
        problems.append(ArchiveProblem(error.code, error.params))
    return problems, archive, journal


def _damage(path: Path, found: JournalScan) -> ArchiveProblem | None:
    if not found.damaged:
        return None
    return ArchiveProblem("archive_line_damaged", {"file": path.name, "line": found.damaged[0]})


def _described(pair: _Pair) -> Backup:
    size, modified = 0, ""
    if pair.file.stamp:
        _, _, size, written, _ = pair.file.stamp
        modified = datetime.fromtimestamp(written / 1e9, UTC).isoformat(timespec="seconds")
    return Backup(pair.number, str(pair.path), size, modified, _problem_of(pair))


def _problem_of(pair: _Pair) -> ArchiveProblem | None:
    """Return what is wrong with a backup or the journal that belongs to it."""
    try:
        pair.file.archive()
        return _damage(pair.journal_path, pair.journal.journal())
    except BadRecord as error:
        return ArchiveProblem(error.code, error.params)
