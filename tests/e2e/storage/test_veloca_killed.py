"""An archive that several processes write, and that is killed at any moment, loses nothing it acknowledged."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from personalab.storage.veloca import VelocaStore
from personalab.storage.veloca_backups import verify_archive
from tests.e2e.storage.veloca_cases import CASES
from tests.support.killing import PROJECT, Forks, forking, walk
from tests.support.storage.veloca_child import SESSION

WRITERS = 8
EACH = 60


@pytest.fixture(scope="module")
def workers() -> Iterator[list[Forks]]:
    with forking("tests.e2e.storage.veloca_cases") as started:
        yield started


@pytest.mark.parametrize("name", CASES)
def test_work_killed_at_any_step_is_done_or_not_and_the_next_try_succeeds(
    workers: list[Forks], tmp_path: Path, name: str
) -> None:
    deaths = walk(workers, name, tmp_path)
    assert [death for death in deaths if death.problem] == []
    assert {death.done for death in deaths} == {False, True}


def begun(path: Path) -> None:
    with VelocaStore(path) as store:
        store.create_session("众", session_id=SESSION)


def child(path: Path, name: str, count: int, fold_bytes: int) -> subprocess.Popen[str]:
    wishes = [str(path), name, str(count), str(fold_bytes)]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.storage.veloca_child", "append", *wishes],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def test_eight_processes_append_and_fold_at_once_and_every_record_is_there_once(tmp_path: Path) -> None:
    path = tmp_path / "v.json"
    begun(path)
    writers = [child(path, f"{number}", EACH, 6_000) for number in range(WRITERS)]
    lengths = [0]
    with VelocaStore(path, wait=60) as reader:
        while any(writer.poll() is None for writer in writers):
            json.loads(path.read_bytes())
            lengths.append(len(reader.entries()))
    acknowledged = [line for writer in writers for line in writer.communicate(timeout=60)[0].split()]
    assert [writer.returncode for writer in writers] == [0] * WRITERS
    assert lengths == sorted(lengths), "a reader never goes back"
    entries = json.loads(path.read_bytes())["entries"]
    assert sorted(entry["entry_id"] for entry in entries) == sorted(acknowledged)
    assert sorted(entry["message"] for entry in entries) == sorted(
        f"{name}-{number}" for name in range(WRITERS) for number in range(EACH)
    )
    assert verify_archive(path).healthy


def test_writers_that_are_killed_lose_nothing_they_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "v.json"
    begun(path)
    chosen = random.Random(5)
    acknowledged: list[str] = []
    for round_number in range(6):
        pair = [child(path, f"{round_number}{side}", 10_000, 2_000) for side in "ab"]
        for writer in pair:
            assert writer.stdout is not None
            acknowledged += [writer.stdout.readline().strip() for _ in range(chosen.randint(1, 40))]
        for writer in pair:
            writer.kill()
        for writer in pair:
            rest = writer.communicate(timeout=60)[0]
            acknowledged += [line for line in rest.splitlines() if len(line) == 36]
        report = verify_archive(path)
        assert report.healthy, report.problems
        with VelocaStore(path) as store:
            found = [entry.entry_id for entry in store.entries()]
        assert len(found) == len(set(found))
        assert set(found) >= set(acknowledged)
    assert all(backup.problem is None for backup in verify_archive(path).backups)
