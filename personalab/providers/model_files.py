"""Files that a model's name refers to: regular files only, opened without blocking."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from personalab.errors import Because, Reason, as_reason

MAX_SCRIPT_BYTES = 16 * 1024 * 1024


class NotAModelFile(Exception):  # noqa: N818 (what is wrong, for the caller to word)
    """A file cannot be used."""

    def __init__(self, reason: Because) -> None:
        super().__init__(reason)
        self.reason = reason


def check_regular(path: Path) -> None:
    """Refuse what is no regular file, or may not be read."""
    os.close(_opened(path))


def read_script(path: Path) -> bytes:
    """Read a script of at most ``MAX_SCRIPT_BYTES``."""
    with open(_opened(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_SCRIPT_BYTES:
            raise NotAModelFile(Reason("too_many_bytes", count=size, limit=MAX_SCRIPT_BYTES))
        content = file.read(MAX_SCRIPT_BYTES + 1)
    if len(content) > MAX_SCRIPT_BYTES:
        raise NotAModelFile(Reason("too_many_bytes", count=len(content), limit=MAX_SCRIPT_BYTES))
    return content


def _opened(path: Path) -> int:
    """Open a file to read. It is looked at first: merely opening some devices does something."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise NotAModelFile(Reason("not_plain_file"))
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        raise NotAModelFile(as_reason(error)) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotAModelFile(Reason("not_plain_file"))
    return fd
