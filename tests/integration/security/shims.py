"""Libraries for ``LD_PRELOAD`` that let system calls fail as a real file system may."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

NO_LOCKS = """
#include <errno.h>
int flock(int fd, int operation) { errno = ENOLCK; return -1; }
"""

NO_TRUNCATE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int is_session(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    return size > 6 && strncmp(path + size - 6, ".jsonl", 6) == 0;
}

/* The first write arrives whole on the disk and is reported as failed; nothing can be shortened afterwards. */
static ssize_t write_at(int fd, const void *data, size_t size, off_t at) {
    static int failed = 0;
    static ssize_t (*real)(int, const void *, size_t, off_t) = 0;
    if (!real) real = dlsym(RTLD_NEXT, "pwrite64");
    ssize_t written = real(fd, data, size, at);
    if (!failed && is_session(fd)) { failed = 1; errno = ENOSPC; return -1; }
    return written;
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return write_at(fd, data, size, at); }
ssize_t pwrite64(int fd, const void *data, size_t size, off_t at) { return write_at(fd, data, size, at); }

static int shorten(int fd, off_t size) {
    static int (*real)(int, off_t) = 0;
    if (!real) real = dlsym(RTLD_NEXT, "ftruncate64");
    if (is_session(fd)) { errno = EIO; return -1; }
    return real(fd, size);
}
int ftruncate(int fd, off_t size) { return shorten(fd, size); }
int ftruncate64(int fd, off_t size) { return shorten(fd, size); }
"""


def build_shim(source: str, folder: Path) -> Path:
    """Compile a library; skip the test where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    code, library = folder / "shim.c", folder / "shim.so"
    code.write_text(source, encoding="ascii")
    done = subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", str(library), str(code), "-ldl"], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"the C compiler cannot make a library: {done.stderr[:200]}")
    return library
