"""An archive refuses wrong paths, exceeded limits, held locks, read-only folders and full disks."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from personalab.errors import Busy, StorageError
from personalab.storage.veloca import VelocaStore
from personalab.storage.veloca_backups import verify_archive
from tests.support.killing import PROJECT
from tests.support.storage.veloca_looking import beside, in_file, opened, said, talk
from tests.unit.archive.test_veloca_archive import SESSION, SOURCE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "veloca-storage.json"


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as served:
        (tmp_path / "s").mkdir()
        served.bind(str(tmp_path / "s" / "x"))
        os.mkfifo(tmp_path / "fifo")
        for wrong in (tmp_path, tmp_path / "s" / "x", tmp_path / "fifo", tmp_path / "no" / "folder.json"):
            with pytest.raises(StorageError) as raised:
                VelocaStore(wrong)
            assert str(wrong) in str(raised.value)
            assert not verify_archive(wrong).healthy
    assert not (tmp_path / "no").exists()


def test_an_archive_behind_a_link_is_the_same_archive(path: Path, tmp_path: Path) -> None:
    path.write_text(json.dumps(SOURCE), "utf-8")
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.json"
    link.symlink_to(path)
    with opened(link) as store:
        store.create_entry(SESSION, "user", "末")
    assert link.is_symlink()
    assert in_file(path)[-1] == "末"


def test_a_file_over_the_limit_is_neither_read_nor_made(path: Path) -> None:
    with opened(path, limit=20_000) as store:
        session_id = talk(store)

        def fill() -> None:
            for number in range(100):
                store.create_entry(session_id, "user", f"{number} " + "x" * 500)

        with pytest.raises(StorageError) as raised:
            fill()
        assert raised.value.code == "archive_full"
        kept = len(store.entries())
        assert kept > 10
    assert path.stat().st_size <= 20_000
    assert len(said(path)) == kept
    with pytest.raises(StorageError):
        opened(path, limit=1_000)
    with path.open("r+b") as file:
        file.truncate(600 * 1024 * 1024)
    with pytest.raises(StorageError) as refused:
        opened(path)
    assert "limit" in str(refused.value)


def test_one_who_waits_in_vain_is_told_so(path: Path) -> None:
    store = opened(path, wait=0.05)
    session_id = talk(store, "一")
    with beside(path, "lock").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        assert len(store.entries()) == 1, "readers do not wait for each other"
        with pytest.raises(Busy):
            store.create_entry(session_id, "user", "二")
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Busy):
            store.entries()
        store.close()
    assert said(path) == ["一"]


def test_a_lock_file_that_is_deleted_is_made_again(path: Path) -> None:
    with opened(path) as store:
        session_id = talk(store, "一")
        beside(path, "lock").unlink()
        store.create_entry(session_id, "user", "二")
    assert in_file(path) == ["一", "二"]


@contextmanager
def unwritable(folder: Path) -> Generator[None]:
    """Let nobody write into a folder, not even root."""
    if os.geteuid():
        folder.chmod(0o555)
        yield
        folder.chmod(0o755)
        return
    bound = subprocess.run(["mount", "--bind", str(folder), str(folder)], capture_output=True)
    if bound.returncode:
        pytest.skip("root needs to mount a folder to be kept from writing to it")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True, capture_output=True)
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("lock", [True, False])
def test_an_archive_in_a_folder_that_cannot_be_written_can_be_read(tmp_path: Path, lock: bool) -> None:
    folder = tmp_path / "fixed"
    folder.mkdir()
    path = folder / "v.json"
    first = opened(path)
    session_id = talk(first, "一")
    first.fold()
    first.create_entry(session_id, "user", "只在日志里")
    if not lock:
        beside(path, "lock").unlink()
    with unwritable(folder), opened(path) as store:
        assert [entry.message for entry in store.entries()] == ["一", "只在日志里"]
        assert store.verify().healthy
        with pytest.raises(StorageError) as raised:
            store.create_entry(session_id, "user", "三")
        assert raised.value.code == "not_writable"
        assert len(store.entries()) == 2


def test_a_disk_that_is_full_leaves_the_old_state_and_a_usable_store(path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-m", "tests.support.storage.veloca_child", "full", str(path)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.split() == ["kept", "refused", "unfolded", "usable"]
    assert verify_archive(path).healthy
    assert len(said(path)) == 12
    assert not list(path.parent.glob(".*.tmp"))


def test_drafts_of_dead_writers_are_cleared_away(path: Path) -> None:
    draft = path.with_name(f".{path.name}.0123abcd.tmp")
    other = path.with_name(f".{path.name}.notes.tmp")
    for found in (draft, other):
        found.write_bytes(b"half")
    with opened(path) as store:
        talk(store, "一")
    assert not draft.exists()
    assert other.exists()


def test_threads_share_a_store(path: Path) -> None:
    with opened(path, fold_bytes=5_000) as store:
        session_id = talk(store)

        def work(number: int) -> None:
            for at in range(25):
                store.create_entry(session_id, "user", f"{number}-{at}")
                store.context(session_id)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(in_file(path)) == sorted(f"{number}-{at}" for number in range(8) for at in range(25))
    assert verify_archive(path).healthy
