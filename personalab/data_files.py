"""Opening, locking and creating the files and folders of a data root.

A path in a data root may have been replaced by a named pipe, a device, a socket or a folder. Nothing here waits for
one or reads from it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from pathlib import Path

from personalab.errors import Reason, StorageError

FILE_MODE = 0o600
FOLDER_MODE = 0o700
_CHUNK = 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


def open_regular(
    path: str | Path, flags: int = os.O_RDONLY, mode: int = FILE_MODE, *, shown: str | None = None
) -> int:
    """Open a regular file without blocking and return its descriptor; ``shown`` is how an error names the file.

    Anything else raises a ``StorageError``; what the system refuses stays an ``OSError``.
    """
    # Devices are not opened at all: opening alone can have an effect.
    check_regular(path, shown=shown)
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise not_regular(path, shown)
    return fd


def check_regular(path: str | Path, *, shown: str | None = None) -> None:
    """Raise a ``StorageError`` for a path that is there and is not a regular file or a link to one."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode):
        raise not_regular(path, shown)


def not_regular(path: str | Path, shown: str | None = None) -> StorageError:
    """Make the error for a path that is not a regular file."""
    return StorageError("not_regular", file=shown or str(path), reason=Reason("not_regular"))


def make_folder(path: Path) -> None:
    """Create a folder and its missing parents for the owner alone; an existing one keeps its mode."""
    if not path.is_dir():
        if path.parent != path:
            make_folder(path.parent)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=FOLDER_MODE)
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def lock_fd(fd: int, path: str | Path, *, shared: bool = False, wait: bool = False) -> bool:
    """Take the lock of an open file; return ``False`` if another process holds it."""
    operation = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
    try:
        fcntl.flock(fd, operation)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _NO_LOCKS:
            raise StorageError("locks_unsupported", folder=str(Path(path).parent)) from error
        raise
    return True


def cut_file(fd: int, size: int) -> None:
    """Shorten a file; where the system refuses, overwrite the rest with zeros, which readers take for padding."""
    end = os.fstat(fd).st_size
    if end <= size:
        return
    try:
        os.ftruncate(fd, size)
    except OSError:
        while size < end:
            size += os.pwrite(fd, bytes(min(end - size, _CHUNK)), size)


def without_bom(raw: bytes) -> bytes:
    """Drop a byte order mark that an editor put at the beginning of a file."""
    return raw.removeprefix(_BOM)
