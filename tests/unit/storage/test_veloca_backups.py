"""Backups span hours, not commands, and someone may go back to one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from personalab.archive.veloca import new_id
from personalab.errors import StorageError
from personalab.storage.veloca_backups import restore_archive, verify_archive
from tests.support.storage.veloca_looking import beside, in_file, opened, said, talk
from tests.unit.archive.test_veloca_archive import SESSION, SOURCE

HOUR = 3_600


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "veloca-storage.json"


def laid_out(path: Path) -> list[str]:
    """Write an archive as any program might; give its messages."""
    path.write_text(json.dumps(SOURCE), "utf-8")
    return [entry["message"] for entry in SOURCE["entries"]]


def append(path: Path, message: str, backup_seconds: float = HOUR) -> None:
    with opened(path, backup_seconds=backup_seconds) as store:
        store.create_entry(SESSION, "user", message)


def test_folds_of_one_hour_make_one_backup_that_makes_the_file(path: Path) -> None:
    first = laid_out(path)
    for message in "一二三四五":
        append(path, message)
    assert [backup.number for backup in verify_archive(path).backups] == [1]
    assert in_file(beside(path, "bak1")) == first
    assert in_file(path) == [*first, *"一二三四五"]
    path.write_bytes(b"")
    restored = restore_archive(path)
    assert (restored.replayed, restored.lost_lines) == (5, 0)
    assert said(path) == [*first, *"一二三四五"]


def test_a_backup_that_is_older_is_followed_by_another(path: Path) -> None:
    first = laid_out(path)
    for message in "一二三":
        append(path, message, backup_seconds=0)
    append(path, "四")
    assert in_file(beside(path, "bak1")) == [*first, "一", "二"]
    for wrecked in (path, beside(path, "bak1"), beside(path, "bak2")):
        wrecked.write_bytes(b"")
    restore_archive(path)
    assert said(path) == [*first, *"一二三四"]


def test_what_another_program_wrote_is_kept_within_the_hour_too(path: Path) -> None:
    laid_out(path)
    append(path, "一")
    doc = json.loads(path.read_bytes())
    doc["entries"].append({**doc["entries"][0], "entry_id": new_id(), "message": "外"})
    path.write_text(json.dumps(doc), "utf-8")
    append(path, "二")
    assert in_file(beside(path, "bak1"))[-1] == "外"
    path.write_bytes(b"")
    restore_archive(path)
    assert said(path)[-3:] == ["一", "外", "二"]


@pytest.mark.parametrize("fault", ["gone", "damaged", "long"])
def test_a_journal_that_cannot_be_joined_makes_another_backup(path: Path, fault: str) -> None:
    laid_out(path)
    append(path, "一")
    journal = beside(path, "bak1.journal")
    match fault:
        case "gone":
            journal.unlink()
        case "damaged":
            journal.write_bytes(journal.read_bytes().replace(b"2025-", b"2026-"))
        case _:
            with opened(path, backup_seconds=HOUR) as store:
                for number in range(4):
                    store.update_session(SESSION, name=f"{number}", note="x" * 300_000)
    append(path, "二")
    assert len(verify_archive(path).backups) == (3 if fault == "long" else 2)
    path.write_bytes(b"")
    restore_archive(path)
    assert said(path)[-2:] == ["一", "二"]


def test_fewer_backups_may_be_kept_than_there_are(path: Path) -> None:
    laid_out(path)
    for message in "一二三四五":
        append(path, message, backup_seconds=0)
    assert len(verify_archive(path).backups) == 5
    with opened(path, keep_backups=2) as store:
        store.create_entry(SESSION, "user", "六")
        assert store.fold()
    assert [backup.number for backup in verify_archive(path).backups] == [1, 2]
    assert said(path)[-1] == "六"


def test_a_journal_without_its_backup_is_not_listed(path: Path) -> None:
    laid_out(path)
    append(path, "一")
    beside(path, "bak3.journal").write_bytes(beside(path, "bak1.journal").read_bytes())
    assert [backup.number for backup in verify_archive(path).backups] == [1]


# --- going back


def test_a_wrong_deletion_is_taken_back_with_all_that_came_after(path: Path) -> None:
    store = opened(path)
    session_id = talk(store, *"一二三")
    store.fold()
    for entry in store.entries():
        store.delete_entry(entry.entry_id)
    store.fold()
    store.create_entry(session_id, "user", "四")
    assert store.restore(1).backup == str(beside(path, "bak1"))
    assert [entry.message for entry in store.entries()] == ["一", "二", "三"]
    assert said(beside(path, "before1")) == ["四"]
    store.create_entry(session_id, "user", "五")
    store.close()
    assert in_file(path) == ["一", "二", "三", "五"]
    assert verify_archive(path).healthy


@pytest.mark.parametrize("folded", [False, True])
def test_what_someone_went_back_from_does_not_come_back(path: Path, folded: bool) -> None:
    store = opened(path)
    session_id = talk(store, "一")
    store.fold()
    store.create_entry(session_id, "user", "错")
    store.fold()
    store.restore(1)
    if folded:
        store.create_entry(session_id, "user", "二")
        store.fold()
    path.write_bytes(b"broken")
    restore_archive(path)
    assert said(path) == (["一", "二"] if folded else ["一"])


def test_someone_may_go_back_from_a_file_that_is_broken(path: Path) -> None:
    store = opened(path)
    session_id = talk(store, "一")
    store.fold()
    store.create_entry(session_id, "user", "二")
    store.fold()
    store.create_entry(session_id, "user", "三")
    journal = beside(path, "journal").read_bytes()
    path.write_bytes(b"broken")
    restored = restore_archive(path, 1)
    assert restored.set_aside == (str(beside(path, "before1")), str(beside(path, "before1.journal")))
    assert beside(path, "before1").read_bytes() == b"broken"
    assert beside(path, "before1.journal").read_bytes() == journal
    assert said(path) == ["一"]


def test_nobody_goes_back_to_a_backup_that_is_broken(path: Path) -> None:
    laid_out(path)
    append(path, "一")
    beside(path, "bak1").write_bytes(b"{")
    before = {found.name: found.read_bytes() for found in path.parent.iterdir()}
    with pytest.raises(StorageError) as raised:
        restore_archive(path, 1)
    assert raised.value.code == "archive_backup_broken"
    assert {found.name: found.read_bytes() for found in path.parent.iterdir()} == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_root_writes_still_belongs_to_the_owner(path: Path) -> None:
    laid_out(path)
    os.chown(path, 12345, 12345)
    append(path, "一")
    assert {path.stat().st_uid, beside(path, "journal").stat().st_gid} == {12345}
