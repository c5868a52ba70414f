"""How is a small file read whole, and replaced so that nobody ever sees half of it?"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from personalab.errors import StorageError

MAX_JSON_BYTES = 16 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"


def read_json(path: Path, shown: str) -> object:
    """Read a JSON file; ``shown`` is how an error names it."""
    raw = read_bytes(path, shown, MAX_JSON_BYTES)
    try:
        return json.loads(raw.removeprefix(_BOM).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise StorageError("file_broken", file=shown, reason=str(error) or type(error).__name__) from error


def read_bytes(path: Path, shown: str, limit: int) -> bytes:
    """Read a file whose size is checked first."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > limit:
                raise StorageError("file_broken", file=shown, reason=f"{size} bytes, more than {limit}")
            return file.read()
    except FileNotFoundError as error:
        raise StorageError("file_missing", file=shown) from error
    except OSError as error:
        raise StorageError("file_broken", file=shown, reason=error.strerror or str(error)) from error


def dump_json(data: Mapping[str, Any]) -> bytes:
    """Write JSON as it stands in our files: indented by 2, UTF-8."""
    return (json.dumps(data, ensure_ascii=False, indent=2) + "\n").encode("utf-8", "backslashreplace")


def write_json(path: Path, data: Mapping[str, Any], shown: str, *, sync: bool = False) -> None:
    """Replace a JSON file atomically."""
    replace_file(path, dump_json(data), shown, sync=sync)


def replace_file(path: Path, content: bytes, shown: str, *, sync: bool = False) -> None:
    """Replace a file atomically; on failure the old one stands and nothing is left beside it."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    with writing(shown):
        try:
            with fresh.open("xb", buffering=0) as file:
                view = memoryview(content)
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
    """Say in our words why a file could not be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageError("disk_full", file=shown)
    return StorageError("not_writable", file=shown, reason=error.strerror or str(error))
