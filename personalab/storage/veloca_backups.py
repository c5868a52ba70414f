"""Backups of an archive: rotation, verification, and restoring from them and the journals.

Backups are bounded in number and spaced in time. A backup and its journal give the next newer backup, and the
newest gives the archive's file. Everything that was ever acknowledged follows from any intact backup and the
journals since, so a damaged file is rebuilt completely. Restoring a named backup returns to its state, without
anything that came after it.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from personalab.archive.veloca import ArchiveProblem, Array, check_archive
from personalab.archive.veloca_archive import Archive
from personalab.data_files import writing
from personalab.errors import BadRecord, StorageError, as_reason
from personalab.storage.veloca_files import (
    MAX_ARCHIVE_BYTES,
    WAIT_SECONDS,
    ArchiveLocation,
    HeldFile,
    clear_drafts,
    place_of,
    read_archive,
    read_journal,
    read_raw,
    replay,
)
from personalab.storage.veloca_journal import (
    Head,
    JournalScan,
    discard,
    draft,
    keep_as,
    scan,
    settle,
    stamp_of,
)

# --- rotation


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
    """Add the journal to the newest backup's if that is young and stays short enough; return whether it was added.

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


# --- verification


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


# --- restoring


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
