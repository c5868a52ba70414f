"""A broken archive is not overwritten, and comes back whole from a backup and the journals since."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from personalab.archive.veloca import new_id
from personalab.errors import StorageError
from personalab.storage.veloca_backups import restore_archive, verify_archive
from tests.support.storage.veloca_looking import beside, in_file, opened, said, talk
from tests.unit.archive.test_veloca_archive import source


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "veloca-storage.json"


def test_backups_rotate_as_pairs(path: Path) -> None:
    with opened(path, keep_backups=3) as store:
        session_id = talk(store)
        for number in range(6):
            store.create_entry(session_id, "user", str(number))
            store.fold()
    assert [backup.number for backup in verify_archive(path).backups] == [1, 2, 3]
    assert all(backup.problem is None for backup in verify_archive(path).backups)
    for number in (1, 2, 3):
        assert in_file(beside(path, f"bak{number}")) == [str(n) for n in range(6 - number)]
        assert b'"message":"%d"' % (6 - number) in beside(path, f"bak{number}.journal").read_bytes()


def test_a_backup_that_a_dying_fold_had_just_made_costs_no_other_one(path: Path) -> None:
    with opened(path, keep_backups=2) as store:
        session_id = talk(store)
        for number in range(3):
            store.create_entry(session_id, "user", str(number))
            store.fold()
        for ending in ("", ".journal"):
            beside(path, f"bak1{ending}").replace(beside(path, f"bak2{ending}"))
        os.link(path, beside(path, "bak1"))
        store.create_entry(session_id, "user", "3")
        store.fold()
    assert in_file(beside(path, "bak1")) == ["0", "1", "2"]
    assert in_file(beside(path, "bak2")) == ["0", "1"]
    path.write_bytes(b"")
    beside(path, "bak1").write_bytes(b"")
    restore_archive(path)
    assert said(path) == ["0", "1", "2", "3"]


WRECKS: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda whole: whole[: len(whole) // 2],
    "zeros": lambda whole: b"\0" * len(whole),
    "empty": lambda _: b"",
    "other json": lambda _: b'{"hello": "world"}',
    "other shape": lambda _: b'{"sessions": {}, "entries": []}',
    "not utf-8": lambda whole: whole[:40] + b"\xff" + whole[41:],
    "too deep": lambda _: b"[" * 100_000,
}


@pytest.mark.parametrize("wreck", WRECKS)
@pytest.mark.parametrize("broken_backups", [0, 1, 2])
def test_a_broken_file_is_not_overwritten_and_restored_whole(
    path: Path, wreck: str, broken_backups: int
) -> None:
    store = opened(path)
    session_id = talk(store)
    for number in range(4):
        store.create_entry(session_id, "user", str(number))
        store.fold()
    store.create_entry(session_id, "user", "未并入")
    store.update_session(session_id, name="未并入")
    before = store.document()
    bad = WRECKS[wreck](path.read_bytes())
    for target in [path, *(beside(path, f"bak{number + 1}") for number in range(broken_backups))]:
        target.unlink()
        target.write_bytes(bad)
    with pytest.raises(StorageError) as raised:
        store.create_entry(session_id, "user", "x")
    with pytest.raises(StorageError) as again:
        opened(path)
    good = f"{path.name}.bak{broken_backups + 1}"
    for words in (str(raised.value), again.value.message("zh")):
        assert str(path) in words
        assert good in words
        assert "personalab archive restore" in words
    store.close()
    assert path.read_bytes() == bad
    report = verify_archive(path)
    assert not report.healthy
    assert [backup.problem is not None for backup in report.backups] == [n < broken_backups for n in range(4)]
    restored = restore_archive(path)
    assert restored.backup == str(beside(path, f"bak{broken_backups + 1}"))
    assert beside(path, "broken1").read_bytes() == bad
    assert restored.lost_lines == 0
    assert verify_archive(path).healthy
    with opened(path) as fresh:
        assert fresh.document() == before


def test_a_restored_archive_can_be_restored_again(path: Path) -> None:
    store = opened(path)
    session_id = talk(store, "一")
    store.fold()
    for number in range(3):
        store.create_entry(session_id, "user", str(number))
        path.write_bytes(b"broken")
        assert store.restore().set_aside == (str(beside(path, f"broken{number + 1}")),)
    store.fold()
    path.write_bytes(b"broken")
    store.restore()
    assert said(path) == ["一", "0", "1", "2"]


def test_a_whole_archive_is_left_alone_by_restore(path: Path) -> None:
    with opened(path) as store:
        talk(store, "一")
    files = {found.name: found.read_bytes() for found in path.parent.iterdir() if found.is_file()}
    restored = restore_archive(path)
    assert not restored.changed
    assert {found.name: found.read_bytes() for found in path.parent.iterdir() if found.is_file()} == files


def test_who_names_a_backup_goes_back_to_it(path: Path) -> None:
    with opened(path) as store:
        session_id = talk(store, "一")
        store.fold()
        store.create_entry(session_id, "user", "二")
        store.fold()
        store.create_entry(session_id, "user", "三")
        restored = store.restore(1)
        assert restored.backup == str(beside(path, "bak1"))
        assert [entry.message for entry in store.entries()] == ["一"]
        assert restored.set_aside == (str(beside(path, "before1")),)
        assert in_file(beside(path, "before1")) == ["一", "二", "三"]
        with pytest.raises(StorageError) as raised:
            store.restore(7)
        assert raised.value.code == "archive_backup_missing"


def test_without_a_good_backup_nothing_is_touched(path: Path) -> None:
    path.write_bytes(b"{")
    with pytest.raises(StorageError) as raised:
        opened(path)
    assert raised.value.code == "archive_broken_alone"
    with pytest.raises(StorageError) as refused:
        restore_archive(path)
    assert refused.value.code == "archive_no_backup"
    assert path.read_bytes() == b"{"


def test_a_file_that_vanished_is_not_taken_for_an_empty_archive(path: Path) -> None:
    with opened(path) as store:
        talk(store, "一")
    path.unlink()
    for journal in (True, False):
        if not journal:
            beside(path, "journal").unlink()
        with pytest.raises(StorageError) as raised:
            opened(path)
        assert raised.value.code == "archive_gone"
        assert not verify_archive(path).healthy
    restore_archive(path)
    assert said(path) == ["一"]


def test_verify_finds_what_other_programs_got_wrong(path: Path) -> None:
    doc = source()
    doc["entries"][0]["session_id"] = new_id()
    doc["sessions"].append(doc["sessions"][0])
    path.write_text(json.dumps(doc), "utf-8")
    with opened(path) as store:
        assert [problem.params["field"] for problem in store.verify().problems] == [
            "sessions[1].session_id",
            "entries[0].session_id",
        ]
    assert json.loads(json.dumps(verify_archive(path).fields()))["healthy"] is False
