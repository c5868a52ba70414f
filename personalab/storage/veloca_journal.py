"""The journal of an archive, which holds changes until they are folded into the file, and atomic replacement of files.

The journal is JSONL next to the archive. The first line, the head, says which file the journal belongs to and
what was folded into that; each other line puts whole records. A line begins with a checksum of the rest of
it. A process that dies while it writes leaves a last line without its end, which was never acknowledged: the
next writer overwrites it. A complete line that is wrong was changed by another program, and is never skipped
silently.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from zlib import crc32

from personalab.archive.veloca import ID_FIELDS, Array
from personalab.data_files import create_file, open_regular, sync_folder, writing
from personalab.errors import StorageError, as_reason

Stamp = tuple[int, ...]
"""What tells one state of a file from another without reading it."""

_OPENING = b'{"sum":"%08x",'
_PREFIX = len(_OPENING % 0)


def stamp_of(path: Path | int) -> Stamp | None:
    """Look at a file; ``None`` if there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def encode_line(body: bytes) -> bytes:
    """Make a line of a JSON object's inside (with the closing brace)."""
    return _OPENING % crc32(body) + body + b"\n"


def decode_line(line: bytes) -> dict[str, Any] | None:
    """Read a line without its end; ``None`` if it is not as it was written."""
    if line[:_PREFIX] != _OPENING % crc32(line[_PREFIX:]):
        return None
    try:
        found: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


@dataclass(frozen=True, slots=True)
class Head:
    """What a journal's first line tells."""

    base: Stamp | None = None
    """The archive's file as it was when the journal was begun; ``None``: there was none."""
    folded_base: Stamp | None = None
    """The file before that, ..."""
    folded_journal: int = 0
    """... and the inode of the journal that was folded into it."""

    def line(self) -> bytes:
        """Write it."""
        fields = {"base": self.base, "folded_base": self.folded_base, "folded_journal": self.folded_journal}
        return encode_line(b'"head":' + json.dumps(fields).encode("ascii") + b"}")

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Head:
        """Read it; what is not understood is as good as not there."""
        found: object = data.get("head")
        head = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
        folded = head.get("folded_journal")
        return cls(
            _stamp(head.get("base")),
            _stamp(head.get("folded_base")),
            folded if isinstance(folded, int) else 0,
        )


def _stamp(value: object) -> Stamp | None:
    return tuple(cast("list[int]", value)) if isinstance(value, list) else None


@dataclass(frozen=True, slots=True)
class JournalScan:
    """The content of a stretch of a journal."""

    puts: tuple[dict[Array, list[Any]], ...]
    """Records by array, in the order they were written."""
    end: int
    """Where the last whole line ends, counted from the beginning of the stretch."""
    head: Head | None = None
    damaged: tuple[int, ...] = ()
    """Numbers of lines that are not as they were written, from 1."""


def scan(raw: bytes, *, whole: bool = False) -> JournalScan:
    """Read a stretch of a journal that begins at a line; a last line without its end is left out.

    A whole journal begins with its head, which came there together with the file.
    """
    end = raw.rfind(b"\n") + 1
    head: Head | None = None
    puts: list[dict[Array, list[Any]]] = []
    damaged: list[int] = []
    for number, line in enumerate(raw[:end].split(b"\n")[:-1], start=1):
        data = decode_line(line)
        if data is None:
            damaged.append(number)
        elif number == 1 and "head" in data:
            head = Head.read(data)
        elif _is_put(data.get("put")):
            puts.append(data["put"])
        else:
            damaged.append(number)
    if whole and head is None and 1 not in damaged:
        damaged.insert(0, 1)
    return JournalScan(tuple(puts), end, head, tuple(damaged))


def _is_put(value: object) -> bool:
    """Return whether a value is lists of objects that have their ids, by the names of the arrays."""
    if not isinstance(value, dict):
        return False
    for name, records in cast("dict[Any, Any]", value).items():
        if name not in ID_FIELDS or not isinstance(records, list):
            return False
        key = ID_FIELDS[name]
        for record in cast("list[Any]", records):
            if not isinstance(record, dict) or not isinstance(cast("dict[str, Any]", record).get(key), str):
                return False
    return True


class Journal:
    """The journal of an archive as one process knows it; the caller holds the archive's lock."""

    def __init__(self, path: Path, archive: Path, limit: int) -> None:
        self.path = path
        self._file = archive
        self._limit = limit
        self._fd = -1
        self._known: tuple[int, int] | None = None
        """Device and inode of the file that is open."""
        self.end = 0
        """How far it was read, which is where the next line goes."""
        self.head: Head | None = None
        self._head_end = self._first_size = 0

    @property
    def inode(self) -> int:
        """The inode of the file that is open."""
        return self._known[1] if self._known else 0

    @property
    def has_puts(self) -> bool:
        """Whether it holds more than its head."""
        return self.end > self._head_end

    def is_current(self) -> bool:
        """Return whether the open file is still the one at its path."""
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return self._known is None
        return self._known == (found.st_dev, found.st_ino) and found.st_size >= self.end

    def open(self) -> None:
        """Reopen the file at the path; none of its content is read yet."""
        self.close()
        try:
            self._fd = open_regular(self.path)
            found = os.fstat(self._fd)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._unreadable(error) from error
        self._known = (found.st_dev, found.st_ino)
        self._first_size = found.st_size

    def first(self) -> JournalScan:
        """Read what stood in the file when it was opened."""
        scanned = self._read(self._first_size)
        self.head = scanned.head
        self._head_end = len(scanned.head.line()) if scanned.head else 0
        return scanned

    def reopen(self) -> JournalScan:
        """Reopen the file at the path and read it from its beginning."""
        self.open()
        return self.first()

    def news(self) -> JournalScan:
        """Read what was written since; refuse lines that are not as they were written."""
        try:
            return self._read(os.fstat(self._fd).st_size if self._fd >= 0 else 0)
        except OSError as error:
            raise self._unreadable(error) from error

    def _read(self, size: int) -> JournalScan:
        if self._fd < 0 or (size == self.end and size):
            return JournalScan((), 0)
        if size > self._limit:
            raise StorageError("archive_full", file=str(self._file), limit=self._limit)
        try:
            found = scan(read_from(self._fd, self.end, size), whole=self.end == 0)
        except OSError as error:
            raise self._unreadable(error) from error
        if found.damaged:
            line = found.damaged[0] + self._lines_before()
            raise StorageError(
                "archive_journal_broken", file=str(self.path), line=line, archive=str(self._file)
            )
        self.end += found.end
        return found

    def _lines_before(self) -> int:
        return read_from(self._fd, 0, self.end).count(b"\n")

    def _unreadable(self, error: OSError) -> StorageError:
        return StorageError("archive_unreadable", file=str(self.path), reason=as_reason(error))

    def begin(self, head: Head) -> None:
        """Replace the journal with an empty one."""
        settle(draft(self.path, head.line(), self._file), self.path)
        self.reopen()

    def append(self, put: bytes, *, sync: bool) -> None:
        """Write records (as JSON by array); they are kept when this returns, and not at all if it fails."""
        line = encode_line(b'"put":' + put + b"}")
        with writing(str(self.path)):
            fd = open_regular(self.path, os.O_WRONLY)
            try:
                _write_at(fd, line, self.end, sync=sync)
            finally:
                os.close(fd)
        self.end += len(line)

    def close(self) -> None:
        """Forget the file."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
        self._known, self.head = None, None
        self.end = self._head_end = self._first_size = 0


def _write_at(fd: int, line: bytes, at: int, *, sync: bool) -> None:
    """Write a line over whatever a dying writer left there; if it does not fit, leave nothing of it."""
    if os.fstat(fd).st_size != at:
        os.ftruncate(fd, at)
    view = memoryview(line)
    place = at
    try:
        while view:
            written = os.pwrite(fd, view, place)
            view, place = view[written:], place + written
        if sync:
            os.fsync(fd)
    except OSError:
        os.ftruncate(fd, at)
        raise


def read_from(fd: int, start: int, end: int) -> bytes:
    """Read a stretch of a file, whole."""
    parts: list[bytes] = []
    while start < end and (part := os.pread(fd, end - start, start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


# --- atomic replacement, with the permissions of the original


_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def draft(path: Path, content: bytes, like: Path) -> Path:
    """Write a file's new content beside it, safe on the disk, with the permissions of another; or leave nothing."""
    fresh = _beside(path)
    with writing(str(path)):
        try:
            with os.fdopen(create_file(fresh), "wb", buffering=0) as file:
                _own_like(file.fileno(), like)
                view = memoryview(content)
                while view:
                    view = view[file.write(view) :]
                os.fsync(file.fileno())
        except BaseException:
            discard(fresh)
            raise
    return fresh


def _own_like(fd: int, like: Path) -> None:
    """Set a file's owner to that of another file, as far as that is permitted."""
    try:
        found = like.stat()
    except FileNotFoundError:
        return
    with contextlib.suppress(OSError):
        os.fchown(fd, found.st_uid, found.st_gid)
    os.fchmod(fd, stat.S_IMODE(found.st_mode))


def discard(fresh: Path) -> None:
    """Remove a draft that is not needed; if that fails, the next fold clears it away."""
    with contextlib.suppress(OSError):
        fresh.unlink()


def settle(fresh: Path, path: Path) -> None:
    """Move a draft into the place of the file; if that fails, the draft is removed."""
    with writing(str(path)):
        try:
            os.replace(fresh, path)
            sync_folder(path.parent)
        finally:
            discard(fresh)


def keep_as(path: Path, kept: Path) -> bool:
    """Give a file a second name, or make a copy where hard links are unavailable; return whether there is one."""
    with writing(str(kept)):
        try:
            os.link(path, kept)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            fresh = _beside(path)
            shutil.copy2(path, fresh)
            os.replace(fresh, kept)
    return True


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
