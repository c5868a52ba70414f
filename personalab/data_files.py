"""Reading, replacing, creating and locking the files and folders of a data root.

A path in a data root may have been replaced by a named pipe, a device, a socket or a folder. Nothing here waits for
one or reads from it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import secrets
import stat
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from personalab.errors import Busy, Reason, StorageError, as_reason, json_reason

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


def close_locked(fd: int) -> None:
    """Release a file's lock and close it; a process forked meanwhile has it open, too, so closing is not enough."""
    with contextlib.suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)


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


MAX_JSON_BYTES = 16 * 1024 * 1024


def read_json(path: Path, shown: str) -> object:
    """Read a JSON file; ``shown`` is how an error names it."""
    raw = read_bytes(path, shown, MAX_JSON_BYTES)
    try:
        return json.loads(without_bom(raw).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise StorageError("file_broken", file=shown, reason=json_reason(error)) from error


def read_bytes(path: Path, shown: str, limit: int) -> bytes:
    """Read a file whose size is checked first."""
    try:
        with os.fdopen(open_regular(path, shown=shown), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > limit:
                raise StorageError(
                    "file_broken", file=shown, reason=Reason("too_many_bytes", count=size, limit=limit)
                )
            return file.read()
    except FileNotFoundError as error:
        raise StorageError("file_missing", file=shown) from error
    except OSError as error:
        raise StorageError("file_broken", file=shown, reason=as_reason(error)) from error


def read_start(path: Path, shown: str, length: int) -> bytes:
    """Read the first bytes of a file of any size."""
    try:
        with os.fdopen(open_regular(path, shown=shown), "rb") as file:
            return file.read(length)
    except FileNotFoundError as error:
        raise StorageError("file_missing", file=shown) from error
    except OSError as error:
        raise StorageError("file_broken", file=shown, reason=as_reason(error)) from error


def refuse_link(path: Path, shown: str) -> None:
    """Refuse a symbolic link where a file or folder of ours should be: it may lead out of the data root."""
    if path.is_symlink():
        raise StorageError("link_refused", file=shown)


def make_folder_below(root: Path, folder: Path, shown: str) -> None:
    """Make a folder below another one, if it is missing; a symbolic link on the way to it is refused."""
    step = root  # which may itself be a link
    for name in folder.relative_to(root).parts:
        step /= name
        refuse_link(step, shown)
    with writing(shown):
        make_folder(folder)


def dump_json(data: Mapping[str, Any]) -> bytes:
    """Serialize JSON as in our files: indented by 2, UTF-8."""
    return (json.dumps(data, ensure_ascii=False, indent=2) + "\n").encode("utf-8", "backslashreplace")


def write_json(path: Path, data: Mapping[str, Any], shown: str, *, sync: bool = False) -> None:
    """Replace a JSON file atomically."""
    replace_file(path, dump_json(data), shown, sync=sync)


def replace_file(
    path: Path,
    content: bytes | Iterable[bytes],
    shown: str,
    *,
    sync: bool = False,
    mode: int = FILE_MODE,
) -> None:
    """Replace a file atomically; on failure the old one stays and nothing is left beside it.

    A new file gets ``mode``; one that is replaced keeps its own. A large content may come in parts, so that it need
    not be in memory whole.
    """
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    with writing(shown):
        try:
            with os.fdopen(create_file(fresh, mode), "wb", buffering=0) as file:
                _keep_mode(file.fileno(), path)
                for part in (content,) if isinstance(content, bytes) else content:
                    view = memoryview(part)
                    while view:
                        view = view[file.write(view) :]
                if sync:
                    os.fsync(file.fileno())
            os.replace(fresh, path)
            if sync:
                sync_folder(path.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                fresh.unlink()
            raise


def create_file(path: Path, mode: int = FILE_MODE) -> int:
    """Create a file that must not exist yet and open it for writing."""
    return open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)


def open_aside(path: Path) -> int:
    """Open a file that collects what was moved out of another one, to append to it."""
    return open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def _keep_mode(fd: int, path: Path) -> None:
    with contextlib.suppress(OSError):
        found = path.lstat().st_mode
        if stat.S_ISREG(found):
            os.fchmod(fd, stat.S_IMODE(found))


def sync_folder(folder: Path) -> None:
    """Make a rename in a folder survive a power loss."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def writing(shown: str) -> Generator[None]:
    """Translate what the system says when a file cannot be written."""
    try:
        yield
    except OSError as error:
        raise write_error(error, shown) from error


def write_error(error: OSError, shown: str) -> StorageError:
    """Explain why a file could not be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageError("disk_full", file=shown)
    return StorageError("not_writable", file=shown, reason=as_reason(error))


LOCK_WAIT_SECONDS = 10.0


class locked_file:  # noqa: N801 (used like a function, in a with statement)
    """Hold an exclusive lock on a file beside the data while the block runs; waits for it, but not for ever."""

    def __init__(self, path: Path, shown: str) -> None:
        self._path = path
        self._shown = shown
        self._fd = -1

    def __enter__(self) -> None:
        try:
            with writing(self._shown):
                self._fd = open_regular(self._path, os.O_RDWR | os.O_CREAT)
                self._wait_for_it()
        except BaseException:
            self._release()
            raise

    def _wait_for_it(self) -> None:
        deadline = time.monotonic() + LOCK_WAIT_SECONDS
        while True:
            if lock_fd(self._fd, self._path):
                return
            if time.monotonic() >= deadline:
                raise Busy("file_busy", file=self._shown, seconds=f"{LOCK_WAIT_SECONDS:g}")
            time.sleep(0.01)

    def _release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            close_locked(fd)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()
