"""The lock of a library across processes: many readers or one writer."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from personalab.data_files import lock_fd, make_folder, open_regular


@contextmanager
def reading(path: Path) -> Generator[bool]:
    """Hold off writers while the block runs; ``False`` where nothing was ever written."""
    try:
        fd = open_regular(path)
    except FileNotFoundError:
        yield False
        return
    try:
        lock_fd(fd, path, shared=True, wait=True)
        yield True
    finally:
        os.close(fd)


@contextmanager
def writing(path: Path) -> Generator[None]:
    """Hold off everyone else while the block runs."""
    make_folder(path.parent)
    fd = open_regular(path, os.O_RDWR | os.O_CREAT)
    try:
        lock_fd(fd, path, wait=True)
        yield
    finally:
        os.close(fd)
