"""Garbage collection for a program that imports much and keeps long sessions in memory."""

import gc

_THRESHOLDS = (20_000, 50, 100)


def collect_rarely() -> None:
    """Collect less often than Python's defaults: they take a tenth of the start of a process."""
    gc.set_threshold(*_THRESHOLDS)


def freeze_startup() -> None:
    """Leave everything imported so far out of later collections, which would pause a server's streams."""
    gc.collect()
    gc.freeze()
