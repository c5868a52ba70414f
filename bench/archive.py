"""Appends to a large archive compared with an empty one, and the time to open and fold it."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

from bench.table import Figure, median
from personalab.archive.veloca import ArchiveEntry, ArchiveSession, new_id
from personalab.archive.veloca_archive import Archive
from personalab.storage.veloca import VelocaStore, utc_now

SENTENCE = "夜里的风从旧铁路那边吹来，她把灯举高了一点，等他先开口。"


def figures() -> list[Figure]:
    """Measure it all."""
    return [*_appends()]


# --- the store

_MEGABYTES = 50
_APPENDS = 1_000
_ROUNDS = 5
_SESSIONS = 200


def _grown(path: Path) -> str:
    """Write an archive of some size; return one of its sessions."""
    archive = Archive()
    sessions = [ArchiveSession(new_id(), f"会话 {number}", 0, utc_now()) for number in range(_SESSIONS)]
    archive.put_records(sessions)
    size = number = 0
    while size < _MEGABYTES * 1_000_000:
        session_id = sessions[number % _SESSIONS].session_id
        entry = ArchiveEntry(
            new_id(), session_id, f"{number} {SENTENCE * 3}", "user", 40, 0, None, utc_now(), 1
        )
        archive.put_records([entry])
        size += len(json.dumps(entry.fields(), ensure_ascii=False).encode("utf-8"))
        number += 1
    path.write_bytes(archive.dump())
    return sessions[0].session_id


def _per_append(store: VelocaStore, session_id: str) -> float:
    start = time.perf_counter()
    for number in range(_APPENDS):
        store.create_entry(session_id, "user", f"{number} {SENTENCE}", token_consumption=20)
    return (time.perf_counter() - start) / _APPENDS


def _appends() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        large, empty = Path(folder) / "large.json", Path(folder) / "empty.json"
        session_id = _grown(large)
        start = time.perf_counter()
        store = VelocaStore(large)
        opened = time.perf_counter() - start
        ratios: list[float] = []
        times: list[float] = []
        for _ in range(_ROUNDS):
            for path in Path(folder).glob("empty.json*"):
                path.unlink()
            with VelocaStore(empty) as other:
                small = _per_append(other, other.create_session("空").session_id)
            times.append(_per_append(store, session_id))
            ratios.append(times[-1] / small)
        start = time.perf_counter()
        store.fold()
        folded = time.perf_counter() - start
        store.close()
    note = f"{median(times) * 1e6:.0f} µs, {_ROUNDS} × {_APPENDS:,} appends by turns"
    return [
        Figure(f"append to {_MEGABYTES} MB beside an empty archive", median(ratios), at_most=2.0, note=note),
        Figure(f"open {_MEGABYTES} MB", opened, "s"),
        Figure(
            f"fold {_MEGABYTES} MB", folded, "s", note="on close, and each time the journal has grown by half"
        ),
    ]
