"""Reading of small files, and atomic replacement of files."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import stat
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from personalab.data_files import FILE_MODE, make_folder, open_regular, without_bom
from personalab.errors import Reason, StorageError, as_reason, json_reason

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
