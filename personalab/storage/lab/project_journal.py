"""The cost journal of a project's calls.

``calls.jsonl`` has one line per call. A line that a crash truncated is removed when the file is opened again:
its call is still in the spool, so the line is written again.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any, cast

from personalab.data_files import open_regular, read_bytes, refuse_link, without_bom, writing
from personalab.lab.calling import amount_of
from personalab.lab.case_calls import Known, Role

MAX_JOURNAL = 512 * 1024 * 1024


def read_journal(path: Path, shown: str) -> list[dict[str, Any]]:
    """Read the calls, each once; lines that cannot be read are left out."""
    if not path.exists():
        return []
    found: dict[str, dict[str, Any]] = {}
    for row in _rows(without_bom(read_bytes(path, shown, MAX_JOURNAL)).decode("utf-8", "replace")):
        if isinstance(row, dict):
            named = cast("dict[str, Any]", row)
            if isinstance(call_id := named.get("call_id"), str):
                found.setdefault(call_id, named)
    return list(found.values())


def _rows(text: str) -> list[object]:
    lines = [line for line in text.split("\n") if line.strip()]
    try:
        return json.loads(f"[{','.join(lines)}]")  # many times faster than line by line
    except (ValueError, RecursionError):
        return [row for line in lines if (row := _row(line)) is not None]


def _row(line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


class Account:
    """What the calls of a project come to."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.call_ids: set[str] = set()
        self.input_tokens = self.output_tokens = 0
        self.unpriced = False
        """Whether an answer had no price, so that the total cost is unknown."""
        self._costs: dict[str, tuple[float, int]] = {}
        self._dearest: dict[str, float] = {}
        self._outputs: dict[str, tuple[float, int]] = {}
        for row in rows:
            self.add(row)

    @property
    def calls(self) -> int:
        """How many calls there were."""
        return len(self.call_ids)

    @property
    def spent(self) -> float | None:
        """Their cost; ``None`` if it was not reported."""
        return sum(total for total, _ in self._costs.values()) if self._costs else None

    def dearest(self, role: str) -> float | None:
        """Return the cost of the dearest call for a purpose; ``None`` before the first."""
        return self._dearest.get(role)

    @property
    def dearest_of_all(self) -> float:
        """What the dearest call has cost."""
        return max(self._dearest.values(), default=0.0)

    def add(self, row: Mapping[str, Any]) -> None:
        """Count a call."""
        role = str(row.get("role", ""))
        if (cost := amount_of(row.get("cost_usd"))) is not None:
            _add(self._costs, role, cost)
            self._dearest[role] = max(cost, self._dearest.get(role, 0.0))
        elif row.get("status") != "failed":
            self.unpriced = True
        usage: object = row.get("usage")
        if isinstance(usage, dict):
            tokens = cast("dict[str, Any]", usage)
            output = amount_of(tokens.get("output_tokens")) or 0.0
            self.input_tokens += int(amount_of(tokens.get("input_tokens")) or 0)
            self.output_tokens += int(output)
            _add(self._outputs, role, output)
        # Last, so that a concurrent reader counts its price once too often, not once too few.
        self.call_ids.add(row["call_id"])

    def known(self) -> Known:
        """Return what a plan can learn from it."""
        return Known(
            calls=self.calls,
            spent_usd=self.spent,
            mean_cost=cast("dict[Role, float | None]", _means(self._costs)),
            mean_output=cast("dict[Role, float]", _means(self._outputs)),
            unpriced=self.unpriced,
        )


def _add(sums: dict[str, tuple[float, int]], role: str, amount: float) -> None:
    total, number = sums.get(role, (0.0, 0))
    sums[role] = total + amount, number + 1


def _means(sums: dict[str, tuple[float, int]]) -> dict[str, float]:
    return {role: total / number for role, (total, number) in sums.items()}


class CallJournal:
    """The cost journal of a project's calls and its file; several threads may write."""

    def __init__(self, path: Path, shown: str, *, sync: bool = False) -> None:
        self._path = path
        self._shown = shown
        self._sync = sync
        self._lock = Lock()
        self._fd = -1
        self.account = Account(read_journal(path, shown))

    def open(self) -> None:
        """Open the file to write."""
        refuse_link(self._path, self._shown)
        with writing(self._shown):
            self._fd = open_regular(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, shown=self._shown)
            _mend(self._fd)

    def append(self, row: Mapping[str, Any]) -> None:
        """Account for a call, once."""
        line = (json.dumps(row, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
        with self._lock:
            if row["call_id"] in self.account.call_ids:
                return
            with writing(self._shown):
                if os.write(self._fd, line) < len(
                    line
                ):  # the disk is full: the next line must not join this one
                    _mend(self._fd)
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                if self._sync:
                    os.fsync(self._fd)
            self.account.add(row)

    def close(self) -> None:
        """Close the file; the account stays."""
        os.close(self._fd)
        self._fd = -1


def _mend(fd: int) -> None:
    """Cut off a last line that is not whole; one that lacks only its end gets it."""
    size = os.fstat(fd).st_size
    tail, at = b"", size
    while at > 0 and b"\n" not in tail:
        begin = max(0, at - 65_536)
        tail, at = os.pread(fd, at - begin, begin) + tail, begin
    last = tail[tail.rfind(b"\n") + 1 :]
    if last and isinstance(_row(without_bom(last).decode("utf-8", "replace")), dict):
        os.write(fd, b"\n")
    elif last:
        os.ftruncate(fd, size - len(last))
