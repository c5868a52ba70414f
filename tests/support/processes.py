"""Signals and processes of a test run: children start with default signals, and none outlives its test."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

GRACE_SECONDS = 20.0
"""How long a process that is ending may take to be gone."""


def catch_ignored_signals() -> None:
    """Replace an inherited "ignore" by a handler that does nothing.

    Under ``nohup`` or in a shell's background, SIGHUP and SIGINT are ignored, and a program inherits that. A caught
    signal is reset to its default in every program we start, while this process still survives it.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _do_nothing)


def _do_nothing(number: int, frame: FrameType | None) -> None:
    pass


def newest_process() -> int:
    """Return the number that the system gave last (on Linux; 0 elsewhere)."""
    if not sys.platform.startswith("linux"):
        return 0
    return int(Path("/proc/loadavg").read_text(encoding="ascii").split()[-1])


def remaining_processes(folder: Path, grace: float = GRACE_SECONDS, *, since: int = 0) -> list[str]:
    """List the processes that know a test's folder, after giving them time to end.

    ``since`` is what ``newest_process`` was before the folder was made: older processes cannot know it.
    """
    deadline = time.monotonic() + grace
    while (found := _processes_with(folder, since)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def _processes_with(folder: Path, since: int) -> list[str]:
    """Find processes whose command, environment or working directory mentions a folder (on Linux)."""
    if not sys.platform.startswith("linux"):
        return []
    wanted, ours, found = os.fsencode(folder), os.getpid(), list[str]()
    newest = newest_process()
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or (number := int(entry.name)) == ours:
            continue
        # Numbers rise, and begin again after the largest.
        if number <= since and (since <= newest or newest < number):
            continue
        try:
            place = Path(entry.path)
            command = (place / "cmdline").read_bytes()
            known = (command, (place / "environ").read_bytes(), os.fsencode((place / "cwd").readlink()))
        except OSError:  # it has ended, or it is not ours to look at
            continue
        if any(wanted in text for text in known):
            words = command.replace(b"\0", b" ").decode("utf-8", "replace").strip()
            found.append(f"{entry.name}: {words[:300]}")
    return found
