"""Atomic replacement of an archive's files, with the permissions of the original."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
from pathlib import Path

from personalab.data_files import create_file, sync_folder, writing

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
