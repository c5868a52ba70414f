"""Runs all benchmarks, or the named parts: ``python -m bench turns start``. ``PARTS`` lists them.

``python -m bench play`` needs a real model and has options of its own: it is run by name only.
"""

from __future__ import annotations

import importlib
import os
import sys

from bench.table import Figure, show

PARTS = (
    "reply_line",
    "turns",
    "wire",
    "wire_streams",
    "start",
    "mcp",
    "recall",
    "memory",
    "lore",
    "cards",
    "archive",
    "executing",
    "lab",
    "web",
    "huge",
    "page",
)


def main() -> int:
    """Print a table a part; the exit code says whether every goal was met."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if sys.argv[1:2] == ["play"]:
        return importlib.import_module("bench.play").main(sys.argv[2:])
    named = [part for part in sys.argv[1:] if part in PARTS] or PARTS
    missed: list[Figure] = []
    for part in named:
        figures: list[Figure] = importlib.import_module(f"bench.{part}").figures()
        show(part.replace("_", " "), figures)
        missed += [figure for figure in figures if not figure.met]
    print(f"\n{len(missed)} goals missed" if missed else "\nall goals met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
